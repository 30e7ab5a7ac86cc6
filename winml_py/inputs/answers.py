"""What an evaluation's outputs are taken for: classes, objects, regions, pictures, numbers; as facts, and drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.base.arrays import Array
from ..core.base.messages import Facts
from ..core.base.winrt_object import inside
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.pictures import ImageFeatureValue
from ..core.features.ranking import Prediction, best_of
from ..core.features.tensor import Tensor
from ..core.imaging.bitmap import VideoFrame
from ..core.model.model import LearningModel
from ..errors import WinMLError
from ..vision.detections import Detections, detections, may_be_detections
from ..vision.layouts import DetectionLayout
from ..vision.segmentation import OUTSIDE, Segmentation, is_segmentation, masks

if TYPE_CHECKING:
    from PIL.Image import Image

NUMBERS_SHOWN = 16
"""Of so many numbers each is shown, of more their range."""

_CLASS_WORDS = re.compile(r"prob|score|class|logit|softmax|sigmoid|predictions", re.IGNORECASE)
_SCORE_OPERATORS = {"Softmax", "LogSoftmax", "Sigmoid", "HardSigmoid"}
_SHAPE_OPERATORS = {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Cast", "Transpose"}
"""Operators behind those, which change none of the numbers."""


class Classes(NamedTuple):
    """Which outputs are scores of classes, and how they are shown. A regression's numbers have no best.

    Attributes:
        top_k: how many classes to show; None for five, and only where there is a sign that they are classes.
        labels: their names, or none.
        outputs: the names of outputs that the model makes with a softmax or a sigmoid.
    """

    top_k: int | None
    labels: Sequence[str]
    outputs: Set[str]

    def best(self, name: str, array: Array) -> list[Prediction]:
        """The best classes of an output; none where it is no row of scores, or nothing says that it is one."""
        is_asked = self.top_k is not None or len(self.labels) == array.size
        if is_asked or name in self.outputs or _CLASS_WORDS.search(name) or _adds_up(array):
            return best_of(array, self.top_k or 5, self.labels)
        return []


def _adds_up(array: Array) -> bool:
    """Whether numbers are shares of one, as after a softmax."""
    if array.dtype.kind != "f" or array.size < 2:
        return False
    return bool(array.min() >= 0) and abs(float(array.sum(dtype=np.float64)) - 1) < 1e-3


def score_outputs(model: LearningModel) -> set[str]:
    """The names of the outputs that a softmax or a sigmoid gives, as they are or in another shape."""
    content = inside(model)
    graph = content.open().graph(content.header)
    makers = {name: node for node in graph.nodes for name in node.output}
    names = set()
    for output in graph.outputs:
        node = makers.get(output)
        for _ in makers:  # no longer than that: the nodes of a damaged model may stand in a circle
            if node is None or node.op_type not in _SHAPE_OPERATORS or not node.input:
                break
            node = makers.get(node.input[0])
        if node is not None and node.op_type in _SCORE_OPERATORS:
            names.add(output)
    return names


def summarize(name: str, value: Any, classes: Classes) -> Facts:
    """What is shown of an output: the top classes of scores, a few numbers as they are, or else shape and range."""
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
    facts: Facts = {"kind": "tensor", "type": array.dtype.name, "shape": list(array.shape)}
    if best := classes.best(name, array):
        top = [{"index": one.index, "value": one.score} | ({"label": one.label} if one.label else {}) for one in best]
        return facts | {"top": top}
    if array.size <= NUMBERS_SHOWN:
        return facts | {"values": array.reshape(-1).tolist()}
    if array.dtype.kind in "fiu":
        return facts | {"min": float(array.min()), "max": float(array.max()), "mean": float(array.mean())}
    return facts


# What a vision model found in a picture: as facts, and drawn.


AUTO, MASKS, NONE = "auto", "masks", "none"
KINDS = (AUTO, MASKS, *(layout.value for layout in DetectionLayout), NONE)


class Finding(NamedTuple):
    """What is shown of a picture's evaluation: facts, and what draws them on the picture, if anything can be drawn."""

    facts: Facts
    draw: Callable[[Any], Image] | None = None


class Finder(NamedTuple):
    """Finds what a model says of pictures.

    Attributes:
        kind: one of `KINDS`.
        threshold: the lowest score, or None for the makers' own.
        labels: the names of the classes; or none, for the model's own.
    """

    kind: str = AUTO
    threshold: float | None = None
    labels: Sequence[str] = ()

    def find(self, result: LearningModelEvaluationResult) -> Finding | None:
        """What the result says; None where it is no answer of a detector or of a segmentation.

        Raises:
            WinMLError: the kind was named, and the outputs are none.
        """
        if self.kind == NONE or (self.kind == AUTO and len(result.placements) != 1):
            return None
        if self.kind != AUTO:
            return self._find(result)
        if is_segmentation(result, self.labels):
            return _segmentation(masks(result, labels=self.labels))
        if not may_be_detections(result, self.labels):
            return None
        try:
            return _objects(detections(result, threshold=self.threshold, labels=self.labels))
        except WinMLError as error:  # the outputs are shown, and why nothing is made of them
            return Finding({"objects_error": str(error)})

    def _find(self, result: LearningModelEvaluationResult) -> Finding:
        if self.kind == MASKS:
            return _segmentation(masks(result, threshold=self.threshold, labels=self.labels))
        layout = DetectionLayout(self.kind)
        return _objects(detections(result, threshold=self.threshold, labels=self.labels, layout=layout))


def _objects(found: Detections) -> Finding:
    objects = []
    for one in found:
        facts: Facts = {"index": one.index, "score": one.score, "box": one.box.tolist()}
        facts |= {"label": one.label} if one.label else {}
        objects.append(facts | ({} if one.points is None else {"points": one.points.tolist()}))
    return Finding({"objects": objects}, found.draw)


def _segmentation(found: Segmentation) -> Finding:
    regions = [
        {"index": index, "share": share} | ({"label": found.labels[index]} if index < len(found.labels) else {})
        for index, share in found.shares.items()
        if index != OUTSIDE
    ]
    return Finding({"regions": regions}, found.draw)
