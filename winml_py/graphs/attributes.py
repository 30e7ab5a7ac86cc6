"""Attributes of operators: from tensors, numbers and lists to what a schema asks for."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import AttributeProto, SparseTensorProto, TensorProto, TypeProto, helper

from ..errors import InvalidArgumentError
from .values import Array, as_array, as_constant

_READY = (TensorProto, SparseTensorProto, TypeProto)
_WORDS: dict[int, tuple[str, str]] = {
    AttributeProto.INT: ("a whole number", "biu"),
    AttributeProto.FLOAT: ("a number", "iuf"),
    AttributeProto.STRING: ("text", "O"),
    AttributeProto.INTS: ("whole numbers", "biu"),
    AttributeProto.FLOATS: ("numbers", "iuf"),
    AttributeProto.STRINGS: ("text", "O"),
}
_LIST_OF: dict[int, int] = {
    AttributeProto.INT: AttributeProto.INTS,
    AttributeProto.FLOAT: AttributeProto.FLOATS,
    AttributeProto.STRING: AttributeProto.STRINGS,
}
_LISTS = tuple(_LIST_OF.values())


def attribute(name: str, value: Any, kind: int | None, operator: str) -> AttributeProto:
    """An attribute of a node.

    Args:
        name: in the schema's spelling.
        value: a tensor of one element for a single number or text; or the number, text, list or array itself.
        kind: ONNX's number for its type; None to take the value's.
        operator: its name and type, for messages.

    Raises:
        InvalidArgumentError: the value is of another type.
    """
    what = f"The attribute {name!r} of the {operator}"
    if isinstance(value, _READY):
        return helper.make_attribute(name, value)
    array = as_array(value, what)
    kind = _kind_of(array) if kind is None else kind
    if kind == AttributeProto.TENSOR:
        return helper.make_attribute(name, as_constant(value, name))
    return helper.make_attribute(name, _python_value(array, kind, what), attr_type=kind)


def _kind_of(array: Array) -> int:
    """The type of an attribute that no schema tells."""
    if array.ndim > 1:
        return AttributeProto.TENSOR
    single = {"f": AttributeProto.FLOAT, "O": AttributeProto.STRING}.get(array.dtype.kind, AttributeProto.INT)
    return _LIST_OF[single] if array.ndim else single


def _python_value(array: Array, kind: int, what: str) -> Any:
    if kind not in _WORDS:
        raise InvalidArgumentError(f"{what} is of a type that this builder does not make.")
    words, kinds = _WORDS[kind]
    if array.dtype.kind not in kinds and array.size:
        raise InvalidArgumentError(f"{what} is {words}, and {array.dtype} came.", hint=f"Give {words}.")
    if kind not in _LISTS and array.size != 1:
        raise InvalidArgumentError(f"{what} is {words}, and {array.size} values came.", hint="Give one.")
    values = [_plain(element, kind) for element in array.reshape(-1).tolist()]
    return values if kind in _LISTS else values[0]


def _plain(element: Any, kind: int) -> Any:
    if kind in (AttributeProto.FLOAT, AttributeProto.FLOATS):
        return float(element)
    return element if isinstance(element, str) else int(element)


def kind_in(schema: onnx.defs.OpSchema | None, name: str) -> int | None:
    """ONNX's number for the type of an attribute; None where there is no schema."""
    if schema is None:
        return None
    return int(AttributeProto.AttributeType.Value(schema.attributes[name].type.name))  # type: ignore[attr-defined]
