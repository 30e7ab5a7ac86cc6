"""What outputs mean: classes, objects, regions, pictures or numbers, described for reports and drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._examples import find_input_sizes, sizes_to_json
from ._values import BUILT_IN
from .core.base.agreement import as_numpy
from .core.base.arrays import Array
from .core.base.messages import Facts
from .core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor
from .core.features.pictures import ImageFeatureValue
from .core.features.tensor import Tensor
from .core.imaging.bitmap import SoftwareBitmap, VideoFrame
from .core.imaging.contract import ImageContract
from .core.imaging.detensorize import detensorize
from .core.model.model import LearningModel
from .core.session.result import LearningModelEvaluationResult, Prediction, find_best_classes, is_row
from .enums import BitmapPixelFormat, LearningModelPixelRange, TensorLayout
from .errors import InvalidArgumentError, WinMLError
from .vision.detections import Detections, detections, label_all, may_be_detections
from .vision.layouts import DetectionLayout
from .vision.masks import OUTSIDE, Segmentation, find_segmentation, masks

if TYPE_CHECKING:
    from PIL.Image import Image

NUMBERS_SHOWN = 16
"""Up to this count, every number is shown; above it, their range."""

_CLASS_WORDS = re.compile(r"prob|score|class|logit|softmax|sigmoid|predictions", re.IGNORECASE)
_RANKED = re.compile(r"(top|box)_(classes|scores)(_\d+)?")
"""Outputs that a built-in contract adds: they have only the best classes, best first."""


class Classes(NamedTuple):
    """Which outputs are class scores, and how they are shown. A regression's numbers have no best class.

    Attributes:
        top_k: how many classes to show; None for five, and only if something marks the outputs as scores.
        labels: the class names, if any.
    """

    top_k: int | None
    labels: Sequence[str]

    def find_best(self, name: str, array: Array) -> list[Prediction]:
        """The best classes of an output; none if it is not a row of scores, or nothing marks it as one."""
        if _RANKED.fullmatch(name):
            return []
        is_stated = self.top_k is not None or len(self.labels) == array.size
        if is_row(array) and (is_stated or _CLASS_WORDS.search(name) or _adds_up_to_one(array)):
            return find_best_classes(array, self.top_k or 5, self.labels)
        return []


def _adds_up_to_one(array: Array) -> bool:
    """Whether the numbers may be those of a softmax."""
    if array.dtype.kind != "f" or array.size < 2:
        return False
    return bool(array.min() >= 0) and abs(float(array.sum(dtype=np.float64)) - 1) < 1e-3


def summarize(name: str, value: Any, classes: Classes) -> Facts:
    """Describes an output: scores by the top classes, a few numbers one by one, others by their shape and range."""
    if isinstance(value, ImageFeatureValue):
        return summarize(name, value.video_frame, classes)
    if isinstance(value, VideoFrame):
        bitmap = value.software_bitmap
        return {"kind": "image", "width": bitmap.pixel_width, "height": bitmap.pixel_height}
    if isinstance(value, list):
        return {"kind": "sequence", "value": [summarize(name, element, classes) for element in value]}
    if not isinstance(value, Tensor):
        return {"kind": "map", "value": {str(key): item for key, item in value.items()}}
    array = value.to_numpy()
    is_stated = classes.top_k is not None or array.shape[-1:] == (len(classes.labels),)
    if is_stated and array.ndim == 2 and len(array) > 1:  # the scores of a batch
        return {"kind": "sequence", "value": [_summarize_array(name, row, classes) for row in array]}
    return _summarize_array(name, array, classes)


def _summarize_array(name: str, array: Array, classes: Classes) -> Facts:
    facts: Facts = {"kind": "tensor", "type": array.dtype.name, "shape": list(array.shape)}
    if best := classes.find_best(name, array):
        top = []
        for prediction in best:
            labelled = {"label": prediction.label} if prediction.label else {}
            top.append({"index": prediction.index, "value": prediction.score} | labelled)
        return facts | {"top": top}
    if array.size <= NUMBERS_SHOWN:
        return facts | {"values": array.reshape(-1).tolist()}
    if array.dtype.kind in "fiu":
        mean = float(array.mean(dtype=np.float64))
        return facts | {"min": array.min().item(), "max": array.max().item(), "mean": mean}
    return facts


# Pictures: what a vision model finds in them.


AUTO, MASKS, NONE = "auto", "masks", "none"
KINDS = (AUTO, MASKS, *(layout.value for layout in DetectionLayout), NONE)


class VisionAnswer(NamedTuple):
    """What a model found in a picture: facts, a function that draws them on the picture, if that is possible, and the
    class of each pixel, if the model gives it.
    """

    facts: Facts
    draw: Callable[[Any], Image] | None = None
    classes: Array | None = None


class VisionInterpreter(NamedTuple):
    """Reads objects or regions from a model's results.

    Attributes:
        kind: one of `KINDS`.
        threshold: objects need a higher score; None for the exporter's default.
        labels: the class names; empty for the model's own.
    """

    kind: str = AUTO
    threshold: float | None = None
    labels: Sequence[str] = ()

    def interpret(self, result: LearningModelEvaluationResult, pictures: Collection[Any] = ()) -> VisionAnswer | None:
        """The result's objects or regions; None if the model is neither a detector nor a segmentation model.

        Args:
            result: the result of an evaluation.
            pictures: the inputs. They are needed if a contract is built in, because results have no placement then.

        Raises:
            WinMLError: the kind was named, and the outputs do not match it.
        """
        if self.kind == AUTO and pictures and BUILT_IN in result.metadata:
            return self._read_built_in(result, pictures)
        if self.kind == NONE or (self.kind == AUTO and len(result.placements) != 1):
            return None
        if self.kind == MASKS:
            return _describe_regions(masks(result, threshold=self.threshold, labels=self.labels))
        if self.kind != AUTO:
            layout = DetectionLayout(self.kind)
            return _describe_objects(detections(result, threshold=self.threshold, labels=self.labels, layout=layout))
        if name := find_segmentation(result, self.labels):
            return _describe_regions(masks(result, labels=self.labels, output=name))
        if not may_be_detections(result, self.labels):
            return None
        try:
            return _describe_objects(detections(result, threshold=self.threshold, labels=self.labels))
        except WinMLError as error:  # the outputs are shown, and why they were not interpreted
            return VisionAnswer({"objects_error": str(error)})

    def _read_built_in(self, result: LearningModelEvaluationResult, pictures: Iterable[Any]) -> VisionAnswer | None:
        """The objects or regions that a model with built-in answers has as outputs, after its other outputs."""
        added = {re.sub(r"_\d+$", "", name): as_numpy(value) for name, value in result.outputs.items()}
        sizes = [picture.sizes[0] for picture in pictures if isinstance(picture, ImageFeatureValue)]
        if self.threshold is not None:
            raise InvalidArgumentError("The model has its threshold built in.", hint="Omit the threshold.")
        if "class_map" in added:
            return _describe_regions(Segmentation(added["class_map"], tuple(self.labels)))
        if "box_classes" not in added or not sizes:
            return None
        masks, indices = added.get("box_masks"), added["box_classes"]
        mask_of = None if masks is None else lambda index, _: masks[index]
        labels = label_all(indices, self.labels)
        return _describe_objects(
            Detections(added["boxes"], added["box_scores"], indices, labels, *sizes[0], _mask_of=mask_of)
        )


def _describe_objects(found_objects: Detections) -> VisionAnswer:
    objects = []
    for detection in found_objects:
        facts: Facts = {"index": detection.index, "score": detection.score, "box": detection.box.tolist()}
        if detection.label:
            facts["label"] = detection.label
        if detection.points is not None:
            facts["points"] = detection.points.tolist()
        objects.append(facts)
    return VisionAnswer({"objects": objects}, found_objects.draw)


def _describe_regions(segmentation: Segmentation) -> VisionAnswer:
    regions = []
    for index, share in segmentation.shares.items():
        if index != OUTSIDE:
            facts: Facts = {"index": index, "share": share}
            if index < len(segmentation.labels):
                facts["label"] = segmentation.labels[index]
            regions.append(facts)
    return VisionAnswer({"regions": regions}, segmentation.draw, segmentation.classes)


def describe_answer(
    features: Iterable[FeatureDescriptor], values: Mapping[str, Any], outputs: Mapping[str, Any], classes: Classes
) -> Facts:
    """Describes an evaluation: the sizes of its inputs, and its outputs."""
    summaries = {name: summarize(name, value, classes) for name, value in outputs.items()}
    return {"sizes": sizes_to_json(find_input_sizes(features, values)), "outputs": summaries}


# Outputs that are pictures, though no metadata says so.


MIN_SIDE = 4
"""The shortest side of a picture, in pixels: a tensor with a shorter side is a table."""

MAX_RATIO = 8
"""The largest ratio of a picture's sides."""


def find_channel_order(model: LearningModel, values: Mapping[str, object]) -> BitmapPixelFormat:
    """The channel order in which a model sees pictures, by the contract of its first image, stated or assumed."""
    contracts = [image.contract for image in model.input_features if isinstance(image, ImageFeatureDescriptor)]
    orders = [contract.pixel_format for contract in contracts if contract.channels == 3]
    if orders:
        return orders[0]
    is_assumed = not contracts and any(isinstance(value, ImageFeatureValue) for value in values.values())
    return BitmapPixelFormat.BGR8 if is_assumed else BitmapPixelFormat.RGB8  # Windows ML's rule for pictures


class TensorPicture(NamedTuple):
    """A picture, the name of the output, and the contract that its numbers were read by."""

    name: str
    bitmap: SoftwareBitmap
    contract: ImageContract


def find_tensor_picture(outputs: Mapping[str, object], order: BitmapPixelFormat) -> TensorPicture | None:
    """The first output that looks like a picture: it has 1 or 3 channels, and sides that are long enough.

    Nothing states the range of its numbers, so it is guessed: up to 255 if there are numbers above 1.5 or below -1.5;
    from -1 to 1 if there are numbers below -0.1; else from 0 to 1.
    """
    for name, value in outputs.items():
        if isinstance(value, Tensor):
            array = value.to_numpy()
            layout = _find_layout(array)
            if layout is not None:
                return _read_picture(name, array[0] if array.ndim == 4 else array, layout, order)
    return None


def _find_layout(array: Array) -> TensorLayout | None:
    """The layout of a single picture; None if the array is not one."""
    is_single = array.ndim == 3 or (array.ndim == 4 and array.shape[0] == 1)
    if not is_single or array.dtype not in (np.float32, np.float16, np.uint8):
        return None
    first, middle, last = array.shape[-3:]
    for layout, channels, sides in (
        (TensorLayout.NCHW, first, (middle, last)),
        (TensorLayout.NHWC, last, (first, middle)),
    ):
        if channels in (1, 3) and min(sides) >= MIN_SIDE and max(sides) <= MAX_RATIO * min(sides):
            return layout
    return None


def _read_picture(name: str, array: Array, layout: TensorLayout, order: BitmapPixelFormat) -> TensorPicture:
    channels, height, width = array.shape if layout is TensorLayout.NCHW else np.moveaxis(array, 2, 0).shape
    is_gray = channels == 1
    contract = ImageContract(BitmapPixelFormat.GRAY8 if is_gray else order, _guess_range(array), layout=layout)
    bitmap = SoftwareBitmap(BitmapPixelFormat.GRAY8 if is_gray else BitmapPixelFormat.BGRA8, width, height)
    detensorize(np.ascontiguousarray(array), contract, bitmap)
    return TensorPicture(name, bitmap, contract)


def _guess_range(array: Array) -> LearningModelPixelRange:
    numbers = array[np.isfinite(array)]
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)
    if array.dtype == np.uint8 or high > 1.5 or low < -1.5:
        return LearningModelPixelRange.ZERO_TO255
    return LearningModelPixelRange.MINUS_ONE_TO_ONE if low < -0.1 else LearningModelPixelRange.ZERO_TO_ONE
