"""Copies of model files with other metadata: the weights stay in the files where they are."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from .._graphs.model_file import state_published
from ..core.base.atomic_files import is_same_file
from ..core.contracts.published import find_model
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import walk_messages
from ..core.onnx_file.source import FileSource
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    import onnx


def read_for_copy(source: str | os.PathLike[str], destination: str | os.PathLike[str]) -> onnx.ModelProto:
    """Reads a model without its external weights, for a copy in the same folder that refers to the same files.

    Of a folder, the copy states what the folder states.
    """
    import onnx

    loaded = LearningModel.load(source)
    source = find_model(source)
    model = onnx.load(source, load_external_data=False)
    state_published(model, loaded)
    tensors = (part for part in walk_messages(model) if isinstance(part, onnx.TensorProto))
    has_external_weights = any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors)
    for name in FileSource.open(source)[0].list_data_files():
        if is_same_file(destination, os.path.join(os.path.dirname(source), name)):
            raise InvalidArgumentError(
                f"{os.fspath(destination)}: The copy keeps its weights in this file.", hint="Name another file."
            )
    folders = {os.path.dirname(os.path.abspath(path)) for path in (source, destination)}
    if len(folders) > 1 and has_external_weights:
        raise InvalidArgumentError(
            f"The weights of {os.fspath(source)} are in files beside it, but the copy would be in another folder.",
            hint="Write the copy into the same folder.",
        )
    return model


def replace_metadata(model: onnx.ModelProto, removed: Collection[str], added: Mapping[str, str]) -> None:
    """Removes some of a model's metadata, and adds others."""
    from onnx import helper

    left = {entry.key: entry.value for entry in model.metadata_props if entry.key not in removed}
    helper.set_model_props(model, left | dict(added))
