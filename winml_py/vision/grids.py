"""Detectors that state each box relative to its place in a grid: YOLOX, NanoDet, SCRFD and YuNet.

A grid of stride 8 has a place for every 8 x 8 pixels of the tensor, row after row from the upper left corner. Each
function names the maker's own decoder, whose formulas it follows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..core.base.arrays import Array
from ..core.imaging.picture_placement import PicturePlacement
from .outputs import select_picture

STRIDES = ((8, 16, 32), (8, 16, 32, 64))
"""The strides of the usual grids, and of grids for large pictures."""

NANODET_BINS = 8
"""How many numbers NanoDet gives for the distance to each side of a box: 0 to 7 strides, each with its share."""

FACE_POINTS = 5
"""Eyes, nose and corners of the mouth."""

_MAX_OFFSET = 16
"""YOLOX's numbers farther from 0 are pixels, not offsets in strides: the export has decoded them."""


class Grid(NamedTuple):
    """The places of one stride in a tensor; the last ones may reach beyond its sides."""

    stride: int
    rows: int
    columns: int

    @property
    def size(self) -> int:
        """The number of places."""
        return self.rows * self.columns

    @property
    def places(self) -> Array:
        """Column and row of each place, as float32: places x 2."""
        column, row = np.meshgrid(np.arange(self.columns, dtype=np.float32), np.arange(self.rows, dtype=np.float32))
        return np.stack([column.reshape(-1), row.reshape(-1)], axis=1)


def make_grid(placement: PicturePlacement, stride: int) -> Grid:
    """The grid of a stride in a tensor."""
    return Grid(stride, math.ceil(placement.tensor_height / stride), math.ceil(placement.tensor_width / stride))


def count_places(placement: PicturePlacement) -> dict[int, tuple[int, ...]]:
    """The strides of the usual grids, by their total number of places."""
    return {sum(make_grid(placement, stride).size for stride in strides): strides for strides in STRIDES}


def is_decoded(table: Array) -> bool:
    """Whether YOLOX's centres are already pixels of the tensor, as in exports with `--decode_in_inference`."""
    return bool(table.size) and float(np.abs(table[..., :2]).max()) > _MAX_OFFSET


def decode_yolox_boxes(table: Array, placement: PicturePlacement) -> Array:
    """Centre and size in pixels, places x 4: as YOLOX's `demo_postprocess` (`yolox/utils/demo_utils.py`) does."""
    places, strides = _list_places(table, placement)
    with np.errstate(over="ignore"):  # infinite numbers are refused when boxes are checked
        return np.concatenate([(table[:, :2] + places) * strides, np.exp(table[:, 2:4]) * strides], axis=1)


def decode_nanodet_boxes(table: Array, placement: PicturePlacement) -> Array:
    """Corners in pixels, places x 4: as NanoDet-Plus's head does (`nanodet_plus_head.py`, `Integral`)."""
    places, strides = _list_places(table, placement)
    shares = table[:, -4 * NANODET_BINS :].reshape(-1, 4, NANODET_BINS).astype(np.float32)
    shares = np.exp(shares - shares.max(axis=2, keepdims=True))
    distances = shares @ np.arange(NANODET_BINS, dtype=np.float32) / shares.sum(axis=2) * strides
    middles = places * strides
    return np.concatenate([middles - distances[:, :2], middles + distances[:, 2:]], axis=1)


def _list_places(table: Array, placement: PicturePlacement) -> tuple[Array, Array]:
    """The place and the stride of each row of a table."""
    grids = [make_grid(placement, stride) for stride in count_places(placement)[len(table)]]
    strides = np.concatenate([np.full((grid.size, 1), grid.stride, np.float32) for grid in grids])
    return np.concatenate([grid.places for grid in grids]), strides


# Detectors of faces, with outputs for each stride: corners, scores and points.


Faces = tuple[Array, Array, Array | None]


def group_scrfd_outputs(
    outputs: Mapping[str, Array], placement: PicturePlacement
) -> list[tuple[Grid, dict[int, Array]]]:
    """SCRFD's outputs of each stride, under the number of columns: 1 for scores, 4 for boxes, 10 for points.

    Exports do not name the outputs. Each place of a grid has two boxes, so the number of rows identifies the stride.
    Empty if the outputs are not SCRFD's.
    """
    parts = []
    arrays = [array.reshape(-1, array.shape[-1]) for array in outputs.values() if array.ndim in (2, 3)]
    for stride in STRIDES[0]:
        grid = make_grid(placement, stride)
        own = {array.shape[1]: array for array in arrays if len(array) == 2 * grid.size}
        if own.keys() not in ({1, 4}, {1, 4, 2 * FACE_POINTS}):
            return []
        parts.append((grid, own))
    return parts if len(outputs) == sum(len(own) for _, own in parts) else []


def decode_scrfd_faces(outputs: Mapping[str, Array], placement: PicturePlacement) -> Faces:
    """As insightface's `SCRFD.forward` does: distances from the place's corner to the sides, and to each point."""
    boxes, scores, points = [], [], []
    for grid, own in group_scrfd_outputs(outputs, placement):
        corners = np.repeat(grid.places * grid.stride, 2, axis=0)
        distances = own[4] * grid.stride
        boxes.append(np.concatenate([corners - distances[:, :2], corners + distances[:, 2:]], axis=1))
        scores.append(own[1][:, 0])
        if 2 * FACE_POINTS in own:
            points.append(corners[:, None] + own[2 * FACE_POINTS].reshape(-1, FACE_POINTS, 2) * grid.stride)
    return np.concatenate(boxes), np.concatenate(scores), np.concatenate(points) if points else None


_YUNET = r"(cls|obj|bbox|kps)_(8|16|32)"


def has_yunet_names(names: Sequence[str]) -> bool:
    """Whether the outputs are named like YuNet's: `cls_8`, `obj_8`, `bbox_8`, `kps_8`, and for 16 and 32."""
    return len(names) == 12 and all(re.fullmatch(_YUNET, name) for name in names)


def decode_yunet_faces(outputs: Mapping[str, Array], placement: PicturePlacement, picture: int) -> Faces:
    """As OpenCV's `FaceDetectorYNImpl::postProcess` (`face_detect.cpp`) does."""
    boxes, scores, points = [], [], []
    for stride in STRIDES[0]:
        grid = make_grid(placement, stride)
        class_scores = select_picture(outputs[f"cls_{stride}"], picture)[:, 0]
        objectness = select_picture(outputs[f"obj_{stride}"], picture)[:, 0]
        box = select_picture(outputs[f"bbox_{stride}"], picture)
        offsets = select_picture(outputs[f"kps_{stride}"], picture)
        middles = (grid.places + box[:, :2]) * stride
        with np.errstate(over="ignore"):  # infinite numbers are refused when boxes are checked
            halves = np.exp(box[:, 2:]) * stride / 2
        boxes.append(np.concatenate([middles - halves, middles + halves], axis=1))
        scores.append(np.sqrt(np.clip(class_scores, 0, 1) * np.clip(objectness, 0, 1)))
        points.append((offsets.reshape(-1, FACE_POINTS, 2) + grid.places[:, None]) * stride)
    return np.concatenate(boxes), np.concatenate(scores), np.concatenate(points)
