"""Walking an ONNX model that `onnx` has parsed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message


def messages(message: Message) -> Iterator[Message]:
    """A message and all that it holds: nodes, attributes, types, weights, in every graph and function."""
    from google.protobuf.message import Message
    from onnx import TensorProto

    yield message
    for field, value in () if isinstance(message, TensorProto) else message.ListFields():  # which would copy weights
        if field.message_type is not None:
            for held in [value] if isinstance(value, Message) else value:
                yield from messages(held)
