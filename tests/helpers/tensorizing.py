"""Tensorizing in one call: the placement that the contract's crop mode gives, then the tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from winml_py import BitmapBounds, ImageContract, SoftwareBitmap
from winml_py.core.imaging import tensorize as imaging
from winml_py.core.imaging.formats import BufferCache
from winml_py.core.imaging.geometry import compute_placement


def tensorize(
    picture: SoftwareBitmap,
    contract: ImageContract,
    out: np.ndarray[Any, Any],
    bounds: BitmapBounds | None = None,
    buffers: BufferCache | None = None,
) -> None:
    _, height_axis, width_axis = contract.axes()
    size = (out.shape[width_axis - 1], out.shape[height_axis - 1])
    sizes = picture.pixel_width, picture.pixel_height, *size
    placement = compute_placement(*sizes, contract.crop_mode, bounds, contract.scaling)
    imaging.tensorize(picture, contract, out, placement, buffers)
