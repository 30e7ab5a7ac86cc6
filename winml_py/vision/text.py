"""Lines of text: where they are in a picture, the line cut out of it, and what it says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.base.arguments import Labels, require_bool, require_type, require_whole_number
from ..core.base.arrays import Array
from ..core.imaging.picture_placement import PicturePlacement
from ..core.session.result import LearningModelEvaluationResult
from ..errors import InvalidArgumentError
from .masks import require_one_map
from .outputs import choose_labels, find_placement, read_arrays, require_finite, select_picture

if TYPE_CHECKING:
    from PIL.Image import Image

LEAST_SIDE = 3
"""Of a line, in pixels, as in PaddleOCR."""

_HINT = "Pass the result of a text model, such as PaddleOCR's. If it has several outputs, choose one with output=...."


class TextReading(NamedTuple):
    """What a line says.

    Attributes:
        text: the characters; "" if there are none.
        confidence: the mean score of the characters, from 0 to 1; 0 if there are none.
    """

    text: str
    confidence: float


@dataclass(frozen=True, eq=False, repr=False)
class TextLines:
    """The lines of text in a picture, in the order of reading: from top to bottom, and from left to right.

    The order is RapidOCR's: a line whose top left corner is less than 10 pixels below that of the line before belongs
    to the same row, so rows of very small text are mixed. Enlarge such pictures.

    Attributes:
        boxes: float64, lines x 4 x 2: top left, top right, bottom right and bottom left corner, x before y; in whole
            pixels of the picture as it is shown.
        scores: float32, one per line: from 0 to 1.
        picture_width: pixels.
        picture_height: pixels.
    """

    boxes: Array
    scores: Array
    picture_width: int
    picture_height: int

    def __len__(self) -> int:
        return len(self.boxes)

    def cut(self, picture: object) -> list[Image]:
        """Each line, cut out of the picture in perspective, so that it is level. A high one is turned to the left.

        Args:
            picture: the one that was evaluated: a path, a Pillow image, or another picture.

        Returns:
            Pillow images in RGB. Some may be upside down.

        Raises:
            InvalidArgumentError: it is not a picture, or is one of another size.
        """
        import cv2
        import PIL.Image

        from .drawing import copy_picture

        pixels = np.asarray(copy_picture(picture, self.picture_width, self.picture_height))
        lines = []
        for box in self.boxes.astype(np.float32):
            top, right, bottom, left = np.linalg.norm(box - np.roll(box, -1, axis=0), axis=1)
            width, height = int(max(top, bottom)), int(max(left, right))
            corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
            level, replicate = cv2.getPerspectiveTransform(box, corners), cv2.BORDER_REPLICATE
            line = cv2.warpPerspective(pixels, level, (width, height), flags=cv2.INTER_CUBIC, borderMode=replicate)
            lines.append(PIL.Image.fromarray(np.rot90(line) if height >= 1.5 * width else line))
        return lines

    def draw(self, picture: object, texts: Sequence[str] = ()) -> Image:
        """A copy of the picture with the lines outlined; see `Detections.draw`.

        Args:
            picture: the one that was evaluated.
            texts: what is written above each line.
        """
        from .drawing import Drawing

        drawing = Drawing(picture, self.picture_width, self.picture_height)
        for index, box in enumerate(self.boxes):
            drawing.outline_corners(box, index)
        for index, (box, text) in enumerate(zip(self.boxes, texts, strict=False)):
            drawing.write(text, box[0], index)
        return drawing.image

    def __repr__(self) -> str:
        return f"<TextLines {len(self)} in {self.picture_width}x{self.picture_height}>"


def text_lines(
    result: LearningModelEvaluationResult,
    *,
    threshold: float = 0.3,
    lowest_score: float = 0.5,
    growth: float = 1.6,
    dilates: bool = True,
    output: str | None = None,
    picture: int = 0,
    placement: PicturePlacement | None = None,
) -> TextLines:
    """The lines of text that a model found, in the coordinates of the picture that was bound.

    The model is one for differentiable binarization (DB), such as PaddleOCR's. The defaults are RapidOCR's. For those
    of PaddleOCR's `inference.yml`, pass `lowest_score=0.6, growth=1.5, dilates=False`.

    Args:
        result: of a model that gives one map of scores, n x 1 x height x width.
        threshold: numbers above it belong to a line (`thresh`).
        lowest_score: the mean number in a line's box (`box_thresh`).
        growth: by how much a box grows in each direction, relative to area / circumference (`unclip_ratio`): the map
            has only the core of a line.
        dilates: whether lines first grow by one number to the right and downwards (`use_dilation`).
        output: the name of the output; by default the only one that is a map.
        picture: its index in the batch.
        placement: where the picture lies in the tensor, for programs that tensorize it themselves.

    Raises:
        InvalidArgumentError: no output or several are maps, the map has several channels, the placement of the picture
            in the tensor is not known, or a number is out of range.
        EvaluationError: numbers that are not finite.
    """
    import cv2

    place = find_placement(result, picture, placement)
    stack = select_picture(require_one_map(result, output)[1], picture)
    if len(stack) != 1:
        raise InvalidArgumentError(f"Expected one map of scores, got {len(stack)} maps.", hint=_HINT)
    for name, number in (("threshold", threshold), ("lowest_score", lowest_score), ("growth", growth)):
        if not isinstance(number, Real) or not math.isfinite(number) or (name == "growth" and number <= 0):
            raise InvalidArgumentError(f"The {name} cannot be {number!r}.", hint=f"Omit {name}, or pass a number.")
    dilates = require_bool(dilates, "dilates")
    require_finite(scores := np.asarray(stack[0], np.float32))
    core = cv2.dilate((scores > threshold).astype(np.uint8), np.ones((1 + dilates, 1 + dilates), np.uint8))
    contours, _ = cv2.findContours(core, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    to_tensor = np.array([place.tensor_width, place.tensor_height]) / scores.shape[::-1]
    size = np.array([place.picture_width, place.picture_height])
    found = []
    for box in [box for box, side in map(_find_smallest_box, contours) if side >= LEAST_SIDE]:
        first = max(0, int(box[:, 1].min()))
        rows = scores[first : int(box[:, 1].max()) + 2]
        inside = cv2.fillPoly(np.zeros(rows.shape, np.uint8), [(box - (0, first)).astype(np.int32)], (1,))
        score = cv2.mean(rows, inside)[0]
        box, side = _find_smallest_box(_grow(box, growth))
        corners = np.clip(np.round(place.points_to_picture(box * to_tensor)), 0, size)
        corners = np.minimum(_order_corners(corners), size - 1)
        width, height = np.linalg.norm(corners[0] - corners[[1, 3]], axis=1).astype(int)
        if score >= lowest_score and side >= LEAST_SIDE + 2 and min(width, height) > LEAST_SIDE:
            found.append((corners, score))
    found.sort(key=lambda line: line[0][0, 1])
    boxes = np.array([corners for corners, _ in found]).reshape(-1, 4, 2)
    order = np.lexsort((boxes[:, 0, 0], np.cumsum(np.diff(boxes[:, 0, 1], prepend=0) >= 10)))
    return TextLines(boxes[order], np.array([score for _, score in found], np.float32)[order], *size.tolist())


def _find_smallest_box(points: Array) -> tuple[Array, float]:
    """The smallest rectangle around points, and its shorter side."""
    import cv2

    rectangle = cv2.minAreaRect(points)
    return _order_corners(cv2.boxPoints(rectangle)), min(rectangle[1])


def _order_corners(corners: Array) -> Array:
    """Corners x 2, clockwise: of the two on the left the upper one, those on the right, and the lower one."""
    corners = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = ((pair if pair[0, 1] <= pair[1, 1] else pair[::-1]) for pair in (corners[:2], corners[2:]))
    return np.array([left[0], right[0], right[1], left[1]])


def _grow(box: Array, growth: float) -> Array:
    """The outline of a box that grew in all directions: points x 2, in whole numbers.

    It has round corners, and each circle as many points as Clipper gives it, which stay within a quarter of the circle.
    """
    corners = box.astype(np.float64)
    sides = np.roll(corners, -1, axis=0) - corners
    area = abs(sides[0, 0] * sides[1, 1] - sides[0, 1] * sides[1, 0])
    distance = growth * area / np.linalg.norm(sides, axis=1).sum()
    corners = np.trunc(corners)  # Clipper works on whole numbers
    sides = np.roll(corners, -1, axis=0) - corners
    angles = np.arctan2(-sides[:, 0], sides[:, 1])  # outwards from each side
    step = 2 * max(math.acos(1 - min(0.25, distance / 4) / distance), 1 / distance)
    points = []
    for corner, before, after in zip(corners, np.roll(angles, 1), angles, strict=True):
        count = max(1, int((after - before) % math.tau / step + 0.5))
        along = np.append(before + step * np.arange(count), after)
        points.append(corner + distance * np.stack([np.cos(along), np.sin(along)], axis=1))
    outline: Array = np.concatenate(points)
    return (outline + np.copysign(0.5, outline)).astype(np.int32)  # halves away from 0


def batch_by_width(lines: Iterable[Image], size: int = 6) -> list[list[int]]:
    """The indices of lines in batches, from the narrowest to the widest, so that readers pad them little.

    The width of a batch may change a reader's answers a little. The size is RapidOCR's.

    Args:
        lines: the pictures of lines, from `TextLines.cut`.
        size: the most lines of a batch.

    Example:
        >>> from PIL import Image
        >>> from winml_py import vision
        >>> vision.batch_by_width([Image.new("RGB", (width, 20)) for width in (90, 30, 60)], size=2)
        [[1, 2], [0]]
    """
    require_whole_number(size, "size", 1)
    order = np.argsort([line.width / line.height for line in lines]).tolist()
    return [order[first : first + size] for first in range(0, len(order), size)]


def read_text(
    result: LearningModelEvaluationResult, *, labels: Labels = (), output: str | None = None
) -> list[TextReading]:
    """What each line of a batch says, from a model for connectionist temporal classification (CTC).

    At each step along a line, the character with the highest score counts. A character that repeats the one before it,
    or is the blank, does not count.

    Args:
        result: of a model that gives a score for each character, n x steps x characters; the first character is the
            blank. Scores outside 0 to 1 are logits, or logarithms: their softmax gives the confidence.
        labels: the characters, or a file with one per line (see `labels_of`); by default the model's. The blank, "" or
            "blank", and the space at the end are added if they are missing, as in PaddleOCR's files.
        output: the name of the output; by default the only one of three dimensions.

    Raises:
        InvalidArgumentError: no output or several have three dimensions, or there are not as many characters.
        EvaluationError: numbers that are not finite.
    """
    require_type(result, LearningModelEvaluationResult, "Pass the result of session.evaluate(binding).")
    arrays = [array for array in read_arrays(result, output).values() if array.ndim == 3 and array.dtype.kind == "f"]
    if len(arrays) != 1:
        raise InvalidArgumentError(f"Expected one output of lines x steps x characters, got {len(arrays)}.", hint=_HINT)
    require_finite(scores := np.asarray(arrays[0], np.float32))
    if scores.min(initial=0) < 0 or scores.max(initial=0) > 1.001:  # float16 rounds a sum of shares up
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        scores /= scores.sum(axis=2, keepdims=True)
    characters, count = choose_labels(result, labels), scores.shape[2]
    if count - len(characters) in (1, 2):
        blank = () if characters[:1] in (("",), ("blank",)) else ("",)
        characters = (*blank, *characters, " ")[:count]
    if len(characters) != count:
        raise InvalidArgumentError(
            f"The model returns scores for {count} characters, but the number of labels is {len(characters)}.",
            hint="As labels, pass a file with the characters of this model, one per line.",
        )
    readings = []
    for best, highest in zip(scores.argmax(axis=2), scores.max(axis=2), strict=True):
        counts = (best != 0) & (np.diff(best, prepend=0) != 0)
        confidence = float(highest[counts].mean()) if counts.any() else 0.0
        readings.append(TextReading("".join(characters[index] for index in best[counts]), confidence))
    return readings
