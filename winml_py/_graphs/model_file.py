"""Models as ONNX messages: read from a loaded model, and written to files."""

from __future__ import annotations

import os
import tempfile

import onnx
from onnx import GraphProto, ModelProto, TensorProto, numpy_helper
from onnx.external_data_helper import set_external_data, write_external_data_tensors

from .._inputs.copies import MAX_PROTOBUF_BYTES
from ..core.base.atomic_files import require_folder, write_whole, written_to
from ..core.base.winrt_object import private_state
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import messages
from ..core.onnx_file.source import FileSource
from ..errors import CorruptModelError, ModelNotFoundError, NotSupportedError

_MIN_MOVED_BYTES = 256
"""From this many bytes on, a weight goes to the file beside a large model."""


def read_model(model: LearningModel) -> ModelProto:
    """A loaded model with its weights, including those in files beside it. It has the name from `set_name`.

    Raises:
        ModelDisposedError: the model has been disposed of.
        CorruptModelError: its file has changed since it was loaded.
        ModelNotFoundError: its file, or one with its weights, is gone.
    """
    content = private_state(model)
    source = content.open()
    if isinstance(source, FileSource):
        stamps = source.data_stamps()
        try:
            proto = onnx.load(source.path)
        except OSError as error:
            raise ModelNotFoundError(f"The model {source.path} cannot be read: {error}.") from error
        except onnx.checker.ValidationError as error:  # for weights outside the folder
            raise CorruptModelError(f"The model {source.path} cannot be read: {error}.") from error
        source.require_unchanged(stamps)
    else:
        proto = onnx.load_from_string(source.data)
    proto.graph.name = content.header.graph_name
    return proto


def _weight_size(model: ModelProto) -> int:
    return sum(len(part.raw_data) or part.ByteSize() for part in messages(model) if isinstance(part, TensorProto))


def to_bytes(model: ModelProto) -> bytes:
    """A model as the bytes of a file; `NotSupportedError` if it is too large for protobuf."""
    if _weight_size(model) >= MAX_PROTOBUF_BYTES:
        raise NotSupportedError(
            "The model would be larger than 2 GB, ONNX's limit for models in memory.",
            hint="Use onnx.compose, and write the model with onnx.save_model(..., save_as_external_data=True).",
        )
    data: bytes = model.SerializeToString()
    return data


def save_model(model: ModelProto, path: str | os.PathLike[str]) -> None:
    """Writes a model. If it is larger than 2 GB, its weights go to a `.data` file beside it."""
    require_folder(path)
    if _weight_size(model) < MAX_PROTOBUF_BYTES:
        write_whole(path, model.SerializeToString())
        return
    folder, name = os.path.split(os.path.realpath(path))
    weights = f"{name}.data"
    for graph in [part for part in messages(model) if isinstance(part, GraphProto)]:
        for tensor in graph.initializer:
            if tensor.data_type != TensorProto.STRING and tensor.ByteSize() >= _MIN_MOVED_BYTES:
                if not tensor.HasField("raw_data"):  # the numbers are in a typed field
                    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
                set_external_data(tensor, weights)
    with written_to(path):
        with tempfile.TemporaryDirectory(dir=folder) as temporary:  # beside it, so that the file is moved, not copied
            write_external_data_tensors(model, temporary)
            os.replace(os.path.join(temporary, weights), os.path.join(folder, weights))
        write_whole(path, model.SerializeToString())
