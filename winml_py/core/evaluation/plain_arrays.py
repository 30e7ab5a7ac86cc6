"""Arrays that go to the engine as they are: evaluations without a binding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..features.tensor_classes import TENSOR_CLASSES, TensorString
from ..runtime.engine import Engine, StatelessEngine
from ..runtime.providers.catalogue import UNLOCKED
from .outputs import UnboundOutput


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

    def evaluate(self, engine: Engine, features: Mapping[str, Any]) -> dict[str, Any] | None:
        """A new tensor for each output, by name; None where a value must be bound, or is missing.

        Args:
            engine: a `StatelessEngine`.
            features: what goes in, by name.

        Raises:
            WinMLError: what the engine raises, or an output is not what the model declares.
        """
        given = dict(features)  # as another thread may change the caller's
        if given.keys() != self._fits.keys():
            return None
        for name, value in given.items():
            if type(value) is not np.ndarray or not self._fits[name].takes(value):
                return None
        fresh = cast(StatelessEngine, engine).run_once(given, UNLOCKED)
        return {name: output.receive(fresh[name]) for name, output in self._outputs}


class _Fit(NamedTuple):
    """What an array must be to go to an input as it is; a size of -1 is free."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def takes(self, array: np.ndarray[Any, Any]) -> bool:
        came, flags = array.shape, array.flags
        if array.dtype != self.dtype or not flags.c_contiguous or not flags.aligned:
            return False
        if came == self.shape:
            return True
        sizes = zip(came, self.shape, strict=False)
        return len(came) == len(self.shape) and all(size in (-1, given) for given, size in sizes)


def _fit_of(feature: FeatureDescriptor) -> _Fit | None:
    """None for an input that takes other things than arrays of numbers of a known rank."""
    if not isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
        return None
    # an array for an image of another rank may be pixels
    is_known = feature.has_rank if isinstance(feature, TensorFeatureDescriptor) else len(feature.shape) == 4
    tensor_class = TENSOR_CLASSES.get(feature.tensor_kind)
    if not is_known or tensor_class is None or tensor_class is TensorString:
        return None
    return _Fit(tensor_class.dtype, feature.shape)
