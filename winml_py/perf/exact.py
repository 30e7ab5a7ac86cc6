"""Whether another engine computes a model exactly as ONNX Runtime does.

Engines for neural networks compute 32-bit floats exactly, up to rounding, but not other types: OpenVINO computes int64
in 32 bits and float64 in float32, saturates sums of uint8, and reads 0 where a Gather exceeds its data.

`tune` compares an engine with ONNX Runtime on inputs of every shape that the program uses. That comparison covers every
value that depends only on these shapes: weights, sizes, axes, and what is computed from them. So this module looks only
at values that depend on the values of the inputs. Such a value must be a float or a boolean, its
shape must not depend on values, and the provider must compute its operator exactly (`Provider.exact_operators`, which
`tests/tools/exact_operators.py` tests). Integers may be moved, but not computed with: positions from ArgMax and ArgMin,
and the integers between QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from enum import Enum, auto
from typing import TYPE_CHECKING

from ..core.onnx_file.header import TensorType
from ..core.onnx_file.nodes import ModelGraph

if TYPE_CHECKING:
    import onnx


class _Kind(Enum):
    """The kinds of values that depend on the values of the inputs."""

    NUMBERS = auto()  # float32, float16 and bool
    QUANTIZED = auto()
    POSITIONS = auto()


_FLOAT, _INT32, _INT64, _BOOL, _FLOAT16 = 1, 6, 7, 9, 10
"""Types of elements, as in onnx.TensorProto.DataType."""

_RESHAPING = {"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_MOVING_QUANTIZED = _RESHAPING | {"Concat", "DequantizeLinear", "QuantizeLinear", "Slice"}
_MOVING_POSITIONS = _RESHAPING | {"Cast"}
"""The operators that only move integers; all others widen or saturate them, or compute in 32 bits."""

_INEXACT_ATTRIBUTES = {
    "MaxPool": {"ceil_mode"},
    "Resize": {"antialias", "exclude_outside", "keep_aspect_ratio_policy"},
    "SpaceToDepth": {"mode"},
}
_MAX_INPUTS = {"LSTM": 7}  # its eighth input is the weights of peepholes
_MAX_OUTPUTS = {"MaxPool": 1, "Dropout": 1, "BatchNormalization": 1}


def find_inexact_reason(graph: ModelGraph, exact_operators: AbstractSet[str]) -> str:
    """Why another engine might compute other results, as text; "" if it is known not to.

    Args:
        graph: the model's.
        exact_operators: ONNX operators that the engine computes as ONNX Runtime does.
    """
    kinds: dict[str, _Kind] = {}  # of the values that depend on the values of the inputs
    for value in graph.inputs:
        if not isinstance(value.type, TensorType) or value.type.element not in (_FLOAT, _FLOAT16, _BOOL):
            return f"the input {value.name} is not a tensor of float32, float16 or bool"
        kinds[value.name] = _Kind.NUMBERS
    used_names = graph.outputs.union(*(node.input for node in graph.nodes))
    for node in graph.nodes:
        inexact_form = _find_inexact_form(node, exact_operators, used_names)
        if inexact_form:
            return f"the operator {node.op_type} {inexact_form}"
        # None for an input that depends only on the shapes of the model's inputs.
        input_kinds = [kinds.get(name) for name in node.input]
        depends_on_values = any(input_kinds) and node.op_type not in ("Shape", "Size")
        if depends_on_values:
            problem = _find_inexact_use(node, input_kinds)
            if problem:
                return problem
            kinds |= dict.fromkeys(node.output, _infer_kind(node, input_kinds))
        elif node.op_type == "Expand":
            return "an Expand of an empty shape can crash this engine"
    return ""


def _find_inexact_form(node: onnx.NodeProto, exact_operators: AbstractSet[str], used_names: Collection[str]) -> str:
    """Checks the operator of a node, its attributes, and which of its inputs and outputs are used."""
    operator = node.op_type
    if node.domain not in ("", "ai.onnx") or operator not in exact_operators:
        return "is not known to be exact on this engine"
    attributes = {attribute.name for attribute in node.attribute if attribute.i or attribute.s}
    if attributes & _INEXACT_ATTRIBUTES.get(operator, set()):
        return "has attributes that are not known to be exact on this engine"
    max_inputs = _MAX_INPUTS.get(operator, len(node.input))
    if len(node.input) > max_inputs:
        return "has inputs that are not known to be exact on this engine"
    max_outputs = _MAX_OUTPUTS.get(operator, len(node.output))
    if any(name in used_names for name in node.output[max_outputs:]):
        return "has outputs that are not known to be exact on this engine"
    return ""


def _find_inexact_use(node: onnx.NodeProto, kinds: list[_Kind | None]) -> str:
    """Checks what a node does with values that depend on the values of the inputs.

    Args:
        node: its operator is exact for numbers.
        kinds: the kind of each of its inputs; None for those that depend only on shapes.
    """
    operator = node.op_type
    if operator == "Gather" and any(kinds[1:]):
        return "a Gather at computed positions returns 0 on this engine where ONNX Runtime raises an error"
    has_computed_sizes = operator == "Resize" and any(kinds[1:])
    if operator in ("NonZero", "Range") or has_computed_sizes:
        return f"the output shape of {operator} depends on the values of its inputs"
    computes_quantized = _Kind.QUANTIZED in kinds and operator not in _MOVING_QUANTIZED
    computes_positions = _Kind.POSITIONS in kinds and operator not in _MOVING_POSITIONS
    # Positions as another input than the first would be a shape, say.
    has_positions_as_argument = _Kind.POSITIONS in kinds[1:]
    if computes_quantized or computes_positions or has_positions_as_argument:
        return f"the operator {operator} computes with integers that depend on the inputs"
    if operator == "Where" and not any(kinds[1:]):
        return "the operator Where chooses between constants, whose type is not checked"
    if operator == "Cast":
        exact_types = {_FLOAT, _FLOAT16}
        if kinds[0] is _Kind.POSITIONS:
            exact_types |= {_INT32, _INT64}
        if _get_cast_type(node) not in exact_types:
            return "a Cast to integers, booleans or float64 converts some numbers differently on this engine"
    return ""


def _get_cast_type(cast: onnx.NodeProto) -> int:
    return next((attribute.i for attribute in cast.attribute if attribute.name == "to"), 0)


def _infer_kind(node: onnx.NodeProto, kinds: list[_Kind | None]) -> _Kind:
    """The kind of a node's outputs."""
    operator = node.op_type
    if operator in ("ArgMax", "ArgMin"):
        return _Kind.POSITIONS
    if operator == "QuantizeLinear":
        return _Kind.QUANTIZED
    if operator == "DequantizeLinear":
        return _Kind.NUMBERS
    if operator == "Cast" and _get_cast_type(node) in (_FLOAT, _FLOAT16):
        return _Kind.NUMBERS
    return next(kind for kind in kinds if kind is not None)
