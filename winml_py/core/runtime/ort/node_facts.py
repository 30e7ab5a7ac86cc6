"""What a graph tells of a node: its attributes, which inputs it is given, their shapes and constant numbers."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ...onnx_file.header import TensorType, ValueInfo
from ...onnx_file.nodes import ModelGraph

if TYPE_CHECKING:
    import onnx

    from ...base.arrays import Array

Shape = tuple[int | None, ...]
"""Sizes; None where one is not declared."""


class ValueFact(NamedTuple):
    """What is known of a value.

    Attributes:
        shape: its shape, or None.
        constant: the constant that it is, or None.
        elements: the shapes of the tensors of a sequence.
    """

    shape: Shape | None = None
    constant: onnx.TensorProto | None = None
    elements: tuple[Shape, ...] = ()


UNKNOWN = ValueFact()


class NodeFacts:
    """A node and what is known of what goes into it.

    Args:
        node: the node.
        values: by name; of a name that is not there nothing is known.
    """

    def __init__(self, node: onnx.NodeProto, values: Mapping[str, ValueFact]) -> None:
        self.node = node
        self._values = values

    @cached_property
    def _attributes(self) -> dict[str, Any]:
        from onnx import helper

        # What a function's caller decides is not known: None.
        return {
            attribute.name: None if attribute.ref_attr_name else helper.get_attribute_value(attribute)
            for attribute in self.node.attribute
            if attribute.type != attribute.GRAPH and attribute.type != attribute.GRAPHS
        }

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value; the default where it is not stated, None where it is not known."""
        return self._attributes.get(name, default)

    def is_given(self, *indices: int) -> bool:
        """Whether the node has all of these inputs."""
        return all(index < len(self.node.input) and bool(self.node.input[index]) for index in indices)

    def gives(self, *indices: int) -> bool:
        """Whether the node has all of these outputs."""
        return all(index < len(self.node.output) and bool(self.node.output[index]) for index in indices)

    def is_constant(self, *indices: int) -> bool:
        """Whether all of these inputs are constants."""
        return all(self.is_given(index) and self._fact(index).constant is not None for index in indices)

    def shape(self, index: int) -> Shape | None:
        """An input's shape; None where even its rank is not known."""
        return self._fact(index).shape

    def rank(self, index: int) -> int | None:
        """How many dimensions an input has; None where that is not known."""
        shape = self.shape(index)
        return None if shape is None else len(shape)

    def size(self, index: int, place: int) -> int | None:
        """One of an input's sizes; None where it is not known."""
        shape = self.shape(index)
        return shape[place] if shape is not None and -len(shape) <= place < len(shape) else None

    def elements(self, index: int) -> tuple[Shape, ...]:
        """The shapes of the tensors of a sequence, as far as it is known; () of other inputs."""
        return self._fact(index).elements

    def is_empty(self, *indices: int) -> bool:
        """Whether one of these inputs is known to have no elements."""
        return any(0 in (self.shape(index) or ()) for index in indices)

    def count(self, index: int) -> int | None:
        """How many elements an input has; None where that is not known."""
        product = 1
        for size in self.shape(index) or (None,) * (self.rank(index) is None):
            if size is None:
                return None
            product *= size
        return product

    def numbers(self, index: int) -> Array | None:
        """The constant that an input is, where it is kept; None of others."""
        from onnx import numpy_helper

        tensor = self._fact(index).constant
        has_data = tensor is not None and any(
            getattr(tensor, name) for name in ("raw_data", "int32_data", "int64_data", "float_data", "double_data")
        )
        return numpy_helper.to_array(tensor) if tensor is not None and has_data else None

    def takes(self, names: Container[str]) -> bool:
        """Whether one of its inputs has one of these names."""
        return any(name in names for name in self.node.input)

    def with_facts(self, facts: Mapping[str, ValueFact]) -> NodeFacts:
        """The same node, where more is known."""
        names = self.node.input
        known = {name: self._values[name] for name in names if name in self._values}
        return NodeFacts(self.node, known | {name: facts[name] for name in names if name in facts})

    def _fact(self, index: int) -> ValueFact:
        return self._values.get(self.node.input[index], UNKNOWN) if self.is_given(index) else UNKNOWN


def nodes_with_facts(graph: ModelGraph) -> Iterator[NodeFacts]:
    """The nodes of a graph, of its subgraphs and of the model's own functions, with what is known of their inputs."""
    values = {value.name: ValueFact(shape_of(value)) for value in graph.inputs}
    values |= {name: ValueFact(tuple(tensor.dims), tensor) for name, tensor in graph.weights.items()}
    yield from _nodes(graph.nodes, values)
    for function in graph.functions:
        yield from _nodes(function, {})


def _nodes(nodes: Any, outer: Mapping[str, ValueFact]) -> Iterator[NodeFacts]:
    values = dict(outer)
    for node in nodes:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and node.output:
            values[node.output[0]] = _constant(node)
        yield NodeFacts(node, values)
        for attribute in node.attribute:
            for body in (
                (attribute.g, *attribute.graphs) if attribute.type in (attribute.GRAPH, attribute.GRAPHS) else ()
            ):
                inner = {tensor.name: ValueFact(tuple(tensor.dims), tensor) for tensor in body.initializer}
                hidden = {value.name: UNKNOWN for value in body.input}
                yield from _nodes(body.node, values | hidden | inner)


def _constant(node: onnx.NodeProto) -> ValueFact:
    import numpy as np
    from onnx import helper, numpy_helper

    for attribute in node.attribute:
        if attribute.name == "value" and not attribute.ref_attr_name:
            return ValueFact(tuple(attribute.t.dims), attribute.t)
        if attribute.name in ("value_int", "value_ints", "value_float", "value_floats"):
            dtype = np.int64 if "int" in attribute.name else np.float32
            tensor = numpy_helper.from_array(np.asarray(helper.get_attribute_value(attribute), dtype))
            return ValueFact(tuple(tensor.dims), tensor)
    return UNKNOWN


def shape_of(value: ValueInfo) -> Shape | None:
    """The shape that an input declares; None where it declares not even its rank."""
    if not isinstance(value.type, TensorType) or value.type.dimensions is None:
        return None
    # A size below 0 is one that is not known, as some exporters write it.
    sizes = (dimension.value for dimension in value.type.dimensions)
    return tuple(None if size is None or size < 0 else size for size in sizes)
