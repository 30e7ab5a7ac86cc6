"""Detections: the boxes, masks and points that a detector finds, in the coordinates of the picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, overload

import numpy as np

from ..core.base.arguments import Labels, require_type, require_whole_number
from ..core.base.arrays import Array
from ..core.contracts.exporters import ExporterFacts
from ..core.imaging.picture_placement import PicturePlacement
from ..core.session.result import LearningModelEvaluationResult
from ..errors import InvalidArgumentError
from .layouts import DecodedBoxes, DetectionLayout, DetectorFacts, decode, find_layouts, recognise_layout
from .masks import compute_instance_mask
from .outputs import choose_labels, find_placement, read_arrays, read_floats

if TYPE_CHECKING:
    from PIL.Image import Image

OVERLAPS = {
    DetectionLayout.YOLO: 0.7,
    DetectionLayout.YOLO_V5: 0.45,
    DetectionLayout.YOLOX: 0.45,
    DetectionLayout.NANODET: 0.6,
    DetectionLayout.SCRFD: 0.4,
    DetectionLayout.YUNET: 0.3,
}
"""The largest overlap of two boxes of a class, in layouts that find an object many times; from the makers'
predictors."""

THRESHOLDS = dict.fromkeys(DetectionLayout, 0.25) | {
    DetectionLayout.DETR: 0.5,
    DetectionLayout.RT_DETR: 0.5,
    DetectionLayout.TORCHVISION: 0.5,
    DetectionLayout.SSD: 0.5,
    DetectionLayout.YOLOX: 0.3,
    DetectionLayout.NANODET: 0.35,
    DetectionLayout.SCRFD: 0.5,
    DetectionLayout.YUNET: 0.9,
}
"""The lowest score, from the makers' predictors."""

LIMIT = 300
"""The most objects, as in Ultralytics' predictor."""

CANDIDATES = 30_000
"""The most boxes above the threshold that are compared with each other, the best ones; Ultralytics' number."""


@dataclass(frozen=True, eq=False, slots=True)
class Detection:
    """One object.

    Attributes:
        label: the name of its class, or "".
        score: from 0 to 1.
        index: its class.
        box: left, top, right, bottom; pixels of the picture.
        points: points x 2 or 3 (x, y, confidence), or None.
    """

    label: str
    score: float
    index: int
    box: Array
    points: Array | None


@dataclass(frozen=True, eq=False, repr=False)
class Detections:
    """The objects in a picture, the highest score first: iterate over them, take a slice, or take the arrays.

    Coordinates are pixels of the picture as it is shown, x before y, from its top left corner.

    Attributes:
        boxes: float64, objects x 4: left, top, right, bottom; inside the picture.
        scores: float32, one per object: from 0 to 1.
        indices: int64, one per object: its class.
        labels: the name of each object's class, or "".
        points: float64, objects x points x 2 or 3: x, y, confidence; None where the model finds none.
        picture_width: pixels.
        picture_height: pixels.
        threshold: the score that all objects exceed.
        runners_up: float32, one per object: the score of the second best class of the same box; None where the model
            gives each class as a separate box.
    """

    boxes: Array
    scores: Array
    indices: Array
    labels: tuple[str, ...]
    picture_width: int
    picture_height: int
    points: Array | None = None
    threshold: float = 0.0
    runners_up: Array | None = None
    _mask_of: Callable[[int, Array], Array] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.boxes)

    def __iter__(self) -> Iterator[Detection]:
        return (self[index] for index in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Detection: ...
    @overload
    def __getitem__(self, index: slice) -> list[Detection]: ...
    def __getitem__(self, index: int | slice) -> Detection | list[Detection]:
        if isinstance(index, slice):
            return list(self)[index]
        points = None if self.points is None else self.points[index]
        return Detection(
            self.labels[index], float(self.scores[index]), int(self.indices[index]), self.boxes[index], points
        )

    @property
    def has_masks(self) -> bool:
        """Whether the model gives a mask for each object."""
        return self._mask_of is not None

    def mask(self, index: int) -> Array:
        """The mask of an object, computed on each call.

        Returns:
            bool, picture height x picture width.

        Raises:
            InvalidArgumentError: the model gives no masks, or there is no such object.
        """
        if self._mask_of is None:
            raise InvalidArgumentError("The model returns no masks.")
        if not -len(self) <= index < len(self):
            raise InvalidArgumentError(f"Index {index} is out of range: there are {len(self)} objects, counted from 0.")
        return self._mask_of(index, self.boxes[index])

    @property
    def masks(self) -> Array:
        """All masks: bool, objects x picture height x picture width; a byte per pixel and object. Raises as `mask`."""
        masks = np.zeros((len(self), self.picture_height, self.picture_width), np.bool_)
        for index in range(len(self)):
            masks[index] = self.mask(index)
        return masks

    def draw(self, picture: object) -> Image:
        """A copy of the picture with boxes, names, masks and points drawn on it.

        Args:
            picture: the one that was evaluated: a path, a Pillow image, or another picture.

        Returns:
            A Pillow image in RGB.

        Raises:
            InvalidArgumentError: it is not a picture, or is one of another size.
        """
        from .drawing import Drawing

        drawing = Drawing(picture, self.picture_width, self.picture_height)
        upwards = [(index, self[index]) for index in reversed(range(len(self)))]  # the best on top
        if self.has_masks:
            for index, detection in upwards:
                drawing.tint(self.mask(index), detection.index)
        for _, detection in upwards:
            drawing.outline(detection.box, detection.index)
            if detection.points is not None:
                drawing.draw_points(detection.points, detection.index)
        for _, detection in upwards:
            drawing.write(f"{detection.label or detection.index} {detection.score:.2f}", detection.box, detection.index)
        return drawing.image

    def __repr__(self) -> str:
        names = ", ".join(f"{detection.label or detection.index} {detection.score:.2f}" for detection in self[:8])
        more = ", ..." if len(self) > 8 else ""
        return f"<Detections {len(self)} in {self.picture_width}x{self.picture_height}: {names}{more}>"


def detections(
    result: LearningModelEvaluationResult,
    *,
    threshold: float | None = None,
    overlap: float | None = None,
    limit: int = LIMIT,
    labels: Labels = (),
    layout: DetectionLayout | None = None,
    picture: int = 0,
    placement: PicturePlacement | None = None,
) -> Detections:
    """The objects that a detector found, in the coordinates of the picture that was bound.

    Args:
        result: of a detector: YOLO v5 to v12 and end-to-end, YOLOX, NanoDet, DETR, RT-DETR, SSD, torchvision's; for
            faces SCRFD and YuNet; see `DetectionLayout`.
        threshold: objects need a higher score; by default the makers': 0.25 for Ultralytics' models, 0.3 for YOLOX,
            0.35 for NanoDet, 0.9 for YuNet, 0.5 for the others.
        overlap: if the intersection of two boxes of one class is more than this share of their union, only the better
            one stays; by default the makers': 0.7 for YOLO, 0.45 for v5 and YOLOX, 0.6 for NanoDet, 0.4 for SCRFD, 0.3
            for YuNet. The others give each object once, and refuse it.
        limit: the most objects.
        labels: the names of the classes, by their index, or a file with them (see `labels_of`); by default the model's.
        layout: the layout of the outputs; by default the only one that fits their shapes and the metadata.
        picture: its index in the batch.
        placement: where the picture lies in the tensor, for programs that tensorize it themselves.

    Raises:
        InvalidArgumentError: the layout is not known or does not fit, labels do not fit, a number is out of range, or
            the placement of the picture in the tensor is not known.
        EvaluationError: invalid scores or boxes, such as NaN, or corners the other way round.
        NotSupportedError: the model finds oriented boxes.
    """
    place = find_placement(result, picture, placement)
    facts = read_facts(result, place, labels)
    layout = recognise_layout(facts) if layout is None else layout
    require_type(layout, DetectionLayout, "Pass a DetectionLayout, for example DetectionLayout.DETR.")
    lowest = _require_share(threshold, "threshold", THRESHOLDS[layout])
    decoded = decode(layout, facts, picture, lowest)
    share = _require_share(overlap, "overlap", OVERLAPS.get(layout, 1.0))
    best = decoded.select(np.argsort(-decoded.scores, kind="stable")[:CANDIDATES])
    if layout in OVERLAPS:
        best = best.select(_suppress(best, share))
    elif share < 1:
        raise InvalidArgumentError(
            f"A model of layout {layout.name} returns each object only once, so overlap has no effect.",
            hint="Omit overlap.",
        )
    count = min(len(best.boxes), require_whole_number(limit, "limit", 1))
    best = best.select(np.arange(count))

    points = best.points
    if points is not None:
        points = points.astype(np.float64)
        points[..., :2] = place.points_to_picture(points[..., :2])
    mask_of = None
    if best.mask_coefficients is not None and facts.prototypes is not None:
        coefficients = np.asarray(best.mask_coefficients, np.float32)
        # Masks are computed on request: all of them would take a byte per pixel and object. By then, another run may
        # have overwritten the output.
        prototypes = np.array(facts.prototypes[picture], np.float32)
        mask_of = partial(compute_instance_mask, coefficients, prototypes, place)
    return Detections(
        boxes=place.boxes_to_picture(best.boxes, clip=True),
        scores=best.scores.astype(np.float32),
        indices=best.classes,
        labels=label_all(best.classes, facts.labels),
        picture_width=place.picture_width,
        picture_height=place.picture_height,
        points=points,
        threshold=lowest,
        runners_up=best.runners_up,
        _mask_of=mask_of,
    )


def may_be_detections(result: LearningModelEvaluationResult, labels: Labels = ()) -> bool:
    """Whether the outputs are in a layout of detections, or in one of several, as far as their shapes tell."""
    place = find_placement(result, 0, None)
    return bool(find_layouts(read_facts(result, place, labels)))


def read_facts(result: LearningModelEvaluationResult, place: PicturePlacement, labels: Labels) -> DetectorFacts:
    """What is known of a detector. Its floats become float32: with float16, boxes would be wrong by whole pixels."""
    exporter = ExporterFacts.from_metadata(result.metadata)
    return DetectorFacts(read_arrays(result) | read_floats(result), place, choose_labels(result, labels), exporter)


def _suppress(candidates: DecodedBoxes, overlap: float) -> Array:
    """Non-maximum suppression with OpenCV: the indices of those that no better one of their class covers."""
    import cv2

    if not len(candidates.boxes):
        return np.empty(0, np.int64)
    boxes = candidates.boxes.astype(np.float64)
    boxes -= boxes.min()  # OpenCV keeps classes apart by shifting them by the largest coordinate
    sizes = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    scores = candidates.scores.astype(np.float32)
    classes = candidates.classes.astype(np.int32)
    # -1 keeps every score: those below the threshold are already removed.
    survivors = cv2.dnn.NMSBoxesBatched(sizes, scores, classes, -1.0, overlap)  # type: ignore[arg-type]
    return np.asarray(survivors, np.int64).reshape(-1)


def label_all(classes: Array, labels: Sequence[str]) -> tuple[str, ...]:
    """The name of each class; "" where there are no labels."""
    if labels and classes.size and not 0 <= classes.min() <= classes.max() < len(labels):
        raise InvalidArgumentError(
            f"The model found class {int(classes.max())}, but the number of labels is {len(labels)}."
        )
    return tuple(labels[index] if labels else "" for index in classes)


def _require_share(value: float | None, name: str, default: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= 1:
        raise InvalidArgumentError(f"The {name} cannot be {value!r}.", hint="Pass a number from 0 to 1.")
    return float(value)
