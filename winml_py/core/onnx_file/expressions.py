"""Nodes that are written as Python expressions: `(width * 256) / height` becomes a Mul, two Casts and a Div.

All nodes mean the same from operator set 13 on, so few models need another one. spox and onnx-ir also write graphs, but
they make whole models, take long to import, and choose names themselves. Here, nodes are added to existing graphs, even
while a program binds its first picture on a GPU, and the same program gives the same bytes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.arrays import ScalarType

if TYPE_CHECKING:
    import onnx

Number = int | float

_PROMOTION: tuple[ScalarType, ...] = (np.int64, np.float32, np.float64)


class Expression:
    """The output of a node. Operators make nodes of it: int64 with whole numbers, float64 from a division on."""

    __slots__ = ("dtype", "graph", "name")

    def __init__(self, graph: GraphWriter, name: str, dtype: ScalarType) -> None:
        self.graph = graph
        self.name = name
        self.dtype = dtype

    def cast(self, dtype: ScalarType) -> Expression:
        """The numbers in another type; fractions are truncated for whole numbers."""
        return self if dtype is self.dtype else self.graph.node("Cast", self, dtype=dtype, to=onnx_type(dtype))

    def __add__(self, other: Operand) -> Expression:
        return self._apply_binary("Add", other)

    __radd__ = __add__

    def __neg__(self) -> Expression:
        return 0 - self

    def __sub__(self, other: Operand) -> Expression:
        return self._apply_binary("Sub", other)

    def __rsub__(self, other: Number) -> Expression:
        return self.graph.constant_like(self, other)._apply_binary("Sub", self)

    def __mul__(self, other: Operand) -> Expression:
        return self._apply_binary("Mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Expression:
        dividend = self.cast(np.float64) if self.dtype is np.int64 else self
        return dividend._apply_binary("Div", other)

    def __rtruediv__(self, other: Number) -> Expression:
        return self.graph.constant(other, np.float64) / self

    def __floordiv__(self, other: Operand) -> Expression:
        """For non-negative whole numbers: negative ones are not rounded down."""
        return self._apply_binary("Div", other)

    def __mod__(self, other: Operand) -> Expression:
        """For non-negative whole numbers."""
        return self._apply_binary("Mod", other)

    def __lt__(self, other: Operand) -> Expression:
        return self._apply_binary("Less", other, np.bool_)

    def __le__(self, other: Operand) -> Expression:
        return self._apply_binary("LessOrEqual", other, np.bool_)

    def __gt__(self, other: Operand) -> Expression:
        return self._apply_binary("Greater", other, np.bool_)

    def __ge__(self, other: Operand) -> Expression:
        return self._apply_binary("GreaterOrEqual", other, np.bool_)

    def equals(self, other: Operand) -> Expression:
        """Whether two values are equal, element by element."""
        return self._apply_binary("Equal", other, np.bool_)

    def __and__(self, other: Expression) -> Expression:
        return self.graph.node("And", self, other, dtype=np.bool_)

    def at_least(self, other: Operand) -> Expression:
        """The larger of two."""
        return self._apply_binary("Max", other)

    def at_most(self, other: Operand) -> Expression:
        """The smaller of two."""
        return self._apply_binary("Min", other)

    def __abs__(self) -> Expression:
        return self.apply("Abs")

    # Called by `math.floor`, `math.ceil` and `round`: they make whole numbers, halves to even.

    def __floor__(self) -> Expression:
        return self._round("Floor")

    def __ceil__(self) -> Expression:
        return self._round("Ceil")

    def __round__(self) -> Expression:
        return self._round("Round")

    def _round(self, operator: str) -> Expression:
        return self if self.dtype is np.int64 else self.apply(operator).cast(np.int64)

    def apply(self, operator: str, **attributes: Any) -> Expression:
        """The result of an operator with one input, in the same type."""
        return self.graph.node(operator, self, dtype=self.dtype, **attributes)

    def take(self, indices: Expression, axis: int) -> Expression:
        """The parts at these positions of an axis."""
        return self.graph.node("Gather", self, indices, dtype=self.dtype, axis=axis)

    def transpose(self, *axes: int) -> Expression:
        """With its axes in this order."""
        return self.apply("Transpose", perm=axes)

    def reshape(self, *shape: Operand) -> Expression:
        """In another shape; a size of -1 is inferred."""
        return self.graph.node("Reshape", self, self.graph.vector(*shape), dtype=self.dtype)

    def unsqueeze(self, *axes: int) -> Expression:
        """With axes of size 1 at these positions."""
        return self.graph.node("Unsqueeze", self, self.graph.vector(*axes), dtype=self.dtype)

    def sum(self, *axes: int, keepdims: bool = False) -> Expression:
        """The sums along axes."""
        return self.graph.node("ReduceSum", self, self.graph.vector(*axes), dtype=self.dtype, keepdims=int(keepdims))

    def slice(self, starts: tuple[Operand, ...], sizes: tuple[Operand, ...], axes: tuple[int, ...]) -> Expression:
        """The part that begins at `starts` and has `sizes`, along axes."""
        first = self.graph.vector(*starts)
        last = first + self.graph.vector(*sizes)
        return self.graph.node("Slice", self, first, last, self.graph.vector(*axes), dtype=self.dtype)

    def size(self, axis: int) -> Expression:
        """The size along an axis."""
        shape = self.graph.node("Shape", self, dtype=np.int64)
        return shape.take(self.graph.constant(axis, np.int64), 0)

    def to_levels(self) -> Expression:
        """Rounded to whole levels of 0 to 255, halves up, as in Pillow and OpenCV."""
        zero, most = (self.graph.constant(level, np.float32) for level in (0, 255))
        return self.graph.node("Clip", (self + 0.5).apply("Floor"), zero, most, dtype=np.float32)

    def weighted_sum(self, weights: Sequence[float], planes: Sequence[int], axis: int) -> Expression:
        """The sum of these planes along an axis, each multiplied by its weight, from the first to the last."""
        pairs = zip(planes, weights, strict=True)
        return reduce(
            operator.add, (self.take(self.graph.constant([plane], np.int64), axis) * weight for plane, weight in pairs)
        )

    @property
    def onnx_type(self) -> int:
        """ONNX's number for the type."""
        return onnx_type(self.dtype)

    def _apply_binary(self, operator: str, other: Operand, dtype: ScalarType | None = None) -> Expression:
        """The result of an operator with two inputs, in the wider of their types."""
        if not isinstance(other, Expression):
            other = self.graph.constant_like(self, other)
        wider = max(self.dtype, other.dtype, key=_rank)
        return self.graph.node(operator, self.cast(wider), other.cast(wider), dtype=dtype or wider)


Operand = Expression | Number


class GraphWriter:
    """Writes nodes one after the other; all their names begin with a prefix that no other name has."""

    OPSET = 13
    """The first operator set in which all nodes written here have the intended meaning."""

    def __init__(self, prefix: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._outermost_nodes = self.nodes
        self._count = 0
        self._prefix = prefix
        self._constants: dict[tuple[bytes, str, tuple[int, ...]], Expression] = {}

    def make_name(self, ending: str) -> str:
        """A name that no other value has."""
        return f"{self._prefix}/{ending}"

    def node(
        self, operator: str, *inputs: Expression | None, dtype: ScalarType, output: str = "", **attributes: object
    ) -> Expression:
        """Writes a node with one output, with the given name if any. None is an omitted input."""
        return self.split(operator, *inputs, dtypes=(dtype,), output=output, **attributes)[0]

    def split(
        self,
        operator: str,
        *inputs: Expression | None,
        dtypes: tuple[ScalarType, ...],
        output: str = "",
        **attributes: Any,
    ) -> tuple[Expression, ...]:
        """Writes a node with several outputs, the first of which may be named."""
        from onnx import helper

        name = f"{self._prefix}/{operator}_{self._count}"
        self._count += 1
        names = [output or f"{name}/0", *(f"{name}/{index}" for index in range(1, len(dtypes)))]
        input_names = [value.name if value else "" for value in inputs]
        self.nodes.append(helper.make_node(operator, input_names, names, name, **attributes))
        return tuple(Expression(self, output_name, dtype) for output_name, dtype in zip(names, dtypes, strict=True))

    def constant(self, value: object, dtype: ScalarType) -> Expression:
        """A constant of numbers or texts in the model."""
        from onnx import helper, numpy_helper

        array = np.asarray(value, dtype if dtype is not np.str_ else object)
        # Keyed by spelling, because 0.0 and -0.0 are equal as keys, and NaN is not equal to itself.
        key = (repr(array.tolist()).encode(), dtype.__name__, array.shape)
        if key not in self._constants:
            if dtype is np.str_:
                texts = [text.encode() for text in array.flat]
                tensor = helper.make_tensor("", onnx_type(dtype), array.shape, texts)
            else:
                tensor = numpy_helper.from_array(array)
            # Not in the graph of a branch, which only its own nodes could read.
            branch_nodes = self.nodes
            self.nodes = self._outermost_nodes
            self._constants[key] = self.node("Constant", dtype=dtype, value=tensor)
            self.nodes = branch_nodes
        return self._constants[key]

    def constant_like(self, value: Expression, number: Number) -> Expression:
        """A number as a constant of a value's type; a fraction beside whole numbers becomes a float64."""
        is_wider = isinstance(number, float) and value.dtype is np.int64
        return self.constant(number, np.float64 if is_wider else value.dtype)

    def as_expression(self, operand: Operand) -> Expression:
        """A value as it is; a number as a constant."""
        if isinstance(operand, Expression):
            return operand
        return self.constant(operand, np.float64 if isinstance(operand, float) else np.int64)

    def vector(self, *numbers: Operand) -> Expression:
        """A vector of whole numbers."""
        if not any(isinstance(number, Expression) for number in numbers):
            return self.constant(numbers, np.int64)
        parts = [self.as_expression(number).reshape(1) for number in numbers]
        return self.node("Concat", *parts, dtype=np.int64, axis=0)

    def where(self, condition: Expression, if_true: Operand, if_false: Operand) -> Expression:
        """One of two values, element by element."""
        chosen, alternative = self.as_expression(if_true), self.as_expression(if_false)
        wider = max(chosen.dtype, alternative.dtype, key=_rank)
        return self.node("Where", condition, chosen.cast(wider), alternative.cast(wider), dtype=wider)

    def range(self, count: Expression) -> Expression:
        """0, 1, 2... as whole numbers."""
        zero, one = self.constant(0, np.int64), self.constant(1, np.int64)
        return self.node("Range", zero, count, one, dtype=np.int64)

    def loop(self, count: Expression, body: Callable[[Expression], Sequence[Expression]]) -> tuple[Expression, ...]:
        """Stacks the values that `body` makes of 0, 1, 2... along a new first axis. It can read all earlier values."""
        from onnx import TensorProto, helper

        index = self.make_name(f"index_{self._count}")
        goes_on = self.make_name(f"goes_on_{self._count}")
        inputs = [
            helper.make_tensor_value_info(index, TensorProto.INT64, []),
            helper.make_tensor_value_info(goes_on, TensorProto.BOOL, []),
        ]

        def write() -> tuple[Expression, ...]:
            return Expression(self, goes_on, np.bool_).apply("Identity"), *body(Expression(self, index, np.int64))

        graph, (_, *values) = self._write_subgraph(inputs, write)
        dtypes = tuple(value.dtype for value in values)
        return self.split("Loop", count, self.constant(True, np.bool_), dtypes=dtypes, body=graph)

    def either(
        self, condition: Expression, if_true: Callable[[], Expression], if_false: Callable[[], Expression]
    ) -> Expression:
        """One of two values, of which only that one is computed."""
        then_branch, (value,) = self._write_subgraph([], lambda: (if_true(),))
        else_branch, _ = self._write_subgraph([], lambda: (if_false(),))
        return self.node("If", condition, dtype=value.dtype, then_branch=then_branch, else_branch=else_branch)

    def _write_subgraph(
        self, inputs: Sequence[onnx.ValueInfoProto], write: Callable[[], tuple[Expression, ...]]
    ) -> tuple[onnx.GraphProto, tuple[Expression, ...]]:
        from onnx import helper

        outer_nodes = self.nodes
        self.nodes = []
        values = write()
        outputs = [helper.make_tensor_value_info(value.name, value.onnx_type, None) for value in values]
        graph = helper.make_graph(self.nodes, self.make_name(f"graph_{self._count}"), inputs, outputs)
        self.nodes = outer_nodes
        return graph, values


def onnx_type(dtype: ScalarType) -> int:
    """ONNX's number for a type."""
    from onnx import TensorProto, helper

    return TensorProto.STRING if dtype is np.str_ else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _rank(dtype: ScalarType) -> int:
    return _PROMOTION.index(dtype) if dtype in _PROMOTION else -1
