"""Scaling of pixels, with Pillow's antialiased kernels and OpenCV's others.

If cykooz-resizer is installed, it scales with Pillow's kernels, several times as fast as Pillow itself. Its result is
within one level of Pillow's. With cubic and Lanczos, a few pixels in a million, in drawings in ten thousand, are off by
two. Pillow scales where the package is not installed, and where exact numbers are requested.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...enums import ImageKernel
from ..base.arrays import Pixels
from .formats import to_eight_bits
from .geometry import BitmapBounds
from .scaling import maximum


class Kernel(NamedTuple):
    """The library that scales with a kernel, and the kernel's name there.

    Attributes:
        pillow: Pillow's name for the filter; "" where OpenCV scales.
        fast: cykooz-resizer's name for the filter; "" where it has none.
        opencv: the name of OpenCV's flag; "" where Pillow scales.
        overshoots: whether it makes numbers outside the range of the picture, which are clipped.
        is_antialiased: whether it uses every pixel of a picture that shrinks, and rounds to bytes after each axis, as
            Pillow's filters do; OpenCV rounds once at the end.
    """

    pillow: str = ""
    fast: str = ""
    opencv: str = ""
    overshoots: bool = False
    is_antialiased: bool = False


KERNELS: Mapping[ImageKernel, Kernel] = {
    ImageKernel.NEAREST: Kernel("NEAREST"),
    ImageKernel.LINEAR: Kernel(opencv="INTER_LINEAR"),
    ImageKernel.CUBIC: Kernel(opencv="INTER_CUBIC"),
    ImageKernel.AREA: Kernel(opencv="INTER_AREA"),
    ImageKernel.ANTIALIASED_LINEAR: Kernel("BILINEAR", "bilinear", is_antialiased=True),
    ImageKernel.ANTIALIASED_CUBIC: Kernel("BICUBIC", "catmull_rom", overshoots=True, is_antialiased=True),
    ImageKernel.ANTIALIASED_LANCZOS: Kernel("LANCZOS", "lanczos3", overshoots=True, is_antialiased=True),
    # cykooz-resizer also has a box, but that takes other pixels where its edge lies between two of them.
    ImageKernel.ANTIALIASED_BOX: Kernel("BOX", is_antialiased=True),
    ImageKernel.ANTIALIASED_HAMMING: Kernel("HAMMING", is_antialiased=True),
}
"""Everything specific to a kernel; its formula as nodes of a graph is in `authoring/scaling_nodes.py`."""

BY_PILLOW_NAME: Mapping[str, ImageKernel] = {entry.pillow: kernel for kernel, entry in KERNELS.items() if entry.pillow}
"""The kernels by Pillow's names, which timm and transformers use."""


def crop(pixels: Pixels, bounds: BitmapBounds) -> Pixels:
    """The part of a picture inside `bounds`: a view."""
    return pixels[bounds.y : bounds.y + bounds.height, bounds.x : bounds.x + bounds.width]


def resize(
    pixels: Pixels,
    width: int,
    height: int,
    kernel: ImageKernel = ImageKernel.ANTIALIASED_CUBIC,
    is_exact: bool = False,
) -> Pixels:
    """Scales a picture, channel by channel; alpha does not weigh the colours.

    The antialiased kernels are Pillow's, because torchvision and most training code scale with it. So is `NEAREST`, for
    which OpenCV's pixels vary between versions. The other kernels are OpenCV's, and alias when they shrink, except
    `AREA`.

    Args:
        pixels: height x width, or height x width x 3 or 4, of uint8; uint16 becomes uint8; float32 in two dimensions.
            It may be a view.
        width: pixels of the result.
        height: pixels of the result.
        kernel: the filter.
        is_exact: whether Pillow itself scales with its kernels.

    Returns:
        A new array, which may be read-only, or `pixels` itself when nothing is to be done.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    pixels = to_eight_bits(pixels)
    entry = KERNELS[kernel]
    if entry.fast and not is_exact and pixels.dtype == np.uint8 and import_fast_resizer() is not None:
        return _scale_fast(pixels, width, height, entry)
    if entry.pillow:
        return _scale_with_pillow(pixels, width, height, entry.pillow)
    import cv2

    interpolation = getattr(cv2, entry.opencv)
    return cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=interpolation)


def _scale_with_pillow(pixels: Pixels, width: int, height: int, name: str) -> Pixels:
    from PIL import Image

    if pixels.dtype == np.float32:
        mode = "F"
    else:  # RGBX: as RGBA, Pillow would weigh colours by their alpha, which Windows ML ignores
        mode = {1: "L", 3: "RGB", 4: "RGBX"}[pixels.shape[2] if pixels.ndim == 3 else 1]
    size = (pixels.shape[1], pixels.shape[0])
    image: Image.Image = Image.frombytes(mode, size, np.ascontiguousarray(pixels).data)
    return np.asarray(image.resize((width, height), Image.Resampling[name]))


def scales_height_first(width: int, height: int, to_width: int, to_height: int) -> bool:
    """Whether Pillow scales the height before the width, with an antialiased kernel: it rounds and clips after each.

    Pillow 13 does so where the height loses more than twice as many pixels as the width. The sides can be values of a
    graph.
    """
    return _can_pillow_scale_height_first() and height - to_height > maximum(0, 2 * (width - to_width))


@cache
def _can_pillow_scale_height_first() -> bool:
    """Whether this Pillow ever scales the height first: versions before 13 always begin with the width."""
    pixels = np.tile(np.array([[0, 255], [255, 0]], np.uint8), (8, 8))
    height_first = _scale_with_pillow(_scale_with_pillow(pixels, 16, 9, "BICUBIC"), 23, 9, "BICUBIC")
    return bool(np.array_equal(_scale_with_pillow(pixels, 23, 9, "BICUBIC"), height_first))


# Pillow's kernels in cykooz-resizer. Of its two interfaces, this takes and returns copies of bytes, and lets other
# threads run while it scales. The other one takes Pillow's images, but depends on their internal structure, and holds
# the interpreter's lock.


_WHOLE = 16 << 20
"""The most bytes of a picture that are scaled at once. Larger blocks of memory come fresh from the system each time,
and fetching their pages takes longer than scaling them."""

_STRIP = 2 << 20
"""Bytes of a picture that are scaled at once, in strips: they stay in the processor's cache."""

_THREAD = threading.local()
"""Each thread keeps a resizer and reuses its memory."""


@cache
def import_fast_resizer() -> Any:
    """The package cykooz_resizer, or None where it is not installed, or cannot be imported."""
    try:
        import cykooz_resizer
    except ImportError:
        return None
    return cykooz_resizer


def _scale_fast(pixels: Pixels, width: int, height: int, entry: Kernel) -> Pixels:
    if not entry.overshoots and pixels.nbytes <= _WHOLE:
        return _scale_at_once(pixels, width, height, entry.fast)
    # The resizer itself scales the height first, which is faster. But overshoots are clipped after each side: in
    # another order than Pillow's, drawings and text would differ by thirty levels, and photographs by two.
    source_height, source_width = pixels.shape[:2]
    if not entry.overshoots or scales_height_first(source_width, source_height, width, height):
        sides = ((0, height), (1, width))
    else:
        sides = ((1, width), (0, height))
    for side, size in sides:
        pixels = _scale_side(pixels, side, size, entry.fast)
    return pixels


def _scale_side(pixels: Pixels, side: int, size: int, name: str) -> Pixels:
    """Scales the height (0) or the width (1), in strips along it."""
    if pixels.shape[side] == size:
        return pixels
    scaled_shape = list(pixels.shape)
    scaled_shape[side] = size
    length = pixels.shape[1 - side]
    thickness = max(1, _STRIP * length // pixels.nbytes)
    if thickness >= length:
        return _scale_at_once(pixels, scaled_shape[1], scaled_shape[0], name)
    scaled = np.empty(scaled_shape, np.uint8)
    for start in range(0, length, thickness):
        strip = slice(start, start + thickness)
        part = (slice(None), strip) if side == 0 else (strip, slice(None))
        target = scaled[part]
        target[:] = _scale_at_once(pixels[part], target.shape[1], target.shape[0], name)
    return scaled


def _scale_at_once(pixels: Pixels, width: int, height: int, name: str) -> Pixels:
    package = import_fast_resizer()
    if not hasattr(_THREAD, "resizer"):
        _THREAD.resizer = package.Resizer()
    algorithm = package.ResizeAlg.convolution(package.FilterType[name])
    options = package.ResizeOptions(algorithm, use_alpha=False)  # Windows ML ignores alpha, too
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    kind = package.PixelType["U8" if channels == 1 else f"U8x{channels}"]
    source = package.ImageData(pixels.shape[1], pixels.shape[0], kind, pixels.tobytes())
    scaled = package.ImageData(width, height, kind)
    _THREAD.resizer.resize(source, scaled, options)
    return np.frombuffer(scaled.get_buffer(), np.uint8).reshape(height, width, *pixels.shape[2:])
