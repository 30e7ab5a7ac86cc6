"""From a detector's arrays to boxes in the tensor: one function a layout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import EvaluationError, InvalidArgumentError, NotSupportedError
from .layouts import PROTOTYPES, DetectionLayout, Facts
from .outputs import Array

TABLES = {
    DetectionLayout.YOLO: "n x (4 + classes) x places",
    DetectionLayout.YOLO_V5: "n x places x (5 + classes)",
    DetectionLayout.YOLO_END_TO_END: "n x boxes x 6",
    DetectionLayout.RT_DETR_ULTRALYTICS: "n x queries x (4 + classes)",
}


class Found(NamedTuple):
    """Boxes in the tensor, of one picture.

    Attributes:
        boxes: q x 4, pixels of the tensor: left, top, right, bottom.
        scores: q.
        classes: q.
        mixes: q x 32, how YOLO mixes each mask; None where there are no masks.
        points: q x points x 2 or 3: x, y and how sure it is; None where there are none.
    """

    boxes: Array
    scores: Array
    classes: Array
    mixes: Array | None = None
    points: Array | None = None

    def taken(self, which: Array) -> Found:
        """These of them, in this order."""
        return Found(*(None if field is None else field[which] for field in self))  # type: ignore[arg-type]


def decoded(layout: DetectionLayout, facts: Facts, picture: int, threshold: float) -> Found:
    """The boxes of a picture whose scores are above the threshold, in no order.

    Raises:
        InvalidArgumentError: the outputs are not in that layout, or the batch has fewer pictures.
        NotSupportedError: the boxes are turned ones.
        EvaluationError: scores that are none, from 0 to 1; of what is above the threshold, a number that is NaN or
            infinite, a class below 0, or a box whose left edge is right of its right one, or whose top is below its
            bottom.
    """
    found = _decoded(layout, facts, picture, threshold)
    corners = found.boxes.astype(np.float64)
    prototypes = None if found.mixes is None or not len(corners) else facts.prototypes
    if not all(part is None or np.isfinite(part).all() for part in (*found, prototypes)):
        raise _no_boxes("numbers that are NaN or infinite")
    if (corners[:, 2:] < corners[:, :2]).any():
        raise _no_boxes("a box whose left edge is right of its right one, or whose top is below its bottom")
    if (found.classes < 0).any():
        raise _no_boxes(f"the class {found.classes.min():.0f}")
    return found._replace(classes=np.rint(found.classes).astype(np.int64))


def _decoded(layout: DetectionLayout, facts: Facts, picture: int, threshold: float) -> Found:
    if facts.task == "obb":
        raise NotSupportedError("The model finds turned boxes, which are not read here.", hint="Read result.outputs.")
    if layout is DetectionLayout.TORCHVISION:
        return _torchvision(facts, picture, threshold)
    if layout in (DetectionLayout.DETR, DetectionLayout.RT_DETR):
        return _queries(layout, facts, picture, threshold)
    if facts.table is None:
        raise _misfit(layout, TABLES[layout])
    table = _of_picture(facts.table, picture)
    if layout is DetectionLayout.YOLO_END_TO_END:
        return _end_to_end(facts, table, threshold)
    if layout is DetectionLayout.RT_DETR_ULTRALYTICS:
        sides = _sides(facts)
        return _best_classes(table[:, :4] * np.tile(sides, 2), table[:, 4:], threshold)
    if layout is DetectionLayout.YOLO_V5:
        return _yolo(facts, table[:, :4], table[:, 4:5], table[:, 5:], threshold)
    return _yolo(facts, table[:4].T, None, table[4:].T, threshold)


def _yolo(facts: Facts, boxes: Array, objectness: Array | None, rest: Array, threshold: float) -> Found:
    """Middle and size, the scores, and then what the mask is mixed from, or points."""
    width = rest.shape[1]
    numbers = _extra_numbers(facts, width)
    scores, extra = rest[:, : width - numbers], rest[:, width - numbers :]
    return _with_extra(facts, _best_classes(boxes, scores, threshold, objectness, extra), numbers)


def _extra_numbers(facts: Facts, width: int) -> int:
    """How many of the numbers of a row, after box and objectness, are no scores."""
    if facts.prototypes is not None:
        numbers = PROTOTYPES
    elif facts.task == "pose" and facts.point_shape is not None:
        numbers = facts.point_shape[0] * facts.point_shape[1]
    else:
        numbers = width - len(facts.labels) if facts.labels else 0
    stated = len(facts.labels)
    is_known = numbers in (0, PROTOTYPES * (facts.prototypes is not None)) or facts.task == "pose"
    if not is_known or numbers >= width or (stated and width - numbers != stated):
        raise InvalidArgumentError(
            f"A row has {width} numbers after its box, and there are {stated} labels.",
            hint="Pass labels=..., one for each class, in the order that the model was trained with.",
        )
    return numbers


def _end_to_end(facts: Facts, table: Array, threshold: float) -> Found:
    """Corners, score, class, and then as above."""
    if table.shape[1] < 6:
        raise _misfit(DetectionLayout.YOLO_END_TO_END, TABLES[DetectionLayout.YOLO_END_TO_END])
    kept = table[_required_scores(table[:, 4]) > threshold]
    found = Found(kept[:, :4], kept[:, 4], kept[:, 5], kept[:, 6:])
    return _with_extra(facts, found, table.shape[1] - 6)


def _with_extra(facts: Facts, found: Found, numbers: int) -> Found:
    """Says what the numbers after the scores are: they came as `mixes`."""
    extra = found.mixes
    if extra is None or not numbers:
        return found._replace(mixes=None)
    if facts.prototypes is not None and numbers == PROTOTYPES:
        return found
    shape = facts.point_shape
    if shape is None or shape[0] * shape[1] != numbers:
        raise InvalidArgumentError(
            f"Each box has {numbers} more numbers, and the model does not say what they are.",
            hint="A model for poses states kpt_shape in its metadata, and one for masks gives 32 prototypes.",
        )
    return found._replace(mixes=None, points=extra.reshape(-1, *shape))


def _queries(layout: DetectionLayout, facts: Facts, picture: int, threshold: float) -> Found:
    if facts.queries is None:
        raise _misfit(layout, "boxes of n x queries x 4, and logits of n x queries x classes")
    boxes, logits = (_of_picture(array, picture) for array in facts.queries)
    corners = _corners(boxes * np.tile(_sides(facts), 2))
    if not np.isfinite(logits).all():
        raise _not_scores("logits that are not finite")
    if layout is DetectionLayout.DETR:
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = scores[:, :-1] / scores.sum(axis=1, keepdims=True)
        best = scores.argmax(axis=1)
        found = Found(corners, scores[np.arange(len(best)), best], best)
    else:  # one query may be two classes: the best of all pairs, as many as there are queries
        scores = 1 / (1 + np.exp(-np.clip(logits, -80, 80)))
        pairs = np.argsort(-scores, axis=None, kind="stable")[: len(scores)]
        found = Found(corners[pairs // scores.shape[1]], scores.reshape(-1)[pairs], pairs % scores.shape[1])
    return found.taken(found.scores > threshold)


def _torchvision(facts: Facts, picture: int, threshold: float) -> Found:
    if facts.triple is None:
        raise _misfit(DetectionLayout.TORCHVISION, "boxes of q x 4, labels of q, and scores of q")
    if picture:
        raise InvalidArgumentError("Torchvision's detectors answer for one picture.", hint="Leave picture out.")
    boxes, classes, scores = facts.triple
    found = Found(boxes, _required_scores(scores), classes)
    return found.taken(scores > threshold)


def _best_classes(
    boxes: Array, scores: Array, threshold: float, objectness: Array | None = None, extra: Array | None = None
) -> Found:
    """Each place's best class, where its score is above the threshold; boxes are of middle and size."""
    if not scores.shape[1]:
        raise InvalidArgumentError("A row has no score.", hint="Name another layout.")
    best = _required_scores(scores).argmax(axis=1)
    highest = scores[np.arange(len(best)), best]
    if objectness is not None:
        highest = highest * _required_scores(objectness)[:, 0]
    kept = highest > threshold
    return Found(_corners(boxes[kept]), highest[kept], best[kept], None if extra is None else extra[kept])


def _required_scores(scores: Array) -> Array:
    """Raises unless all are from 0 to 1, as far as float16 can tell: what else is read as scores would be nonsense."""
    if scores.size and not (scores.min() >= -0.001 and scores.max() <= 1.001):
        raise _not_scores(f"numbers from {scores.min():.4g} to {scores.max():.4g}")
    return scores


def _not_scores(came: str) -> EvaluationError:
    return EvaluationError(
        f"Where the scores are expected, from 0 to 1, the model gave {came}.",
        hint="Check the layout, the labels and the picture's contract.",
    )


def _no_boxes(came: str) -> EvaluationError:
    return EvaluationError(
        f"Where boxes are expected, the model gave {came}.", hint="Check the layout and the picture's contract."
    )


def _corners(boxes: Array) -> Array:
    middle, half = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate([middle - half, middle + half], axis=1)


def _sides(facts: Facts) -> Array:
    return np.array([facts.placement.tensor_width, facts.placement.tensor_height], np.float32)


def _of_picture(array: Array, picture: int) -> Array:
    if not 0 <= picture < len(array):
        raise InvalidArgumentError(f"There is no picture {picture} in a batch of {len(array)}.", hint="0 is the first.")
    return np.asarray(array[picture])


def _misfit(layout: DetectionLayout, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"The outputs are not in the layout {layout.name}, which is {expected}.",
        hint="Leave layout out to have it recognised, or see DetectionLayout for the others.",
    )
