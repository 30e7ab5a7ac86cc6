"""From a model's numbers back to a picture."""

from __future__ import annotations

import numpy as np

from ..kinds import BitmapPixelFormat
from .bitmap import SoftwareBitmap
from .formats import Pixels, convert, gray_of, layout_of
from .geometry import resize
from .tensorize import SCALE_AND_SHIFT, Tensor, TensorImage


def to_bytes(numbers: Tensor, image: TensorImage) -> Pixels:
    """The bytes that numbers stand for: scale * (v + shift), rounded half to even, clamped to 0..255.

    Windows ML rounds so in most columns of a picture and half up in the last few; we use one rule.
    What is not a number becomes 0.

    Args:
        numbers: float32 or float16, any shape.
        image: the range of the numbers.
    """
    scale, shift = SCALE_AND_SHIFT[image.pixel_range]
    values = numbers.astype(np.float32)
    if shift:
        values += np.float32(shift)
    if scale != 1:
        values *= np.float32(scale)
    np.rint(values, out=values)
    np.fmin(np.fmax(values, 0, out=values), 255, out=values)  # fmax, unlike clip, turns NaN into 0
    return values.astype(np.uint8)


def detensorize(tensor: Tensor, image: TensorImage, bitmap: SoftwareBitmap) -> None:
    """Writes one picture of a batch into a bitmap, stretched to the bitmap's size and in its format.

    Args:
        tensor: channels x height x width, float32 or float16; 1 or 3 channels.
        image: how the picture lies in it.
        bitmap: written in place; alpha becomes 255.
    """
    pixels = bitmap.to_numpy()
    planes = [to_bytes(plane, image) for plane in tensor]
    target = layout_of(bitmap.bitmap_pixel_format)
    height, width = tensor.shape[1:]
    same_size = (bitmap.pixel_width, bitmap.pixel_height) == (width, height)
    if same_size and target.dtype == np.uint8:
        _fill(pixels, planes, image, bitmap.bitmap_pixel_format)
        return
    colour = BitmapPixelFormat.GRAY8 if len(planes) == 1 else BitmapPixelFormat.BGRA8
    whole = np.empty(layout_of(colour).shape(width, height), np.uint8)
    _fill(whole, planes, image, colour)
    scaled = resize(whole, bitmap.pixel_width, bitmap.pixel_height)
    pixels[:] = convert(scaled, colour, bitmap.bitmap_pixel_format)


def _fill(pixels: Pixels, planes: list[Pixels], image: TensorImage, pixel_format: BitmapPixelFormat) -> None:
    target = layout_of(pixel_format)
    if len(planes) == 1:
        red = green = blue = planes[0]
    else:
        red, green, blue = planes if layout_of(image.pixel_format).rgb == (0, 1, 2) else planes[::-1]
    if target.is_gray:
        pixels[:] = planes[0] if len(planes) == 1 else gray_of(red, green, blue)
        return
    for index, plane in zip(target.rgb, (red, green, blue), strict=True):
        pixels[..., index] = plane
    if target.channels == 4:
        pixels[..., 3] = 255
