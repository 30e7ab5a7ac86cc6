"""What `winml-py run` shows of an evaluation's outputs, and of what was found in a picture."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.base.arrays import Array
from ..core.base.messages import Facts
from ..core.base.winrt_object import inside
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.pictures import ImageFeatureValue
from ..core.features.ranking import Prediction, best_of
from ..core.features.tensor import Tensor
from ..core.imaging.frame import VideoFrame
from ..core.model.model import LearningModel
from ..errors import WinMLError
from ..vision.detections import Detections, detections, may_be_detections
from ..vision.layouts import DetectionLayout
from ..vision.segmentation import OUTSIDE, Segmentation, is_segmentation, masks
from .style import number, say, show

if TYPE_CHECKING:
    from PIL.Image import Image

    from ..perf.placement import NodeOnCpu


_NUMBERS_SHOWN = 16
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
        while node is not None and node.op_type in _SHAPE_OPERATORS and node.input:
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
    if array.size <= _NUMBERS_SHOWN:
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
            elif output["kind"] == "sequence" and len(output["value"]) > 1:
                say(f"  {name}")
                for element in output["value"]:
                    say(f"    {_spell(element)}")
            else:
                say(f"  {name}: {_spell(output)}")
        for path in result.get("written", []):
            say(f"  written to {path}")


def _spell(output: Facts) -> str:
    if output["kind"] == "image":
        return f"a picture of {output['width']}x{output['height']}"
    if output["kind"] == "video":
        return f"a video of {output['width']}x{output['height']}, {output['frames']:,} frames"
    if output["kind"] == "sequence":
        return "; ".join(map(_spell, output["value"])) or "an empty list"
    if output["kind"] == "map":
        return _spell_map(output["value"])
    if "top" in output:  # of an element of a sequence
        return ", ".join(f"{best.get('label') or best['index']} {best['value']:.4g}" for best in output["top"])
    head = f"{output['type']} of {'x'.join(map(str, output['shape']))}"
    if "values" in output:
        numbers = ", ".join(map(_spell_element, output["values"])) or "nothing"
        is_row = len(output["values"]) == max(output["shape"], default=1)
        return numbers if is_row else f"{head}: {numbers}"
    if "min" in output:
        return f"{head}, {output['min']:.4g} to {output['max']:.4g}, mean {output['mean']:.4g}"
    return head


def _spell_map(items: Mapping[str, object]) -> str:
    """Keys and values; of many numbers, the highest."""
    pairs = list(items.items())
    if len(pairs) > _NUMBERS_SHOWN and all(isinstance(value, (int, float)) for value in items.values()):
        pairs = sorted(pairs, key=lambda pair: pair[1], reverse=True)  # type: ignore[arg-type, return-value]
    shown = [f"{key} {_spell_element(value)}" for key, value in pairs[:_NUMBERS_SHOWN]]
    more = len(pairs) - len(shown)
    return ", ".join(shown) + (f", and {more:,} more" if more else "") if pairs else "an empty map"


def _spell_element(element: object) -> str:
    return f"{element:.6g}" if isinstance(element, float) else str(element)


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


def print_on_cpu(nodes: Sequence[NodeOnCpu], *, is_error: bool = False) -> None:
    """Lists the nodes that a GPU leaves to the processor."""
    if not nodes:
        return
    say(f"{len(nodes)} node{'s' * (len(nodes) > 1)} on the CPU:", is_error=is_error)
    for node in nodes:
        why = node.reason or "the log does not say why"
        say(f"  {node.operator} {node.node}".rstrip() + f": {why}", is_error=is_error)
