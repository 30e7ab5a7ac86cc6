"""A model of one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.features.tensor import Tensor
from ..core.runtime.ort.schemas import infer_outputs
from ..errors import InvalidArgumentError
from .arguments import parameter_at
from .signature import Signature
from .value_types import ValueType, describe_type, onnx_name, type_proto

if TYPE_CHECKING:
    import onnx

OutputSpec = int | tuple[str, ...] | None
"""A node's outputs: the number of first outputs, their names, or None for those that it always has."""

_BODIES = {"If": ("then_branch", 0), "Loop": ("body", 1), "Scan": ("body", 0), "SequenceMap": ("body", 0)}
"""Operators with as many outputs as their graph has, apart from some of its first outputs."""

_SINGLE = {"FLOAT": float, "INT": int}
_LISTS = {"FLOATS": float, "INTS": int, "STRINGS": None, "TENSORS": None, "GRAPHS": None}


def input_names(signature: Signature, count: int) -> list[str]:
    """The names of the first inputs: the schema's, with a number if a name covers several values."""
    return [_numbered_name(signature.inputs, index) for index in range(count)]


def output_names(signature: Signature, outputs: OutputSpec, attributes: dict[str, Any]) -> list[str]:
    """The names of a node's outputs; "" for an omitted one."""
    if isinstance(outputs, tuple):
        return _require_outputs(signature, outputs)
    count = outputs if outputs is not None else _count(signature, attributes)
    is_variadic = bool(signature.outputs) and signature.outputs[-1].is_variadic
    if not 1 <= count <= len(signature.outputs) and not (is_variadic and count >= 1):
        raise InvalidArgumentError(
            f"{signature.name} cannot have {count} outputs.",
            hint=f"Its outputs: {', '.join(parameter.name for parameter in signature.outputs)}.",
        )
    return [_numbered_name(signature.outputs, index) for index in range(count)]


def _require_outputs(signature: Signature, names: tuple[str, ...]) -> list[str]:
    declared = [parameter.name for parameter in signature.outputs]
    unknown = [name for name in names if name not in declared]
    if unknown or not names:
        raise InvalidArgumentError(
            f"{signature.name} has no output {', '.join(unknown) or 'without a name'}.",
            hint=f"Its outputs: {', '.join(declared)}.",
        )
    last = max(map(declared.index, names))
    return [name if name in names else "" for name in declared[: last + 1]]


def _count(signature: Signature, attributes: dict[str, Any]) -> int:
    if not (signature.outputs and signature.outputs[-1].is_variadic):
        return max(1, signature.least_outputs)
    if "num_outputs" in attributes:
        return int(attributes["num_outputs"])
    body, leading = _BODIES.get(signature.name, ("", 0))
    if body:
        return len(attributes[body].output) - leading
    raise InvalidArgumentError(
        f"{signature.name} can have any number of outputs.", hint="Pass the number: outputs=2, for example."
    )


def _numbered_name(parameters: Sequence[Any], index: int) -> str:
    last = len(parameters) - 1
    parameter = parameters[min(index, last)]
    return f"{parameter.name}_{index - last}" if parameter.is_variadic else str(parameter.name)


def node_model(
    signature: Signature, kinds: Sequence[ValueType], outputs: Sequence[str], attributes: dict[str, Any]
) -> onnx.ModelProto:
    """A model whose graph is one node with inputs of these types.

    Raises:
        InvalidArgumentError: the operator does not take these types, or an attribute has another type.
        WinMLError: ONNX Runtime refuses the node.
    """
    from onnx import helper

    require_types(signature, kinds)
    names = [name if kind else "" for name, kind in zip(input_names(signature, len(kinds)), kinds, strict=True)]
    node = helper.make_node(signature.name, names, outputs, name=signature.name, domain=signature.domain)
    node.attribute.extend(attribute(signature, name, value) for name, value in attributes.items() if value is not None)
    ends = [helper.make_value_info(name, type_proto(kind)) for name, kind in zip(names, kinds, strict=True) if kind]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    opsets = [helper.make_opsetid(signature.domain, signature.opset)]
    if signature.domain:
        opsets.append(helper.make_opsetid("", 21))  # the runtime's inference refuses a model without ONNX's
    model = helper.make_model(
        helper.make_graph([node], signature.name, ends, results),
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets, ignore_unknown=True),
    )
    infer_outputs(model)
    return model


def require_types(signature: Signature, kinds: Sequence[ValueType]) -> None:
    """Refuses inputs of types that the operator does not take."""
    for index, kind in enumerate(kinds):
        parameter = parameter_at(signature, index)
        if kind is None or not parameter.types:
            continue
        name = onnx_name(kind)
        if name not in parameter.types and f"optional({name})" not in parameter.types:
            raise InvalidArgumentError(
                f"{signature.name} does not take {describe_type(kind)} as its input {parameter.name}.",
                hint=f"It takes {', '.join(sorted(parameter.types))}.",
            )


def attribute(signature: Signature, name: str, value: object) -> onnx.AttributeProto:
    """An attribute of an operator, from a number, text, list, array or tensor."""
    from onnx import AttributeProto, helper

    kind = signature.attributes[name].type
    try:
        return helper.make_attribute(name, _convert(kind, value), attr_type=AttributeProto.AttributeType.Value(kind))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"Invalid attribute {name} of {signature.name}: {value!r}.", hint=f"Expected {kind.lower()}: {error}."
        ) from error


def _convert(kind: str, value: Any) -> Any:
    from onnx import numpy_helper

    if isinstance(value, Tensor):
        value = value.to_numpy()
    if kind == "TENSOR":
        return numpy_helper.from_array(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist() if kind in _LISTS else value.item()
    if kind in _LISTS:
        convert = _LISTS[kind]
        return [_number(convert, each) for each in value] if convert else list(value)
    return _number(_SINGLE[kind], value) if kind in _SINGLE else value


def _number(convert: type, value: Any) -> Any:
    if isinstance(value, str) or (convert is int and int(value) != value):
        raise ValueError(f"{value!r} is not of type {convert.__name__}")
    return convert(value)
