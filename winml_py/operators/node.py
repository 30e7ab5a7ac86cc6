"""A model of one node: from the values of a call, its inputs, their types, and the node's attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from ..core.base.agreement import as_numpy
from ..core.base.arrays import Array, DType, as_unmasked_array
from ..core.base.messages import did_you_mean
from ..core.features.tables import convert_cells
from ..core.features.tensor import Tensor
from ..core.runtime.ort.schemas import infer_outputs
from ..errors import InvalidArgumentError
from .schemas import Parameter, Signature


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


_TYPED = (np.ndarray, Tensor, TensorDesc, TensorSequence, Mapping, type(None))
"""Inputs that have a type of their own; numbers take one from the others."""


# A call's values: by position and by name, as inputs and attributes.


def sort_arguments(
    signature: Signature, inputs: Sequence[Any], named: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Sorts arguments into inputs, None for an omitted one, and attributes.

    One list, alone or by name, is all values of a variadic input. Python's numbers become arrays.
    """
    attributes = dict(named)
    values = list(inputs)
    if len(inputs) == 1 and signature.inputs:
        values = _list_values(signature, 0, inputs[0])

    # Inputs by name go to their places, and what is left are attributes.
    for index, parameter in enumerate(signature.inputs):
        if parameter.name not in attributes:
            continue
        if index < len(values):
            raise InvalidArgumentError(f"{signature.name} got the input {parameter.name} twice.", hint="Pass it once.")
        values += [None] * (index - len(values))
        values += _list_values(signature, index, attributes.pop(parameter.name))
    while values and values[-1] is None:
        values.pop()

    names = [parameter.name for parameter in signature.inputs]
    if len(values) > len(list_names(signature.inputs, len(values))):
        raise InvalidArgumentError(
            f"{signature.name} takes {len(names)} input{'s' * (len(names) != 1)}, got {len(values)}.",
            hint=f"Its inputs: {', '.join(names) or 'none'}.",
        )
    for name in attributes:
        if name not in signature.attributes:
            raise InvalidArgumentError(
                f"{signature.name} has neither an input nor an attribute {name!r} in opset {signature.opset}.",
                hint=did_you_mean(name, (*names, *signature.attributes)),
            )
    return _convert_values(signature, values), attributes


def _list_values(signature: Signature, index: int, value: Any) -> list[Any]:
    return list(value) if signature.inputs[index].is_variadic and _is_list(value) else [value]


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple)) and not isinstance(value, (TensorDesc, TensorSequence))


def _convert_values(signature: Signature, values: list[Any]) -> list[Any]:
    """Makes arrays of Python's numbers, of the type of the inputs that must have the same one."""
    if all(type(value) is np.ndarray for value in values):
        return values
    last = len(signature.inputs) - 1  # where it is variadic, there may be more values
    type_names = [signature.inputs[min(index, last)].type_name for index in range(len(values))]
    dtypes = {
        type_name: value.dtype
        for type_name, value in zip(type_names, values, strict=True)
        if isinstance(value, (np.ndarray, np.generic, Tensor))
    }
    for type_name, value in zip(type_names, values, strict=True):
        if _is_untyped(value) and as_unmasked_array(value).dtype.kind == "f":
            dtypes.setdefault(type_name, np.dtype(np.float32))  # also for whole numbers beside it
    return [
        _as_array(value, dtypes.get(type_name)) if _is_untyped(value) else value
        for type_name, value in zip(type_names, values, strict=True)
    ]


def _is_untyped(value: object) -> bool:
    """Whether a value is a number, text, or a list of these, rather than a sequence of tensors or a map."""
    elements: Any = value if _is_list(value) else [value]
    return not any(isinstance(element, _TYPED) for element in elements)


def _as_array(value: Any, dtype: DType | None) -> Array:
    """A number as an array of a type; without one, of float32, int64 or bool."""
    array = as_unmasked_array(value)
    if isinstance(value, np.generic) or array.dtype.kind not in "biuf":
        return array
    if dtype is None:
        return array.astype(np.float32) if array.dtype.kind == "f" else array
    converted = convert_cells(array, dtype)
    if converted is None:
        raise InvalidArgumentError(
            f"{value!r} cannot be represented in the type of the input, {dtype}.",
            hint="Pass numbers within the range of that type, or arrays of another type.",
        )
    return converted


def list_names(parameters: Sequence[Parameter], count: int) -> list[str]:
    """The names of the first inputs or outputs: the schema's, with a number if a name covers several values."""
    names = [parameter.name for parameter in parameters]
    if parameters and parameters[-1].is_variadic:
        names[-1:] = [f"{names[-1]}_{index}" for index in range(count)]
    return names[:count]


# Types: those of a call's inputs are a part of its key.

ValueType = TensorDesc | bytes | None
"""The type of an input: of a tensor; of a sequence or a map, as an ONNX message; None for an omitted input."""


def infer_type(value: Any) -> ValueType:
    """The type of an array, a tensor, a description, a list of tensors or maps, or a map."""
    if isinstance(value, (np.ndarray, Tensor, TensorDesc)):
        return TensorDesc(np.dtype(value.dtype), tuple(value.shape))
    if value is None:
        return None
    return bytes(_make_container_type(value).SerializeToString())


def _make_container_type(value: Any) -> TypeProto:
    if isinstance(value, Mapping):
        key, item = next(iter(value.items()), ("", 0.0))
        keys = TensorProto.STRING if isinstance(key, str) else TensorProto.INT64
        return helper.make_map_type_proto(keys, _make_tensor_type(_as_array(item, None).dtype, ()))
    first = value if isinstance(value, TensorSequence) else value[0]
    element = _make_container_type(first) if isinstance(first, Mapping) else _make_tensor_type(first.dtype, None)
    return helper.make_sequence_type_proto(element)


def _make_tensor_type(dtype: DType, shape: tuple[int | str | None, ...] | None) -> TypeProto:
    try:
        element = TensorProto.STRING if dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(dtype)
    except (KeyError, ValueError):
        raise InvalidArgumentError(f"ONNX has no {dtype} tensors.", hint="Cast the array to float32.") from None
    return helper.make_tensor_type_proto(element, shape)


def describe_type(kind: ValueType) -> str:
    """A type as text: `float32[1,3]`."""
    if isinstance(kind, TensorDesc):
        return f"{kind.dtype}[{','.join(map(str, kind.shape))}]"
    return "nothing" if kind is None else "a sequence or a map"


# The node and its model.

_LISTS = (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS)


def make_attribute(signature: Signature, name: str, value: Any) -> AttributeProto:
    """An attribute of an operator, from a number, text, list, array or tensor."""
    kind = signature.attributes[name]
    value = as_numpy(value)
    try:
        if isinstance(value, np.ndarray) and kind == AttributeProto.TENSOR:
            value = numpy_helper.from_array(value)
        elif isinstance(value, np.ndarray):
            value = value.reshape(-1).tolist() if kind in _LISTS else value.item()
        if kind == AttributeProto.FLOAT:
            value = float(value)
        return helper.make_attribute(name, value, attr_type=kind)
    except (AssertionError, TypeError, ValueError) as error:  # the first for a list in place of a number
        expected = AttributeProto.AttributeType.Name(kind).lower()
        raise InvalidArgumentError(
            f"Invalid value for the attribute {name} of {signature.name}: expected {expected}, got {value!r}."
        ) from error


def make_node(
    signature: Signature, values: Sequence[object], attributes: Mapping[str, Any], outputs: int | None
) -> NodeProto:
    """The node that takes these values, with names from the schema; by default, with the outputs that it always has.

    Raises:
        InvalidArgumentError: an input is missing, an attribute is invalid, or there are not so many outputs.
    """
    present = {index for index, value in enumerate(values) if value is not None}
    for index, parameter in enumerate(signature.inputs):
        if index not in present and not parameter.is_optional and not parameter.is_variadic:
            raise InvalidArgumentError(
                f"The input {parameter.name!r} of {signature.name} is missing.",
                hint=f"{signature.name} takes {', '.join(parameter.name for parameter in signature.inputs)}.",
            )
    names = list_names(signature.inputs, len(values))
    return NodeProto(
        op_type=signature.name,
        domain=signature.domain,
        name=signature.name,
        input=[name if value is not None else "" for name, value in zip(names, values, strict=True)],
        output=_list_output_names(signature, outputs),
        attribute=[make_attribute(signature, name, value) for name, value in attributes.items()],
    )


def _list_output_names(signature: Signature, count: int | None) -> list[str]:
    parameters = signature.outputs
    is_variadic = bool(parameters) and parameters[-1].is_variadic
    if count is None and not is_variadic:
        count = max(1, signature.least_outputs)
    names = list_names(parameters, count) if type(count) is int else []
    if not names or len(names) != count:
        known = ", ".join(parameter.name for parameter in parameters)
        raise InvalidArgumentError(
            f"{signature.name} cannot have outputs={count!r}.",
            hint="Pass a number, for example outputs=2." if is_variadic else f"Its outputs: {known}.",
        )
    return names


def make_node_model(node: NodeProto, opset: int, types: Sequence[ValueType]) -> bytes:
    """A model whose graph is one node with inputs of these types.

    Raises:
        InvalidArgumentError: ONNX has no tensors of such a type.
        WinMLError: ONNX Runtime refuses the node.
    """
    protos = {
        name: _make_tensor_type(kind.dtype, kind.shape) if isinstance(kind, TensorDesc) else TypeProto.FromString(kind)
        for name, kind in zip(node.input, types, strict=True)
        if kind is not None
    }
    graph = helper.make_graph(
        [node],
        node.op_type,
        [helper.make_value_info(name, proto) for name, proto in protos.items()],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
    )
    # The runtime's inference refuses a model without ONNX's own operators.
    opsets = [helper.make_opsetid(*item) for item in {"": 21, node.domain: opset}.items()]
    ir_version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    infer_outputs(model)
    return bytes(model.SerializeToString())
