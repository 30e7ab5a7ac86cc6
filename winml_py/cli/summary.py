"""What `winml-py run` shows of an evaluation's outputs, and of what was found in a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.base.messages import Facts
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.pictures import ImageFeatureValue
from ..core.features.ranking import best_of
from ..core.features.tensor import Tensor
from ..core.imaging.frame import VideoFrame
from ..errors import WinMLError
from ..vision.detections import Detections, detections, may_be_detections
from ..vision.layouts import DetectionLayout
from ..vision.segmentation import OUTSIDE, Segmentation, is_segmentation, masks
from .style import number, say, show

if TYPE_CHECKING:
    from PIL.Image import Image


def summarize(value: Any, top_k: int, labels: Sequence[str]) -> Facts:
    """What is shown of an output: the top classes of a row of numbers, or else its shape and range."""
    if isinstance(value, ImageFeatureValue):
        return summarize(value.video_frame, top_k, labels)
    if isinstance(value, VideoFrame):
        bitmap = value.software_bitmap
        return {"kind": "image", "width": bitmap.pixel_width, "height": bitmap.pixel_height}
    if isinstance(value, list):
        return {"kind": "sequence", "value": [summarize(element, top_k, labels) for element in value]}
    if not isinstance(value, Tensor):
        return {"kind": "map", "value": {str(key): item for key, item in value.items()}}
    array = value.to_numpy()
    facts: Facts = {"kind": "tensor", "type": array.dtype.name, "shape": list(array.shape)}
    if best := best_of(array, top_k, labels):
        top = [{"index": one.index, "value": one.score} | ({"label": one.label} if one.label else {}) for one in best]
        return facts | {"top": top}
    if array.size <= 16:
        return facts | {"values": array.reshape(-1).tolist()}
    if array.dtype.kind in "fiu":
        return facts | {"min": float(array.min()), "max": float(array.max()), "mean": float(array.mean())}
    return facts


def print_results(facts: Facts) -> None:
    """Prints what `run` found, errors to stderr."""
    several = len({result["model"] for result in facts["results"]}) > 1
    for result in facts["results"]:
        if "error" in result:
            say(result["error"]["message"], "bold red", is_error=True)
            continue
        say(f"{result['model']} on {result['input']}" if several else result["input"], "bold")
        outputs = {} if print_findings(result) else result["outputs"]
        for name, output in outputs.items():
            if "top" in output:
                say(f"  {name}")
                rows = [[str(best["index"]), best.get("label", ""), number(best["value"], 4)] for best in output["top"]]
                show(rows, align="rlr", indent=4)
            else:
                say(f"  {name}: {_spell(output)}")
        for path in result.get("written", []):
            say(f"  written to {path}")


def _spell(output: Facts) -> str:
    if output["kind"] == "image":
        return f"a picture of {output['width']}x{output['height']}"
    if output["kind"] == "video":
        return f"a video of {output['width']}x{output['height']}, {output['frames']:,} frames"
    if output["kind"] != "tensor":
        return str(output["value"])
    head = f"{output['type']} of {'x'.join(map(str, output['shape'])) or 'one number'}"
    if "values" in output:
        return f"{head}: {output['values']}"
    if "min" in output:
        return f"{head}, {output['min']:.4g} to {output['max']:.4g}, mean {output['mean']:.4g}"
    return head


# What a vision model found in a picture, for `winml-py run`: as facts, and drawn.


AUTO, MASKS, NONE = "auto", "masks", "none"
KINDS = (AUTO, MASKS, *(layout.value for layout in DetectionLayout), NONE)


class Finding(NamedTuple):
    """What is shown of a picture's evaluation.

    Attributes:
        facts: for JSON and the table.
        draw: draws it on the picture; None where nothing can be drawn.
    """

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


def print_findings(result: Facts) -> bool:
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
