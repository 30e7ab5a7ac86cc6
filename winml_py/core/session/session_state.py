"""SessionState: a model compiled for a device, as bindings and evaluations see it."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from ...enums import Precision
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
from ..base.collections import NameMap
from ..base.messages import type_name
from ..base.winrt_object import private_state
from ..features.bind_properties import NO_PROPERTIES, BindProperties
from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, ShapedDescriptor, TensorFeatureDescriptor
from ..features.pictures import PreprocessPlan
from ..features.resolve import (
    DevicePixels,
    DeviceTensor,
    HostTensor,
    PlannedPictures,
    ResolvedValue,
    require_location,
    resolve,
)
from ..features.tensor import Tensor
from ..features.tensor_classes import TENSOR_CLASSES, TensorString
from ..imaging.contract import ImageContract
from ..model.contracts import as_image
from ..model.model import LearningModel
from ..runtime.engine import Engine
from ..runtime.pool import Lease
from ..runtime.request import CompileRequest
from .outputs import ResolvedOutput, UnboundOutput, resolve_output

if TYPE_CHECKING:
    from .device_pictures import PictureModels


CheckedValue = Array | ResolvedValue | ResolvedOutput
"""A caller's value after its check: for an input, an array that needs no check or what `resolve` made of the value; for
an output, what `resolve_output` made of it."""


class SessionState:
    """A model compiled for a device; usable until the session is closed, the device is lost, or the process forks.

    Args:
        model: the compiled model.
        features: its inputs, with the sizes that the options override.
        lease: the lease of the engine.
        lock: the session's.
        device_name: for errors.
        compile_model: compiles another model for the device.

    Attributes:
        inputs: the model's, by name, in the graph's order, with the contracts that are attached to them.
        input_names: their names.
        outputs: the model's, by name, in the graph's order.
        names: the names of all features, as the model spells them, found in any case.
        unbound_outputs: the slots of unbound outputs, for all evaluations.
        is_silent: whether probable mistakes of the program are ignored, as in Windows ML.
        missing_contracts: warns of pictures without a contract.
        lock: the session's, which the engine holds while it uses a GPU.
        loss: the error of the run in which the device or the engine's process was lost; no later run can succeed.
        is_inherited: whether a fork brought it into this process.
        picture_models: the models that tensorize pictures on the device; None where the host does it.
    """

    def __init__(
        self,
        model: LearningModel,
        features: Sequence[FeatureDescriptor],
        lease: Lease,
        lock: AbstractContextManager[object],
        device_name: str,
        compile_model: Callable[[CompileRequest], Engine],
    ) -> None:
        self._lease: Lease | None = lease
        content = private_state(model)
        # The exporter's contract is read again: an option may fix the sizes that it filled in, or leave them free.
        self.inputs = LiveFeatures(map(content.apply_exporters_contract, features), content.attached_contracts)
        self.input_names = frozenset(self.inputs)
        self.is_silent = content.is_silent
        self.missing_contracts = content.missing_contracts
        self.outputs: Mapping[str, FeatureDescriptor] = {feature.name: feature for feature in model.output_features}
        self.names = NameMap({name: name for name in (*self.inputs, *self.outputs)})
        self.unbound_outputs = {name: UnboundOutput(feature) for name, feature in self.outputs.items()}
        self.lock = lock
        self.device_name = device_name
        self.loss: DeviceLostError | None = None
        self.is_inherited = False
        self._process = os.getpid()
        child_process.watch_forks(self)
        self._plain_arrays: dict[str, PlainArray] = {}
        self.picture_models: PictureModels | None = None
        if lease.engine.location is None:
            for feature in features:
                plain_array = find_plain_array(feature)
                if plain_array is not None:
                    self._plain_arrays[feature.name] = plain_array
        else:
            from .device_pictures import PictureModels  # sessions on the CPU do not need it

            has_float32 = lease.engine.explanation.precision is Precision.FLOAT32
            self.picture_models = PictureModels(compile_model, lock, has_float32)

    @property
    def engine(self) -> Engine:
        """The engine; raises as `require_open`."""
        return self.require_open()

    def require_open(self) -> Engine:
        """The engine, as long as it can be used.

        Raises:
            ClosedError: the session has been closed.
            DeviceLostError: the device was lost, or the engine process: `EngineLostError`.
            IllegalCallError: another process made the session.
        """
        lease = self._lease
        if lease is not None and self.loss is None:  # first, because every bind and run takes this branch
            return lease.engine
        if self.is_inherited:
            raise IllegalCallError(
                f"The session was made in process {self._process}, and does not survive a fork: its threads are not "
                f"in this process, {os.getpid()}.",
                hint="Make a session in this process; for a GPU, start processes with "
                'multiprocessing.get_context("spawn").',
            )
        if lease is None:
            raise ClosedError(
                "The session has been closed.", hint="Create another from the model, or keep this one open."
            )
        if isinstance(self.loss, EngineLostError):
            raise EngineLostError(self.loss.message, hint=self.loss.hint)
        raise DeviceLostError(
            f"The device {self.device_name} was lost during an evaluation, and the session with it.",
            hint="Make a new LearningModelDevice, and a session on it.",
        )

    def lose(self, error: DeviceLostError) -> None:
        """Notes the loss of the device, after which no run can succeed."""
        self.loss = copy.copy(error)  # without its traceback, whose frames hold the engine

    def find(self, name: str) -> tuple[FeatureDescriptor, bool]:
        """The feature of a name, and whether it is an input: inputs before outputs, exact spelling before another case.

        Raises:
            InvalidBindingError: if the model has no feature of that name.
        """
        if not isinstance(name, str):
            raise InvalidBindingError(f"Expected a feature's name, got {type_name(name)}.", hint="Bind a str.")
        if name in self.inputs:
            return self.inputs[name], True
        if name in self.outputs:
            return self.outputs[name], False
        if name in self.names:
            return self.find(self.names[name])
        raise InvalidBindingError(
            f"The model has no variable with name {name}.",
            hint=f"Its inputs: {', '.join(self.inputs) or 'none'}; its outputs: {', '.join(self.outputs) or 'none'}.",
        )

    def is_plain(self, name: str, array: Array) -> bool:
        """Whether an array goes to an input as it is. Nearly all arrays do, and need no further check."""
        plain_array = self._plain_arrays.get(name) if isinstance(name, str) else None
        return plain_array is not None and plain_array.takes(array)

    def check(
        self,
        name: str,
        value: object,
        properties: BindProperties = NO_PROPERTIES,
        plans: Mapping[str, PreprocessPlan] | None = None,
    ) -> tuple[str, CheckedValue]:
        """Checks a value for a feature. No engine runs, and no picture is decoded.

        Args:
            name: the feature's, in any case.
            value: what the caller binds.
            properties: those of the bind.
            plans: those of the pictures bound before, by the names of inputs; they are reused where they fit.

        Returns:
            The feature's name as the model spells it, and what to bind.

        Raises:
            InvalidBindingError: no such feature, an input without data, memory of another device, or properties of
                pictures for numbers.
            WinMLError: as `resolve`, `resolve_output` and `require_open` do, and if a picture does not fit its tensor.
        """
        engine = self.require_open()
        descriptor, is_input = self.find(name)
        if not is_input:
            return descriptor.name, resolve_output(value, descriptor, properties, engine)
        resolved = resolve(value, descriptor, properties, plans.get(descriptor.name) if plans else None)
        if isinstance(resolved, (PlannedPictures, DevicePixels)):
            plan = resolved.plan
            has_pictures = bool(plan.placements)  # computed now, so that the bind raises its errors
            if has_pictures:
                self.missing_contracts.warn(plan, properties)
        else:
            properties.refuse_picture_properties(descriptor.name, value)
        if isinstance(resolved, HostTensor) and resolved.tensor.is_placeholder:
            hint = "Give the tensor data: create_from_array, from_numpy"
            hint += ", or write to its to_numpy()." if resolved.tensor.shape else "."
            raise InvalidBindingError(
                f"The model variable {descriptor.name} is an input, but has no associated resources to bind.", hint=hint
            )
        if isinstance(resolved, (DeviceTensor, DevicePixels)):
            if isinstance(value, Tensor):
                private_state(value).require_valid()
            require_location(resolved.array, descriptor, engine.location)
        return descriptor.name, resolved

    def require_distinct(self, names: Iterable[str]) -> None:
        """Refuses two names of one feature: one of their values would be dropped in silence."""
        spellings: dict[str, str] = {}
        for name in names:
            descriptor, is_input = self.find(name)
            first_name = spellings.setdefault(descriptor.name, name)
            if first_name != name:
                direction = "input" if is_input else "output"
                raise InvalidArgumentError(
                    f"{first_name!r} and {name!r} name the same {direction}.", hint="Leave one of them out."
                )

    @property
    def is_lost(self) -> bool:
        """Whether the device or the engine process was lost."""
        return self.loss is not None or (self._lease is not None and self._lease.engine.is_lost)

    @property
    def is_closed(self) -> bool:
        """Whether `close` has been called."""
        return self._lease is None

    def close(self) -> None:
        """Returns the engine to the pool. Calling it twice is harmless."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()
            if self.picture_models is not None:
                self.picture_models.close()

    def handle_fork(self) -> None:
        """After a fork, the engine belongs to the parent: the child neither uses nor returns it."""
        lease, self._lease = self._lease, None
        self.picture_models = None
        if lease is not None:
            self.is_inherited = True
            lease.forget()


class LiveFeatures(Mapping[str, FeatureDescriptor]):
    """A session's inputs by name, each with the contract attached to it at the time of access."""

    def __init__(self, features: Iterable[FeatureDescriptor], attached: Mapping[str, ImageContract]) -> None:
        self._features = {feature.name: feature for feature in features}
        self._attached = attached
        self._images: dict[str, ImageFeatureDescriptor] = {}

    def __getitem__(self, name: str) -> FeatureDescriptor:
        contract = self._attached.get(name)
        if contract is None:
            return self._features[name]
        image = self._images.get(name)  # cached, because every bind needs it
        if image is None or image.contract is not contract:
            image = self._images[name] = as_image(self._features[name], contract)
        return image

    def __contains__(self, name: object) -> bool:
        return name in self._features

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)


class PlainArray(NamedTuple):
    """The dtype and shape with which an array goes to an input unchanged; a size of -1 is free."""

    dtype: DType
    shape: tuple[int, ...]

    def takes(self, array: Array) -> bool:
        """Whether an array is plain; `resolve` checks the others."""
        flags = array.flags
        if array.dtype != self.dtype or not flags.c_contiguous or not flags.aligned:
            return False
        if array.shape == self.shape:  # tested first, because most models have fixed sizes
            return True
        if array.ndim != len(self.shape):
            return False
        return all(size in (-1, actual) for actual, size in zip(array.shape, self.shape, strict=True))


def find_plain_array(feature: FeatureDescriptor) -> PlainArray | None:
    """The plain arrays of an input; None if it takes anything but arrays of numbers of a known rank."""
    if not isinstance(feature, ShapedDescriptor):
        return None
    # For an image, an array of another rank than 4 may be pixels.
    has_known_rank = feature.has_rank if isinstance(feature, TensorFeatureDescriptor) else len(feature.shape) == 4
    tensor_class = TENSOR_CLASSES.get(feature.tensor_kind)
    if not has_known_rank or tensor_class is None or tensor_class is TensorString:
        return None
    return PlainArray(tensor_class.dtype, tuple(feature.shape))
