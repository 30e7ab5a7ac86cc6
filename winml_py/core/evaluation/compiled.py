"""Compiled: what a session and its bindings share; and the features as the options change them."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from ...errors import (
    ClosedError,
    DeviceLostError,
    EngineLostError,
    IllegalCallError,
    InvalidArgumentError,
    InvalidBindingError,
)
from ..base import child_process
from ..base.arrays import Array, DType
from ..base.collections import Vector
from ..base.winrt_object import Object, inside
from ..features.descriptors import FeatureDescriptor, ShapedDescriptor, TensorFeatureDescriptor
from ..features.tensor_classes import TENSOR_CLASSES, TensorString
from ..model.contracts import LiveFeatures
from ..model.model import LearningModel
from ..runtime.engine import Engine, EngineOptions, RunOnce
from ..runtime.pool import Lease
from ..runtime.providers.catalogue import UNLOCKED
from ..runtime.request import CompileRequest
from .outputs import UnboundOutput

if TYPE_CHECKING:
    from .device_pictures import DevicePictures


class Compiled:
    """A model that has been compiled for a device, until the session is closed, the device is lost, or in a fork.

    Attributes:
        inputs: the model's, by name, in the graph's order, with the contracts that are attached to them.
        outputs: the model's, by name, in the graph's order.
        is_silent: whether what a program may have written by mistake is passed over, as in Windows ML.
        missing_contracts: warns of pictures without a contract.
        lock: the session's, which the engine's bindings hold while they talk to a GPU.
        location: where the device's memory is, which can be bound; None for engines on the host.
        loss: why no run can succeed any more: the error of the run in which the device went, or the engine's process.
        is_inherited: whether a fork brought it into this process.
        has_compared_batch: whether a batch of `evaluate_many` gave what its items give one by one.
        plain_arrays: evaluates arrays without a binding; None where the engine, the lock or the features need one.
        pictures: the models that tensorize pictures on the device; None where the host does it.
    """

    def __init__(
        self,
        model: LearningModel,
        lease: Lease,
        lock: AbstractContextManager[object],
        device_name: str,
        compile_model: Callable[[CompileRequest], Engine],
    ) -> None:
        self._lease: Lease | None = lease
        content = inside(model)
        features = override_features(content.inputs, lease.engine.options)
        # The exporter's contract is asked again: an option may fix the sizes that it filled in, or leave them free.
        self.inputs = LiveFeatures(map(content.with_exporters_contract, features), content.contracts)
        self.is_silent, self.missing_contracts = content.is_silent, content.missing_contracts
        self.outputs: Mapping[str, FeatureDescriptor] = {feature.name: feature for feature in model.output_features}
        self.lock, self.device_name = lock, device_name
        self.loss: DeviceLostError | None = None
        self.is_inherited = self.has_compared_batch = False
        self._process = os.getpid()
        child_process.watch_forks(self)
        self.plain_arrays: PlainArrays | None = None
        if lock is UNLOCKED and lease.engine.device is None and lease.engine.run_once is not None:
            self.plain_arrays = PlainArrays.of(features, self.outputs)
        on_device = lease.engine.device
        self.location = on_device.location if on_device else None
        self.pictures: DevicePictures | None = None
        if on_device:
            from .device_pictures import DevicePictures  # sessions on the CPU do without it

            self.pictures = DevicePictures(compile_model, lock)

    @property
    def engine(self) -> Engine:
        """The engine.

        Raises:
            ClosedError: the session has been closed.
            DeviceLostError: the device has gone, or the engine's process: `EngineLostError`.
            IllegalCallError: another process made the session.
        """
        lease = self._lease
        if self.is_inherited:
            raise IllegalCallError(
                f"The session was made in process {self._process}, and does not survive a fork: its threads are there, "
                f"and this is process {os.getpid()}.",
                hint="Make a session in this process; for a GPU, start processes with "
                'multiprocessing.get_context("spawn").',
            )
        if lease is None:
            raise ClosedError(
                "The session has been closed.", hint="Create another from the model, or keep this one open."
            )
        if isinstance(self.loss, EngineLostError):
            raise EngineLostError(self.loss.message, hint=self.loss.hint)
        if self.loss is not None:
            raise DeviceLostError(
                f"The device {self.device_name} was lost during an evaluation, and the session with it.",
                hint="Make a new LearningModelDevice, and a session on it.",
            )
        return lease.engine

    def lose(self, error: DeviceLostError) -> None:
        """Notes why no run can succeed any more."""
        self.loss = copy.copy(error)  # without its traceback, whose frames hold the engine

    def require_open(self) -> None:
        """Raises as `engine` does."""
        self.engine  # noqa: B018 - it is asked for its errors

    def find(self, name: str) -> tuple[FeatureDescriptor, bool]:
        """The feature of a name, and whether it is an input: inputs before outputs, exact spelling before another case.

        Raises:
            InvalidBindingError: if the model has no feature of that name.
        """
        if name in self.inputs:
            return self.inputs[name], True
        if name in self.outputs:
            return self.outputs[name], False
        folded = name.casefold() if isinstance(name, str) else None
        for features, is_input in ((self.inputs, True), (self.outputs, False)):
            for feature_name, descriptor in features.items():
                if feature_name.casefold() == folded:
                    return descriptor, is_input
        raise InvalidBindingError(
            f"The model has no variable with name {name}.",
            hint=f"Its inputs: {', '.join(self.inputs) or 'none'}; its outputs: {', '.join(self.outputs) or 'none'}.",
        )

    @property
    def is_lost(self) -> bool:
        """Whether the device has gone, or the process that the engine lived in."""
        return self.loss is not None or (self._lease is not None and self._lease.engine.is_lost)

    @property
    def is_closed(self) -> bool:
        """Whether `close` has been called."""
        return self._lease is None

    def close(self) -> None:
        """Gives the engine back. Twice is harmless."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()
            if self.pictures is not None:
                self.pictures.close()

    def in_child(self) -> None:
        """After a fork, the engine is the parent's: it is neither used nor given back."""
        lease, self._lease, self.pictures = self._lease, None, None
        if lease is not None:
            self.is_inherited = True
            lease.forget()


class CompiledModel(Object):
    """The base of sessions: all that a binding needs to know of one."""

    _inside: Compiled

    def __reduce__(self) -> NoReturn:
        raise IllegalCallError(
            "A session belongs to the process that made it, and cannot be pickled.",
            hint="Pickle the model and the options, and make the session in the other process. "
            "winml_py.scale.Evaluator(model) does that.",
        )


# The model's features with the sizes that session options override.


def override_features(features: Iterable[FeatureDescriptor], options: EngineOptions) -> list[FeatureDescriptor]:
    """The features, with the named dimensions and the shapes that the options fix.

    Raises:
        InvalidArgumentError: a shape for an input that the model does not have, or one that contradicts it.
    """
    features = list(features)
    shapes, names = dict(options.shapes), [feature.name for feature in features]
    for name in shapes:
        if name not in names:
            raise InvalidArgumentError(
                f"The options override the shape of {name!r}, and the model has no such input.",
                hint=f"Its inputs: {', '.join(names)}.",
            )
    return [_override_feature(feature, dict(options.dimensions), shapes.get(feature.name)) for feature in features]


def _override_feature(
    feature: FeatureDescriptor, dimensions: dict[str, int], override: tuple[int, ...] | None
) -> FeatureDescriptor:
    if not isinstance(feature, ShapedDescriptor):
        if override is not None:
            raise InvalidArgumentError(f"The input {feature.name} is no tensor, and its shape cannot be overridden.")
        return feature
    named = feature.dimension_names or ("",) * len(feature.shape)
    pairs = zip(feature.shape, named, strict=True)
    shape = tuple(dimensions.get(name, -1) if size < 0 else size for size, name in pairs)
    if override is not None:
        shape = _combine_shapes(feature, shape, override)
    return feature if shape == feature.shape else replace(feature, shape=Vector(shape))


def _combine_shapes(feature: ShapedDescriptor, shape: tuple[int, ...], override: tuple[int, ...]) -> tuple[int, ...]:
    fits = len(override) == len(shape) and all(
        -1 in pair or len(set(pair)) == 1 for pair in zip(shape, override, strict=True)
    )
    if not fits:
        raise InvalidArgumentError(
            f"The options override the shape of {feature.name} with {list(override)}, and the model says "
            f"{list(feature.shape)}.",
            hint="Give one size for each dimension, and -1 where the model's stays.",
        )
    # A free size is -1, so the larger one of a pair is the one that is stated. Pairs that contradict each other are
    # refused above.
    return tuple(max(pair) for pair in zip(shape, override, strict=True))


def with_dimensions(features: Iterable[FeatureDescriptor], options: EngineOptions) -> EngineOptions:
    """The options, with overrides of the named dimensions among those that they fix by position.

    Raises:
        InvalidArgumentError: as `override_features` does.
    """
    dimensions = dict(options.dimensions)
    features = list(features)
    for before, after in zip(features, override_features(features, options), strict=True):
        if isinstance(before, ShapedDescriptor):
            fixed = zip(before.dimension_names, before.shape, getattr(after, "shape", ()), strict=False)
            dimensions |= {name: size for name, free, size in fixed if name and free < 0 <= size}
    return options._replace(dimensions=tuple(sorted(dimensions.items())))


# Arrays that go to the engine as they are: evaluations without a binding.


class PlainArrays:
    """Evaluates a model on arrays that fit its inputs exactly: there, a binding takes as long as a small model.

    It takes nothing that needs a second look, and refuses nothing: what it leaves is bound, and refused there. It keeps
    nothing from one evaluation to the next, so that threads share it.
    """

    def __init__(self, fits: Mapping[str, _Fit], outputs: Mapping[str, TensorFeatureDescriptor]) -> None:
        self._fits = fits
        self._outputs = [(name, UnboundOutput(feature)) for name, feature in outputs.items()]

    @classmethod
    def of(cls, inputs: Sequence[FeatureDescriptor], outputs: Mapping[str, FeatureDescriptor]) -> PlainArrays | None:
        """For a model with these features; None where some take or give other things than tensors of numbers."""
        fits = {feature.name: fit for feature in inputs if (fit := _fit_of(feature)) is not None}
        tensors = {name: feature for name, feature in outputs.items() if isinstance(feature, TensorFeatureDescriptor)}
        is_plain = len(fits) == len(inputs) and len(tensors) == len(outputs)
        return cls(fits, tensors) if is_plain else None

    def evaluate(self, run_once: RunOnce, features: Mapping[str, Any]) -> dict[str, Any] | None:
        """A new tensor for each output, by name; None where a value must be bound, or is missing.

        Args:
            run_once: the engine's.
            features: what goes in, by name.

        Raises:
            WinMLError: what the engine raises, or an output is not what the model declares.
        """
        inputs = dict(features)  # as another thread may change the caller's
        if inputs.keys() != self._fits.keys():
            return None
        for name, value in inputs.items():
            if type(value) is not np.ndarray or not self._fits[name].takes(value):
                return None
        fresh = run_once(inputs, UNLOCKED)
        return {name: output.receive(fresh[name]) for name, output in self._outputs}


class _Fit(NamedTuple):
    """What an array must be to go to an input as it is; a size of -1 is free."""

    dtype: DType
    shape: tuple[int, ...]

    def takes(self, array: Array) -> bool:
        shape, flags = array.shape, array.flags
        if array.dtype != self.dtype or not flags.c_contiguous or not flags.aligned:
            return False
        if shape == self.shape:
            return True
        sizes = zip(shape, self.shape, strict=False)
        return len(shape) == len(self.shape) and all(size in (-1, actual) for actual, size in sizes)


def _fit_of(feature: FeatureDescriptor) -> _Fit | None:
    """None for an input that takes other things than arrays of numbers of a known rank."""
    if not isinstance(feature, ShapedDescriptor):
        return None
    # an array for an image of another rank may be pixels
    is_known = feature.has_rank if isinstance(feature, TensorFeatureDescriptor) else len(feature.shape) == 4
    tensor_class = TENSOR_CLASSES.get(feature.tensor_kind)
    if not is_known or tensor_class is None or tensor_class is TensorString:
        return None
    return _Fit(tensor_class.dtype, feature.shape)
