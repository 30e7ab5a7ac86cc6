"""Whether another engine computes a model exactly as ONNX Runtime does.

Engines for neural networks are exact, up to rounding, for 32-bit floats, but not for other types: OpenVINO computes
int64 in 32 bits and float64 in float32, saturates sums of uint8, and reads 0 where a Gather exceeds its data.

The first evaluation of each set of input shapes is compared with ONNX Runtime's (`chosen_engine.py`). That covers all
values that depend only on these shapes: weights, sizes, axes, and what is computed from them. So only the values that
depend on those of the inputs matter here: they must be floats or booleans, of shapes that do not depend on values, and
made by operators that the provider computes exactly (`Provider.exact_operators`; `tests/tools/exact_operators.py` tests
them). Integers may only be moved: positions from ArgMax and ArgMin, and what is between QuantizeLinear and
DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import Enum, auto
from typing import TYPE_CHECKING

from ...onnx_file.header import TensorType
from ...onnx_file.nodes import ModelGraph

if TYPE_CHECKING:
    import onnx


class _Kind(Enum):
    """The kinds of values that depend on those of the inputs."""

    NUMBERS = auto()  # float32, float16 and bool
    QUANTIZED = auto()
    POSITIONS = auto()


_FLOAT, _INT32, _INT64, _BOOL, _FLOAT16 = 1, 6, 7, 9, 10
"""Types of elements, as in onnx.TensorProto.DataType."""

_RESHAPING = {"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_TAKERS = {
    _Kind.QUANTIZED: _RESHAPING | {"Concat", "DequantizeLinear", "QuantizeLinear", "Slice"},
    _Kind.POSITIONS: _RESHAPING | {"Cast"},
}
"""The operators that take integers; all others widen or saturate them, or compute in 32 bits."""

_INEXACT_ATTRIBUTES = {
    "MaxPool": {"ceil_mode"},
    "Resize": {"antialias", "exclude_outside", "keep_aspect_ratio_policy"},
    "SpaceToDepth": {"mode"},
}
_MAX_INPUTS = {"LSTM": 7}  # its eighth input is the weights of peepholes
_MAX_OUTPUTS = {"MaxPool": 1, "Dropout": 1, "BatchNormalization": 1}


def inexact_reason(graph: ModelGraph, exact_operators: AbstractSet[str]) -> str:
    """Why another engine might compute other results, as text; "" if it is known not to.

    Args:
        graph: the model's.
        exact_operators: ONNX operators that the engine computes as ONNX Runtime does.
    """
    kinds: dict[str, _Kind] = {}  # of the values that depend on the inputs' values
    for end in graph.inputs:
        if not isinstance(end.type, TensorType) or end.type.element not in (_FLOAT, _FLOAT16, _BOOL):
            return f"the input {end.name} is not a tensor of float32, float16 or bool"
        kinds[end.name] = _Kind.NUMBERS
    used = graph.outputs.union(*(node.input for node in graph.nodes))
    for node in graph.nodes:
        operator, inputs = node.op_type, [kinds.get(name) for name in node.input]
        if node.domain not in ("", "ai.onnx") or operator not in exact_operators:
            return f"the operator {operator} is not known to be exact there"
        attributes = {attribute.name for attribute in node.attribute if attribute.i or attribute.s}
        if attributes & _INEXACT_ATTRIBUTES.get(operator, set()):
            return f"the operator {operator} has attributes that are not known to be exact there"
        if len(node.input) > _MAX_INPUTS.get(operator, len(node.input)):
            return f"the operator {operator} has inputs that are not known to be exact there"
        if used & set(node.output[_MAX_OUTPUTS.get(operator, len(node.output)) :]):
            return f"the operator {operator} has outputs that are not known to be exact there"
        if operator == "Expand" and not any(inputs):
            return "an Expand of sizes can end the process there, if there are none"
        if operator in ("Shape", "Size") or not any(inputs):
            continue
        if problem := _problem(node, inputs):
            return problem
        kinds |= dict.fromkeys(node.output, _infer_kind(node, inputs))
    return ""


def _problem(node: onnx.NodeProto, inputs: list[_Kind | None]) -> str:
    operator = node.op_type
    if operator == "Gather" and inputs[1:] != [None]:
        return "a Gather at computed positions gives 0 there where ONNX Runtime refuses them"
    if operator in ("NonZero", "Range") or (operator == "Resize" and any(inputs[1:])):
        return f"the output shape of {operator} depends on the values of its inputs"
    for number, kind in enumerate(inputs):
        if kind in _TAKERS and (operator not in _TAKERS[kind] or (kind is _Kind.POSITIONS and number)):
            return f"the operator {operator} computes with integers that depend on the inputs"
    if operator == "Where" and not any(inputs[1:]):
        return "the operator Where chooses between constants, whose type is not checked"
    whole = (_INT32, _INT64) if inputs[0] is _Kind.POSITIONS else ()
    if operator == "Cast" and _target(node) not in (_FLOAT, _FLOAT16, *whole):
        return "a Cast to integers, booleans or float64 converts some numbers differently there"
    return ""


def _target(cast: onnx.NodeProto) -> int:
    return next((attribute.i for attribute in cast.attribute if attribute.name == "to"), 0)


def _infer_kind(node: onnx.NodeProto, inputs: list[_Kind | None]) -> _Kind:
    if node.op_type in ("ArgMax", "ArgMin"):
        return _Kind.POSITIONS
    if node.op_type == "QuantizeLinear":
        return _Kind.QUANTIZED
    is_float = node.op_type == "DequantizeLinear" or (node.op_type == "Cast" and _target(node) in (_FLOAT, _FLOAT16))
    return _Kind.NUMBERS if is_float else next(filter(None, inputs))
