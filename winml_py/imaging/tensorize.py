"""From pixels to the numbers a model takes: crop, scale, order the channels, map the bytes."""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..enums import BitmapPixelFormat, TensorLayout
from .bitmap import SoftwareBitmap
from .contract import ImageContract
from .formats import INTERLEAVED_FORMATS, VIDEO_FORMATS, Pixels, gray_of, layout_of, to_interleaved
from .geometry import BitmapBounds, Placement, compute_placement, crop, resize
from .scratch import Scratch

Tensor = np.ndarray[Any, Any]


class Plan(NamedTuple):
    """What of a call depends on shapes and the contract alone, worked out once.

    Attributes:
        placement: what part of the picture goes to what part of the tensor.
        size: height and width of the tensor.
        table: the number for each byte of each channel.
        affine: factor and summand of each channel, where the numbers are worked out and not looked up.
    """

    placement: Placement
    size: tuple[int, int]
    table: Tensor
    affine: tuple[tuple[float, float], ...]


def tensorize(
    bitmap: SoftwareBitmap,
    contract: ImageContract,
    out: Tensor,
    bounds: BitmapBounds | None = None,
    scratch: Scratch | None = None,
) -> None:
    """Writes a picture into one slot of a batch.

    The numbers of Windows ML's ranges are looked up in a table of 256, and are exactly its own. With a mean or a std,
    planes of float32 are worked out with one factor and one summand a channel: as exact as float32, and sooner done.

    Args:
        bitmap: the picture, in any format.
        contract: how it is to lie in the tensor.
        out: channels x height x width, or height x width x channels, as the contract says; float32, float16 or
            uint8, C-contiguous; written in place.
        bounds: the part of the picture to use; by default all the contract's crop mode leaves.
        scratch: memory to reuse from call to call.

    Raises:
        InvalidBindingError: `bounds` leave the picture.
    """
    scratch = scratch or Scratch()
    key = (contract, bounds, bitmap.pixel_width, bitmap.pixel_height, out.shape, out.dtype)
    plan: Plan = scratch.recall(key, _plan)
    pixels, pixel_format = _interleaved_part(bitmap, plan.placement.part, scratch)
    target = plan.placement.target
    if pixels.shape[:2] != (target.height, target.width):
        pixels = resize(pixels, target.width, target.height, contract.kernel)
    if plan.size != (target.height, target.width):
        pixels, pixel_format = _padded(pixels, pixel_format, contract, target, plan.size, scratch)
    if contract.pixel_format is BitmapPixelFormat.GRAY8:
        pixels, pixel_format = _gray(pixels, pixel_format, scratch), BitmapPixelFormat.GRAY8
    if contract.layout is TensorLayout.NHWC:
        _fill_pixels(pixels, pixel_format, contract, plan.table, out, scratch)
    else:
        _fill_planes(pixels, pixel_format, contract, plan, out, scratch)


def _plan(
    contract: ImageContract,
    bounds: BitmapBounds | None,
    picture_width: int,
    picture_height: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> Plan:
    axes = contract.axes()
    height, width = shape[axes[1] - 1], shape[axes[2] - 1]
    placement = compute_placement(picture_width, picture_height, width, height, contract.crop_mode, bounds)
    is_worked_out = dtype == np.float32 and (contract.mean or contract.std)
    return Plan(placement, (height, width), contract.numbers(dtype), contract.affine() if is_worked_out else ())


def _interleaved_part(bitmap: SoftwareBitmap, part: BitmapBounds, scratch: Scratch) -> tuple[Pixels, BitmapPixelFormat]:
    """The pixels inside `part`, in an interleaved format: a view where the bitmap is in one."""
    pixels, pixel_format = bitmap.to_numpy(), bitmap.bitmap_pixel_format
    if pixel_format in INTERLEAVED_FORMATS:
        return crop(pixels, part), pixel_format
    if pixel_format == BitmapPixelFormat.NV12:  # the one format of cameras that is converted into reused memory
        import cv2

        bgr = scratch.get("bgr", (bitmap.pixel_height, bitmap.pixel_width, 3))
        return crop(cv2.cvtColor(pixels, cv2.COLOR_YUV2BGR_NV12, bgr), part), BitmapPixelFormat.BGR8
    if pixel_format in VIDEO_FORMATS:
        pixels, pixel_format = to_interleaved(pixels, pixel_format)
        return crop(pixels, part), pixel_format
    return to_interleaved(crop(pixels, part), pixel_format)


def _padded(
    pixels: Pixels,
    pixel_format: BitmapPixelFormat,
    contract: ImageContract,
    target: BitmapBounds,
    shape: tuple[int, int],
    scratch: Scratch,
) -> tuple[Pixels, BitmapPixelFormat]:
    """The picture on its ground."""
    layout = layout_of(pixel_format)
    red, green, blue = contract.pad
    if layout.is_gray and not red == green == blue:  # colour around a gray picture
        pixels, pixel_format = np.repeat(pixels[..., None], 3, axis=2), BitmapPixelFormat.RGB8
        layout = layout_of(pixel_format)
    whole = scratch.get("padded", (*shape, *pixels.shape[2:]))
    if layout.is_gray:
        whole[:] = red
    else:
        for index, level in zip(layout.rgb, contract.pad, strict=True):
            whole[..., index] = level
    crop(whole, target)[:] = pixels
    return whole, pixel_format


def _gray(pixels: Pixels, pixel_format: BitmapPixelFormat, scratch: Scratch) -> Pixels:
    """The gray Windows ML makes of a picture, of colours or of gray itself: see `gray_table`."""
    layout = layout_of(pixel_format)
    if layout.is_gray:
        return np.take(gray_table(), pixels, out=scratch.get("gray", pixels.shape), mode="clip")
    gray = scratch.get("gray", pixels.shape[:2])
    gray_of([pixels[..., index] for index in layout.rgb], gray, scratch)
    return gray


@cache
def gray_table() -> Pixels:
    """What Windows ML makes of a gray picture for a gray model: it turns it to colour, and that to gray."""
    gray = np.arange(256, dtype=np.uint8)
    gray_of([gray] * 3, gray, Scratch())
    return gray


def _fill_planes(
    pixels: Pixels,
    pixel_format: BitmapPixelFormat,
    contract: ImageContract,
    plan: Plan,
    out: Tensor,
    scratch: Scratch,
) -> None:
    import cv2

    layout = layout_of(pixel_format)
    if layout.is_gray:
        planes, order = [_contiguous(pixels, scratch)] * 3, (0, 1, 2)
    else:
        planes = scratch.planes(layout.channels, pixels.shape[:2])
        cv2.split(_contiguous_rows(pixels), planes)
        order = layout.rgb if contract.pixel_format is BitmapPixelFormat.RGB8 else layout.rgb[::-1]
    for channel, slot in enumerate(out):
        plane = planes[order[channel]]
        if plan.affine:
            factor, summand = plan.affine[channel]
            cv2.addWeighted(plane, factor, plane, 0, summand, slot, cv2.CV_32F)
        else:
            _look_up(plane, plan.table[channel], slot)


def _fill_pixels(
    pixels: Pixels,
    pixel_format: BitmapPixelFormat,
    contract: ImageContract,
    table: Tensor,
    out: Tensor,
    scratch: Scratch,
) -> None:
    """Channels last: the numbers of all channels in one table of 256 entries of three."""
    import cv2

    layout = layout_of(pixel_format)
    if contract.channels == 1:
        _look_up(_contiguous(pixels, scratch), table[0], out[..., 0])
        return
    ordered = scratch.get("ordered", (*pixels.shape[:2], 3))
    order = layout.rgb if contract.pixel_format is BitmapPixelFormat.RGB8 else layout.rgb[::-1]
    source = pixels[..., None] if layout.is_gray else pixels
    cv2.mixChannels([_contiguous_rows(source)], [ordered], [n for i, index in enumerate(order) for n in (index, i)])
    entries = np.ascontiguousarray(table.T).view(_words(out.dtype)).reshape(1, 256, 3)
    cv2.LUT(ordered, entries, out.view(entries.dtype))


def _look_up(plane: Pixels, numbers: Tensor, slot: Tensor) -> None:
    """Writes the number of each byte of a contiguous plane into a contiguous slot."""
    import cv2

    words = _words(numbers.dtype)
    if numbers.dtype == np.float16 and _takes_pairs() and plane.size >= 1 << 16:
        count = plane.size // 2 * 2
        pairs = plane.reshape(1, -1)[:, :count].view(np.uint16)
        cv2.LUT(pairs, _pairs(numbers.tobytes()), slot.reshape(1, -1)[:, :count].view(np.int32))
        slot.reshape(-1)[count:] = numbers[plane.reshape(-1)[count:]]
        return
    cv2.LUT(plane, numbers.view(words), slot.view(words))


def _words(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What OpenCV is told the numbers are: it moves float16 as the words they lie in."""
    return np.dtype(np.int16) if dtype == np.float16 else dtype


@cache
def _takes_pairs() -> bool:
    """Whether OpenCV looks up 16 bits at once, which it learnt in version 5."""
    import cv2

    try:
        cv2.LUT(np.zeros((1, 1), np.uint16), np.zeros(1 << 16, np.int32))
    except cv2.error:
        return False
    return True


@lru_cache(16)
def _pairs(numbers: bytes) -> Tensor:
    """The halves for two bytes that lie side by side, for each pair of them: half the looking up."""
    halves = np.frombuffer(numbers, np.uint16)
    low, high = np.meshgrid(halves, halves)
    first, second = (low, high) if sys.byteorder == "little" else (high, low)
    return np.stack([first, second], axis=-1).reshape(-1).view(np.int32)


def _contiguous(plane: Pixels, scratch: Scratch) -> Pixels:
    if plane.flags.c_contiguous:
        return plane
    whole = scratch.get("plane", plane.shape)
    whole[:] = plane
    return whole


def _contiguous_rows(pixels: Pixels) -> Pixels:
    """The pixels as OpenCV can read them: rows may have gaps, pixels may not."""
    item, channels = pixels.itemsize, pixels.shape[2]
    if pixels.strides[1:] == (item * channels, item) and pixels.strides[0] >= item * channels * pixels.shape[1]:
        return pixels
    return np.ascontiguousarray(pixels)
