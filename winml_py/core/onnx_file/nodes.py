"""The nodes and small constants of a model's graph, for those who ask what it computes; large weights stay unread."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

from ...errors import CorruptModelError, InvalidArgumentError
from .header import Header, ValueInfo, Weight
from .protobuf import BYTES, VARINT, ModelBytes, fields, varint

if TYPE_CHECKING:
    import onnx
    from google.protobuf.message import Message


SMALL = 1024
"""Bytes up to which a constant of any type is read. Integers are read whatever their size: they are tables, or few."""


class ModelGraph(NamedTuple):
    """What a model computes.

    Attributes:
        inputs: those that a program binds.
        outputs: the names of its results.
        nodes: the main graph's, in the file's order, where each stands behind those that it needs.
        weights: the initializers, by name: integers and what is small as they are; of the others types and sizes alone.
    """

    inputs: list[ValueInfo]
    outputs: frozenset[str]
    nodes: list[onnx.NodeProto]
    weights: dict[str, onnx.TensorProto]


def read_graph(buffer: ModelBytes, header: Header) -> ModelGraph:
    """Reads the nodes of the graph of a model, whose header was read before."""
    import onnx
    from google.protobuf.message import DecodeError

    weights = {weight.name: weight for weight in header.weights}
    inputs = [value for value in header.inputs if value.name not in weights]
    try:
        nodes = [
            onnx.NodeProto.FromString(buffer[item.value : item.end])
            for item in fields(buffer, header.graph.value, header.graph.end)
            if item.number == 1 and item.wire_type == BYTES
        ]
        constants = {name: _tensor(buffer, weight) for name, weight in weights.items()}
        return ModelGraph(inputs, frozenset(value.name for value in header.outputs), nodes, constants)
    except DecodeError as error:
        raise CorruptModelError(
            f"Failed to parse the model: {error}.", hint="The file was damaged on its way; compare its size."
        ) from error


def _tensor(buffer: ModelBytes, weight: Weight) -> onnx.TensorProto:
    import onnx

    if weight.field.end - weight.field.value <= SMALL or weight.element in (
        onnx.TensorProto.INT32,
        onnx.TensorProto.INT64,
    ):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(buffer[weight.field.value : weight.field.end])
        return tensor
    sizes = []
    for item in fields(buffer, weight.field.value, weight.field.end):
        if item.number == 1 and item.wire_type == VARINT:
            sizes.append(item.signed())
        elif item.number == 1 and item.wire_type == BYTES:  # several in a row
            position = item.value
            while position < item.end:
                size, position = varint(buffer, position, item.end)
                sizes.append(size)
    return onnx.TensorProto(name=weight.name, data_type=weight.element, dims=sizes)


# Walking an ONNX model that `onnx` has parsed.


def messages(message: Message) -> Iterator[Message]:
    """A message and all that it holds: nodes, attributes, types, weights, in every graph and function."""
    from google.protobuf.message import Message
    from onnx import TensorProto

    yield message
    for field, value in () if isinstance(message, TensorProto) else message.ListFields():  # which would copy weights
        if field.message_type is not None:
            for held in [value] if isinstance(value, Message) else value:
                yield from messages(held)


# The order of nodes.


def sort_places(nodes: Sequence[onnx.NodeProto], needs: Sequence[Iterable[str]]) -> list[int]:
    """An order in which each node stands behind those that make the values that it needs: the places of the nodes.

    Raises:
        CycleError: nodes need each other's outputs in a circle; the second argument has their places.
    """
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    waits_for = {place: [makers[name] for name in names if name in makers] for place, names in enumerate(needs)}
    return list(TopologicalSorter(waits_for).static_order())


def convert_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """A copy of a model with its nodes brought to a version of ONNX's own operator set, by onnx's converter.

    The converter loses denotations, functions and metadata, and what inference had found is no longer true of it: so
    its nodes and weights are taken, and the rest is the model's.

    Raises:
        ValueError: the converter cannot convert the model, or what it made does not hold together; in its own words.
    """
    import onnx
    from onnx import shape_inference, version_converter

    result = onnx.ModelProto()
    result.CopyFrom(model)
    # Before version 4 of the format all weights are inputs, too. Runtimes take models where they are not; the converter
    # does not.
    result.ir_version = max(result.ir_version, 4)
    try:
        converted = version_converter.convert_version(result, version)
        onnx.checker.check_model(converted)
        shape_inference.infer_shapes(converted, strict_mode=True)
    except Exception as error:  # of many classes, RuntimeError and IndexError among them
        raise ValueError((str(error).strip().splitlines() or ["it says nothing"])[0]) from error
    for field in ("node", "initializer"):
        result.graph.ClearField(field)
        getattr(result.graph, field).extend(getattr(converted.graph, field))
    result.graph.ClearField("value_info")
    del result.opset_import[:]
    result.opset_import.extend(converted.opset_import)
    return result


def read_for_copy(source: str | os.PathLike[str], destination: str | os.PathLike[str]) -> onnx.ModelProto:
    """Reads a model without its external weights, for a copy in the same folder, which refers to the same files."""
    import onnx

    model = onnx.load(source, load_external_data=False)
    folders = {os.path.dirname(os.path.abspath(path)) for path in (source, destination)}
    if len(folders) > 1 and has_external_weights(model):
        raise InvalidArgumentError(
            f"The weights of {os.fspath(source)} lie in files beside it, and the copy is to lie elsewhere.",
            hint="Write the copy into the same folder.",
        )
    return model


def has_external_weights(model: onnx.ModelProto) -> bool:
    """Whether a weight of any graph lies in another file."""
    from onnx import TensorProto

    tensors = (part for part in messages(model) if isinstance(part, TensorProto))
    return any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors)
