"""Reading protobuf's wire format in place, without a schema and without copies.

A field is a tag (number and wire type) and a value. Values of wire type 2 (strings, bytes,
messages, packed numbers) are yielded as their place in the buffer, so that a walk over a
memory-mapped file of many gigabytes touches only the pages that hold tags.
The format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from mmap import mmap
from typing import NamedTuple

from ...errors import CorruptModelError

ModelBytes = bytes | mmap

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

MAX_PROTOBUF_BYTES = 1_900_000_000
"""From this many bytes on, weights go to a file next to the model: protobuf's own limit is 2 GiB."""


class Field(NamedTuple):
    """One field of a message. `value` is a number, or for `BYTES` where the value starts."""

    number: int
    wire_type: int
    value: int
    tag: int  # offset of the first byte of its tag
    end: int  # offset after the last byte of its value

    def read_text(self, buffer: ModelBytes) -> str:
        """The value as a string."""
        self.require(BYTES)
        try:
            return buffer[self.value : self.end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise make_corrupt_error(f"a name or text at byte {self.value} is not UTF-8") from error

    def read_signed(self) -> int:
        """The value as an int64, which protobuf writes in two's complement."""
        self.require(VARINT)
        return self.value - (1 << 64) if self.value >> 63 else self.value

    def require(self, wire_type: int) -> None:
        """Refuses a known field number whose wire type is not that of its schema."""
        if self.wire_type != wire_type:
            raise make_corrupt_error(
                f"field {self.number} at byte {self.tag} has wire type {self.wire_type}, not {wire_type}"
            )


def read_fields(buffer: ModelBytes, start: int, end: int) -> Iterator[Field]:
    """Yields the fields of the message in `buffer[start:end]`, in file order."""
    position = start
    while position < end:
        tag = position
        key, position = read_varint(buffer, position, end)
        number, wire_type = key >> 3, key & 7
        if not 0 < number < 1 << 29:  # protobuf allows no larger number of a field
            raise make_corrupt_error(f"byte {tag} starts a field numbered {number}")
        if wire_type == BYTES:
            length, value = read_varint(buffer, position, end)
            position = value + length
        elif wire_type == VARINT:
            value, position = read_varint(buffer, position, end)
        elif wire_type in (FIXED32, FIXED64):
            value = position
            position += 4 if wire_type == FIXED32 else 8
        else:
            raise make_corrupt_error(f"byte {tag} starts a field of wire type {wire_type}")
        if position > end:
            raise make_corrupt_error(f"a field at byte {tag} runs {position - end:,} bytes past its message")
        yield Field(number, wire_type, value, tag, position)


def read_varint(buffer: ModelBytes, position: int, end: int) -> tuple[int, int]:
    """Reads a base-128 number; returns it and the position after it."""
    value = shift = 0
    while position < end and shift < 70:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position  # ten bytes hold 70 bits, and protobuf keeps 64
        shift += 7
    raise make_corrupt_error(f"a number at byte {position} has no end")


def encode_varint(value: int) -> bytes:
    """Writes a non-negative number as base-128."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_field(number: int, payload: bytes) -> bytes:
    """Writes a field of wire type 2."""
    return encode_varint(number << 3 | BYTES) + encode_varint(len(payload)) + payload


def make_corrupt_error(what: str) -> CorruptModelError:
    """The error for bytes that are not a protobuf message."""
    return CorruptModelError(
        f"Failed to parse the model: {what}.",
        hint="It is not an ONNX model, or the file is damaged. Compare its size with that of the original.",
    )


# Walking over an ONNX file in place: the tensors in every graph, subgraph and function.


MAX_NESTING = 16
"""Subgraphs in subgraphs; types in types."""

LOCATION = "location"
"""The key under which a tensor names the file that holds its elements."""

_CHILDREN = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},  # 11: the defaults of its attributes
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor", 6: "graph", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},  # the tensors of its values and of their positions
}
"""The fields of each message that tensors can be in; the numbers are those of onnx.proto."""

_LARGE_ATTRIBUTE = 1 << 10  # bytes
_LONG_LIST = 64  # fields


def find_tensors(buffer: ModelBytes, kind: str, start: int, end: int, nesting: int = 0) -> Iterator[Field]:
    """Yields the tensors in the message in `buffer[start:end]`; of long lists perhaps only those in other files."""
    if nesting > MAX_NESTING:
        raise make_corrupt_error(f"subgraphs are nested more than {MAX_NESTING} deep")
    for item in read_fields(buffer, start, end):
        child = _CHILDREN[kind].get(item.number, "") if item.wire_type == BYTES else ""
        if child == "tensor":
            yield item
        elif child and not (child == "attribute" and _is_list_of_values(buffer, item)):
            yield from find_tensors(buffer, child, item.value, item.end, nesting + (kind == "attribute"))


def _is_list_of_values(buffer: ModelBytes, attribute: Field) -> bool:
    """Whether an attribute is a long list, as in decision trees, and names no file: searching is faster."""
    if attribute.end - attribute.value < _LARGE_ATTRIBUTE:
        return False
    is_long = next(islice(read_fields(buffer, attribute.value, attribute.end), _LONG_LIST, None), None) is not None
    return is_long and buffer.find(LOCATION.encode(), attribute.value, attribute.end) < 0
