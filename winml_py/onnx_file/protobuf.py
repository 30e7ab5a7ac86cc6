"""Reading protobuf's wire format in place, without a schema and without copies.

A field is a tag (number and wire type) and a value. Values of wire type 2 (strings, bytes,
messages, packed numbers) are given as their place in the buffer, so that a walk over a
memory-mapped file of many gigabytes touches only the pages that hold tags.
The format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple

from ..errors import CorruptModelError

Buffer = bytes | mmap

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Field(NamedTuple):
    """One field of a message. `value` is a number, or for `BYTES` where the value starts."""

    number: int
    wire_type: int
    value: int
    tag: int  # where the tag starts
    end: int  # behind the value

    def text(self, buffer: Buffer) -> str:
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


def fields(buffer: Buffer, start: int, end: int) -> Iterator[Field]:
    """Yields the fields of the message that stands in `buffer[start:end]`, in file order.

    Raises:
        CorruptModelError: a tag or length that cannot be, or a value that leaves the message.
    """
    position = start
    while position < end:
        tag = position
        key, position = varint(buffer, position, end)
        number, wire_type = key >> 3, key & 7
        if not 0 < number < 1 << 29:
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


def varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Reads a base-128 number; gives it and the position behind it."""
    value = shift = 0
    while position < end and shift < 70:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
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
