"""Writing an image contract into a model's metadata."""

from __future__ import annotations

import os
from collections.abc import Iterable

from .._graphs.model_file import denote_images
from ..core.base.arguments import require_type
from ..core.base.atomic_files import require_folder, write_atomically
from ..core.contracts.files import require_another_file
from ..core.imaging.contract import METADATA_KEYS, ImageContract
from ..core.model.contracts import find_fitting_inputs
from ..core.model.model import LearningModel
from .learning.learn_contract import LearnedContract
from .model_copies import read_for_copy, replace_metadata


def write_contract(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    contract: ImageContract | LearnedContract,
    inputs: Iterable[str] = (),
    *,
    force: bool = False,
) -> None:
    """Writes a copy of a model with a contract in its metadata, and with inputs denoted as images.

    The file appears complete or not at all. External weights stay where they are.

    Args:
        source: the path of the model.
        destination: the path of the copy; in the source's folder if the model has external data.
        contract: how pictures become its tensors; for all its images, because metadata belong to the whole model. A
            `LearnedContract` is written with its evidence; see `ContractEvidence`.
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
    require_type(contract, ImageContract | LearnedContract, "Pass ImageContract.imagenet(), or create one.")
    require_type(inputs, Iterable, 'Pass the names of inputs: ["image"].')
    evidence: dict[str, str] = {}
    if isinstance(contract, LearnedContract):
        evidence, contract = contract.evidence.to_metadata(), contract.contract
    features = LearningModel.load(source).input_features
    require_folder(destination)
    if not force:
        require_another_file(destination, source)
    model = read_for_copy(source, destination)
    images = find_fitting_inputs(features, contract, {inputs} if isinstance(inputs, str) else set(inputs))
    replace_metadata(model, METADATA_KEYS, denote_images(model, images, contract) | evidence)
    write_atomically(destination, model.SerializeToString())
