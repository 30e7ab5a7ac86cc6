"""The classes of a picture's pixels, and the masks of single objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core.base.arguments import Labels
from ..core.base.arrays import Array
from ..core.imaging.picture_placement import PicturePlacement
from ..core.session.result import LearningModelEvaluationResult
from ..errors import InvalidArgumentError
from .outputs import choose_labels, find_placement, read_arrays, require_finite, select_picture

if TYPE_CHECKING:
    from PIL.Image import Image


OUTSIDE = -1


@dataclass(frozen=True, eq=False, repr=False)
class Segmentation:
    """A class for each pixel.

    Attributes:
        classes: int32, picture height x picture width: the class of each pixel; -1 where the picture was cropped, so
            that the model did not see it.
        labels: the names of the classes, by their index; or empty.
    """

    classes: Array
    labels: tuple[str, ...] = ()

    def mask(self, name: int | str) -> Array:
        """The pixels of a class, by its index or its name: bool, picture height x picture width.

        Raises:
            InvalidArgumentError: no such name.
        """
        if isinstance(name, str) and name not in self.labels:
            known = (
                f"Known classes: {', '.join(self.labels)}." if self.labels else "Pass labels to masks(), or an index."
            )
            raise InvalidArgumentError(f"There is no class {name!r}.", hint=known)
        return np.asarray(self.classes == (self.labels.index(name) if isinstance(name, str) else name))

    @property
    def shares(self) -> dict[int, float]:
        """The share of the picture that each class in it covers, the largest first; of all pixels, seen or not."""
        indices, counts = np.unique(self.classes[self.classes != OUTSIDE], return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {int(indices[i]): float(counts[i] / self.classes.size) for i in order}

    def draw(self, picture: object, *, background: int | None = 0) -> Image:
        """A copy of the picture, each class in its colour; see `Detections.draw`.

        Args:
            picture: the one that was evaluated.
            background: a class that is not coloured, or None.
        """
        from .drawing import Drawing

        drawing = Drawing(picture, self.classes.shape[1], self.classes.shape[0])
        for index in self.shares:
            if index != background:
                drawing.tint(self.mask(index), index)
        return drawing.image

    def __repr__(self) -> str:
        height, width = self.classes.shape
        named = [(self.labels[i] if i < len(self.labels) else i, share) for i, share in self.shares.items()]
        words = ", ".join(f"{name} {share:.1%}" for name, share in named)
        return f"<Segmentation {width}x{height}: {words}>"


def masks(
    result: LearningModelEvaluationResult,
    *,
    threshold: float | None = None,
    labels: Labels = (),
    output: str | None = None,
    picture: int = 0,
    placement: PicturePlacement | None = None,
) -> Segmentation:
    """The class of each pixel of the picture that was bound, from a model for semantic segmentation.

    Logits are interpolated between their places, and then the highest wins, as in the makers' code. (For YOLO's masks
    of single objects, see `detections(result).masks`.)

    Args:
        result: of a model that gives logits or scores (n x classes x height x width), one map of numbers (n x 1 x
            height x width), or a map of classes (integers, n x height x width or n x 1 x height x width).
        threshold: for one map of numbers: numbers above it are class 1, the rest class 0; 0 for logits, 0.5 for scores.
        labels: the names of the classes, by their index, or a file with them (see `labels_of`); by default the model's.
        output: the name of the output; by default the only one that is such a map.
        picture: its index in the batch.
        placement: where the picture lies in the tensor, for programs that tensorize it themselves.

    Raises:
        InvalidArgumentError: no output or several are maps, a threshold is missing for one map of numbers or
            given for others, or the placement of the picture in the tensor is not known.
        EvaluationError: numbers that are not finite.
    """
    place = find_placement(result, picture, placement)
    stack = select_picture(require_one_map(result, output)[1], picture)
    names = choose_labels(result, labels)
    if threshold is not None and (len(stack) > 1 or stack.dtype.kind != "f"):
        raise InvalidArgumentError(
            "The model returns classes, or a map for each class, so there is no threshold.", hint="Omit threshold."
        )
    if stack.dtype.kind in "iub":
        class_map = place.mask_to_picture(stack[0].astype(np.int32), OUTSIDE)
        return Segmentation(class_map, names)
    require_finite(stack)
    # Logits are interpolated, and then compared: classes cannot be interpolated. Cropped parts have no class.
    seen = place.mask_to_picture(np.ones(stack.shape[1:], np.bool_), outside=False)
    if len(stack) == 1:
        if threshold is None:
            raise InvalidArgumentError(
                "The model returns one map, but does not declare whether its values are logits or scores.",
                hint="Pass threshold=0 for logits, or threshold=0.5 for scores from 0 to 1.",
            )
        best = (sample_map(stack[0], place) > threshold).astype(np.int32)
    else:
        best = _find_best(stack, place)
    return Segmentation(np.where(seen, best, OUTSIDE).astype(np.int32), names)


def find_segmentation(result: LearningModelEvaluationResult, labels: Labels = ()) -> str:
    """The name of the output that has a map for each of the labels, or ""; without labels, it could be a picture."""
    count = len(choose_labels(result, labels))
    maps = {name: array for name, array in read_arrays(result).items() if array.dtype.kind == "f" and _is_map(array)}
    return next((name for name, array in maps.items() if len(maps) == 1 and array.shape[1] == count > 1), "")


def require_one_map(result: LearningModelEvaluationResult, output: str | None) -> tuple[str, Array]:
    """The name and the numbers of the only output that is a map: n x classes x height x width, floats as float32."""
    tensors = read_arrays(result, output)
    maps = {name: array for name, array in tensors.items() if _is_map(array)}
    if len(maps) != 1:
        raise InvalidArgumentError(
            f"Of the outputs {', '.join(tensors) or '(none of numbers)'} {'none' if not maps else 'more than one'} is "
            "a map of the picture.",
            hint="Pass output=NAME, with an output of shape n x classes x height x width.",
        )
    ((name, array),) = maps.items()
    array = array[:, None] if array.ndim == 3 else array
    return name, np.asarray(array, np.float32) if array.dtype.kind == "f" else array


def _is_map(array: Array) -> bool:
    if array.dtype.kind == "f":
        return array.ndim == 4 and min(array.shape[2:]) > 1
    return array.ndim == 3 or (array.ndim == 4 and array.shape[1] == 1)


def _find_best(stack: Array, place: PicturePlacement) -> Array:
    """The class with the highest number at each pixel; the first of several equal ones."""
    highest = np.full((place.picture_height, place.picture_width), -np.inf, np.float32)
    best = np.zeros(highest.shape, np.int32)
    for index in np.flatnonzero(_find_possible_winners(stack)):
        numbers = sample_map(stack[index], place)
        is_higher = numbers > highest
        np.copyto(highest, numbers, where=is_higher)
        best[is_higher] = index
    return best


def _find_possible_winners(stack: Array) -> Array:
    """Which classes can be the highest somewhere: most of 150 classes need not be interpolated.

    A number that is interpolated between four places is never above the highest of them, nor below the lowest.
    """
    padded = np.pad(stack, ((0, 0), (1, 1), (1, 1)), mode="edge")
    corners = [padded[:, y : y + stack.shape[1] + 1, x : x + stack.shape[2] + 1] for y in (0, 1) for x in (0, 1)]
    lowest, highest = np.minimum.reduce(corners), np.maximum.reduce(corners)
    return np.asarray((highest >= lowest.max(axis=0)).any(axis=(1, 2)))


# Numbers over the tensor, interpolated for the pixels of the picture, and the masks of single objects.


Box = tuple[int, int, int, int]


def sample_map(numbers: Array, placement: PicturePlacement, part: Box | None = None) -> Array:
    """The numbers of a map over the tensor at the picture's pixels: linear between the centres of its cells.

    Args:
        numbers: float32, height x width, at any resolution.
        placement: where the picture lies in the tensor.
        part: of the picture: left, top, right, bottom; by default all of it. Cropped parts get the numbers of the
            tensor's edge.
    """
    import PIL.Image  # here, because most answers need no picture

    left, top, right, bottom = part or (0, 0, placement.picture_width, placement.picture_height)
    height, width = numbers.shape
    scale = np.array([width / placement.tensor_width, height / placement.tensor_height])
    box = (placement.points_to_tensor([[left, top], [right, bottom]]) * scale).reshape(-1)
    (map_left, map_right), first_column, last_column = _resample_span(box[0], box[2], width, right - left)
    (map_top, map_bottom), first_row, last_row = _resample_span(box[1], box[3], height, bottom - top)
    inner = PIL.Image.fromarray(numbers).resize(
        (last_column - first_column, last_row - first_row),
        PIL.Image.Resampling.BILINEAR,
        (map_left, map_top, map_right, map_bottom),
    )
    rows_around = (first_row, bottom - top - last_row)
    columns_around = (first_column, right - left - last_column)
    return np.pad(np.asarray(inner), (rows_around, columns_around), mode="edge")


def _resample_span(start: float, end: float, size: int, pixels: int) -> tuple[tuple[float, float], int, int]:
    """Along one side: the part of the map that lies in it, and the range of pixels that it covers."""
    step = (end - start) / pixels
    # Rounding may move a whole number slightly: the 1e-9 allows for that.
    first = min(max(0, int(np.ceil(-start / step - 1e-9))), pixels - 1)
    last = max(min(pixels, int(np.floor((size - start) / step + 1e-9))), first + 1)
    cut = np.clip([start + first * step, start + last * step], 0, size)
    if cut[1] <= cut[0]:  # nothing of it is in the tensor: use its edge
        cut = np.array([0.0, min(step, 1.0)]) if end <= 0 else np.array([size - min(step, 1.0), size])
    return (float(cut[0]), float(cut[1])), first, last


# The masks of objects, which YOLO sums from prototypes.


def compute_instance_mask(
    coefficients: Array, prototypes: Array, place: PicturePlacement, index: int, box: Array
) -> Array:
    """The mask of an object: bool, picture height x picture width, false outside of its box.

    Coefficients are objects x 32, prototypes 32 x height x width, over the whole tensor.
    """
    mask = np.zeros((place.picture_height, place.picture_width), np.bool_)
    left, top, right, bottom = (int(edge) for edge in (*np.floor(box[:2]), *np.ceil(box[2:])))
    if left < right and top < bottom:
        logits = np.tensordot(coefficients[index], prototypes, axes=1)
        mask[top:bottom, left:right] = sample_map(logits, place, (left, top, right, bottom)) > 0
    return mask
