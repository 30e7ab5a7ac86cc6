"""What an ONNX file says of itself, read in place: header, feature types, where the weights stand.

`read_header` walks the file's wire format over a memory map and never touches the weights:
a 512 MB model takes milliseconds and no memory. `cut_weights` writes the same model
with its weights replaced by references into the file they came from, for an engine that maps them.
Field numbers are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..errors import CorruptModelError
from .protobuf import BYTES, VARINT, Buffer, Field, corrupt, encode_field, encode_varint, fields

MAX_TYPE_NESTING = 16
MIN_WEIGHT_SIZE = 1024  # bytes; smaller initializers stay in the skeleton, where shapes and scalars are looked up

# TensorProto's data fields whose bytes are already the little-endian elements in a row.
_FLOAT_DATA, _RAW_DATA, _DOUBLE_DATA = 4, 9, 10


class Dimension(NamedTuple):
    """One dimension of a tensor type: a number, or a name, or neither."""

    value: int | None = None
    name: str = ""
    denotation: str = ""


class TensorType(NamedTuple):
    """A tensor's element type (ONNX's number) and dimensions; `None` where the rank is unknown."""

    element: int
    dimensions: tuple[Dimension, ...] | None
    denotation: str = ""


class SequenceType(NamedTuple):
    """A list of values of one type."""

    element: OnnxType


class MapType(NamedTuple):
    """A map from keys (ONNX's element number) to values of one type."""

    key: int
    value: OnnxType


class OtherType(NamedTuple):
    """A type that Windows ML has no descriptor for; `name` is ONNX's word for it."""

    name: str


OnnxType = TensorType | SequenceType | MapType | OtherType


class ValueInfo(NamedTuple):
    """A named, typed input or output of the graph."""

    name: str
    description: str
    type: OnnxType


class Weight(NamedTuple):
    """An initializer of the graph: its name and where its bytes stand in the file."""

    name: str
    field: Field  # the whole TensorProto
    data: Field | None  # its elements, where they stand in a row; None when packed otherwise or external
    location: str = ""  # the external file that holds the elements, as the model names it
    element: int = 0  # onnx.TensorProto.DataType

    @property
    def size(self) -> int:
        """Bytes of the elements in this file."""
        return self.data.end - self.data.value if self.data else 0


class Header:
    """All of a model but its nodes and weights."""

    def __init__(self) -> None:
        self.ir_version = 0
        self.producer_name = ""
        self.producer_version = ""
        self.domain = ""
        self.model_version = 0
        self.doc_string = ""
        self.graph_name = ""
        self.opsets: dict[str, int] = {}
        self.metadata: dict[str, str] = {}
        self.inputs: list[ValueInfo] = []
        self.outputs: list[ValueInfo] = []
        self.weights: list[Weight] = []
        self.node_count = 0
        self.graph: Field | None = None


def read_header(buffer: Buffer) -> Header:
    """Reads a ModelProto that stands in `buffer`, without its nodes and weights.

    Raises:
        CorruptModelError: the bytes are not a ModelProto with a graph.
    """
    header = Header()
    for item in fields(buffer, 0, len(buffer)):
        match item.number:
            case 1:
                header.ir_version = item.signed()
            case 2:
                header.producer_name = item.text(buffer)
            case 3:
                header.producer_version = item.text(buffer)
            case 4:
                header.domain = item.text(buffer)
            case 5:
                header.model_version = item.signed()
            case 6:
                header.doc_string = item.text(buffer)
            case 7:
                _read_graph(buffer, item, header)
            case 8:
                domain, version = _opset(buffer, item)
                header.opsets[domain] = version
            case 14:
                key, value = _key_value(buffer, item)
                header.metadata[key] = value
    if header.graph is None:
        raise CorruptModelError(
            f"Failed to parse the model: {len(buffer):,} bytes hold no graph.",
            hint="An ONNX model has one; is this another kind of file, or an empty one?",
        )
    return header


def _read_graph(buffer: Buffer, graph: Field, header: Header) -> None:
    graph.require(BYTES)
    header.graph = graph
    for item in fields(buffer, graph.value, graph.end):
        match item.number:
            case 1:
                item.require(BYTES)
                header.node_count += 1
            case 2:
                header.graph_name = item.text(buffer)
            case 5:
                header.weights.append(_weight(buffer, item))
            case 11:
                _append_named(header.inputs, _value_info(buffer, item))
            case 12:
                _append_named(header.outputs, _value_info(buffer, item))


def _append_named(values: list[ValueInfo], value: ValueInfo | None) -> None:
    if value is not None and value.name:
        values.append(value)


def _weight(buffer: Buffer, tensor: Field) -> Weight:
    tensor.require(BYTES)
    name, location, element = "", "", 0
    data: Field | None = None
    for item in fields(buffer, tensor.value, tensor.end):
        if item.number == 8:
            name = item.text(buffer)
        elif item.number == 2 and item.wire_type == VARINT:
            element = item.value
        elif (
            item.number in (_FLOAT_DATA, _RAW_DATA, _DOUBLE_DATA) and item.wire_type == BYTES and item.end > item.value
        ):
            data = item
        elif item.number == 13:
            key, value = _key_value(buffer, item)
            location = value if key == "location" else location
    return Weight(name, tensor, data, location, element)


def _value_info(buffer: Buffer, info: Field) -> ValueInfo | None:
    """A value without a type says nothing that could be bound: None, as Windows ML skips it."""
    info.require(BYTES)
    name, description, kind = "", "", None
    for item in fields(buffer, info.value, info.end):
        if item.number == 1:
            name = item.text(buffer)
        elif item.number == 2:
            kind = _type(buffer, item)
        elif item.number == 3:
            description = item.text(buffer)
    return ValueInfo(name, description, kind) if kind is not None else None


_OTHER_TYPES = {7: "opaque", 8: "sparse_tensor", 9: "optional"}


def _type(buffer: Buffer, proto: Field, nesting: int = 0) -> OnnxType | None:
    proto.require(BYTES)
    if nesting > MAX_TYPE_NESTING:
        raise corrupt(f"a type is nested more than {MAX_TYPE_NESTING} deep")
    parts = {item.number: item for item in fields(buffer, proto.value, proto.end)}
    if tensor := parts.get(1):
        denotation = parts[6].text(buffer) if 6 in parts else ""
        return _tensor_type(buffer, tensor, denotation)
    if sequence := parts.get(4):
        return SequenceType(_inner_type(buffer, sequence, 1, nesting))
    if mapping := parts.get(5):
        mapping.require(BYTES)
        keys = [item.signed() for item in fields(buffer, mapping.value, mapping.end) if item.number == 1]
        return MapType(keys[-1] if keys else 0, _inner_type(buffer, mapping, 2, nesting))
    return next((OtherType(name) for number, name in _OTHER_TYPES.items() if number in parts), None)


def _inner_type(buffer: Buffer, outer: Field, number: int, nesting: int) -> OnnxType:
    outer.require(BYTES)
    inner = None
    for item in fields(buffer, outer.value, outer.end):
        if item.number == number:
            inner = _type(buffer, item, nesting + 1)
    return inner or OtherType("untyped")


def _tensor_type(buffer: Buffer, proto: Field, denotation: str) -> TensorType:
    proto.require(BYTES)
    element, dimensions = 0, None
    for item in fields(buffer, proto.value, proto.end):
        if item.number == 1:
            element = item.signed()
        elif item.number == 2:
            item.require(BYTES)
            shape = fields(buffer, item.value, item.end)
            dimensions = tuple(_dimension(buffer, dim) for dim in shape if dim.number == 1)
    return TensorType(element, dimensions, denotation)


def _dimension(buffer: Buffer, proto: Field) -> Dimension:
    proto.require(BYTES)
    value, name, denotation = None, "", ""
    for item in fields(buffer, proto.value, proto.end):
        if item.number == 1:
            value = item.signed()
        elif item.number == 2:
            name = item.text(buffer)
        elif item.number == 3:
            denotation = item.text(buffer)
    return Dimension(value, name, denotation)


def _opset(buffer: Buffer, proto: Field) -> tuple[str, int]:
    proto.require(BYTES)
    domain, version = "", 0
    for item in fields(buffer, proto.value, proto.end):
        if item.number == 1:
            domain = item.text(buffer)
        elif item.number == 2:
            version = item.signed()
    return domain, version


def _key_value(buffer: Buffer, proto: Field) -> tuple[str, str]:
    proto.require(BYTES)
    key, value = "", ""
    for item in fields(buffer, proto.value, proto.end):
        if item.number == 1:
            key = item.text(buffer)
        elif item.number == 2:
            value = item.text(buffer)
    return key, value


def external_locations(buffer: Buffer) -> Iterator[tuple[str, str]]:
    """Names the tensors that are kept in other files, and those files: of graphs, subgraphs, attributes and functions.

    Raises:
        CorruptModelError: subgraphs nested too deep to be meant.
    """
    for item in fields(buffer, 0, len(buffer)):
        if item.number == 7 and item.wire_type == BYTES:
            yield from _graph_locations(buffer, item, 0)
        elif item.number == 25 and item.wire_type == BYTES:  # a function
            for node in fields(buffer, item.value, item.end):
                if node.number == 7 and node.wire_type == BYTES:
                    yield from _node_locations(buffer, node, 0)


def _graph_locations(buffer: Buffer, graph: Field, nesting: int) -> Iterator[tuple[str, str]]:
    if nesting > MAX_TYPE_NESTING:
        raise corrupt(f"subgraphs are nested more than {MAX_TYPE_NESTING} deep")
    for item in fields(buffer, graph.value, graph.end):
        if item.number == 5:
            yield from _location(buffer, item)
        elif item.number == 15 and item.wire_type == BYTES:
            yield from _sparse_locations(buffer, item)
        elif item.number == 1:
            yield from _node_locations(buffer, item, nesting)


def _node_locations(buffer: Buffer, node: Field, nesting: int) -> Iterator[tuple[str, str]]:
    for attribute in fields(buffer, node.value, node.end):
        if attribute.number == 5 and attribute.wire_type == BYTES:
            yield from _attribute_locations(buffer, attribute, nesting)


def _sparse_locations(buffer: Buffer, sparse: Field) -> Iterator[tuple[str, str]]:
    for item in fields(buffer, sparse.value, sparse.end):
        if item.wire_type == BYTES and item.number in (1, 2):  # its values, and where they are
            yield from _location(buffer, item)


def _attribute_locations(buffer: Buffer, attribute: Field, nesting: int) -> Iterator[tuple[str, str]]:
    for item in fields(buffer, attribute.value, attribute.end):
        if item.wire_type == BYTES and item.number in (5, 10):  # a tensor, or one of several
            yield from _location(buffer, item)
        elif item.wire_type == BYTES and item.number in (6, 11):  # a graph, or one of several
            yield from _graph_locations(buffer, item, nesting + 1)
        elif item.wire_type == BYTES and item.number in (22, 23):  # a sparse tensor, or one of several
            yield from _sparse_locations(buffer, item)


def _location(buffer: Buffer, tensor: Field) -> Iterator[tuple[str, str]]:
    weight = _weight(buffer, tensor)
    if weight.location:
        yield weight.name, weight.location


def cut_weights(buffer: Buffer, header: Header, location: str) -> bytes:
    """Writes the model in `buffer` with its large initializers as references into `location`.

    Args:
        buffer: the ModelProto that `header` was read from.
        header: what `read_header` found in it.
        location: the name of the file that holds `buffer`, relative to the folder the engine is told.

    Returns:
        A ModelProto without weights: the caller's own bytes, nothing of `buffer` is referred to.
    """
    assert header.graph is not None
    pieces: list[bytes] = []
    position = header.graph.value
    for weight in header.weights:
        if weight.size >= MIN_WEIGHT_SIZE:
            pieces.append(buffer[position : weight.field.tag])
            pieces.append(encode_field(5, _external_tensor(buffer, weight, location)))
            position = weight.field.end
    pieces.append(buffer[position : header.graph.end])
    graph = encode_field(7, b"".join(pieces))
    return b"".join((buffer[: header.graph.tag], graph, buffer[header.graph.end :]))


def _external_tensor(buffer: Buffer, weight: Weight, location: str) -> bytes:
    assert weight.data is not None
    data = weight.data
    entries = {"location": location, "offset": str(data.value), "length": str(data.end - data.value)}
    pieces = [buffer[weight.field.value : data.tag], buffer[data.end : weight.field.end]]
    for key, value in entries.items():
        pieces.append(encode_field(13, encode_field(1, key.encode()) + encode_field(2, value.encode())))
    pieces.append(encode_varint(14 << 3) + encode_varint(1))  # data_location = EXTERNAL
    return b"".join(pieces)
