"""Pixel formats as arrays: how many channels, of which type, in which order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidArgumentError
from ..kinds import BitmapAlphaMode, BitmapPixelFormat

Pixels = np.ndarray[Any, Any]


class Layout(NamedTuple):
    """How a pixel lies in memory.

    Attributes:
        dtype: uint8 or uint16.
        channels: numbers a pixel; 1 means the array has no channel axis.
        rgb: where red, green and blue stand; all 0 for gray.
    """

    dtype: type[np.uint8] | type[np.uint16]
    channels: int
    rgb: tuple[int, int, int]

    @property
    def is_gray(self) -> bool:
        """Whether a pixel is one number."""
        return self.channels == 1

    def shape(self, width: int, height: int) -> tuple[int, ...]:
        """The shape of a picture's array."""
        return (height, width) if self.is_gray else (height, width, self.channels)


_LAYOUTS = {
    BitmapPixelFormat.RGBA16: Layout(np.uint16, 4, (0, 1, 2)),
    BitmapPixelFormat.RGBA8: Layout(np.uint8, 4, (0, 1, 2)),
    BitmapPixelFormat.GRAY16: Layout(np.uint16, 1, (0, 0, 0)),
    BitmapPixelFormat.GRAY8: Layout(np.uint8, 1, (0, 0, 0)),
    BitmapPixelFormat.BGRA8: Layout(np.uint8, 4, (2, 1, 0)),
    BitmapPixelFormat.RGB8: Layout(np.uint8, 3, (0, 1, 2)),
    BitmapPixelFormat.BGR8: Layout(np.uint8, 3, (2, 1, 0)),
}


def layout_of(pixel_format: BitmapPixelFormat) -> Layout:
    """The layout of a format.

    Raises:
        InvalidArgumentError: a format that is not one array of pixels, such as NV12.
    """
    layout = _LAYOUTS.get(pixel_format)
    if layout is None:
        known = ", ".join(known.name for known in _LAYOUTS)
        raise InvalidArgumentError(
            f"Pictures cannot be held as {getattr(pixel_format, 'name', repr(pixel_format))} yet.",
            hint=f"Use one of {known}.",
        )
    return layout


def to_eight_bits(pixels: Pixels) -> Pixels:
    """Scales 16-bit numbers to 8 bits, rounding to the nearest: v / 257. 8-bit arrays pass as they are."""
    if pixels.dtype == np.uint8:
        return pixels
    return ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)


def gray_of(red: Pixels, green: Pixels, blue: Pixels) -> Pixels:
    """Windows ML's gray of bytes: 0.2126 R + 0.7152 G + 0.0722 B in float32, truncated to a byte.

    The weights are those of ITU-R BT.709; truncation is Windows ML's (`CpuTensorizer.h`).
    """
    gray = red * np.float32(0.2126)
    gray += green * np.float32(0.7152)
    gray += blue * np.float32(0.0722)
    return gray.astype(np.uint8)


def convert(pixels: Pixels, source: BitmapPixelFormat, target: BitmapPixelFormat) -> Pixels:
    """The picture in another format: a new array, or `pixels` itself when the formats are one.

    Alpha is carried over, or 255 where the source has none; 16-bit formats become 8-bit ones by rounding
    and the other way by repeating the byte.
    """
    if source == target:
        return pixels
    origin, wanted = layout_of(source), layout_of(target)
    if origin.dtype != wanted.dtype:
        pixels = to_eight_bits(pixels) if wanted.dtype == np.uint8 else pixels.astype(np.uint16) * 257
    if origin.is_gray and wanted.is_gray:
        return pixels
    planes = [pixels] * 3 if origin.is_gray else [pixels[..., index] for index in origin.rgb]
    if wanted.is_gray:
        gray = gray_of(*(to_eight_bits(plane) for plane in planes))
        return gray if wanted.dtype == np.uint8 else gray.astype(np.uint16) * 257
    height, width = pixels.shape[:2]
    result = np.full(wanted.shape(width, height), np.iinfo(wanted.dtype).max, wanted.dtype)
    for index, plane in zip(wanted.rgb, planes, strict=True):
        result[..., index] = plane
    if wanted.channels == 4 and origin.channels == 4:
        result[..., 3] = pixels[..., 3]
    return result


def convert_alpha(
    pixels: Pixels, pixel_format: BitmapPixelFormat, source: BitmapAlphaMode, target: BitmapAlphaMode
) -> Pixels:
    """The picture with its colours multiplied by alpha, or divided by it: a new array, or `pixels` itself.

    Pillow does the sums, in 8 bits a channel.
    """
    modes = {BitmapAlphaMode.STRAIGHT: "RGBA", BitmapAlphaMode.PREMULTIPLIED: "RGBa"}
    has_alpha = layout_of(pixel_format).channels == 4
    if not has_alpha or source == target or source not in modes or target not in modes:
        return pixels
    if pixels.dtype != np.uint8:
        raise InvalidArgumentError(
            f"The alpha of {BitmapPixelFormat(pixel_format).name} pictures is not converted.", hint="Use RGBA8."
        )
    from PIL import Image

    height, width = pixels.shape[:2]
    image = Image.frombytes(modes[source], (width, height), np.ascontiguousarray(pixels).data)
    return np.array(image.convert(modes[target]))
