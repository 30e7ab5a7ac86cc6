"""Models that a program holds as objects of the package onnx."""

from __future__ import annotations

from typing import Any

from ...errors import InvalidArgumentError


def is_model_proto(value: object) -> bool:
    """Whether a value is an `onnx.ModelProto`, without importing onnx to ask."""
    kind = type(value)
    return kind.__name__ == "ModelProto" and kind.__module__.partition(".")[0] == "onnx"


def serialized(model: Any) -> bytes:
    """A `ModelProto` as the bytes of its file.

    Raises:
        InvalidArgumentError: it is larger than such a file can be, 2 GB.
    """
    from google.protobuf.message import EncodeError

    try:
        data: bytes = model.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise InvalidArgumentError(
            f"The onnx.ModelProto cannot be serialized: {error}. Protobuf writes at most 2 GB.",
            hint="Save it with onnx.save(model, path, save_as_external_data=True), and load it from that path.",
        ) from error
    return data
