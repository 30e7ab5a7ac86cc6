"""Models as ONNX messages: taken from a loaded model, made into one, and written to files."""

from __future__ import annotations

import os
import tempfile

import onnx
from onnx import ModelProto, TensorProto

from ..base.atomic_files import require_folder, write_whole, written_to
from ..errors import CorruptModelError, ModelNotFoundError, NotSupportedError
from ..onnx_file.messages import messages
from ..onnx_file.source import FileSource
from ..session.model import LearningModel, content_of

PROTOBUF_LIMIT = 1_900_000_000
"""Bytes of weights above which they go to a file of their own; protobuf holds 2 GiB."""


def read_model(model: LearningModel) -> ModelProto:
    """A loaded model with its weights, those of files beside it included. It has the name that `set_name` gave.

    Raises:
        ModelDisposedError: the model has been disposed of.
        CorruptModelError: its file has changed since it was loaded.
        ModelNotFoundError: its file, or one with its weights, is gone.
    """
    content = content_of(model)
    source = content.open()
    made = _read_file(source) if isinstance(source, FileSource) else onnx.load_from_string(source.data)
    made.graph.name = content.header.graph_name
    return made


def _read_file(source: FileSource) -> ModelProto:
    stamps = source.data_stamps()
    try:
        made = onnx.load(source.path)
    except OSError as error:
        raise ModelNotFoundError(
            f"The model {source.path} cannot be read: {error}.", hint="Keep its files where they are."
        ) from error
    except onnx.checker.ValidationError as error:  # of weights outside the folder
        raise CorruptModelError(f"The model {source.path} cannot be read: {error}.") from error
    source.require_unchanged(stamps)
    return made


def weight_size(model: ModelProto) -> int:
    """Bytes of all tensors in a model."""
    return sum(len(part.raw_data) or part.ByteSize() for part in messages(model) if isinstance(part, TensorProto))


def to_bytes(model: ModelProto) -> bytes:
    """A model as the bytes of a file.

    Raises:
        NotSupportedError: it is larger than protobuf can hold.
    """
    if weight_size(model) >= PROTOBUF_LIMIT:
        raise NotSupportedError(
            "The model would be larger than 2 GB, which memory in ONNX's format cannot hold.",
            hint="Write it to a file with `winml-py join`, and load that.",
        )
    data: bytes = model.SerializeToString()
    return data


def save_model(model: ModelProto, path: str | os.PathLike[str]) -> None:
    """Writes a model; where it is larger than 2 GB, with its weights in a file beside it, `.data` at its end.

    Raises:
        StorageNotFoundError: there is no folder to write to.
        StorageAccessError: the file cannot be written.
    """
    require_folder(path)
    if weight_size(model) < PROTOBUF_LIMIT:
        write_whole(path, model.SerializeToString())
        return
    with written_to(path):
        _save_in_two(model, os.path.realpath(path))


def _save_in_two(model: ModelProto, path: str) -> None:
    import onnx_ir as ir

    folder, name = os.path.split(path)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:  # beside it, so that the file is moved and not copied
        data = f"{name}.data"
        cut = ir.external_data.unload_from_model(ir.from_proto(model), temporary, data, size_threshold_bytes=256)
        proto = ir.to_proto(cut)
        os.replace(os.path.join(temporary, data), os.path.join(folder, data))
    write_whole(path, proto.SerializeToString())
