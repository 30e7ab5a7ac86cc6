"""Models as ONNX messages: read from a loaded model, what they state of their pictures, and written to files."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import replace

import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from ..core.base.atomic_files import require_folder, translate_write_errors, write_atomically
from ..core.base.winrt_object import private_state
from ..core.contracts.labels import LABELS_KEY
from ..core.features.descriptors import ImageFeatureDescriptor, ShapedDescriptor
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import walk_messages
from ..core.onnx_file.protobuf import MAX_PROTOBUF_BYTES
from ..core.onnx_file.source import FileSource
from ..enums import TensorKind
from ..errors import CorruptModelError, ModelNotFoundError, NotSupportedError


def read_model(model: LearningModel) -> ModelProto:
    """A loaded model with its weights, including those in files next to it. It has the name from `set_name`, and states
    what the folder states that it is from.

    Raises:
        ModelDisposedError: the model has been disposed of.
        CorruptModelError: its file has changed since it was loaded.
        ModelNotFoundError: its file, or one with its weights, is gone.
    """
    content = private_state(model)
    source = content.open()
    if isinstance(source, FileSource):
        source.require_data_files()
        stamps = source.read_data_stamps()
        try:
            proto = onnx.load(source.path)
        except OSError as error:
            raise ModelNotFoundError(f"The model {source.path} cannot be read: {error}.") from error
        except onnx.checker.ValidationError as error:  # for weights outside the folder
            raise CorruptModelError(f"The model {source.path} cannot be read: {error}.") from error
        source.require_unchanged(stamps)
    else:
        proto = onnx.load_from_string(source.data)
    proto.graph.name = content.name
    state_published(proto, model)
    return proto


def denote_images(proto: ModelProto, images: Iterable[ShapedDescriptor], contract: ImageContract) -> dict[str, str]:
    """Denotes inputs as images, and fixes their number of channels. Returns the metadata that state their contract."""
    kinds = {image.name: image.tensor_kind for image in images}
    if contract.tensor_kind is None and set(kinds.values()) == {TensorKind.UINT8}:
        contract = replace(contract, tensor_kind=TensorKind.UINT8)
    for value in proto.graph.input:
        if value.name in kinds:
            value.type.denotation = "IMAGE"
            value.type.tensor_type.shape.dim[contract.axes()[0]].dim_value = contract.channels
    return contract.to_metadata()


def state_published(proto: ModelProto, model: LearningModel) -> None:
    """Writes into a model what only the folder states that it was loaded from: contract, labels and metadata."""
    content = private_state(model)
    parts = content.published.parts
    words = dict(parts.get("metadata", {}))
    if "labels" in parts:
        words[LABELS_KEY] = json.dumps(parts["labels"])
    images = [feature for feature in content.inputs if isinstance(feature, ImageFeatureDescriptor)]
    if "contract" in parts and images:
        words |= denote_images(proto, images, images[0].contract)
    if words:
        helper.set_model_props(proto, {**words, **content.header.metadata})


def list_names(model: ModelProto) -> set[str]:
    """Every name of a value, weight or node in a model's graphs, including subgraphs."""
    names = set()
    for part in walk_messages(model.graph):
        if isinstance(part, NodeProto):
            names |= {part.name, *part.output}
        elif isinstance(part, (TensorProto, ValueInfoProto)):
            names.add(part.name)
    return names - {""}


def count_weight_bytes(model: ModelProto) -> int:
    """The bytes of the weights in all graphs of a model."""
    return sum(len(part.raw_data) or part.ByteSize() for part in walk_messages(model) if isinstance(part, TensorProto))


def to_bytes(model: ModelProto) -> bytes:
    """A model as the bytes of a file; `NotSupportedError` if it is too large for protobuf."""
    if count_weight_bytes(model) >= MAX_PROTOBUF_BYTES:
        raise NotSupportedError(
            "The model would be larger than 2 GB, ONNX's limit for models in memory.",
            hint="Use onnx.compose, and write the model with onnx.save_model(..., save_as_external_data=True).",
        )
    data: bytes = model.SerializeToString()
    return data


def save_model(model: ModelProto, path: str | os.PathLike[str]) -> None:
    """Writes a model. If it is larger than 2 GB, its weights go to a `.data` file next to it."""
    require_folder(path)
    if count_weight_bytes(model) < MAX_PROTOBUF_BYTES:
        write_atomically(path, model.SerializeToString())
        return
    folder, name = os.path.split(os.path.realpath(path))
    # The new files are made next to the old ones, so that they are moved, not copied.
    with translate_write_errors(path), tempfile.TemporaryDirectory(dir=folder) as temporary:
        onnx.save_model(model, os.path.join(temporary, name), save_as_external_data=True, location=f"{name}.data")
        for file_name in (f"{name}.data", name):
            os.replace(os.path.join(temporary, file_name), os.path.join(folder, file_name))
