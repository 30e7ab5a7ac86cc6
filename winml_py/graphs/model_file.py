"""Models as ONNX messages: taken from a loaded model, made into one, and written to files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import onnx
from onnx import ModelProto, TensorProto

from ..core.base.atomic_files import require_folder, write_whole, written_to
from ..core.base.winrt_object import inside
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import messages
from ..core.onnx_file.protobuf import PROTOBUF_LIMIT
from ..core.onnx_file.source import FileSource
from ..errors import CorruptModelError, InvalidArgumentError, ModelNotFoundError, NotSupportedError

T = TypeVar("T")


def read_model(model: LearningModel) -> ModelProto:
    """A loaded model with its weights, those of files beside it included. It has the name that `set_name` gave.

    Raises:
        ModelDisposedError: the model has been disposed of.
        CorruptModelError: its file has changed since it was loaded.
        ModelNotFoundError: its file, or one with its weights, is gone.
    """
    content = inside(model)
    source = content.open()
    proto = _read_file(source) if isinstance(source, FileSource) else onnx.load_from_string(source.data)
    proto.graph.name = content.header.graph_name
    return proto


def _read_file(source: FileSource) -> ModelProto:
    stamps = source.data_stamps()
    try:
        proto = onnx.load(source.path)
    except OSError as error:
        raise ModelNotFoundError(
            f"The model {source.path} cannot be read: {error}.", hint="Keep its files where they are."
        ) from error
    except onnx.checker.ValidationError as error:  # of weights outside the folder
        raise CorruptModelError(f"The model {source.path} cannot be read: {error}.") from error
    source.require_unchanged(stamps)
    return proto


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


def save_model(model: ModelProto, path: str | os.PathLike[str], check: Callable[[LearningModel], T]) -> T:
    """Writes a model; where it is larger than 2 GB, with its weights in a file beside it, `.data` at its end.

    Args:
        model: what to write.
        path: of the file.
        check: is called with the model as it will be loaded; where it raises, nothing is written.

    Returns:
        What the check returned.

    Raises:
        StorageNotFoundError: there is no folder to write to.
        StorageAccessError: the file cannot be written.
    """
    require_folder(path)
    if weight_size(model) < PROTOBUF_LIMIT:
        data = model.SerializeToString()
        report = check(LearningModel.load(data))
        write_whole(path, data)
        return report
    with written_to(path):
        return _save_in_two(model, os.path.realpath(path), check)


def _save_in_two(model: ModelProto, path: str, check: Callable[[LearningModel], T]) -> T:
    import onnx_ir as ir

    folder, name = os.path.split(path)
    weights = f"{name}.data"
    with tempfile.TemporaryDirectory(dir=folder) as temporary:  # beside it, so that files are moved and not copied
        cut = ir.external_data.unload_from_model(ir.from_proto(model), temporary, weights, size_threshold_bytes=256)
        data, temporary_path = ir.to_proto(cut).SerializeToString(), os.path.join(temporary, name)
        write_whole(temporary_path, data)
        report = check(LearningModel.load(temporary_path))
        # The weights first: the model's file names them, and must not stand there without them.
        os.replace(os.path.join(temporary, weights), os.path.join(folder, weights))
    write_whole(path, data)
    return report


def save_light(
    model: ModelProto,
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    check: Callable[[LearningModel], T],
) -> T:
    """Writes a model that was read without its external data, which stay where they are.

    Args:
        model: what to write.
        source: the path it was read from.
        path: of the new file; in the source's folder, where the model has external data.
        check: is called with the model as it will be loaded; where it raises, nothing is written.

    Returns:
        What the check returned.

    Raises:
        InvalidArgumentError: the file is to lie elsewhere than its weights.
        StorageAccessError: the file cannot be written.
    """
    data = model.SerializeToString()
    if not any(part.data_location == TensorProto.EXTERNAL for part in messages(model) if isinstance(part, TensorProto)):
        report = check(LearningModel.load(data))
        write_whole(path, data)
        return report
    folders = {os.path.dirname(os.path.abspath(each)) for each in (source, path)}
    if len(folders) > 1:
        raise InvalidArgumentError(
            f"The weights of {os.fspath(source)} lie in files beside it, and the copy is to lie elsewhere.",
            hint="Write the copy into the same folder.",
        )
    report = _check_beside(data, folders.pop(), check)
    write_whole(path, data)
    return report


def _check_beside(data: bytes, folder: str, check: Callable[[LearningModel], T]) -> T:
    """Checks a model in a file for the while, because its weights are looked for in the folder that it is in."""
    path = os.path.join(folder, f".{os.urandom(8).hex()}.onnx")
    try:
        write_whole(path, data)
        return check(LearningModel.load(path))
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
