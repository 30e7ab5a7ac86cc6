"""The nodes of a model's graph; its weights stay unread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

from ...errors import CorruptModelError
from .header import Header, ValueInfo
from .protobuf import BYTES, ModelBytes, read_fields

if TYPE_CHECKING:
    import onnx
    from google.protobuf.message import Message


class ModelGraph(NamedTuple):
    """What a model computes.

    Attributes:
        inputs: those that a program binds.
        outputs: the names of its results.
        nodes: the main graph's, in the file's order, each after those that it needs.
    """

    inputs: list[ValueInfo]
    outputs: frozenset[str]
    nodes: list[onnx.NodeProto]


def read_graph(buffer: ModelBytes, header: Header) -> ModelGraph:
    """Reads the nodes of a model's graph; the header has been read before."""
    import onnx
    from google.protobuf.message import DecodeError

    weights = {weight.name for weight in header.weights}
    inputs = [value for value in header.inputs if value.name not in weights]
    try:
        nodes = [
            onnx.NodeProto.FromString(buffer[item.value : item.end])
            for item in read_fields(buffer, header.graph.value, header.graph.end)
            if item.number == 1 and item.wire_type == BYTES
        ]
        return ModelGraph(inputs, frozenset(value.name for value in header.outputs), nodes)
    except DecodeError as error:
        raise CorruptModelError(
            f"Failed to parse the model: {error}.",
            hint="The file may be damaged. Compare its size with that of the original.",
        ) from error


# Walking an ONNX model that `onnx` has parsed.


def walk_messages(message: Message) -> Iterator[Message]:
    """A message and all messages in it: nodes, attributes, types, weights, in every graph and function."""
    from google.protobuf.message import Message
    from onnx import TensorProto

    yield message
    # A tensor's fields are not listed, which would copy its weights.
    for field, value in () if isinstance(message, TensorProto) else message.ListFields():
        if field.message_type is not None:
            for held in [value] if isinstance(value, Message) else value:
                yield from walk_messages(held)


def embed_weight(weight: onnx.TensorProto, files: Mapping[str, bytes]) -> None:
    """Moves a weight's elements into its message, if they are in one of these files, by their names in the model."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    if uses_external_data(weight) and (stored := ExternalDataInfo(weight)).location in files:
        start = stored.offset or 0
        weight.raw_data = files[stored.location][start : None if stored.length is None else start + stored.length]
        weight.ClearField("external_data")
        weight.ClearField("data_location")


# The order of nodes.


def sort_places(nodes: Sequence[onnx.NodeProto], needs: Sequence[Iterable[str]]) -> list[int]:
    """An order in which each node follows those that make the values that it needs: the places of the nodes.

    Raises:
        CycleError: nodes need each other's outputs in a cycle; the second argument has their places.
    """
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    waits_for = {place: [makers[name] for name in names if name in makers] for place, names in enumerate(needs)}
    return list(TopologicalSorter(waits_for).static_order())
