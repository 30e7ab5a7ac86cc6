"""Whether another engine computes a model exactly as ONNX Runtime does.

Engines for neural networks are exact, up to rounding, for 32-bit floats, but not for other types: OpenVINO computes
int64 in 32 bits and float64 in float32, saturates sums of uint8, and reads 0 where a Gather exceeds its data. A
measurement shows such errors only for the measured inputs. So another engine gets a model only if it computes with
nothing but floats, booleans, and integers for shapes and positions, by operators that the provider is known to compute
exactly (`Provider.exact_operators`; `tests/tools/exact_operators.py` tests them).

Other engines do not check sizes, either: OpenVINO squeezes dimensions that are not 1, and overwrites memory of others.
ONNX Runtime first checks each new set of input shapes (`chosen.py`), so only models whose shapes depend on the values
of inputs are refused here. And OpenVINO divides by the number of elements, which crashes the process if there are none:
a model with such an operator after a `Slice` whose result may be empty is refused.

One pass visits each node in order. It tracks the range of integers, which must stay within 32 bits; no known public
model computes with larger ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ...onnx_file.header import TensorType
from ...onnx_file.nodes import ModelGraph

if TYPE_CHECKING:
    import onnx


class Kind(Enum):
    """The kind of numbers in a value."""

    FLOAT = "floats"
    TRUTH = "booleans"
    COUNT = "sizes and positions"
    QUANTIZED = "quantized numbers"
    OTHER = "other numbers"


class Range(NamedTuple):
    """The least and the largest integer that a value may contain."""

    low: int
    high: int


class ValueFacts(NamedTuple):
    """The known facts about a value of the graph.

    Attributes:
        kind: the kind of its numbers.
        range: the range of a count; 0 to 1 for booleans.
        is_constant: whether its numbers depend only on the shapes of the model's inputs.
        is_steady: whether its shape depends only on these.
        may_be_empty: whether it may have no elements, although the model's inputs have.
        rank: the least number of dimensions; 0 if unknown.
        length: the least number of elements in a row of counts; 0 if unknown.
    """

    kind: Kind
    range: Range = Range(0, 1)
    is_constant: bool = False
    is_steady: bool = True
    may_be_empty: bool = False
    rank: int = 0
    length: int = 0


MOST = (1 << 31) - 1
"""The largest 32-bit integer."""

ONE = ValueFacts(Kind.COUNT, Range(1, 1), is_constant=True)

SIZE = Range(1, 1 << 28)
"""The largest value of an unknown dimension: a longer row of float32 would take a gigabyte."""

_ELEMENTS = {1: Kind.FLOAT, 10: Kind.FLOAT, 9: Kind.TRUTH, 6: Kind.COUNT, 7: Kind.COUNT, 2: Kind.QUANTIZED}
_ELEMENTS |= {3: Kind.QUANTIZED}
"""Kinds of constants by onnx.TensorProto.DataType."""

_BOUND = {Kind.FLOAT, Kind.TRUTH}
"""The kinds of inputs that a program may bind; integers are not among them, because they can be of any size."""

_COUNTING = {"Shape", "Size", "ArgMax", "ArgMin", "NonZero"}
_COMPARING = {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"}
_RESHAPING = {"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_MOVING = _RESHAPING | {"Concat", "DequantizeLinear", "QuantizeLinear", "Slice"}
"""Operators for quantized numbers; all others widen or saturate them."""

_ELEMENTWISE = _COMPARING | {"Abs", "Add", "Cast", "Clip", "Concat", "Div", "Mul", "Neg", "Pow", "Sign", "Sub", "Where"}
"""Operators whose output shape depends only on the shapes of their inputs."""

_INEXACT_ATTRIBUTES = {
    "MaxPool": {"ceil_mode"},
    "Resize": {"antialias", "exclude_outside", "keep_aspect_ratio_policy"},
    "SpaceToDepth": {"mode"},
}
_MOST_INPUTS = {"LSTM": 7}  # the eighth are peepholes
_MOST_OUTPUTS = {"MaxPool": 1, "Dropout": 1, "BatchNormalization": 1}


def inexact_reason(graph: ModelGraph, exact_operators: AbstractSet[str]) -> str:
    """Why another engine might compute other results, as text; "" if it is known not to.

    Args:
        graph: the model's.
        exact_operators: ONNX operators that the engine computes as ONNX Runtime does.
    """
    values = {"": ValueFacts(Kind.FLOAT, is_constant=True)}
    for end in graph.inputs:
        kind = _ELEMENTS.get(end.type.element, Kind.OTHER) if isinstance(end.type, TensorType) else Kind.OTHER
        if kind not in _BOUND:
            return f"the input {end.name} is not a tensor of float32, float16 or bool"
        rank = len(end.type.dimensions or ()) if isinstance(end.type, TensorType) else 0
        values[end.name] = ValueFacts(kind, rank=rank)
    values |= {name: _constant(tensor) for name, tensor in graph.weights.items()}
    used = graph.outputs.union(*(node.input for node in graph.nodes))
    for node in graph.nodes:
        if node.domain not in ("", "ai.onnx") or node.op_type not in exact_operators:
            return f"the operator {node.op_type} is not known to be exact there"
        inputs = [values.get(name, ValueFacts(Kind.OTHER)) for name in node.input]
        try:
            output = _infer_output(node, inputs)
        except (IndexError, TypeError, ValueError):  # inputs are missing, say: ONNX Runtime reports it
            return f"the operator {node.op_type} is not written as ONNX states it"
        if problem := _problem(node, inputs, output, used):
            return problem
        values |= dict.fromkeys(node.output, output)
    return ""


def _problem(node: onnx.NodeProto, inputs: list[ValueFacts], output: ValueFacts, used: AbstractSet[str]) -> str:
    operator, kinds = node.op_type, [value.kind for value in inputs]
    attributes = {attribute.name for attribute in node.attribute if attribute.i or attribute.s}
    if Kind.OTHER in kinds:
        return f"the operator {operator} computes in types that are not known to be exact there"
    if Kind.QUANTIZED in kinds and operator not in _MOVING:
        return f"the operator {operator} computes with integers of 8 bits"
    if attributes & _INEXACT_ATTRIBUTES.get(operator, set()):
        return f"the operator {operator} has attributes that are not known to be exact there"
    if len(node.input) > _MOST_INPUTS.get(operator, len(node.input)):
        return f"the operator {operator} has inputs that are not known to be exact there"
    if used & set(node.output[_MOST_OUTPUTS.get(operator, len(node.output)) :]):
        return f"the operator {operator} has outputs that are not known to be exact there"
    whole = (Kind.COUNT, Kind.TRUTH)
    if operator == "Cast" and output.kind is not Kind.FLOAT and not (kinds[0] in whole and output.kind in whole):
        return "a Cast to integers or float64 converts NaN and large numbers differently there"
    if operator == "Gather" and not inputs[1].is_constant:
        return "a Gather at computed positions gives 0 there where ONNX Runtime refuses them"
    is_about_nothing = any(value.may_be_empty for value in inputs) and (
        operator in _COUNTING or operator in ("Gather", "Expand") or operator.startswith("Reduce")
    )
    # The Shape of a scalar is empty, and constants and counts often are scalars.
    is_about_nothing |= operator == "Shape" and (kinds[0] is Kind.COUNT or inputs[0].is_constant)
    if is_about_nothing or (output.kind is Kind.COUNT and output.may_be_empty):
        return f"the input of {operator} may be empty, which crashes the process there"
    if not output.is_steady:
        return f"the output shape of {operator} depends on the values of its inputs"
    # The end of a Slice is often the largest int64, which only means "to the end".
    numbers = [value.range for value in (*([] if operator == "Slice" else inputs), output) if value.kind is Kind.COUNT]
    if operator != "Constant" and any(each.low < -MOST or each.high > MOST for each in numbers):
        return f"the operator {operator} computes with integers that may not fit into 32 bits"
    return ""


def _infer_output(node: onnx.NodeProto, inputs: list[ValueFacts]) -> ValueFacts:
    operator = node.op_type
    if operator == "Constant":
        return _constant_value(node)
    is_steady = operator != "NonZero"
    if operator in ("Shape", "Size"):
        numbers = SIZE if operator == "Shape" else Range(1, MOST)
        return ValueFacts(Kind.COUNT, numbers, is_constant=True, length=inputs[0].rank)
    if operator not in _ELEMENTWISE:
        # The inputs other than the data decide the output's shape: axes, a shape, the ends of a slice.
        first = 0 if operator in ("ConstantOfShape", "Range") else 1
        # Resize has floats as factors, which also decide the shape.
        deciding = [value for value in inputs[first:] if value.kind is Kind.COUNT or operator == "Resize"]
        is_steady &= all(value.is_constant for value in deciding)
    is_constant = all(value.is_constant for value in inputs)
    kind, numbers = _infer_kind(node, inputs), Range(0, 1)
    if kind is Kind.COUNT:
        numbers = _constant_value(node).range if operator == "ConstantOfShape" else _infer_range(operator, inputs)
    rank, length = _infer_rank(operator, inputs), 0
    if operator in ("Cast", "Concat", "Identity"):
        length = sum(value.length for value in inputs)
    return ValueFacts(kind, numbers, is_constant, is_steady, _may_be_empty(operator, inputs), rank, length)


def _infer_rank(operator: str, inputs: Sequence[ValueFacts]) -> int:
    """The least number of dimensions of a result; most operators keep those of their inputs."""
    if operator in _ELEMENTWISE:
        return max(value.rank for value in inputs)
    if operator in ("Reshape", "Expand", "ConstantOfShape"):
        return inputs[-1].length
    is_other = operator in _COUNTING or operator in ("Flatten", "Gather", "Squeeze") or operator.startswith("Reduce")
    return 0 if is_other or not inputs else inputs[0].rank


def _may_be_empty(operator: str, inputs: Sequence[ValueFacts]) -> bool:
    if operator == "Slice":
        return inputs[0].may_be_empty or len(inputs) < 3 or not _is_something_left(*inputs)
    if operator in ("ConstantOfShape", "Expand"):
        return inputs[-1].range.low < 1 or any(value.may_be_empty for value in inputs)
    if operator in _MOVING - {"Concat"} or operator in _COUNTING or operator == "Split":
        return inputs[0].may_be_empty  # an empty row of sizes makes a single number
    # Products and convolutions end the propagation: no network was trained on empty inputs.
    is_passed_on = operator in _ELEMENTWISE or operator == "Gather"
    return operator == "Range" or (is_passed_on and any(value.may_be_empty for value in inputs))


def _is_something_left(
    data: ValueFacts, start: ValueFacts, end: ValueFacts, axes: ValueFacts | None = None, step: ValueFacts = ONE
) -> bool:
    """Whether a Slice is known not to be empty: the first or last elements, or a part of a row of known length."""
    if step.kind is Kind.COUNT and step.range.low < 1:
        return False
    is_first = start.range == Range(0, 0) and end.range.low >= 1
    is_last = start.range.high < 0 and end.range.low > MOST
    is_inside = start.range.low >= 0 and start.range.high < min(data.length, end.range.low)
    return is_first or is_last or is_inside


def _infer_kind(node: onnx.NodeProto, inputs: list[ValueFacts]) -> Kind:
    operator = node.op_type
    if operator in _COUNTING:
        return Kind.COUNT
    if operator in _COMPARING:
        return Kind.TRUTH
    if operator == "Cast":
        return _ELEMENTS.get(next((a.i for a in node.attribute if a.name == "to"), 0), Kind.OTHER)
    if operator == "ConstantOfShape":
        return _constant_value(node).kind
    if operator in ("QuantizeLinear", "DequantizeLinear"):
        return Kind.QUANTIZED if operator == "QuantizeLinear" else Kind.FLOAT
    return inputs[1].kind if operator == "Where" else inputs[0].kind if inputs else Kind.OTHER


def _infer_range(operator: str, inputs: Sequence[ValueFacts]) -> Range:
    """The range of an operator's results; beyond 32 bits if unknown."""
    ranges = [value.range for value in inputs]
    if operator in _COUNTING:
        return Range(0, SIZE.high)
    if operator in ("Cast", "Gather", "Slice", "Split", "Expand", "ReduceMax", "ReduceMin", *_RESHAPING):
        return ranges[0]
    if operator in ("Concat", "Range"):
        return _union(*ranges)
    if operator == "Where":
        return _union(*ranges[1:])
    rule = _ARITHMETIC.get(operator)
    return rule(*ranges) if rule is not None and len(ranges) <= 2 else UNKNOWN


UNKNOWN = Range(-1 << 64, 1 << 64)


def _union(*ranges: Range) -> Range:
    return Range(min(each.low for each in ranges), max(each.high for each in ranges))


def _product(one: Range, other: Range) -> Range:
    corners = [a * b for a in one for b in other]
    return Range(min(corners), max(corners))


def _quotient(one: Range, other: Range) -> Range:
    """Engines differ in rounding below 0, and in division by 0."""
    return Range(one.low // other.high, one.high // other.low) if one.low >= 0 and other.low > 0 else UNKNOWN


def _power(base: Range, exponent: Range) -> Range:
    """OpenVINO computes powers in float32, which is exact for integers up to 2^24."""
    if base.low < 0 or not 0 <= exponent.low <= exponent.high <= 24:
        return UNKNOWN
    most = max(base.high**exponent.high, 1)
    return Range(0, most) if most <= 1 << 24 else UNKNOWN


_ARITHMETIC: dict[str, Callable[..., Range]] = {
    "Abs": lambda one: Range(0, max(abs(one.low), abs(one.high))),
    "Add": lambda one, other: Range(one.low + other.low, one.high + other.high),
    "Div": _quotient,
    "Mul": _product,
    "Neg": lambda one: Range(-one.high, -one.low),
    "Pow": _power,
    "Sign": lambda one: Range(-1, 1),
    "Sub": lambda one, other: Range(one.low - other.high, one.high - other.low),
}


def _constant(tensor: onnx.TensorProto) -> ValueFacts:
    kind = _ELEMENTS.get(tensor.data_type, Kind.OTHER)
    if kind is Kind.COUNT:
        from onnx import numpy_helper

        return _counts(numpy_helper.to_array(tensor).ravel().tolist())
    return ValueFacts(kind, is_constant=True)


def _counts(numbers: Sequence[int]) -> ValueFacts:
    """Constant integers. Those beyond 32 bits are not counts, except those that mean the end to a Slice."""
    kind = Kind.OTHER if any(MOST < abs(number) < 1 << 62 for number in numbers) else Kind.COUNT
    numbers_range = Range(min(numbers, default=0), max(numbers, default=0))
    return ValueFacts(kind, numbers_range, is_constant=True, may_be_empty=not numbers, length=len(numbers))


def _constant_value(node: onnx.NodeProto) -> ValueFacts:
    """The value in a node's attribute; ConstantOfShape makes floats by default."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return _constant(attribute.t)
        if attribute.name == "value_int":
            return _counts([attribute.i])
        if attribute.name == "value_ints":
            return _counts(attribute.ints)
    is_float = node.op_type == "ConstantOfShape" or any(a.name.startswith("value_float") for a in node.attribute)
    return ValueFacts(Kind.FLOAT if is_float else Kind.OTHER, is_constant=True)
