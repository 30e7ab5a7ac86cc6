"""Writing an image contract into a model's metadata: copies whose weights stay in the files where they are."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from .._graphs.model_file import denote_images, state_published
from ..core.base.arguments import require_type
from ..core.base.atomic_files import is_same_file, write_atomically
from ..core.contracts.files import require_destination
from ..core.contracts.published import find_model
from ..core.imaging.contract import METADATA_KEYS, ImageContract
from ..core.model.contracts import find_fitting_inputs
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import walk_messages
from ..core.onnx_file.source import FileSource
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    import onnx


def write_contract(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    contract: ImageContract,
    inputs: Iterable[str] = (),
    *,
    force: bool = False,
) -> None:
    """Writes a copy of a model with a contract in its metadata, and with inputs denoted as images.

    The file appears complete or not at all. External weights stay where they are.

    Args:
        source: the path to the model.
        destination: the path to the copy; in the source's folder if the model has external data.
        contract: how pictures become its tensors; for all its images, because metadata belong to the whole model.
        inputs: the inputs that are images; by default those whose shape fits the contract.
        force: whether the copy may replace the model or another file that it is made from.

    Raises:
        ModelNotFoundError: the file does not exist.
        CorruptModelError: it is not an ONNX model.
        InvalidArgumentError: no input fits, or a named one does not; the destination is a file of the model.
        StorageNotFoundError: the folder does not exist.
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
    require_type(contract, ImageContract, "Pass ImageContract.imagenet(), learned.contract or your own.")
    require_type(inputs, Iterable, 'Pass input names, for example ["image"].')
    features = LearningModel.load(source).input_features
    require_destination(destination, force, source)
    model = read_for_copy(source, destination)
    images = find_fitting_inputs(features, contract, {inputs} if isinstance(inputs, str) else set(inputs))
    replace_metadata(model, METADATA_KEYS, denote_images(model, images, contract))
    write_atomically(destination, model.SerializeToString())


# Copies of model files with other metadata.


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
                f"{os.fspath(destination)}: The copy uses this file for its weights.", hint="Specify another file."
            )
    folders = {os.path.dirname(os.path.abspath(path)) for path in (source, destination)}
    if len(folders) > 1 and has_external_weights:
        raise InvalidArgumentError(
            f"{os.fspath(source)} stores its weights in files next to it, but the copy would be in another folder.",
            hint="Write the copy to the same folder.",
        )
    return model


def replace_metadata(model: onnx.ModelProto, removed: Collection[str], added: Mapping[str, str]) -> None:
    """Removes some of a model's metadata, and adds others."""
    from onnx import helper

    left = {entry.key: entry.value for entry in model.metadata_props if entry.key not in removed}
    helper.set_model_props(model, left | dict(added))
