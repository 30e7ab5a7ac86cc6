"""Building an image contract into a model as graph nodes: the model takes unprocessed pictures, in any ONNX runtime."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .._graphs.opset import convert_opset
from .._values import BUILT_IN
from ..core.base.arguments import require_type
from ..core.base.atomic_files import write_atomically
from ..core.contracts.files import require_destination
from ..core.contracts.labels import LABELS_KEY, require_labels
from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.features.pictures import find_fixed_sides
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.imaging.contract import METADATA_KEYS, ImageContract
from ..core.imaging.pixels import INTERLEAVED_FORMATS
from ..core.model.contracts import find_fitting_inputs
from ..core.model.model import LearningModel
from ..core.onnx_file.expressions import GraphWriter
from ..core.onnx_file.nodes import walk_messages
from ..enums import BitmapPixelFormat
from ..errors import InvalidArgumentError, NotSupportedError
from .output_nodes import AUTO, BuiltIn, add_answers
from .preprocessing_nodes import Preprocessing, put_before
from .write_contract import read_for_copy, replace_metadata

if TYPE_CHECKING:
    import onnx


def build_in(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    contract: ImageContract | None = None,
    inputs: Iterable[str] = (),
    *,
    pictures: BitmapPixelFormat = BitmapPixelFormat.RGB8,
    answers: str | None = None,
    labels: Iterable[str] | str | os.PathLike[str] = (),
    force: bool = False,
) -> BuiltIn:
    """Writes a copy of a model that takes unprocessed pictures, in any ONNX runtime.

    The inputs keep their names. Where the batch is 1, an input becomes uint8 of height x width x channels, one picture
    of any size; where it is free, or more, uint8 of pictures x height x width x channels, pictures of one size. ONNX's
    own operators crop, scale, order and normalise them, like `bind`. The file appears complete or not at all.

    Args:
        source: the path to the model.
        destination: the path to the copy; in the source's folder if the model has external data.
        contract: how pictures become its tensors; by default the model's own contract for each of its images.
        inputs: the inputs that become pictures; by default all images, or all that the contract fits.
        pictures: their format: `RGB8` as in Pillow, `BGR8` as in OpenCV, `RGBA8`, `BGRA8`, or `GRAY8`,
            which has one channel.
        answers: what `winml_py.vision` reads from the outputs, as more outputs: "classes" or "softmax" (`top_classes`,
            `top_scores`, `top_labels`), "yolo", "yolo-v5" or "detr" (`boxes`, `box_scores`, `box_classes`,
            `box_labels`, `box_masks`), "masks" (`class_map`), or "auto" for the only one that fits. The model is
            evaluated once, and takes one picture, also where the batch is free. None adds nothing.
        labels: the class names, or a file with them; by default the model's. Labels alone mean "auto".
        force: whether the copy may replace the model or another file that it is made from.

    Returns:
        The kind of the answers, and the names of their outputs.

    Raises:
        ModelNotFoundError: the file does not exist.
        CorruptModelError: it is not an ONNX model.
        InvalidArgumentError: no input is an image, or a named one is not; the format is not one of these; the outputs
            or the labels do not fit the answers.
        NotSupportedError: the model cannot be converted to operator set 13; its answers cannot be built in.
        StorageNotFoundError: the folder does not exist.
        StorageAccessError: the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> from winml_py import BitmapPixelFormat, LearningModel
        >>> from winml_py.authoring import build_in
        >>> target = os.path.join(tempfile.mkdtemp(), "digits.onnx")
        >>> built = build_in("models/digits.onnx", target, pictures=BitmapPixelFormat.GRAY8)
        >>> feature = LearningModel.load(target).input_features[0]
        >>> feature.name, feature.tensor_kind.name, feature.shape
        ('image', 'UINT8', (-1, -1, 1))
    """
    require_type(contract, ImageContract | None, "Pass ImageContract.imagenet() or your own.")
    require_type(inputs, Iterable, 'Pass input names, for example ["image"].')
    if pictures not in INTERLEAVED_FORMATS:
        raise InvalidArgumentError(
            f"A built-in contract does not support {pictures!r} pictures.",
            hint=f"Use one of {', '.join(known.name for known in INTERLEAVED_FORMATS)}.",
        )
    # The model is loaded first, which raises if the contract does not fit, before the weights are read.
    loaded = LearningModel.load(source)
    images = _find_images(loaded, contract, {inputs} if isinstance(inputs, str) else set(inputs))
    names = require_labels(labels)
    require_destination(destination, force, source, *([labels] if isinstance(labels, (str, os.PathLike)) else []))
    model = read_for_copy(source, destination)
    _upgrade_opset(model)
    has_answers = bool(answers or names)
    written = {}
    for image in images:
        sides, dtype = find_fixed_sides(image, image.contract), TENSOR_CLASSES[image.tensor_kind].dtype.type
        # Answers are those of one picture, so a free batch becomes one.
        is_single = image.shape[0] == 1 or (has_answers and image.shape[0] == -1)
        steps = Preprocessing(image.contract, pictures, sides, dtype, is_batch=not is_single)
        written[image.name] = put_before(model, image.name, steps)
    built = BuiltIn("", {})
    if has_answers:
        built = add_answers(model, loaded, answers or AUTO, names, written)
    parts = [part for value in (*model.graph.input, *model.graph.output) for part in walk_messages(value.type)]
    has_image = any(getattr(part, "denotation", "") == "IMAGE" for part in parts)  # another one, which these describe
    added = {BUILT_IN: pictures.name} | ({LABELS_KEY: json.dumps(names)} if names else {})
    replace_metadata(model, () if has_image else METADATA_KEYS, added)
    write_atomically(destination, model.SerializeToString())
    return built


def _find_images(model: LearningModel, contract: ImageContract | None, names: set[str]) -> list[ImageFeatureDescriptor]:
    """The inputs that become pictures, with their contracts."""
    if contract is not None:
        names = {feature.name for feature in find_fitting_inputs(model.input_features, contract, names)}
        model.contracts.update(dict.fromkeys(names, contract))
    images = [image for image in model.input_features if isinstance(image, ImageFeatureDescriptor)]
    unknown = names - {image.name for image in images}
    if unknown or not images:
        subject = f"The input {', '.join(sorted(unknown))} has no" if unknown else "No input of the model has an"
        raise InvalidArgumentError(
            f"{subject} image contract.",
            hint="Call build_in(source, destination, ImageContract.imagenet()), or pass --from NAME.",
        )
    images = [image for image in images if image.name in (names or {image.name})]
    for image in images:
        find_fitting_inputs(model.input_features, image.contract, {image.name})  # raises if it does not fit
    return images


def _upgrade_opset(model: onnx.ModelProto) -> None:
    """Converts a model in place if its operator set is older than the one that built-in nodes need."""
    from onnx import helper

    version = GraphWriter.OPSET
    imported = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    if not imported:
        model.opset_import.append(helper.make_opsetid("", version))
    elif imported[0] < version:
        try:
            model.CopyFrom(convert_opset(model, version))
        except ValueError as error:
            raise NotSupportedError(
                f"Built-in nodes require operator set {version}, but the model has {imported[0]} and cannot be "
                f"converted: {error}.",
                hint=f"Export the model with operator set {version} or later.",
            ) from error
