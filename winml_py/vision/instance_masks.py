"""The masks of objects, as YOLO mixes them from prototypes."""

from __future__ import annotations

import numpy as np

from ..core.imaging.picture_placement import PicturePlacement
from .outputs import Array
from .resampling import sampled


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
