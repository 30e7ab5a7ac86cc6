"""The layouts in which detectors answer, and how one is recognised."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from ..core.imaging.picture_placement import PicturePlacement
from ..errors import InvalidArgumentError
from .outputs import Array

_GRIDS = ((8, 16, 32), (8, 16, 32, 64))  # the strides of YOLO's usual grids, and of those for large pictures
PROTOTYPES = 32
"""How many masks YOLO mixes the mask of an object from."""


class DetectionLayout(Enum):
    """How a detector writes its boxes.

    `n` is the batch, `c` the classes, `a` the places of all grids, `q` the queries, or the boxes that are left.
    """

    YOLO = "yolo"
    """Ultralytics' v8 to v12, n x (4 + c [+ masks or points]) x a: middle and size in pixels, then a score a class."""
    YOLO_V5 = "yolo-v5"
    """n x 3a x (5 + c [+ masks]), as YOLOv5 and v7: middle and size in pixels, whether there is an object, scores."""
    YOLO_END_TO_END = "yolo-end-to-end"
    """n x q x (6 [+ masks or points]), as v10 and exports with `nms=True`: corners in pixels, score, class."""
    DETR = "detr"
    """Logits n x q x (c + 1), the last for "no object", and boxes n x q x 4: middle and size from 0 to 1."""
    RT_DETR = "rt-detr"
    """As DETR, but logits of c classes, each on its own (RT-DETR, Deformable DETR)."""
    RT_DETR_ULTRALYTICS = "rt-detr-ultralytics"
    """n x q x (4 + c): middle and size from 0 to 1, then a score a class."""
    TORCHVISION = "torchvision"
    """Boxes q x 4 (corners in pixels), labels q (integers), scores q: SSD, RetinaNet, Faster R-CNN."""


class Facts(NamedTuple):
    """What is known of a detector.

    Attributes:
        outputs: its arrays, by name.
        placement: where the picture lies in the tensor.
        labels: the names of its classes, or none.
        metadata: what its file says.
    """

    outputs: Mapping[str, Array]
    placement: PicturePlacement
    labels: Sequence[str]
    metadata: Mapping[str, str]

    @property
    def task(self) -> str:
        """What Ultralytics' exporter calls the task, or ""."""
        return self.metadata.get("task", "")

    @property
    def point_shape(self) -> tuple[int, int] | None:
        """How many points Ultralytics' exporter says an object has, and how many numbers each has."""
        try:
            count, numbers = ast.literal_eval(self.metadata.get("kpt_shape", "")[:100])
        except (ValueError, SyntaxError, TypeError):
            return None
        return (count, numbers) if type(count) is int and count > 0 and numbers in (2, 3) else None

    def of_rank(self, rank: int) -> list[Array]:
        """The outputs of floats with so many dimensions."""
        return [array for array in self.outputs.values() if array.ndim == rank and array.dtype.kind == "f"]

    @property
    def table(self) -> Array | None:
        """The only output of three dimensions, in which YOLO's boxes are."""
        found = self.of_rank(3)
        return found[0] if len(found) == 1 else None

    @property
    def prototypes(self) -> Array | None:
        """The masks that YOLO mixes."""
        found = [array for array in self.of_rank(4) if array.shape[1] == PROTOTYPES]
        return found[0] if len(found) == 1 else None

    @property
    def queries(self) -> tuple[Array, Array] | None:
        """DETR's boxes and logits."""
        found = {name: array for name, array in self.outputs.items() if array.ndim == 3 and array.dtype.kind == "f"}
        boxes = [name for name, array in found.items() if array.shape[2] == 4]
        boxes = [name for name in boxes if "box" in name.lower()] or boxes
        if len(found) != 2 or len(boxes) != 1:
            return None
        (logits,) = (array for name, array in found.items() if name != boxes[0])
        same = logits.shape[:2] == found[boxes[0]].shape[:2]
        return (found[boxes[0]], logits) if same else None

    @property
    def triple(self) -> tuple[Array, Array, Array] | None:
        """Torchvision's boxes, labels and scores."""
        boxes = [array for array in self.of_rank(2) if array.shape[1] == 4]
        labels = [array for array in self.outputs.values() if array.ndim == 1 and array.dtype.kind in "iu"]
        scores = self.of_rank(1)
        if not len(boxes) == len(labels) == len(scores) == 1:
            return None
        return (boxes[0], labels[0], scores[0]) if len(boxes[0]) == len(labels[0]) == len(scores[0]) else None


def recognised(facts: Facts) -> DetectionLayout:
    """The layout that the shapes, the labels and the metadata leave.

    Raises:
        InvalidArgumentError: none is left, or more than one.
    """
    found = candidates(facts)
    if len(found) == 1:
        return found[0]
    shapes = ", ".join(f"{name} ({' x '.join(map(str, array.shape))})" for name, array in facts.outputs.items())
    names = ", ".join(layout.name for layout in found or DetectionLayout)
    if not found:
        raise InvalidArgumentError(
            f"The outputs {shapes} are in no layout of detections that is recognised.",
            hint=f"Name it, if it is one of these: detections(result, layout=DetectionLayout.X), X of {names}.",
        )
    raise InvalidArgumentError(
        f"The outputs {shapes} may be in the layout {names.replace(', ', ' or ')}.",
        hint="Name it: detections(result, layout=DetectionLayout.X); or pass labels=..., whose number may tell.",
    )


def candidates(facts: Facts) -> list[DetectionLayout]:
    """The layouts that the shapes, the labels and the metadata leave."""
    if facts.triple is not None:
        return [DetectionLayout.TORCHVISION]
    if facts.queries is not None:
        return _fitting_queries(facts.queries[1].shape[2], len(facts.labels))
    return [] if facts.table is None else _fitting_table(facts, facts.table)


def _fitting_queries(columns: int, labels: int) -> list[DetectionLayout]:
    counted = {columns - 1: [DetectionLayout.DETR], columns: [DetectionLayout.RT_DETR]}
    return counted.get(labels, [DetectionLayout.DETR, DetectionLayout.RT_DETR])


def _fitting_table(facts: Facts, table: Array) -> list[DetectionLayout]:
    _, rows, columns = table.shape
    places = _places(facts.placement)
    if columns in places:
        return [DetectionLayout.YOLO]
    if rows in {3 * place for place in places}:
        return [DetectionLayout.YOLO_V5]
    if rows in places or rows > 1000:
        return []  # YOLOX has such rows, whose boxes are decoded or not
    if facts.task and facts.metadata.get("author") == "Ultralytics":
        is_rtdetr = columns == 4 + len(facts.labels) and not _is_end_to_end(facts.metadata)
        return [DetectionLayout.RT_DETR_ULTRALYTICS if is_rtdetr else DetectionLayout.YOLO_END_TO_END]
    found = [DetectionLayout.YOLO_END_TO_END] if columns == 6 or facts.prototypes is not None else []
    if columns == 4 + (len(facts.labels) or 2):  # without labels, any table could be one: those of 6 numbers are asked
        found.append(DetectionLayout.RT_DETR_ULTRALYTICS)
    return found


def _places(placement: PicturePlacement) -> set[int]:
    """How many places YOLO's grids have together."""
    sides = placement.tensor_height, placement.tensor_width
    return {sum(-(-sides[0] // s) * -(-sides[1] // s) for s in strides) for strides in _GRIDS}


def _is_end_to_end(metadata: Mapping[str, str]) -> bool:
    return metadata.get("end2end") == "True" or "'nms': True" in metadata.get("args", "")
