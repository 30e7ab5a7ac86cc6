"""The layouts of detectors' outputs: how one is recognised, and how it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from ..core.base.arrays import Array
from ..core.contracts.exporters import ExporterFacts
from ..core.imaging.picture_placement import PicturePlacement
from ..errors import EvaluationError, InvalidArgumentError, NotSupportedError
from . import grids
from .outputs import select_picture

PROTOTYPES = 32
"""How many prototypes YOLO sums to the mask of an object."""


class DetectionLayout(Enum):
    """How a detector lays out its boxes.

    `n` is the batch, `c` the classes, `a` the places of all grids, `q` the queries, or the remaining boxes.
    """

    YOLO = "yolo"
    """Ultralytics' v8 to v12, n x (4 + c [+ masks or points]) x a: centre and size in pixels, a score per class."""
    YOLO_V5 = "yolo-v5"
    """n x 3a x (5 + c [+ masks]), as YOLOv5 and v7: centre and size in pixels, objectness, then a score per class."""
    YOLO_END_TO_END = "yolo-end-to-end"
    """n x q x (6 [+ masks or points]), as v10 and exports with `nms=True`: corners in pixels, score, class."""
    DETR = "detr"
    """Logits n x q x (c + 1), the last for "no object", and boxes n x q x 4: centre and size from 0 to 1."""
    RT_DETR = "rt-detr"
    """As DETR, but with separate logits for c classes (RT-DETR, Deformable DETR)."""
    RT_DETR_ULTRALYTICS = "rt-detr-ultralytics"
    """n x q x (4 + c): centre and size from 0 to 1, then a score per class."""
    TORCHVISION = "torchvision"
    """Boxes q x 4 (corners in pixels), labels q (integers), scores q: SSD, RetinaNet, Faster R-CNN."""
    SSD = "ssd"
    """Boxes n x q x 4 (corners from 0 to 1), labels n x q, scores n x q: SSD as ONNX's model zoo and MLPerf have it."""
    YOLOX = "yolox"
    """n x a x (5 + c): offsets of the centre and logarithms of the size in strides, objectness, then a score per class.
    Exports that decode them give `YOLO_V5`'s numbers."""
    NANODET = "nanodet"
    """n x a x (c + 32): scores, then for each side of the box the shares of 8 distances (NanoDet-Plus)."""
    SCRFD = "scrfd"
    """For strides 8, 16 and 32: scores 2a x 1, distances 2a x 4, and points 2a x 10: faces, by insightface."""
    YUNET = "yunet"
    """`cls_8`, `obj_8`, `bbox_8`, `kps_8`, and for 16 and 32: faces with five points, as OpenCV's zoo has it."""


class DetectorFacts(NamedTuple):
    """What is known of a detector: its arrays by name, the placement of the picture, its labels and exporter."""

    outputs: Mapping[str, Array]
    placement: PicturePlacement
    labels: Sequence[str]
    exporter: ExporterFacts

    def find_float_outputs(self, rank: int) -> list[Array]:
        """The outputs of floats with this many dimensions."""
        return [array for array in self.outputs.values() if array.ndim == rank and array.dtype.kind == "f"]

    @property
    def table(self) -> Array | None:
        """The only output of three dimensions, which holds YOLO's boxes."""
        tables = self.find_float_outputs(3)
        return tables[0] if len(tables) == 1 else None

    @property
    def prototypes(self) -> Array | None:
        """The masks that YOLO sums, by coefficients, to the mask of an object."""
        stacks = [array for array in self.find_float_outputs(4) if array.shape[1] == PROTOTYPES]
        return stacks[0] if len(stacks) == 1 else None

    @property
    def queries(self) -> tuple[Array, Array] | None:
        """DETR's boxes and logits."""
        tensors = {name: array for name, array in self.outputs.items() if array.ndim == 3 and array.dtype.kind == "f"}
        box_names = [name for name, array in tensors.items() if array.shape[2] == 4]
        if len(box_names) == 2:  # the logits of three classes and "no object" have four columns, too
            box_names = [name for name in box_names if "box" in name.lower()]
        if len(tensors) != 2 or len(box_names) != 1:
            return None
        boxes = tensors.pop(box_names[0])
        (logits,) = tensors.values()
        return (boxes, logits) if boxes.shape[:2] == logits.shape[:2] else None

    def find_triple(self, rank: int) -> tuple[Array, Array, Array] | None:
        """Boxes of this many dimensions, labels and scores. Torchvision's boxes have 2, SSD's 3, with the batch."""
        boxes = [array for array in self.find_float_outputs(rank) if array.shape[-1] == 4]
        labels = [array for array in self.outputs.values() if array.ndim == rank - 1 and array.dtype.kind in "iu"]
        scores = self.find_float_outputs(rank - 1)
        if not len(boxes) == len(labels) == len(scores) == 1:
            return None
        if rank == 3 and len(self.outputs) != 3:  # such shapes are common, so SSD must have nothing else
            return None
        is_fitting = boxes[0].shape[:-1] == labels[0].shape == scores[0].shape
        return (boxes[0], labels[0], scores[0]) if is_fitting else None

    def list_outputs(self, layout: DetectionLayout, has_masks: bool) -> list[str]:
        """The names of the outputs that a layout's objects, with their masks, are read from."""
        if layout in (DetectionLayout.SCRFD, DetectionLayout.YUNET):
            return list(self.outputs)
        read: tuple[Array | None, ...] | None = self.table, self.prototypes if has_masks else None
        if layout in (DetectionLayout.TORCHVISION, DetectionLayout.SSD):
            read = self.find_triple(2 if layout is DetectionLayout.TORCHVISION else 3)
        elif layout in (DetectionLayout.DETR, DetectionLayout.RT_DETR):
            read = self.queries
        return [name for name, array in self.outputs.items() if any(array is part for part in read or ())]


def recognise_layout(facts: DetectorFacts) -> DetectionLayout:
    """The only layout that fits the shapes, the labels and the metadata; InvalidArgumentError unless one fits."""
    layouts = find_layouts(facts)
    if len(layouts) == 1:
        return layouts[0]
    shapes = ", ".join(f"{name} ({' x '.join(map(str, array.shape))})" for name, array in facts.outputs.items())
    names = ", ".join(layout.name for layout in layouts or DetectionLayout)
    if not layouts:
        raise InvalidArgumentError(
            f"The outputs {shapes or '(none of numbers)'} match no known detection layout.",
            hint=f"If you know the layout, pass detections(result, layout=DetectionLayout.X), with X from {names}.",
        )
    raise InvalidArgumentError(
        f"The outputs {shapes} may have the layout {names.replace(', ', ' or ')}.",
        hint="Pass detections(result, layout=DetectionLayout.X), or labels=...: their number may identify the layout.",
    )


def find_layouts(facts: DetectorFacts) -> list[DetectionLayout]:
    """The layouts that fit the shapes, the labels and the metadata."""
    if facts.find_triple(2) is not None:
        return [DetectionLayout.TORCHVISION]
    if facts.find_triple(3) is not None:
        return [DetectionLayout.SSD]
    if grids.has_yunet_names(list(facts.outputs)):
        return [DetectionLayout.YUNET]
    if grids.group_scrfd_outputs(facts.outputs, facts.placement):
        return [DetectionLayout.SCRFD]
    if facts.queries is not None:
        _, logits = facts.queries
        if len(facts.labels) == logits.shape[2] - 1:  # the last column is for "no object"
            return [DetectionLayout.DETR]
        if len(facts.labels) == logits.shape[2]:
            return [DetectionLayout.RT_DETR]
        return [DetectionLayout.DETR, DetectionLayout.RT_DETR]
    return [] if facts.table is None else _find_table_layouts(facts, facts.table)


def _find_table_layouts(facts: DetectorFacts, table: Array) -> list[DetectionLayout]:
    """The layouts of a single table, by its number of rows and columns."""
    _, rows, columns = table.shape
    place_counts = grids.count_places(facts.placement)
    if columns in place_counts:
        return [DetectionLayout.YOLO]
    if rows in {3 * count for count in place_counts}:
        return [DetectionLayout.YOLO_V5]
    if rows in place_counts:
        return _find_grid_layouts(facts, table)
    # What remains has a row for each object, and its makers give a few hundred.
    if rows > 1000:
        return []
    if facts.exporter.task:
        is_rtdetr = columns == 4 + len(facts.labels) and not facts.exporter.has_suppression
        is_rtdetr = is_rtdetr and (columns != 6 or facts.exporter.is_rtdetr)  # six columns may be YOLO's, too
        return [DetectionLayout.RT_DETR_ULTRALYTICS if is_rtdetr else DetectionLayout.YOLO_END_TO_END]
    layouts = []
    if columns == 6 or facts.prototypes is not None:
        layouts.append(DetectionLayout.YOLO_END_TO_END)
    # Without labels, a table of any width could be RT-DETR's: only one that may be YOLO's, too, is taken for it.
    if columns == 4 + (len(facts.labels) or 2):
        layouts.append(DetectionLayout.RT_DETR_ULTRALYTICS)
    return layouts


def _find_grid_layouts(facts: DetectorFacts, table: Array) -> list[DetectionLayout]:
    """YOLOX or NanoDet, which have one row per place. The number of labels decides; without labels, it may be both."""
    yolox = DetectionLayout.YOLO_V5 if grids.is_decoded(table) else DetectionLayout.YOLOX
    classes = {yolox: table.shape[2] - 5, DetectionLayout.NANODET: table.shape[2] - 4 * grids.NANODET_BINS}
    return [layout for layout, count in classes.items() if count > 0 and len(facts.labels) in (0, count)]


# From a detector's arrays to boxes in the tensor: one function a layout.


class DecodedBoxes(NamedTuple):
    """Boxes in the tensor, of one picture.

    Attributes:
        boxes: q x 4, pixels of the tensor: left, top, right, bottom.
        scores: q.
        classes: q.
        mask_coefficients: q x 32, the weights of YOLO's prototypes in each mask; None where there are no masks.
        points: q x points x 2 or 3: x, y and confidence; None where there are none.
        runners_up: q, the score of each box's second best class; None where each class has separate boxes.
    """

    boxes: Array
    scores: Array
    classes: Array
    mask_coefficients: Array | None = None
    points: Array | None = None
    runners_up: Array | None = None

    def select(self, which: Array) -> DecodedBoxes:
        """The selected boxes, in this order."""
        return DecodedBoxes(*(None if field is None else field[which] for field in self))  # type: ignore[arg-type]


def decode(layout: DetectionLayout, facts: DetectorFacts, picture: int, threshold: float) -> DecodedBoxes:
    """The boxes of a picture whose scores are above the threshold, in no order.

    Raises:
        InvalidArgumentError: the outputs are not in that layout, or the batch has fewer pictures.
        NotSupportedError: the boxes are oriented.
        EvaluationError: scores outside 0 to 1; or, above the threshold, a number that is NaN or infinite, a class below
            0, or a box whose left edge is right of its right one, or whose top is below its bottom.
    """
    decoded = _decode_layout(layout, facts, picture, threshold)
    corners = decoded.boxes.astype(np.float64)
    prototypes = None if decoded.mask_coefficients is None or not len(corners) else facts.prototypes
    if not all(part is None or np.isfinite(part).all() for part in (*decoded, prototypes)):
        raise _make_answer_error("boxes", "values that are NaN or infinite")
    if (corners[:, 2:] < corners[:, :2]).any():
        raise _make_answer_error("boxes", "a box whose left edge is right of its right edge, or top below its bottom")
    if (decoded.classes < 0).any():
        raise _make_answer_error("boxes", f"the class {decoded.classes.min():.0f}")
    return decoded._replace(classes=np.rint(decoded.classes).astype(np.int64))


def _decode_layout(layout: DetectionLayout, facts: DetectorFacts, picture: int, threshold: float) -> DecodedBoxes:
    if facts.exporter.task == "obb":
        raise NotSupportedError("The model finds oriented boxes, which are not supported.", hint="Read result.outputs.")
    if layout in (DetectionLayout.TORCHVISION, DetectionLayout.SSD):
        return _decode_triples(layout, facts, picture, threshold)
    if layout in (DetectionLayout.SCRFD, DetectionLayout.YUNET):
        return _decode_faces(layout, facts, picture, threshold)
    if layout in (DetectionLayout.DETR, DetectionLayout.RT_DETR):
        return _decode_queries(layout, facts, picture, threshold)
    if facts.table is None:
        raise _make_layout_error(layout)
    table = select_picture(facts.table, picture)
    if layout in (DetectionLayout.YOLOX, DetectionLayout.NANODET):
        return _decode_grids(layout, facts, table, threshold)
    if layout is DetectionLayout.YOLO_END_TO_END:
        return _decode_end_to_end(facts, table, threshold)
    if layout is DetectionLayout.RT_DETR_ULTRALYTICS:
        sides = _read_tensor_sides(facts)
        return _find_best_classes(table[:, :4] * np.tile(sides, 2), table[:, 4:], threshold)[0]
    if layout is DetectionLayout.YOLO_V5:
        return _decode_yolo(facts, table[:, :4], table[:, 4:5], table[:, 5:], threshold)
    return _decode_yolo(facts, table[:4].T, None, table[4:].T, threshold)


def _decode_yolo(
    facts: DetectorFacts, boxes: Array, objectness: Array | None, columns: Array, threshold: float
) -> DecodedBoxes:
    """Rows of centre and size, scores, and then mask coefficients or points."""
    width = columns.shape[1]
    class_count = width - count_extra_numbers(facts, width)
    best, is_confident = _find_best_classes(boxes, columns[:, :class_count], threshold, objectness)
    return _attach_extra_numbers(facts, best, columns[is_confident, class_count:])


def count_extra_numbers(facts: DetectorFacts, width: int) -> int:
    """How many numbers of a row, after box and objectness, are not scores."""
    label_count = len(facts.labels)
    if facts.prototypes is not None:
        numbers = PROTOTYPES
    elif facts.exporter.task == "pose" and facts.exporter.points is not None:
        numbers = math.prod(facts.exporter.points)
    elif facts.exporter.task == "pose" and label_count:
        numbers = width - label_count
    else:
        numbers = 0
    scores = width - numbers
    if scores < 1 or label_count not in (0, scores):
        raise InvalidArgumentError(
            f"A row has {width} values after its box, but the number of labels is {label_count}.",
            hint="Pass labels=..., one for each class, in the order that the model was trained with.",
        )
    return numbers


def _decode_end_to_end(facts: DetectorFacts, table: Array, threshold: float) -> DecodedBoxes:
    """Rows of corners, score, class, and then mask coefficients or points."""
    if table.shape[1] < 6:
        raise _make_layout_error(DetectionLayout.YOLO_END_TO_END)
    confident = table[_require_scores(table[:, 4]) > threshold]
    boxes = DecodedBoxes(confident[:, :4], confident[:, 4], confident[:, 5])
    return _attach_extra_numbers(facts, boxes, confident[:, 6:])


def _attach_extra_numbers(facts: DetectorFacts, boxes: DecodedBoxes, extra: Array) -> DecodedBoxes:
    """The boxes with the numbers that follow their scores: mask coefficients or points."""
    numbers = extra.shape[1]
    if not numbers:
        return boxes
    if facts.prototypes is not None and numbers == PROTOTYPES:
        return boxes._replace(mask_coefficients=extra)
    shape = facts.exporter.points
    if shape is None or shape[0] * shape[1] != numbers:
        raise InvalidArgumentError(
            f"Each box has {numbers} additional values, but the model does not declare their meaning.",
            hint="For a pose model, declare kpt_shape in the metadata. A mask model must return 32 prototypes.",
        )
    return boxes._replace(points=extra.reshape(-1, *shape))


def _decode_queries(layout: DetectionLayout, facts: DetectorFacts, picture: int, threshold: float) -> DecodedBoxes:
    if facts.queries is None:
        raise _make_layout_error(layout)
    boxes, logits = (select_picture(array, picture) for array in facts.queries)
    corners = _compute_corners(boxes * np.tile(_read_tensor_sides(facts), 2))
    if not np.isfinite(logits).all():
        raise _make_answer_error("scores from 0 to 1", "logits that are not finite")
    if layout is DetectionLayout.DETR:
        # Without subtracting the largest one, large logits would overflow.
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = scores[:, :-1] / scores.sum(axis=1, keepdims=True)
        return _find_best_of_rows(corners, scores, threshold)[0]
    # In float32, the exponential of more than 88 is infinite.
    scores = 1 / (1 + np.exp(-np.clip(logits, -80, 80)))
    # One query may be two classes: of all pairs of query and class, the best are taken, as many as there are queries.
    pairs = np.argsort(-scores, axis=None, kind="stable")[: len(scores)]
    queries, classes = np.divmod(pairs, scores.shape[1])
    objects = DecodedBoxes(corners[queries], scores[queries, classes], classes)
    return objects.select(objects.scores > threshold)


def _decode_triples(layout: DetectionLayout, facts: DetectorFacts, picture: int, threshold: float) -> DecodedBoxes:
    is_ssd = layout is DetectionLayout.SSD
    triple = facts.find_triple(3 if is_ssd else 2)
    if triple is None or (picture and not is_ssd):  # torchvision's detectors answer for one picture
        raise _make_layout_error(layout)
    boxes, classes, scores = triple
    if is_ssd:
        boxes, classes, scores = (select_picture(array, picture) for array in triple)
        boxes = boxes * np.tile(_read_tensor_sides(facts), 2)
    return DecodedBoxes(boxes, _require_scores(scores), classes).select(scores > threshold)


def _decode_grids(layout: DetectionLayout, facts: DetectorFacts, table: Array, threshold: float) -> DecodedBoxes:
    is_yolox = layout is DetectionLayout.YOLOX
    box_columns = 5 if is_yolox else 4 * grids.NANODET_BINS
    if len(table) not in grids.count_places(facts.placement) or table.shape[1] <= box_columns:
        raise _make_layout_error(layout)
    if is_yolox:
        boxes = grids.decode_yolox_boxes(table, facts.placement)
        return _find_best_classes(boxes, table[:, 5:], threshold, table[:, 4:5])[0]
    corners = grids.decode_nanodet_boxes(table, facts.placement)
    scores = _require_scores(table[:, :-box_columns])
    return _find_best_of_rows(corners, scores, threshold)[0]


def _decode_faces(layout: DetectionLayout, facts: DetectorFacts, picture: int, threshold: float) -> DecodedBoxes:
    if layout is DetectionLayout.YUNET:
        if not grids.has_yunet_names(list(facts.outputs)):
            raise _make_layout_error(layout)
        boxes, scores, points = grids.decode_yunet_faces(facts.outputs, facts.placement, picture)
    else:
        if picture or not grids.group_scrfd_outputs(facts.outputs, facts.placement):
            raise _make_layout_error(layout)
        boxes, scores, points = grids.decode_scrfd_faces(facts.outputs, facts.placement)
    objects = DecodedBoxes(boxes, _require_scores(scores), np.zeros(len(scores), np.int64), points=points)
    return objects.select(scores > threshold)


def _find_best_classes(
    boxes: Array, scores: Array, threshold: float, objectness: Array | None = None
) -> tuple[DecodedBoxes, Array]:
    """The best class of each row whose score is above the threshold, and which rows these are.

    Boxes are centre and size.
    """
    if not scores.shape[1]:
        raise InvalidArgumentError("A row has no score.", hint="Pass another layout.")
    factors = None if objectness is None else _require_scores(objectness)[:, 0]
    decoded, is_confident = _find_best_of_rows(boxes, _require_scores(scores), threshold, factors)
    return decoded._replace(boxes=_compute_corners(decoded.boxes)), is_confident


def _find_best_of_rows(
    boxes: Array, scores: Array, threshold: float, factors: Array | None = None
) -> tuple[DecodedBoxes, Array]:
    """As `_find_best_classes`, for boxes of any kind."""
    best = scores.argmax(axis=1)
    highest = scores[np.arange(len(best)), best]
    highest = highest if factors is None else highest * factors
    is_confident = highest > threshold
    best = best[is_confident]
    other_scores = scores[is_confident]  # a copy of few rows
    np.put_along_axis(other_scores, best[:, None], 0, axis=1)
    runners_up = other_scores.max(axis=1) * (1 if factors is None else factors[is_confident])
    return DecodedBoxes(boxes[is_confident], highest[is_confident], best, runners_up=runners_up), is_confident


def _require_scores(scores: Array) -> Array:
    """Returns the scores; raises if one is outside 0 to 1 by more than the precision of float16."""
    if scores.size and not (scores.min() >= -0.001 and scores.max() <= 1.001):
        raise _make_answer_error("scores from 0 to 1", f"values from {scores.min():.4g} to {scores.max():.4g}")
    return scores


def _make_answer_error(expected: str, actual: str) -> EvaluationError:
    hint = "Check the layout, the labels and the picture's contract."
    return EvaluationError(f"Expected {expected}, but the model returned {actual}.", hint=hint)


def _compute_corners(boxes: Array) -> Array:
    middle, half = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate([middle - half, middle + half], axis=1)


def _read_tensor_sides(facts: DetectorFacts) -> Array:
    return np.array([facts.placement.tensor_width, facts.placement.tensor_height], np.float32)


def _make_layout_error(layout: DetectionLayout) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"The outputs do not match the layout {layout.name}.",
        hint="Omit layout to detect it from the names and shapes of the outputs.",
    )
