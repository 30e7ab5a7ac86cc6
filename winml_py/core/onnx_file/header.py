"""Reads an ONNX file's description in place: header, feature types, and where the weights are.

`read_header` walks the file's wire format over a memory map and never touches the weights:
a 512 MB model takes milliseconds and no memory. `cut_weights` writes the same model
with its weights replaced by references into the file they came from, for an engine that maps them.
Field numbers are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from ...errors import CorruptModelError
from .protobuf import (
    BYTES,
    LOCATION,
    MAX_NESTING,
    VARINT,
    Field,
    ModelBytes,
    encode_field,
    encode_varint,
    find_tensors,
    make_corrupt_error,
    read_fields,
)

MIN_WEIGHT_SIZE = 1024  # bytes; smaller initializers stay in the skeleton, where shapes and scalars are looked up

# TensorProto's data fields whose bytes are the little-endian elements in order.
_DATA = (4, 9, 10)  # the numbers of float_data, raw_data and double_data


class Dimension(NamedTuple):
    """One dimension of a tensor type: a number, or a name, or neither."""

    value: int | None = None
    name: str = ""
    denotation: str = ""


class TensorType(NamedTuple):
    """A tensor's element type (ONNX's number, 0 if unknown) and dimensions; `None` where the rank is unknown."""

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
    """A type without a descriptor in Windows ML; `name` is ONNX's word for it."""

    name: str


OnnxType = TensorType | SequenceType | MapType | OtherType

UNKNOWN = TensorType(0, None)
"""The type of an output that the file only names. An engine knows it: inner values are often made outputs this way."""


class ValueInfo(NamedTuple):
    """A named, typed input or output of the graph."""

    name: str
    description: str
    type: OnnxType


class Weight(NamedTuple):
    """An initializer of the graph: its name, and where its bytes are in the file."""

    name: str
    field: Field  # the whole TensorProto
    data: Field | None  # its elements, if contiguous; None when packed otherwise or external
    location: str = ""  # the external file that holds the elements, as the model names it
    element: int = 0  # onnx.TensorProto.DataType
    end: int = 0  # where its elements end in the external file, if the model states it

    @property
    def size(self) -> int:
        """Bytes of the elements in this file."""
        return self.data.end - self.data.value if self.data else 0


_NO_GRAPH = Field(7, BYTES, 0, 0, 0)


class Header:
    """Everything in a model except its nodes and weights."""

    def __init__(self) -> None:
        self.ir_version = 0
        self.producer_name = ""
        self.domain = ""
        self.model_version = 0
        self.doc_string = ""
        self.graph_name = ""
        self.opsets: dict[str, int] = {}
        self.metadata: dict[str, str] = {}
        self.inputs: list[ValueInfo] = []
        self.input_fields: list[tuple[str, Field]] = []
        self.outputs: list[ValueInfo] = []
        self.weights: list[Weight] = []
        self.graph = _NO_GRAPH


def read_header(buffer: ModelBytes) -> Header:
    """Reads the ModelProto in `buffer`, without its nodes and weights."""
    header = Header()
    for item in read_fields(buffer, 0, len(buffer)):
        match item.number:  # the numbers of ModelProto's fields in onnx.proto
            case 1:
                header.ir_version = item.read_signed()
            case 2:
                header.producer_name = item.read_text(buffer)
            case 4:
                header.domain = item.read_text(buffer)
            case 5:
                header.model_version = item.read_signed()
            case 6:
                header.doc_string = item.read_text(buffer)
            case 7:
                _read_graph(buffer, item, header)
            case 8:
                opset = _read_parts(buffer, item)
                header.opsets[_read_text(buffer, opset, 1)] = opset[2].read_signed() if 2 in opset else 0
            case 14:
                key, value = _read_key_value(buffer, item)
                header.metadata[key] = value
    if header.graph is _NO_GRAPH:
        raise CorruptModelError(
            f"Failed to parse the model: {len(buffer):,} bytes contain no graph.",
            hint="Check that the file is an ONNX model, and that it is not empty.",
        )
    return header


def _read_graph(buffer: ModelBytes, graph: Field, header: Header) -> None:
    graph.require(BYTES)
    if header.graph is not _NO_GRAPH:
        raise make_corrupt_error(f"a second graph begins at byte {graph.tag}")
    header.graph = graph
    for item in read_fields(buffer, graph.value, graph.end):
        match item.number:
            case 1:
                item.require(BYTES)  # a node
            case 2:
                header.graph_name = item.read_text(buffer)
            case 5:
                header.weights.append(_read_weight(buffer, item))
            case 11:
                value = _read_value_info(buffer, item)
                header.inputs += [value] if value and value.name else []
                header.input_fields.append((value.name if value else "", item))
            case 12:
                value = _read_value_info(buffer, item, UNKNOWN)
                header.outputs += [value] if value and value.name else []


def _read_weight(buffer: ModelBytes, tensor: Field) -> Weight:
    tensor.require(BYTES)
    name, element = "", 0
    external: dict[str, str] = {}
    data: list[Field] = []
    for item in read_fields(buffer, tensor.value, tensor.end):
        if item.number == 8:
            name = item.read_text(buffer)
        elif item.number == 2 and item.wire_type == VARINT:
            element = item.value
        elif item.number == 13:
            key, value = _read_key_value(buffer, item)
            external[key] = value or external.get(key, "")  # ONNX Runtime passes over empty ones
        elif item.number in _DATA:
            data.append(item)
    is_in_a_row = len(data) == 1 and data[0].wire_type == BYTES and data[0].end > data[0].value
    end = 0
    with suppress(ValueError):  # the engine reports words that are no numbers
        end = int(external["length"]) + int(external.get("offset", "0")) if "length" in external else 0
    return Weight(name, tensor, data[0] if is_in_a_row else None, external.get(LOCATION, ""), element, end)


def _read_parts(buffer: ModelBytes, message: Field) -> dict[int, Field]:
    """The fields of a message by number; of repeated ones the last, as in protobuf."""
    message.require(BYTES)
    return {item.number: item for item in read_fields(buffer, message.value, message.end)}


def _read_text(buffer: ModelBytes, parts: dict[int, Field], number: int) -> str:
    return parts[number].read_text(buffer) if number in parts else ""


def _read_value_info(buffer: ModelBytes, info: Field, default: OnnxType | None = None) -> ValueInfo | None:
    """A value, of the default type if it has none; None without either: an input without a type cannot be bound."""
    parts = _read_parts(buffer, info)
    kind = (_read_type(buffer, parts[2]) if 2 in parts else None) or default
    return ValueInfo(_read_text(buffer, parts, 1), _read_text(buffer, parts, 3), kind) if kind is not None else None


_OTHER_TYPES = {7: "opaque", 8: "sparse_tensor", 9: "optional"}


def _read_type(buffer: ModelBytes, proto: Field, nesting: int = 0) -> OnnxType | None:
    if nesting > MAX_NESTING:
        raise make_corrupt_error(f"a type is nested more than {MAX_NESTING} deep")
    parts = _read_parts(buffer, proto)
    if tensor := parts.get(1):
        return _read_tensor_type(buffer, tensor, _read_text(buffer, parts, 6))
    if sequence := parts.get(4):
        return SequenceType(_read_inner_type(buffer, _read_parts(buffer, sequence), 1, nesting))
    if mapping := parts.get(5):
        inner = _read_parts(buffer, mapping)
        return MapType(inner[1].read_signed() if 1 in inner else 0, _read_inner_type(buffer, inner, 2, nesting))
    return next((OtherType(name) for number, name in _OTHER_TYPES.items() if number in parts), None)


def _read_inner_type(buffer: ModelBytes, parts: dict[int, Field], number: int, nesting: int) -> OnnxType:
    inner = _read_type(buffer, parts[number], nesting + 1) if number in parts else None
    return inner or OtherType("untyped")


def _read_tensor_type(buffer: ModelBytes, proto: Field, denotation: str) -> TensorType:
    parts = _read_parts(buffer, proto)
    dimensions = None
    if shape := parts.get(2):
        shape.require(BYTES)
        shape_fields = read_fields(buffer, shape.value, shape.end)
        dimensions = tuple(_read_dimension(buffer, dimension) for dimension in shape_fields if dimension.number == 1)
    return TensorType(parts[1].read_signed() if 1 in parts else 0, dimensions, denotation)


def _read_dimension(buffer: ModelBytes, proto: Field) -> Dimension:
    parts = _read_parts(buffer, proto)
    name = _read_text(buffer, parts, 2)
    # Paddle's exporter calls every unknown size "?": these sizes have no name, and may differ.
    return Dimension(
        parts[1].read_signed() if 1 in parts else None, "" if name == "?" else name, _read_text(buffer, parts, 3)
    )


def _read_key_value(buffer: ModelBytes, proto: Field) -> tuple[str, str]:
    parts = _read_parts(buffer, proto)
    return _read_text(buffer, parts, 1), _read_text(buffer, parts, 2)


def find_external_weights(buffer: ModelBytes) -> Iterator[Weight]:
    """Yields the tensors kept in other files: of all graphs, attributes and functions."""
    for tensor in find_tensors(buffer, "model", 0, len(buffer)):
        weight = _read_weight(buffer, tensor)
        if weight.location:
            yield weight


def has_replaceable_weights(header: Header) -> bool:
    """Whether weights are also listed as inputs, so that an engine treats them as defaults that a run may replace.

    Before version 4 of ONNX's file format all of them were listed, and no engine treats them so.
    """
    names = {weight.name for weight in header.weights}
    return header.ir_version >= 4 and any(name in names for name, _ in header.input_fields)


def cut_weights(buffer: ModelBytes, header: Header, location: str) -> bytes:
    """Writes the model in `buffer` for an engine: its weights cannot be replaced, and the large ones are references.

    Windows ML has no inputs for weights, so no program binds one. An engine that must expect it neither folds nor
    arranges them: their entries among the inputs are left out. `location` is the file that holds `buffer`, relative to
    the engine's folder; "" leaves the weights in place.
    """
    names = {weight.name for weight in header.weights} if has_replaceable_weights(header) else set()
    edits = [(field, b"") for name, field in header.input_fields if name in names]
    if location:
        edits += [
            (weight.field, encode_field(5, _encode_external_tensor(buffer, weight.field, weight.data, location)))
            for weight in header.weights
            if weight.data is not None and weight.size >= MIN_WEIGHT_SIZE
        ]
    graph, pieces = header.graph, list[bytes]()
    position = graph.value
    for field, replacement in sorted(edits, key=lambda edit: edit[0].tag):
        pieces += (buffer[position : field.tag], replacement)
        position = field.end
    body = b"".join((*pieces, buffer[position : graph.end]))
    return buffer[: graph.tag] + encode_field(7, body) + buffer[graph.end :]


def _encode_external_tensor(buffer: ModelBytes, tensor: Field, data: Field, location: str) -> bytes:
    entries = {"location": location, "offset": str(data.value), "length": str(data.end - data.value)}
    pieces = [buffer[tensor.value : data.tag], buffer[data.end : tensor.end]]
    for key, value in entries.items():
        pieces.append(encode_field(13, encode_field(1, key.encode()) + encode_field(2, value.encode())))
    pieces.append(encode_varint(14 << 3) + encode_varint(1))  # data_location = EXTERNAL
    return b"".join(pieces)
