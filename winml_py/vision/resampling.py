"""Numbers over the tensor, interpolated for the pixels of the picture, and the masks of single objects."""

from __future__ import annotations

import numpy as np
from PIL import Image

from ..core.base.arrays import Array
from ..core.imaging.picture_placement import PicturePlacement

Box = tuple[int, int, int, int]


def sampled(numbers: Array, placement: PicturePlacement, part: Box | None = None) -> Array:
    """What a map over the tensor says of the picture's pixels: linear between the middles of its cells.

    Args:
        numbers: float32, height x width; covers the whole tensor, at any resolution.
        placement: where the picture lies in the tensor.
        part: of the picture: left, top, right, bottom; by default all of it. What of it was cropped away gets what the
            tensor's edge has.

    Returns:
        float32, of the part's height and width.
    """
    left, top, right, bottom = part or (0, 0, placement.picture_width, placement.picture_height)
    height, width = numbers.shape
    scale = np.array([width / placement.tensor_width, height / placement.tensor_height])
    box = (placement.points_to_tensor([[left, top], [right, bottom]]) * scale).reshape(-1)
    (across, first, last), (down, upper, lower) = (
        _inside(*ends) for ends in ((box[0], box[2], width, right - left), (box[1], box[3], height, bottom - top))
    )
    inner = Image.fromarray(numbers).resize(
        (last - first, lower - upper), Image.Resampling.BILINEAR, (across[0], down[0], across[1], down[1])
    )
    pad = ((upper, bottom - top - lower), (first, right - left - last))
    return np.pad(np.asarray(inner), pad, mode="edge")


def _inside(start: float, end: float, size: int, pixels: int) -> tuple[tuple[float, float], int, int]:
    """Along one side: the part of the map that lies in it, and the pixels, from and to, that it covers."""
    step = (end - start) / pixels
    first = min(max(0, int(np.ceil(-start / step - 1e-9))), pixels - 1)
    last = max(min(pixels, int(np.floor((size - start) / step + 1e-9))), first + 1)
    cut = np.clip([start + first * step, start + last * step], 0, size)
    if cut[1] <= cut[0]:  # nothing of it is in the tensor: its edge is
        cut = np.array([0.0, min(step, 1.0)]) if end <= 0 else np.array([size - min(step, 1.0), size])
    return (float(cut[0]), float(cut[1])), first, last


# The masks of objects, as YOLO mixes them from prototypes.


class InstanceMasks:
    """Computes each mask when it is asked for: all of them would be a byte a pixel and object.

    Args:
        mixes: objects x 32.
        prototypes: 32 x height x width, over the whole tensor.
        placement: where the picture lies in the tensor.
    """

    def __init__(self, mixes: Array, prototypes: Array, placement: PicturePlacement) -> None:
        self._mixes, self._placement = np.asarray(mixes, np.float32), placement
        self._prototypes = np.asarray(prototypes, np.float32)

    def mask(self, index: int, box: Array) -> Array:
        """The mask of an object: bool, picture height x picture width, false outside of its box."""
        place = self._placement
        found = np.zeros((place.picture_height, place.picture_width), np.bool_)
        left, top, right, bottom = (int(edge) for edge in (*np.floor(box[:2]), *np.ceil(box[2:])))
        if left < right and top < bottom:
            mixed = np.tensordot(self._mixes[index], self._prototypes, axes=1)
            found[top:bottom, left:right] = sampled(mixed, place, (left, top, right, bottom)) > 0
        return found
