"""Writing an image contract into a model's metadata."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.base.atomic_files import require_folder, write_whole
from ..core.imaging.contract import METADATA_KEYS, ImageContract
from ..core.model.contracts import fitting_inputs
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import read_for_copy
from ..enums import TensorKind
from .learning.learn_contract import LearnedContract

if TYPE_CHECKING:
    import onnx


def write_contract(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    contract: ImageContract | LearnedContract,
    inputs: Iterable[str] = (),
) -> None:
    """Writes a copy of a model whose metadata state a contract, and whose inputs are denoted images.

    The file appears whole or not at all, and may be the source itself. Weights in external files stay where they are.

    Args:
        source: the path of the model.
        destination: the path of the copy; in the source's folder, where the model has external data.
        contract: how pictures become its tensors; of all its images, as the metadata are the model's. What
            `learn_contract` gave is written with its evidence, which `check_contract` checks.
        inputs: the inputs that are images; by default those whose shape fits the contract.

    Raises:
        ModelNotFoundError: there is no such file.
        CorruptModelError: it is not an ONNX model.
        InvalidArgumentError: no input fits, or a named one does not.
        StorageNotFoundError: there is no folder to write to.
        StorageAccessError: the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> from winml_py import BitmapPixelFormat, ImageContract, LearningModel
        >>> from winml_py.authoring import write_contract
        >>> target = os.path.join(tempfile.mkdtemp(), "digits.onnx")
        >>> write_contract("models/digits.onnx", target, ImageContract(BitmapPixelFormat.GRAY8, mean=(33.3,)))
        >>> LearningModel.load(target).input_features[0].contract.mean
        (33.3,)
    """
    evidence: dict[str, str] = {}
    if isinstance(contract, LearnedContract):
        evidence, contract = contract.evidence.to_metadata(), contract.contract
    features = LearningModel.load_from_file_path(source).input_features
    require_folder(destination)
    model = read_for_copy(source, destination)
    images = {image.name: image.tensor_kind for image in fitting_inputs(features, contract, set(inputs))}
    if contract.tensor_kind is None and set(images.values()) == {TensorKind.UINT8}:
        contract = replace(contract, tensor_kind=TensorKind.UINT8)
    for value in model.graph.input:
        if value.name in images:
            value.type.denotation = "IMAGE"
    set_image_metadata(model, contract.to_metadata() | evidence)
    write_whole(destination, model.SerializeToString())


def remove_metadata(model: onnx.ModelProto, key: str) -> None:
    """Takes an entry out of the metadata, if it is there."""
    from onnx import helper

    helper.set_model_props(model, {entry.key: entry.value for entry in model.metadata_props if entry.key != key})


def set_image_metadata(model: onnx.ModelProto, image_metadata: Mapping[str, str]) -> None:
    """Replaces what the metadata state of pictures."""
    from onnx import helper

    other_metadata = {entry.key: entry.value for entry in model.metadata_props if entry.key not in METADATA_KEYS}
    helper.set_model_props(model, {**other_metadata, **image_metadata})
