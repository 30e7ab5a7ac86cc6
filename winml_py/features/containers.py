"""Maps and sequences as values of features: checked against the descriptor, and converted for the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..enums import LearningModelFeatureKind, TensorKind
from .descriptors import (
    FeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
    spell_kind,
    spell_tensor,
)
from .tensor import Tensor
from .tensor_classes import CLASSES_BY_DTYPE

# What a Python value may stand for; a bool is no number here, and a whole number is a float where one is wanted.
_PYTHON_TYPES: dict[TensorKind, tuple[type, ...]] = {
    TensorKind.STRING: (str,),
    TensorKind.BOOLEAN: (bool, np.bool_),
    TensorKind.FLOAT: (float, int, np.floating, np.integer),
    TensorKind.FLOAT16: (float, int, np.floating, np.integer),
    TensorKind.DOUBLE: (float, int, np.floating, np.integer),
}
_INTEGERS = (int, np.integer)


class MapValue:
    """A mapping that a caller bound; it is read when it is bound, and an output is refilled in place."""

    kind = LearningModelFeatureKind.MAP

    def __init__(self, items: Mapping[Any, Any]) -> None:
        self.items = items

    def for_engine(self, descriptor: FeatureDescriptor) -> dict[Any, Any] | None:
        """The map as the engine takes it, or None where it does not fit the descriptor."""
        if not isinstance(descriptor, MapFeatureDescriptor):
            return None
        value = descriptor.value_descriptor
        if not isinstance(value, TensorFeatureDescriptor):
            return None
        if not all(is_element(key, descriptor.key_kind) for key in self.items):
            return None
        if not all(is_element(item, value.tensor_kind) for item in self.items.values()):
            return None
        convert = float if value.tensor_kind in (TensorKind.FLOAT, TensorKind.DOUBLE) else _as_is
        return {_as_is(key): convert(item) for key, item in self.items.items()}

    def spell(self) -> str:
        """The type in the words of Windows ML's messages, told by the first entry."""
        key, value = next(iter(self.items.items()), (None, None))
        return f"Map<{_spell_element(key)},{_spell_element(value)}[]>"


class SequenceValue:
    """A list that a caller bound; it is read when it is bound, and an output is refilled in place."""

    kind = LearningModelFeatureKind.SEQUENCE

    def __init__(self, elements: Iterable[Any]) -> None:
        self.elements = list(elements)

    def for_engine(self, descriptor: FeatureDescriptor) -> list[Any] | None:
        """The sequence as the engine takes it, or None where it does not fit the descriptor."""
        if not isinstance(descriptor, SequenceFeatureDescriptor):
            return None
        elements = [_element_for_engine(element, descriptor.element_descriptor) for element in self.elements]
        return None if any(element is None for element in elements) else elements

    def spell(self) -> str:
        """The type in the words of Windows ML's messages, told by the first element."""
        return f"Sequence<{_spell_value(self.elements[0]) if self.elements else ''}>"


def is_element(value: Any, kind: TensorKind) -> bool:
    """Whether a Python value can be an element of that kind without losing anything but precision."""
    if isinstance(value, (bool, np.bool_)):
        return kind is TensorKind.BOOLEAN
    if kind in _PYTHON_TYPES:
        return isinstance(value, _PYTHON_TYPES[kind])
    if not isinstance(value, _INTEGERS):
        return False
    dtype = np.dtype(kind.name.lower())
    return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)


def _element_for_engine(element: Any, descriptor: FeatureDescriptor) -> Any:
    if isinstance(element, Mapping):
        return MapValue(element).for_engine(descriptor)
    tensor = as_tensor(element)
    if isinstance(tensor, Tensor) and isinstance(descriptor, TensorFeatureDescriptor):
        return tensor.to_numpy() if tensor.tensor_kind == descriptor.tensor_kind else None
    return None


def as_tensor(value: Any) -> Tensor | None:
    """A tensor as it is, an array as a tensor over its memory, and nothing else."""
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, (np.ndarray, np.generic)):
        return None
    array = np.asarray(value)
    tensor_class = CLASSES_BY_DTYPE.get(np.dtype(object) if array.dtype.kind == "U" else array.dtype)
    return None if tensor_class is None else tensor_class.from_numpy(array)


def _as_is(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _spell_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return MapValue(value).spell()
    tensor = as_tensor(value)
    return spell_tensor(tensor.tensor_kind, tuple(tensor.shape)) if tensor is not None else type(value).__name__


def _spell_element(value: Any) -> str:
    for python_type, kind in (
        (bool, TensorKind.BOOLEAN),
        (int, TensorKind.INT64),
        (float, TensorKind.FLOAT),
        (str, TensorKind.STRING),
    ):
        if isinstance(value, python_type):
            return spell_kind(kind)
    return type(value).__name__
