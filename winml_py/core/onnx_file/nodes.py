"""The nodes and small constants of a model's graph, for those who ask what it computes; large weights stay unread."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...errors import CorruptModelError
from .header import Header, ValueInfo, Weight
from .protobuf import BYTES, Buffer, fields

if TYPE_CHECKING:
    import onnx

SMALL = 1024
"""Bytes up to which a constant of any type is read. Integers are read whatever their size: they are tables, or few."""


class Graph(NamedTuple):
    """What a model computes.

    Attributes:
        inputs: those that a program binds.
        outputs: the names of its results.
        nodes: the main graph's, in the file's order, where each stands behind those that it needs.
        weights: the initializers, by name: integers and what is small as they are; of the others the types alone.
    """

    inputs: list[ValueInfo]
    outputs: frozenset[str]
    nodes: list[onnx.NodeProto]
    weights: dict[str, onnx.TensorProto]


def read_graph(buffer: Buffer, header: Header) -> Graph:
    """Reads the nodes of the graph.

    Args:
        buffer: a ModelProto.
        header: what `read_header` found in it.

    Raises:
        CorruptModelError: a node or a constant that is not one.
    """
    import onnx
    from google.protobuf.message import DecodeError

    weights = {weight.name: weight for weight in header.weights}
    inputs = [value for value in header.inputs if value.name not in weights]
    try:
        nodes = [
            onnx.NodeProto.FromString(buffer[item.value : item.end])
            for graph in header.graphs
            for item in fields(buffer, graph.value, graph.end)
            if item.number == 1 and item.wire_type == BYTES
        ]
        constants = {name: _tensor(buffer, weight) for name, weight in weights.items()}
        return Graph(inputs, frozenset(value.name for value in header.outputs), nodes, constants)
    except DecodeError as error:
        raise CorruptModelError(
            f"Failed to parse the model: {error}.", hint="The file was damaged on its way; compare its size."
        ) from error


def _tensor(buffer: Buffer, weight: Weight) -> onnx.TensorProto:
    import onnx

    if weight.field.end - weight.field.value <= SMALL or weight.element in (
        onnx.TensorProto.INT32,
        onnx.TensorProto.INT64,
    ):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(buffer[weight.field.value : weight.field.end])
        return tensor
    return onnx.TensorProto(name=weight.name, data_type=weight.element)
