"""Map and sequence values: checked against the descriptor, and converted for the engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...enums import TensorKind
from ..base.arrays import as_host_array, as_unmasked_array, can_export_dlpack
from ..base.messages import type_name
from .descriptors import (
    FeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
    format_kind,
    format_tensor,
)
from .tensor import Tensor
from .tensor_classes import CLASSES_BY_DTYPE

NUMBERS = (int, float, np.integer, np.floating)
_INTEGERS = (int, np.integer)

# A float type rounds a number to infinity from here on: half a unit above its largest number.
_ROUNDED_TO_INFINITY = {
    TensorKind.FLOAT16: 65520.0,
    TensorKind.FLOAT: 2.0**128 - 2.0**103,
    TensorKind.DOUBLE: math.inf,
}
_KINDS = {bool: TensorKind.BOOLEAN, int: TensorKind.INT64, float: TensorKind.FLOAT, str: TensorKind.STRING}


MapOrSequence = Mapping[Any, Any] | Sequence[Any]
"""A map or a sequence that a caller bound: it is read at bind; a bound output is refilled in place."""


def convert_for_engine(value: MapOrSequence, descriptor: FeatureDescriptor) -> dict[Any, Any] | list[Any] | None:
    """A map or a sequence as the engine takes it, or None where it does not fit the descriptor."""
    if isinstance(value, Mapping):
        return _convert_map(value, descriptor) if isinstance(descriptor, MapFeatureDescriptor) else None
    if not isinstance(descriptor, SequenceFeatureDescriptor):
        return None
    elements = [_convert_element(element, descriptor.element_descriptor) for element in value]
    return None if any(element is None for element in elements) else elements


def _convert_map(items: Mapping[Any, Any], descriptor: MapFeatureDescriptor) -> dict[Any, Any] | None:
    value = descriptor.value_descriptor
    kind = value.tensor_kind if isinstance(value, TensorFeatureDescriptor) else TensorKind.UNDEFINED
    if kind is TensorKind.UNDEFINED or not all(is_element(key, descriptor.key_kind) for key in items):
        return None
    if not all(is_element(item, kind) for item in items.values()):
        return None
    convert = float if kind in (TensorKind.FLOAT, TensorKind.DOUBLE) else _convert_scalar
    return {_convert_scalar(key): convert(item) for key, item in items.items()}


def format_container(value: MapOrSequence) -> str:
    """The type in the words of Windows ML's messages; of several types, all."""
    if isinstance(value, Mapping):
        keys, items = (_list_types(map(_spell_element, part)) for part in (value or [None], value.values() or [None]))
        return f"Map<{keys},{items}[]>"
    return f"Sequence<{_list_types(map(_spell_value, value))}>"


def _list_types(spellings: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(spellings))


def is_element(value: object, kind: TensorKind) -> bool:
    """Whether a Python value or a numpy scalar can be an element of that kind, losing nothing but precision."""
    if isinstance(value, (bool, np.bool_)):
        return kind is TensorKind.BOOLEAN
    if isinstance(value, np.timedelta64):  # numpy calls it an integer
        return False
    if kind in _ROUNDED_TO_INFINITY:
        return isinstance(value, NUMBERS) and _is_in_range(value, _ROUNDED_TO_INFINITY[kind])
    if kind is TensorKind.STRING:
        return isinstance(value, str)
    if not isinstance(value, _INTEGERS):
        return False
    name = kind.name.lower()
    if "int" not in name:  # types without numbers in Python
        return False
    dtype = np.dtype(name)
    return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)


def _is_in_range(value: Any, limit: float) -> bool:
    """Whether a finite number stays finite in a float type; infinity and NaN are numbers of every float type."""
    try:
        number = float(value)
    except OverflowError:
        return False
    return abs(number) < limit if math.isfinite(number) else math.isnan(number) or bool(value == number)


def _convert_element(element: object, descriptor: FeatureDescriptor) -> Any:
    if isinstance(element, Mapping):
        return convert_for_engine(element, descriptor)
    tensor = as_tensor(element)
    if isinstance(tensor, Tensor) and isinstance(descriptor, TensorFeatureDescriptor):
        return tensor.to_numpy().copy() if tensor.tensor_kind == descriptor.tensor_kind else None
    return None


def as_tensor(value: object) -> Tensor | None:
    """A tensor as it is, an array of any library as a tensor over its memory; None for anything else."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        array = as_unmasked_array(value)
    elif can_export_dlpack(value):
        array = as_host_array(value)
    else:
        return None
    tensor_class = CLASSES_BY_DTYPE.get(np.dtype(object) if array.dtype.kind == "U" else array.dtype)
    return None if tensor_class is None else tensor_class.from_numpy(array)


def _convert_scalar(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _spell_value(value: object) -> str:
    if isinstance(value, Mapping):
        return format_container(value)
    tensor = as_tensor(value)
    return format_tensor(tensor.tensor_kind, tuple(tensor.shape)) if tensor is not None else type_name(value)


def _spell_element(value: object) -> str:
    return format_kind(_KINDS[type(value)]) if type(value) in _KINDS else type_name(value)
