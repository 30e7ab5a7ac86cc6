"""What a vision model found in a picture, for `winml-py run`: as facts, and drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.evaluation.result import LearningModelEvaluationResult
from ..errors import WinMLError
from ..vision.detections import Detections, detections, may_be_detections
from ..vision.layouts import DetectionLayout
from ..vision.segmentation import OUTSIDE, Segmentation, is_segmentation, masks
from .style import number, say, show

if TYPE_CHECKING:
    from PIL.Image import Image

AUTO, MASKS, NONE = "auto", "masks", "none"
KINDS = (AUTO, MASKS, *(layout.value for layout in DetectionLayout), NONE)


class Finding(NamedTuple):
    """What is shown of a picture's evaluation.

    Attributes:
        facts: for JSON and the table.
        draw: draws it on the picture; None where nothing can be drawn.
    """

    facts: dict[str, Any]
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
            return self._named(result)
        if is_segmentation(result, self.labels):
            return _segmentation(masks(result, labels=self.labels))
        if not may_be_detections(result, self.labels):
            return None
        try:
            return _objects(detections(result, threshold=self.threshold, labels=self.labels))
        except WinMLError as error:  # the outputs are shown, and why nothing is made of them
            return Finding({"objects_error": str(error)})

    def _named(self, result: LearningModelEvaluationResult) -> Finding:
        if self.kind == MASKS:
            return _segmentation(masks(result, threshold=self.threshold, labels=self.labels))
        layout = DetectionLayout(self.kind)
        return _objects(detections(result, threshold=self.threshold, labels=self.labels, layout=layout))


def _objects(found: Detections) -> Finding:
    objects = []
    for one in found:
        facts: dict[str, Any] = {"index": one.index, "score": one.score, "box": one.box.tolist()}
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


def print_findings(result: dict[str, Any]) -> bool:
    """Prints what `find` found, and says whether that was anything."""
    if "objects_error" in result:
        say(f"  objects: {result['objects_error']}", is_error=True)
    if "objects" in result:
        if not result["objects"]:
            say("  no objects")
        boxes = [(one, [str(round(edge)) for edge in one["box"]]) for one in result["objects"]]
        rows = [[str(one["index"]), one.get("label", ""), number(one["score"], 3), *box] for one, box in boxes]
        show(rows, ("class", "", "score", "left", "top", "right", "bottom"), "rlrrrrr", indent=4)
    if "regions" in result:
        rows = [[str(one["index"]), one.get("label", ""), f"{one['share']:.1%}"] for one in result["regions"]]
        show(rows, ("class", "", "share"), "rlr", indent=4)
    return "objects" in result or "regions" in result
