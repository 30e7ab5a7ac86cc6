"""A float16 model as a float32 one, for devices without half precision."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ....errors import NotSupportedError
from ...onnx_file.nodes import messages
from ...onnx_file.source import Skeleton

if TYPE_CHECKING:
    import onnx

TYPE_ATTRIBUTES = frozenset(("to", "dtype", "output_dtype", "output_datatype"))
"""The attributes of operators that name the type of what they give."""


def as_float32(model: str | bytes | Skeleton) -> bytes:
    """The same graph with float32 in place of every float16: weights, constants, casts, inputs and outputs.

    This is done with `onnx`, which loads in a quarter of the time of `onnx-ir`: programs wait for it.

    Args:
        model: a path, the file's bytes, or a skeleton over a file.

    Returns:
        A ModelProto. Every weight is the float16 number it was.

    Raises:
        NotSupportedError: it would be larger than 2 GB.
    """
    from google.protobuf.message import EncodeError
    from onnx import AttributeProto, TensorProto, TypeProto, numpy_helper

    proto = _load(model)
    for message in messages(proto):
        if isinstance(message, TensorProto) and message.data_type == TensorProto.FLOAT16:
            wide = numpy_helper.to_array(message).astype(np.float32)
            message.CopyFrom(numpy_helper.from_array(wide, message.name))
        elif isinstance(message, TypeProto.Tensor) and message.elem_type == TensorProto.FLOAT16:
            message.elem_type = TensorProto.FLOAT
        elif (
            isinstance(message, AttributeProto) and message.name in TYPE_ATTRIBUTES and message.i == TensorProto.FLOAT16
        ):
            message.i = TensorProto.FLOAT
    try:
        data: bytes = proto.SerializeToString()
    except (ValueError, EncodeError) as error:  # protobuf's own limit
        raise NotSupportedError(
            "In float32 the model would be larger than 2 GB, and the device has no half precision.",
            hint="Use the CPU, or a GPU with float16.",
        ) from error
    return data


def _load(model: str | bytes | Skeleton) -> onnx.ModelProto:
    import onnx

    skeleton = model if isinstance(model, Skeleton) else Skeleton(model)
    file = io.BytesIO(skeleton.model) if isinstance(skeleton.model, bytes) else skeleton.model
    proto = onnx.load(file, load_external_data=isinstance(model, str))
    if skeleton.folder:
        onnx.load_external_data_for_model(proto, skeleton.folder)
    elif skeleton.files:
        _fill(proto, skeleton.files)
    return proto


def _fill(proto: onnx.ModelProto, files: Mapping[str, bytes]) -> None:
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    for weight in filter(uses_external_data, proto.graph.initializer):
        stored = ExternalDataInfo(weight)
        start = stored.offset or 0
        end = None if stored.length is None else start + stored.length
        weight.raw_data = files[stored.location][start:end]
        weight.ClearField("external_data")
        weight.ClearField("data_location")
