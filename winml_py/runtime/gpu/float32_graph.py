"""A float16 model as a float32 one, for devices without half precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...onnx_file.source import Skeleton

if TYPE_CHECKING:
    import onnx

FLOAT16, FLOAT32 = 10, 1  # onnx.TensorProto.DataType


def as_float32(model: str | bytes | Skeleton) -> bytes:
    """The same graph with float32 in place of every float16: weights, constants, casts, inputs and outputs.

    Args:
        model: a path, the file's bytes, or a skeleton over a file.

    Returns:
        A ModelProto. Every weight is the float16 number it was.

    Raises:
        NotSupportedError: it would be larger than 2 GB.
    """
    import onnx
    from google.protobuf.message import EncodeError

    from ...errors import NotSupportedError

    if isinstance(model, Skeleton):
        skeleton = model.model
        proto = (
            onnx.load_model_from_string(skeleton)
            if isinstance(skeleton, bytes)
            else onnx.load(skeleton, load_external_data=False)
        )
        if model.files:
            _fill(proto.graph.initializer, model.files)
        else:
            onnx.load_external_data_for_model(proto, model.folder)
    else:
        proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    _widen(proto.graph)
    for function in proto.functions:
        _widen_nodes(function.node)
    try:
        data: bytes = proto.SerializeToString()
    except (ValueError, EncodeError) as error:  # protobuf's own limit
        raise NotSupportedError(
            "In float32 the model would be larger than 2 GB, and the device has no half precision.",
            hint="Use the CPU, or a GPU with float16.",
        ) from error
    return data


def _fill(weights: Iterable[onnx.TensorProto], files: Mapping[str, bytes]) -> None:
    """Puts weights whose files are in memory into the model."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    for weight in weights:
        if uses_external_data(weight):
            place = ExternalDataInfo(weight)
            start = place.offset or 0
            end = None if place.length is None else start + place.length
            weight.raw_data = files[place.location][start:end]
            weight.ClearField("external_data")
            weight.ClearField("data_location")


def _widen(graph: onnx.GraphProto) -> None:
    from onnx import numpy_helper

    for info in (*graph.input, *graph.output, *graph.value_info):
        _widen_type(info.type)
    for weight in graph.initializer:
        if weight.data_type == FLOAT16:
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).astype(np.float32), weight.name))
    _widen_nodes(graph.node)


def _widen_type(kind: onnx.TypeProto) -> None:
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type == FLOAT16:
        kind.tensor_type.elem_type = FLOAT32
    elif kind.HasField("sequence_type"):
        _widen_type(kind.sequence_type.elem_type)


def _widen_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    from onnx import numpy_helper

    for node in nodes:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i == FLOAT16:
                attribute.i = FLOAT32
            if attribute.HasField("t") and attribute.t.data_type == FLOAT16:
                wide = numpy_helper.to_array(attribute.t).astype(np.float32)
                attribute.t.CopyFrom(numpy_helper.from_array(wide, attribute.t.name))
            for graph in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                _widen(graph)
