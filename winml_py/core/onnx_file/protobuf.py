"""Reading protobuf's wire format in place, without a schema and without copies.

A field is a tag (number and wire type) and a value. Values of wire type 2 (strings, bytes,
messages, packed numbers) are given as their place in the buffer, so that a walk over a
memory-mapped file of many gigabytes touches only the pages that hold tags.
The format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from functools import lru_cache
from itertools import islice
from mmap import mmap
from typing import NamedTuple

from ...errors import CorruptModelError

ModelBytes = bytes | mmap

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

PROTOBUF_LIMIT = 1_900_000_000
"""Bytes of weights from which a model is written with them in a file beside it: protobuf's own limit is 2 GiB."""


class Field(NamedTuple):
    """One field of a message. `value` is a number, or for `BYTES` where the value starts."""

    number: int
    wire_type: int
    value: int
    tag: int  # where the tag starts
    end: int  # behind the value

    def text(self, buffer: ModelBytes) -> str:
        """The value as a string."""
        self.require(BYTES)
        try:
            return buffer[self.value : self.end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise corrupt(f"a name or text at byte {self.value} is not UTF-8") from error

    def signed(self) -> int:
        """The value as an int64, which protobuf writes in two's complement."""
        self.require(VARINT)
        return self.value - (1 << 64) if self.value >> 63 else self.value

    def require(self, wire_type: int) -> None:
        """Refuses a known field number that carries another wire type than its schema says."""
        if self.wire_type != wire_type:
            raise corrupt(f"field {self.number} at byte {self.tag} has wire type {self.wire_type}, not {wire_type}")


def fields(buffer: ModelBytes, start: int, end: int, listed_tags: Container[int] | None = None) -> Iterator[Field]:
    """Yields the fields of the message that stands in `buffer[start:end]`, in file order.

    Args:
        buffer: what the message stands in.
        start: where it starts.
        end: where it ends.
        listed_tags: the tags (see `tag_of`) of the fields that the caller looks for; all where it is None. Of a list of
            other fields the first two are given, and the rest is passed over quickly.

    Raises:
        CorruptModelError: a tag or length that cannot be, or a value that leaves the message.
    """
    position, last = start, 0
    while position < end:
        tag = position
        key, position = varint(buffer, position, end)
        number, wire_type = key >> 3, key & 7
        if not 0 < number < 1 << 29:  # protobuf's own bound
            raise corrupt(f"byte {tag} starts a field numbered {number}")
        if wire_type == BYTES:
            length, value = varint(buffer, position, end)
            position = value + length
        elif wire_type == VARINT:
            value, position = varint(buffer, position, end)
        elif wire_type in (FIXED32, FIXED64):
            value = position
            position += 4 if wire_type == FIXED32 else 8
        else:
            raise corrupt(f"byte {tag} starts a field of wire type {wire_type}")
        if position > end:
            raise corrupt(f"a field at byte {tag} runs {position - end:,} bytes past its message")
        yield Field(number, wire_type, value, tag, position)
        if listed_tags is not None and key == last and key not in listed_tags:
            position = _behind_list(buffer, key, position, end)
        last = key


def tag_of(number: int, wire_type: int = BYTES) -> int:
    """What the format calls a tag: the number that stands before a field's value."""
    return number << 3 | wire_type


_VALUES = {
    VARINT: rb"[\x80-\xff]{0,9}[\x00-\x7f]",
    FIXED64: rb".{8}",
    FIXED32: rb".{4}",
    BYTES: b"(?:%s)" % b"|".join(re.escape(bytes([length])) + b".{%d}" % length for length in range(0x80)),
}
"""A value of each wire type; of those with a length the short ones."""


def _behind_list(buffer: ModelBytes, key: int, position: int, end: int) -> int:
    """The end of the fields with one tag that start at a position; found in a twentieth of the time of a loop."""
    pattern = _list_pattern(key)
    while matched := pattern.match(buffer, position, end):
        position = matched.end()
    return position


@lru_cache(64)
def _list_pattern(key: int) -> re.Pattern[bytes]:
    # A thousand at once, and not `*`, which would remember each to come back to it, nor `*+`: Python 3.11.2 gets that
    # wrong (its issue 106052).
    return re.compile(b"(?:%s%s){1,1000}" % (re.escape(encode_varint(key)), _VALUES[key & 7]), re.DOTALL)


def varint(buffer: ModelBytes, position: int, end: int) -> tuple[int, int]:
    """Reads a base-128 number; gives it and the position behind it."""
    value = shift = 0
    while position < end and shift < 70:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position  # ten bytes hold 70 bits, and protobuf keeps 64
        shift += 7
    raise corrupt(f"a number at byte {position} has no end")


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


def corrupt(what: str) -> CorruptModelError:
    """The error for bytes that are not a protobuf message."""
    return CorruptModelError(
        f"Failed to parse the model: {what}.",
        hint="It is not an ONNX model, or the file was damaged on its way; compare its size with the original's.",
    )


# Walking over an ONNX file in place: the nodes and tensors in every graph, subgraph and function.


MAX_NESTING = 16
"""Subgraphs in subgraphs; types in types."""

LOCATION = "location"
"""The key under which a tensor names the file that holds its elements."""

_CHILDREN: dict[str, dict[int, str]] = {
    kind: {tag_of(number): child for number, child in children.items()}
    for kind, children in (
        ("model", {7: "graph", 25: "function"}),
        ("function", {7: "node"}),
        ("graph", {1: "node", 5: "tensor", 15: "sparse tensor"}),
        ("node", {5: "attribute"}),
        ("attribute", {5: "tensor", 10: "tensor", 6: "graph", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"}),
        ("sparse tensor", {1: "tensor", 2: "tensor"}),  # its values, and where they are
    )
}
"""The fields of each message that nodes and tensors can be in, by their tags; the numbers are those of onnx.proto."""

_LARGE_ATTRIBUTE = 1 << 10  # bytes
_LONG_LIST = 64  # fields


def find_messages(
    buffer: ModelBytes, target: str, kind: str, start: int, end: int, nesting: int = 0
) -> Iterator[Field]:
    """Yields the nodes, or the tensors, in the message that stands in `buffer[start:end]`.

    Args:
        buffer: a ModelProto.
        target: "node" or "tensor". Of the tensors in long lists, those in this file may be left out.
        kind: what the message is: "model", "graph" or "function", say.
        start: where the message starts.
        end: where it ends.
        nesting: how many subgraphs the message is in.

    Raises:
        CorruptModelError: subgraphs nested too deep to be meant.
    """
    if nesting > MAX_NESTING:
        raise corrupt(f"subgraphs are nested more than {MAX_NESTING} deep")
    children = _CHILDREN[kind]
    for item in fields(buffer, start, end, children):
        child = children.get(tag_of(item.number, item.wire_type))
        if child == target:
            yield item
        if child is not None and child in _CHILDREN and not (child == "attribute" and _is_list_of_values(buffer, item)):
            yield from find_messages(buffer, target, child, item.value, item.end, nesting + (kind == "attribute"))


def _is_list_of_values(buffer: ModelBytes, attribute: Field) -> bool:
    """Whether an attribute is a long list, and names no file.

    A decision tree has lists of millions of numbers. To search them for a word takes a hundredth of the time of walking
    from number to number.
    """
    if attribute.end - attribute.value < _LARGE_ATTRIBUTE:
        return False
    is_long = next(islice(fields(buffer, attribute.value, attribute.end), _LONG_LIST, None), None) is not None
    return is_long and buffer.find(LOCATION.encode(), attribute.value, attribute.end) < 0
