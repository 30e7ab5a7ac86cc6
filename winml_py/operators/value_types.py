"""The types of an operator's inputs: its model is made for them, and they are part of its cache key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.base.arrays import DType
from ..core.base.messages import type_name
from ..core.features.tensor import Tensor
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    import onnx


class TensorDesc(NamedTuple):
    """The type and the shape of a tensor, for `compile`, which needs no values.

    Attributes:
        dtype: NumPy's; `str` or `object` for strings.
        shape: the sizes; None leaves one free, and equal names make free sizes equal.

    Example:
        >>> import numpy as np
        >>> from winml_py import operators
        >>> batch = operators.TensorDesc(np.float32, (None, 3))
        >>> with operators.compile("Relu", batch) as relu:
        ...     [relu(np.full((n, 3), -1, np.float32)).shape for n in (1, 2)]
        [(1, 3), (2, 3)]
    """

    dtype: Any
    shape: tuple[int | str | None, ...]


class TensorSequence(list[Any]):
    """A list of arrays, as a sequence of tensors that knows their type even if it is empty.

    Args:
        dtype: of all elements.
        elements: arrays.

    Example:
        >>> import numpy as np
        >>> from winml_py import operators
        >>> empty = operators.TensorSequence(np.float32)
        >>> operators.SequenceInsert(empty, np.ones(2, np.float32))
        [array([1., 1.], dtype=float32)]
    """

    def __init__(self, dtype: Any, elements: Iterable[Any] = ()) -> None:
        super().__init__(elements)
        self.dtype = np.dtype(dtype)


class TensorValueType(NamedTuple):
    """A tensor of this dtype and shape."""

    dtype: DType
    shape: tuple[int | str | None, ...]


class SequenceValueType(NamedTuple):
    """A sequence of tensors of one dtype, or of maps."""

    element: DType | MapValueType


class MapValueType(NamedTuple):
    """A map from `int` or `str` to values of one dtype."""

    key: type
    value: DType


ValueType = TensorValueType | SequenceValueType | MapValueType | None
"""The type of an input; None for an omitted one."""

_STRINGS = np.dtype(object)
_MAP_VALUES = {str: _STRINGS, int: np.dtype(np.int64), float: np.dtype(np.float32)}


def type_of(value: Any) -> ValueType:
    """The type of an array, a tensor, a description, a sequence or a map."""
    if isinstance(value, np.ndarray):
        return TensorValueType(value.dtype, value.shape)
    if value is None:
        return None
    if isinstance(value, Tensor):
        return TensorValueType(value.dtype, tuple(value.shape))
    if isinstance(value, TensorDesc):
        dtype = np.dtype(value.dtype)
        return TensorValueType(_STRINGS if dtype.kind == "U" else dtype, tuple(value.shape))
    if isinstance(value, Mapping):
        return _map_type(value)
    return _sequence_type(value)


def _map_type(value: Mapping[Any, Any]) -> MapValueType:
    key, item = next(iter(value.items()), (None, None))
    kinds = [kind for kind in _MAP_VALUES if isinstance(item, (kind, np.generic))]
    if not isinstance(key, (str, int)) or not kinds:
        raise InvalidArgumentError(
            f"A map from {type_name(key)} to {type_name(item)} has no ONNX type.",
            hint="Use int or str keys, and int, float or str values; an empty map has no type.",
        )
    dtype = item.dtype if isinstance(item, np.generic) else _MAP_VALUES[kinds[0]]
    return MapValueType(str if isinstance(key, str) else int, dtype)


def _sequence_type(value: Sequence[object]) -> SequenceValueType:
    if isinstance(value, TensorSequence):
        return SequenceValueType(value.dtype)
    kinds = {type_of(element) for element in value}
    elements = {kind.dtype if isinstance(kind, TensorValueType) else kind for kind in kinds}
    if len(elements) != 1 or isinstance(next(iter(elements)), SequenceValueType | None):
        raise InvalidArgumentError(
            f"A sequence has values of one type, got {len(elements)} types.",
            hint="Pass arrays of one dtype; for an empty sequence, TensorSequence(dtype).",
        )
    return SequenceValueType(elements.pop())  # type: ignore[arg-type]


def type_proto(kind: TensorValueType | SequenceValueType | MapValueType) -> onnx.TypeProto:
    """The type as an ONNX message."""
    from onnx import TensorProto, helper

    if isinstance(kind, TensorValueType):
        return helper.make_tensor_type_proto(element_type(kind.dtype), kind.shape)
    if isinstance(kind, MapValueType):
        key = TensorProto.STRING if kind.key is str else TensorProto.INT64
        return helper.make_map_type_proto(key, helper.make_tensor_type_proto(element_type(kind.value), ()))
    if isinstance(kind.element, MapValueType):
        return helper.make_sequence_type_proto(type_proto(kind.element))
    return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element_type(kind.element), None))


def element_type(dtype: DType) -> int:
    """ONNX's number of an element type."""
    from onnx import TensorProto, helper

    if dtype.kind in "OU":
        return int(TensorProto.STRING)
    try:
        return int(helper.np_dtype_to_tensor_dtype(dtype))
    except (KeyError, ValueError):
        raise InvalidArgumentError(f"ONNX has no tensors of {dtype}.", hint="Cast the array to float32.") from None


def describe_type(kind: ValueType) -> str:
    """A type as text: `float32[1,3]`."""
    if kind is None:
        return "nothing"
    if isinstance(kind, TensorValueType):
        return f"{kind.dtype}[{','.join(map(str, kind.shape))}]"
    if isinstance(kind, MapValueType):
        return f"a map from {kind.key.__name__} to {kind.value}"
    return f"a sequence of {describe_type(kind.element) if isinstance(kind.element, MapValueType) else kind.element}"


def onnx_name(kind: TensorValueType | SequenceValueType | MapValueType) -> str:
    """A type in the notation of schemas: `tensor(float)`, `seq(tensor(int64))`."""
    from onnx import helper

    if isinstance(kind, TensorValueType):
        name = helper.tensor_dtype_to_string(element_type(kind.dtype)).removeprefix("TensorProto.").lower()
        return f"tensor({name})"
    if isinstance(kind, MapValueType):
        return f"map({'string' if kind.key is str else 'int64'},{onnx_name(TensorValueType(kind.value, ()))})"
    inner = kind.element if isinstance(kind.element, MapValueType) else TensorValueType(kind.element, ())
    return f"seq({onnx_name(inner)})"
