"""From pixels to the numbers a model takes: crop, scale, order the channels, map the range."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..kinds import BitmapPixelFormat, LearningModelPixelRange
from .bitmap import BitmapBounds, SoftwareBitmap
from .formats import Pixels, gray_of, layout_of
from .geometry import center_crop, crop, require_inside, resize

Tensor = np.ndarray[Any, Any]

SCALE_AND_SHIFT = {
    LearningModelPixelRange.ZERO_TO255: (1.0, 0.0),
    LearningModelPixelRange.ZERO_TO_ONE: (255.0, 0.0),
    LearningModelPixelRange.MINUS_ONE_TO_ONE: (127.5, 1.0),
}
"""number = byte / scale - shift, in float32 (Windows ML's `NominalRangeConverter.cpp`)."""


class TensorImage(NamedTuple):
    """How a picture lies in a tensor of batch x channels x height x width.

    Attributes:
        pixel_format: `RGBA8`, `BGRA8` or `GRAY8`: the order of the planes; there is never an alpha plane.
        pixel_range: what the bytes 0 to 255 become.
    """

    pixel_format: BitmapPixelFormat
    pixel_range: LearningModelPixelRange

    @property
    def channels(self) -> int:
        """Planes of the tensor: 1 or 3."""
        return 1 if layout_of(self.pixel_format).is_gray else 3


def tensorize(bitmap: SoftwareBitmap, image: TensorImage, out: Tensor, bounds: BitmapBounds | None = None) -> None:
    """Writes a picture into one slot of a batch.

    Args:
        bitmap: the picture, in any format.
        image: how it is to lie in the tensor.
        out: channels x height x width, float32 or float16, C-contiguous; written in place.
        bounds: the part to use, stretched to the tensor's size; by default the centre crop.

    Raises:
        InvalidBindingError: `bounds` leave the picture.
    """
    pixels = bitmap.to_numpy()
    height, width = out.shape[1:]
    if bounds is None:
        bounds = center_crop(bitmap.pixel_width, bitmap.pixel_height, width, height)
    else:
        require_inside(bounds, bitmap.pixel_width, bitmap.pixel_height)
    scaled = resize(crop(pixels, bounds), width, height)
    table = number_table(image.pixel_range, out.dtype)
    for plane, slot in zip(_planes(scaled, bitmap.bitmap_pixel_format, image), out, strict=True):
        np.take(table, plane, out=slot, mode="clip")  # bytes are always in range, and "raise" would buffer


@cache
def number_table(pixel_range: LearningModelPixelRange, dtype: np.dtype[Any]) -> Tensor:
    """The number for each byte: computed in float32 as Windows ML does, and rounded once to `dtype`."""
    scale, shift = SCALE_AND_SHIFT[pixel_range]
    table = np.arange(256, dtype=np.float32) / np.float32(scale) - np.float32(shift)
    return table.astype(dtype)


@cache
def _gray_table() -> Pixels:
    """What Windows ML makes of a gray picture for a gray model: it turns it to colour, and that to gray."""
    gray = np.arange(256, dtype=np.uint8)
    return gray_of(gray, gray, gray)


def _planes(pixels: Pixels, pixel_format: BitmapPixelFormat, image: TensorImage) -> list[Pixels]:
    """The byte planes of a picture in the order the model wants them; views where no gray is mixed."""
    source, target = layout_of(pixel_format), layout_of(image.pixel_format)
    if source.is_gray:
        return [_gray_table()[pixels]] if target.is_gray else [pixels] * 3
    red, green, blue = (pixels[..., index] for index in source.rgb)
    if target.is_gray:
        return [gray_of(red, green, blue)]
    return [red, green, blue] if target.rgb == (0, 1, 2) else [blue, green, red]
