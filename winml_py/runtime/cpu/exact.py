"""May another engine compute a model, or would it give other results?

Engines for neural networks are exact for floats of 32 bits, as far as rounding goes, and take liberties with all else:
OpenVINO computes int64 in 32 bits and float64 in float32, saturates sums of uint8, and reads 0 where a Gather leaves
its data. No measurement on made-up inputs shows that. So a model is only given to another engine where all that it
computes is in floats, truths, and integers that shapes and positions are made of, by operators that the provider is
known to compute exactly (`Provider.exact_operators`; `tests/exact_operators.py` tries them).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from ...onnx_file.header import TensorType
from ...onnx_file.nodes import Graph

if TYPE_CHECKING:
    import onnx


class Kind(Enum):
    """What numbers a value holds."""

    FLOAT = "floats"
    TRUTH = "truths"
    COUNT = "sizes and positions"
    QUANTIZED = "quantized numbers"
    OTHER = "other numbers"


_ELEMENTS = {1: Kind.FLOAT, 10: Kind.FLOAT, 9: Kind.TRUTH, 6: Kind.COUNT, 7: Kind.COUNT, 2: Kind.QUANTIZED}
_ELEMENTS |= {3: Kind.QUANTIZED}
"""Kinds of constants by onnx.TensorProto.DataType."""

_BOUND = {Kind.FLOAT, Kind.TRUTH}
"""What a program may bind: its integers can be of any size."""

_COUNTING = {"Shape", "Size", "ArgMax", "ArgMin", "NonZero"}
_COMPARING = {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"}
_RESHAPING = {"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_MOVING = _RESHAPING | {"Concat", "DequantizeLinear", "QuantizeLinear", "Slice"}
"""What may be done with quantized numbers; all else widens or saturates them."""

_INEXACT_ATTRIBUTES = {
    "MaxPool": {"ceil_mode"},
    "Resize": {"antialias", "exclude_outside", "keep_aspect_ratio_policy"},
}
_MOST_INPUTS = {"LSTM": 7}  # the eighth are peepholes
_MOST_OUTPUTS = {"MaxPool": 1, "Dropout": 1, "BatchNormalization": 1}


def obstacle(graph: Graph, exact_operators: AbstractSet[str], has_fixed_shapes: bool) -> str:
    """Why another engine might give other results, in words; "" where it is known not to.

    Args:
        graph: the model's.
        exact_operators: ONNX operators that the engine computes as ONNX Runtime does.
        has_fixed_shapes: whether no size changes from one evaluation to the next.
    """
    kinds = {"": Kind.FLOAT}
    for value in graph.inputs:
        kinds[value.name] = _bound(value.type)
        if kinds[value.name] not in _BOUND:
            return f"the input {value.name} is no tensor of float32, float16 or bool"
    kinds |= {name: _kind_of(tensor) for name, tensor in graph.weights.items()}
    used = graph.outputs.union(*(node.input for node in graph.nodes))
    for node in graph.nodes:
        if node.domain not in ("", "ai.onnx") or node.op_type not in exact_operators:
            return f"the operator {node.op_type} is not known to be exact there"
        given = [kinds.get(name, Kind.OTHER) for name in node.input]
        if problem := _problem(node, given, used, has_fixed_shapes):
            return problem
        kinds |= dict.fromkeys(node.output, _made(node, given))
    return ""


def _bound(kind: object) -> Kind:
    return _ELEMENTS.get(kind.element, Kind.OTHER) if isinstance(kind, TensorType) else Kind.OTHER


def _kind_of(tensor: onnx.TensorProto) -> Kind:
    """The kind of a constant; integers that do not fit 32 bits are none of sizes, but for the two that mean an end."""
    kind = _ELEMENTS.get(tensor.data_type, Kind.OTHER)
    if kind is Kind.COUNT and tensor.data_type == 7:
        from onnx import numpy_helper

        values = numpy_helper.to_array(tensor).astype(np.float64)
        if ((np.abs(values) >= 2**31) & (np.abs(values) < 2**62)).any():
            return Kind.OTHER
    return kind


def _problem(node: onnx.NodeProto, given: list[Kind], used: AbstractSet[str], has_fixed_shapes: bool) -> str:
    operator = node.op_type
    attributes = {attribute.name for attribute in node.attribute if attribute.i or attribute.s}
    if Kind.OTHER in given:
        return f"the operator {operator} computes in types that are not known to be exact there"
    if Kind.QUANTIZED in given and operator not in _MOVING:
        return f"the operator {operator} computes with integers of 8 bits"
    if attributes & _INEXACT_ATTRIBUTES.get(operator, set()):
        return f"the operator {operator} has attributes that are not known to be exact there"
    if len(node.input) > _MOST_INPUTS.get(operator, len(node.input)):
        return f"the operator {operator} has inputs that are not known to be exact there"
    if used & set(node.output[_MOST_OUTPUTS.get(operator, len(node.output)) :]):
        return f"the operator {operator} has outputs that are not known to be exact there"
    if operator == "Cast" and not _is_exact_cast(given[0], _made(node, given)):
        return "a Cast to integers, or to float64, makes other numbers there of NaN and of what is large"
    if operator == "Gather" and given[0] is not Kind.COUNT and not has_fixed_shapes:
        return "a Gather may leave its data in other sizes, and gives 0 there where ONNX Runtime refuses"
    return ""


def _is_exact_cast(given: Kind, made: Kind) -> bool:
    return made is Kind.FLOAT or (made in (Kind.COUNT, Kind.TRUTH) and given in (Kind.COUNT, Kind.TRUTH))


def _made(node: onnx.NodeProto, given: list[Kind]) -> Kind:
    """The kind of a node's outputs."""
    operator = node.op_type
    if operator in _COUNTING:
        return Kind.COUNT
    if operator in _COMPARING:
        return Kind.TRUTH
    if operator == "Cast":
        return _ELEMENTS.get(next((a.i for a in node.attribute if a.name == "to"), 0), Kind.OTHER)
    if operator in ("Constant", "ConstantOfShape"):
        return _stated(node)
    if operator in ("QuantizeLinear", "DequantizeLinear"):
        return Kind.QUANTIZED if operator == "QuantizeLinear" else Kind.FLOAT
    return given[1] if operator == "Where" else given[0] if given else Kind.OTHER


def _stated(node: onnx.NodeProto) -> Kind:
    """The kind of what a node holds as an attribute; ConstantOfShape makes floats by default."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return _kind_of(attribute.t)
        if attribute.name in ("value_int", "value_ints"):
            is_small = all(abs(value) < 1 << 31 for value in (attribute.i, *attribute.ints))
            return Kind.COUNT if is_small else Kind.OTHER
    is_float = node.op_type == "ConstantOfShape" or any(a.name.startswith("value_float") for a in node.attribute)
    return Kind.FLOAT if is_float else Kind.OTHER
