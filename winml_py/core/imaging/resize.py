"""Scaling of pixels, with Pillow's antialiased kernels and OpenCV's others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...enums import ImageKernel
from .formats import Pixels, to_eight_bits
from .geometry import BitmapBounds


class Kernel(NamedTuple):
    """Who scales with a kernel, and by which name.

    Attributes:
        pillow: the name of Pillow's filter; "" where OpenCV scales.
        opencv: the name of OpenCV's flag; "" where Pillow scales.
        resize_attributes: those of ONNX's Resize that do the same; None where it has no such kernel.
        is_antialiased: whether it sees every pixel of a picture that shrinks, and rounds to bytes after one axis and
            again after the other, as Pillow's filters do; OpenCV rounds once at the end.
    """

    pillow: str = ""
    opencv: str = ""
    resize_attributes: Mapping[str, Any] | None = None
    is_antialiased: bool = False


KERNELS: Mapping[ImageKernel, Kernel] = {
    ImageKernel.NEAREST: Kernel("NEAREST"),
    ImageKernel.LINEAR: Kernel(opencv="INTER_LINEAR", resize_attributes={"mode": "linear"}),
    # -0.75 is OpenCV's coefficient; Pillow's is -0.5.
    ImageKernel.CUBIC: Kernel(opencv="INTER_CUBIC", resize_attributes={"mode": "cubic", "cubic_coeff_a": -0.75}),
    ImageKernel.AREA: Kernel(opencv="INTER_AREA"),
    ImageKernel.ANTIALIASED_LINEAR: Kernel("BILINEAR", is_antialiased=True),
    ImageKernel.ANTIALIASED_CUBIC: Kernel("BICUBIC", is_antialiased=True),
    ImageKernel.ANTIALIASED_LANCZOS: Kernel("LANCZOS", is_antialiased=True),
    ImageKernel.ANTIALIASED_BOX: Kernel("BOX", is_antialiased=True),
    ImageKernel.ANTIALIASED_HAMMING: Kernel("HAMMING", is_antialiased=True),
}
"""All that is special about a kernel; its formula as nodes of a graph stands in `authoring/kernels.py`."""

BY_PILLOW_NAME: Mapping[str, ImageKernel] = {entry.pillow: kernel for kernel, entry in KERNELS.items() if entry.pillow}
"""The kernels by Pillow's names, by which timm and transformers choose."""


def crop(pixels: Pixels, bounds: BitmapBounds) -> Pixels:
    """The part of a picture inside `bounds`: a view."""
    return pixels[bounds.y : bounds.y + bounds.height, bounds.x : bounds.x + bounds.width]


def resize(
    pixels: Pixels,
    width: int,
    height: int,
    kernel: ImageKernel = ImageKernel.ANTIALIASED_CUBIC,
    is_close: bool = False,
) -> Pixels:
    """Scales a picture, channel by channel; alpha does not weigh the colours.

    The antialiased kernels are Pillow's, because torchvision and most training code scale with it. A side that shrinks
    to a quarter or less is first averaged by a whole factor: this takes less than half of the time, and changes the
    result by a third of a level on average. `NEAREST` is Pillow's, too: OpenCV takes other pixels from version to
    version. The other kernels are OpenCV's, and alias when they shrink, except `AREA`.

    Args:
        pixels: height x width, or height x width x 3 or 4, of uint8; uint16 becomes uint8; float32 in two dimensions.
        width: pixels of the result.
        height: pixels of the result.
        kernel: how.
        is_close: whether an antialiased kernel stays within three levels of Pillow's result, half a level on average:
            blocks are averaged only where they divide a side, and the kernel still shrinks it to a quarter.

    Returns:
        A new array, or `pixels` itself when nothing is to be done.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    pixels = to_eight_bits(pixels)
    entry = KERNELS[kernel]
    if entry.is_antialiased:
        return _resize_with_pillow(pixels, width, height, entry.pillow, is_close)
    if entry.pillow:
        return scale_with_pillow(pixels, width, height, entry.pillow, (pixels.shape[1], pixels.shape[0]))
    import cv2

    interpolation = getattr(cv2, entry.opencv)
    return cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=interpolation)


def _resize_with_pillow(pixels: Pixels, width: int, height: int, name: str, is_close: bool) -> Pixels:
    source_height, source_width = pixels.shape[:2]
    across, down = block_size(source_width, source_height, width, height, is_close)
    if across > 1 or down > 1:
        pixels = _average(pixels, across, down)
    # The last block may stand for fewer pixels than the others. So Pillow is told where the picture really ends.
    return scale_with_pillow(pixels, width, height, name, (source_width / across, source_height / down))


def scale_with_pillow(pixels: Pixels, width: int, height: int, name: str, used: tuple[float, float]) -> Pixels:
    """Scales the part of a picture that is `used`, width and height from its corner, with one of Pillow's filters."""
    from PIL import Image

    if pixels.dtype == np.float32:
        mode = "F"
    else:  # RGBX: as RGBA, Pillow would weigh colours by their alpha, which Windows ML ignores
        mode = {1: "L", 3: "RGB", 4: "RGBX"}[pixels.shape[2] if pixels.ndim == 3 else 1]
    size = (pixels.shape[1], pixels.shape[0])
    image: Image.Image = Image.frombytes(mode, size, np.ascontiguousarray(pixels).data)
    return np.asarray(image.resize((width, height), Image.Resampling[name], (0, 0, *used)))


def scales_height_first(width: int, height: int, to_width: int, to_height: int, is_close: bool = False) -> bool:
    """Whether `resize` with an antialiased kernel scales the height of a picture before its width.

    Pillow 13 does so where the height loses more than twice as many pixels as the width. The order matters because
    Pillow rounds to bytes after each, and cuts off what a cubic kernel overshoots.
    """
    across, down = block_size(width, height, to_width, to_height, is_close)
    lost_width, lost_height = -(-width // across) - to_width, -(-height // down) - to_height
    return lost_height > max(0, 2 * lost_width) and _pillow_chooses_the_order()


@cache
def _pillow_chooses_the_order() -> bool:
    """Whether this Pillow ever scales the height first: versions before 13 always begin with the width."""
    pixels = np.tile(np.array([[0, 255], [255, 0]], np.uint8), (8, 8))
    height_first = resize(resize(pixels, 16, 9), 23, 9)
    return bool(np.array_equal(resize(pixels, 23, 9), height_first))


def block_size(width: int, height: int, to_width: int, to_height: int, is_close: bool = False) -> tuple[int, int]:
    """Width and height of the blocks that `resize` averages before it scales with an antialiased kernel."""
    if is_close:
        return _divisor(width, to_width), _divisor(height, to_height)
    return _whole_factor(width / to_width), _whole_factor(height / to_height)


def _divisor(side: int, to_side: int) -> int:
    """The largest number that divides a side and leaves the kernel a shrinking by 4."""
    return next((number for number in range(side // (4 * to_side), 1, -1) if side % number == 0), 1)


def _whole_factor(shrink: float) -> int:
    """By how many pixels a side is averaged first: so that the kernel still shrinks it by 2, or by 2.5 from 6 on."""
    if shrink < 4:
        return 1
    return int(shrink / (2 if shrink < 6 else 2.5))


def _average(pixels: Pixels, across: int, down: int) -> Pixels:
    """The means of blocks of pixels; the pixels of the edge are repeated where the last block is not full."""
    import cv2

    height, width = pixels.shape[:2]
    right, below = -width % across, -height % down
    if right or below:
        pixels = cv2.copyMakeBorder(pixels, 0, below, 0, right, cv2.BORDER_REPLICATE)
    size = ((width + right) // across, (height + below) // down)
    return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
