"""Writing an image contract into a model: into its metadata, or as nodes of its graph."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from .._inputs.model import convert_opset, read_for_copy
from ..core.base.atomic_files import require_another_file, require_folder, write_whole
from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.features.pictures import fixed_sides
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.imaging.contract import METADATA_KEYS, ImageContract
from ..core.imaging.formats import INTERLEAVED_FORMATS
from ..core.model.contracts import fitting_inputs
from ..core.model.model import LearningModel
from ..core.onnx_file.expressions import GraphWriter
from ..core.onnx_file.nodes import messages
from ..enums import BitmapPixelFormat, TensorKind
from ..errors import InvalidArgumentError, NotSupportedError
from . import evidence, known_answers
from .answers import add_boxes, add_labels, put_before
from .kernels import Preprocessing, require_kernel
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
    proof: dict[str, str] = {}
    if isinstance(contract, LearnedContract):
        proof, contract = contract.evidence.to_metadata(), contract.contract
    features = LearningModel.load_from_file_path(source).input_features
    require_folder(destination)
    model = read_for_copy(source, destination)
    images = {image.name: image.tensor_kind for image in fitting_inputs(features, contract, set(inputs))}
    if contract.tensor_kind is None and set(images.values()) == {TensorKind.UINT8}:
        contract = replace(contract, tensor_kind=TensorKind.UINT8)
    for value in model.graph.input:
        if value.name in images:
            value.type.denotation = "IMAGE"
    _replace_metadata(model, METADATA_KEYS, contract.to_metadata() | proof)
    write_whole(destination, model.SerializeToString())


def _replace_metadata(model: onnx.ModelProto, removed: Collection[str], added: Mapping[str, str]) -> None:
    from onnx import helper

    left = {entry.key: entry.value for entry in model.metadata_props if entry.key not in removed}
    helper.set_model_props(model, left | dict(added))


# The contract as nodes: the model takes pictures as they are, in any ONNX runtime.


def build_in(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    contract: ImageContract | None = None,
    inputs: Iterable[str] = (),
    *,
    pictures: BitmapPixelFormat = BitmapPixelFormat.RGB8,
    labels: Iterable[str] = (),
    suppress: bool = False,
    force: bool = False,
) -> None:
    """Writes a copy of a model that takes pictures as they are, in any ONNX runtime.

    The inputs keep their names, and become uint8 of height x width x channels, one picture of any size. Nodes of ONNX's
    own operators crop, scale, order and normalise it, as `bind` does. The file appears whole or not at all.

    Args:
        source: the path of the model.
        destination: the path of the copy; in the source's folder, where the model has external data.
        contract: how pictures become its tensors; by default what the model itself states for each of its images.
        inputs: the inputs that become pictures; by default all images, or all that the contract fits.
        pictures: their format: `RGB8` for those of Pillow, `BGR8` for those of OpenCV, `RGBA8`, `BGRA8`, or `GRAY8`,
            which has one channel.
        labels: the names of the classes. The model gets the outputs `top_labels` and `top_scores`: the five likeliest
            classes, the best first; the scores are the model's own.
        suppress: for a detector with Ultralytics' output, 1 x (4 + classes) x places. It gets the outputs `boxes`
            (left, top, right and bottom in pixels of the picture), `box_scores`, `box_classes` and `box_labels`, after
            suppression as by Ultralytics' predictor; the labels are those that are given, or that the model states.
        force: whether the new model may take the place of the old one.

    Raises:
        ModelNotFoundError: there is no such file.
        CorruptModelError: it is not an ONNX model.
        InvalidArgumentError: no input is an image, or a named one is not; the format is none of these; the labels are
            not as many as the scores.
        NotSupportedError: the kernel is `AREA`; the batch is fixed to more than one; the model cannot be brought to
            operator set 13; its output is not one to suppress boxes in.
        StorageNotFoundError: there is no folder to write to.
        StorageAccessError: the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> from winml_py import BitmapPixelFormat, LearningModel
        >>> from winml_py.authoring import build_in
        >>> target = os.path.join(tempfile.mkdtemp(), "digits.onnx")
        >>> build_in("models/digits.onnx", target, pictures=BitmapPixelFormat.GRAY8)
        >>> feature = LearningModel.load(target).input_features[0]
        >>> feature.name, feature.tensor_kind.name, feature.shape
        ('image', 'UINT8', (-1, -1, 1))
    """
    if pictures not in INTERLEAVED_FORMATS:
        raise InvalidArgumentError(
            f"The pictures of a built-in contract cannot be {pictures!r}.",
            hint=f"Use one of {', '.join(known.name for known in INTERLEAVED_FORMATS)}.",
        )
    # The model is loaded first: what it refuses of a contract, in its own words, must not cost a read of its weights.
    loaded = LearningModel.load_from_file_path(source)
    images = _images(loaded, contract, set(inputs))
    steps = {image.name: _preprocessing(image, pictures) for image in images}
    require_folder(destination)
    if not force:
        require_another_file(destination, source)
    model = read_for_copy(source, destination)
    _upgrade_opset(GraphWriter.OPSET, model)
    placements = {name: put_before(model, name, step) for name, step in steps.items()}
    names = tuple(labels)
    if suppress:
        names = names or loaded.labels
        if len(placements) > 1 or not names:
            raise InvalidArgumentError(
                f"Suppression needs the names of the classes and one picture: here are {len(names)} names and "
                f"{len(placements)} pictures.",
                hint="State labels=[...], or --labels, and one input.",
            )
        add_boxes(model, names, *placements.popitem())
    elif names:
        add_labels(model, names)
    outdated = [evidence.KEY, known_answers.KEY]  # of pictures, which an input takes no more
    features = (*model.graph.input, *model.graph.output)
    if not any(getattr(part, "denotation", "") == "IMAGE" for each in features for part in messages(each.type)):
        outdated += METADATA_KEYS  # they stay while they describe another image
    _replace_metadata(model, outdated, {})
    write_whole(destination, model.SerializeToString())


def _images(model: LearningModel, contract: ImageContract | None, names: set[str]) -> list[ImageFeatureDescriptor]:
    """The inputs that become pictures, with their contracts."""
    features = model.input_features
    if contract is not None:
        chosen = {feature.name for feature in fitting_inputs(features, contract, names)}
        for name in chosen:
            model.contracts[name] = contract
        features = model.input_features
        return [image for image in features if isinstance(image, ImageFeatureDescriptor) and image.name in chosen]
    images = [image for image in features if isinstance(image, ImageFeatureDescriptor)]
    unknown = names - {image.name for image in images}
    if unknown or not images:
        what = f"The input {', '.join(sorted(unknown))} is not" if unknown else "No input of the model is"
        raise InvalidArgumentError(
            f"{what} an image that the model states a contract for.",
            hint="State the contract: build_in(source, destination, ImageContract.imagenet()), or --from.",
        )
    images = [image for image in images if image.name in (names or {image.name})]
    for image in images:
        if not image.fits(image.contract):
            raise InvalidArgumentError(
                f"The input {image.name} is {image.expects()}, and its contract is of "
                f"{image.contract.pixel_format.name} pictures in {image.contract.layout.name}.",
                hint="State another contract.",
            )
    return images


def _preprocessing(image: ImageFeatureDescriptor, pictures: BitmapPixelFormat) -> Preprocessing:
    """What becomes of the pictures of an input."""
    contract = image.contract
    if image.shape[0] not in (1, -1):
        raise NotSupportedError(
            f"The input {image.name} takes {image.shape[0]} pictures at once, and a built-in contract takes one.",
            hint="Export the model with a batch of 1, or of any size.",
        )
    require_kernel(contract.kernel)
    sides = fixed_sides(image, contract)
    return Preprocessing(contract, pictures, sides, TENSOR_CLASSES[image.tensor_kind].dtype.type)


# Bringing a model to the operator set that built-in nodes need.


def _upgrade_opset(version: int, model: onnx.ModelProto) -> None:
    """Converts a model in place where its operator set is older; others stay as they are."""
    from onnx import GraphProto, helper

    imported = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    if not imported:
        model.opset_import.append(helper.make_opsetid("", version))
    elif imported[0] < version:
        try:
            if model.functions or sum(isinstance(part, GraphProto) for part in messages(model)) > 1:
                raise ValueError("graphs inside nodes, and functions, are not converted")
            model.CopyFrom(convert_opset(model, version))
        except ValueError as error:
            raise NotSupportedError(
                f"The model has operator set {imported[0]}, built-in nodes need {version}, and it cannot be converted: "
                f"{error}.",
                hint=f"Export the model with operator set {version} or later.",
            ) from error
