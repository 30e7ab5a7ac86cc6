"""Models as ONNX messages: taken from a loaded model, made into one, and written to files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import onnx
from onnx import GraphProto, ModelProto, TensorProto, numpy_helper
from onnx.external_data_helper import set_external_data

from ..core.base.atomic_files import require_folder, write_whole, written_to
from ..core.base.winrt_object import inside
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import messages
from ..core.onnx_file.protobuf import PROTOBUF_LIMIT
from ..core.onnx_file.source import FileSource
from ..errors import CorruptModelError, InvalidArgumentError, ModelNotFoundError, NotSupportedError

T = TypeVar("T")

_SMALLEST_MOVED = 256
"""Bytes from which on a weight goes to the file beside a large model."""

_ALIGNMENT = 4096
"""Weights in that file begin at multiples of it: a page, so that engines can map them."""


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
            hint="Use onnx.compose, and write the model with onnx.save_model(..., save_as_external_data=True).",
        )
    data: bytes = model.SerializeToString()
    return data


def save_model(model: ModelProto, path: str | os.PathLike[str], check: Callable[[LearningModel], T]) -> T:
    """Writes a model; where it is larger than 2 GB, with its weights in a file beside it, `.data` at its end.

    Args:
        model: what to write. The weights of one that is larger than 2 GB are taken out of it as they are written.
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
    folder, name = os.path.split(path)
    weights = f"{name}.data"
    with tempfile.TemporaryDirectory(dir=folder) as temporary:  # beside it, so that files are moved and not copied
        _move_weights(model, os.path.join(temporary, weights))
        data, temporary_path = model.SerializeToString(), os.path.join(temporary, name)
        write_whole(temporary_path, data)
        report = check(LearningModel.load(temporary_path))
        # The weights first: the model's file names them, and must not stand there without them.
        os.replace(os.path.join(temporary, weights), os.path.join(folder, weights))
    write_whole(path, data)
    return report


def _move_weights(model: ModelProto, path: str) -> None:
    """Moves the weights of all graphs to a file, as ONNX's external data; small ones and texts stay."""
    tensors = [weight for graph in messages(model) if isinstance(graph, GraphProto) for weight in graph.initializer]
    with open(path, "wb") as file:
        for tensor in tensors:
            if tensor.data_type == TensorProto.STRING or tensor.ByteSize() < _SMALLEST_MOVED:
                continue
            if not tensor.HasField("raw_data"):  # numbers in a field of their type
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
            file.write(bytes(-file.tell() % _ALIGNMENT))
            set_external_data(tensor, os.path.basename(path), file.tell(), len(tensor.raw_data))
            file.write(tensor.raw_data)
            tensor.ClearField("raw_data")


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
