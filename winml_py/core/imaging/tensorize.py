"""Converts pixels to the numbers that a model takes: crops, scales, orders the channels, maps the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from ...enums import BitmapPixelFormat, ImageGray, TensorLayout
from ..base.arrays import Array, DType, Pixels
from ..base.child_process import get_shared_pool
from ..base.machine import count_usable_cores
from .bitmap import SoftwareBitmap
from .contract import ImageContract, Placement, has_gray_padding
from .pixels import (
    EXACT_LUMA_WEIGHTS,
    VIDEO_FORMATS,
    BufferCache,
    convert_video_to_bgr,
    crop,
    find_layout,
    make_rows_contiguous,
    resize,
    to_interleaved,
    write_gray,
)

_SMALL = 1 << 10
"""The size of a plane up to which numpy takes at most a microsecond more than OpenCV, whose import takes 20 MB."""

_WORTH_A_THREAD = 1 << 18
"""The size of a tensor, in numbers, below which another thread costs more than it saves."""


def tensorize(
    bitmap: SoftwareBitmap,
    contract: ImageContract,
    out: Array,
    placement: Placement,
    buffers: BufferCache | None = None,
) -> None:
    """Writes a picture into one slot of a batch.

    Numbers are looked up in a table of 256, each computed as Windows ML computes it. With a mean or a std, planes of
    float32 are computed with one factor and one summand per channel instead: faster, and as exact as float32.

    Args:
        bitmap: the picture, in any format.
        contract: how the picture becomes numbers.
        out: channels x height x width, or height x width x channels, as the contract says; float32, float16 or
            uint8, C-contiguous; written in place.
        placement: which part of the picture goes where, computed for the size of both.
        buffers: memory to reuse from call to call.
    """
    buffers = buffers or BufferCache()
    pixels, pixel_format = bitmap.to_numpy(), bitmap.bitmap_pixel_format
    if pixel_format in VIDEO_FORMATS:  # the whole picture, because neighbouring pixels share colours
        bgr = buffers.get("bgr", (bitmap.pixel_height, bitmap.pixel_width, 3))
        pixels, pixel_format = convert_video_to_bgr(pixels, pixel_format, bgr), BitmapPixelFormat.BGR8
    pixels, pixel_format = to_interleaved(crop(pixels, placement.part), pixel_format)
    is_luma = contract.gray is not ImageGray.WINDOWS
    convert_to_luma = _convert_to_luma if contract.gray is ImageGray.LUMA else _convert_to_exact_luma
    if is_luma:  # gray before it is scaled, as in programs with Pillow and OpenCV
        pixels, pixel_format = convert_to_luma(pixels, pixel_format, buffers), BitmapPixelFormat.GRAY8
    height, width = placement.scaled
    pixels = resize(pixels, width, height, contract.kernel, contract.exact, buffers)
    if pixels.shape[2:] == (3,):  # scaled with aligned corners, it has lost its alpha
        pixel_format = BitmapPixelFormat[pixel_format.name.replace("A8", "8")]
    pixels = crop(pixels, placement.cut)
    if placement.has_padding:
        pixels, pixel_format = _pad(pixels, pixel_format, contract, placement, buffers)
    if contract.pixel_format is BitmapPixelFormat.GRAY8:
        # Also after the luma above: padding may have added colour.
        convert_to_gray = convert_to_luma if is_luma else _convert_to_gray
        pixels = convert_to_gray(pixels, pixel_format, buffers)
        pixel_format = BitmapPixelFormat.GRAY8
    if contract.layout is TensorLayout.NHWC:
        _fill_pixels(pixels, pixel_format, contract, out, buffers)
    else:
        _fill_planes(pixels, pixel_format, contract, out, buffers)
    if placement.has_padding:
        planes = out if contract.layout is TensorLayout.NCHW else out.transpose(2, 0, 1)
        x, y, width, height = placement.target
        for plane, number in zip(planes, contract.pad_numbers, strict=False):
            number = round(min(max(number, 0), 255)) if out.dtype == np.uint8 else number
            plane[:y] = plane[y + height :] = plane[:, :x] = plane[:, x + width :] = number


def tensorize_batch(
    bitmaps: Sequence[SoftwareBitmap],
    contract: ImageContract,
    placements: Sequence[Placement],
    out: Array,
    buffer_caches: list[BufferCache] | None = None,
) -> None:
    """Writes each picture into its slot of a batch, at its placement, on several threads where that is faster.

    `buffer_caches` is memory to reuse from call to call, by one thread at a time: each worker adds its own.
    """
    workers = min(len(bitmaps), count_usable_cores()) if out.size // len(bitmaps) >= _WORTH_A_THREAD else 1
    buffer_caches = [] if buffer_caches is None else buffer_caches
    while len(buffer_caches) < workers:
        buffer_caches.append(BufferCache())

    def work(worker: int) -> None:
        for index in range(worker, len(bitmaps), workers):
            tensorize(bitmaps[index], contract, out[index], placements[index], buffer_caches[worker])

    if workers == 1:
        work(0)
    else:
        list(get_shared_pool("winml-py pictures", count_usable_cores()).map(work, range(workers)))


def _pad(
    pixels: Pixels, pixel_format: BitmapPixelFormat, contract: ImageContract, placement: Placement, buffers: BufferCache
) -> tuple[Pixels, BitmapPixelFormat]:
    if find_layout(pixel_format).is_gray and not has_gray_padding(contract):
        pixels, pixel_format = np.repeat(pixels[..., None], 3, axis=2), BitmapPixelFormat.RGB8
    layout = find_layout(pixel_format)
    padded = buffers.get("padded", (*placement.tensor, *pixels.shape[2:]))
    if layout.is_gray:
        padded[:] = contract.pad[0]
    else:
        for index, level in zip(layout.rgb, contract.pad, strict=True):
            padded[..., index] = level
    crop(padded, placement.target)[:] = pixels
    return padded, pixel_format


def _convert_to_gray(pixels: Pixels, pixel_format: BitmapPixelFormat, buffers: BufferCache) -> Pixels:
    """The gray that Windows ML makes of a picture, in colour or in gray: see `make_gray_table`."""
    layout = find_layout(pixel_format)
    if layout.is_gray:
        # With numpy's default mode, the result would first go to a buffer, and be copied. No byte is outside the table.
        return np.take(make_gray_table(), pixels, out=buffers.get("gray", pixels.shape), mode="clip")
    gray = buffers.get("gray", pixels.shape[:2])
    write_gray([pixels[..., index] for index in layout.rgb], gray, buffers)
    return gray


def _convert_to_luma(pixels: Pixels, pixel_format: BitmapPixelFormat, buffers: BufferCache) -> Pixels:
    """The gray that Pillow and OpenCV make of a picture."""
    if find_layout(pixel_format).is_gray:
        return pixels
    import cv2

    code = getattr(cv2, f"COLOR_{pixel_format.name.removesuffix('8')}2GRAY")
    gray: Pixels = cv2.cvtColor(make_rows_contiguous(pixels), code, dst=buffers.get("gray", pixels.shape[:2]))
    return gray


def _convert_to_exact_luma(pixels: Pixels, pixel_format: BitmapPixelFormat, buffers: BufferCache) -> Pixels:
    """The same in float64, red first."""
    if find_layout(pixel_format).is_gray:
        return pixels
    import cv2

    gray: Pixels = buffers.get("gray", pixels.shape[:2])
    tables = [np.arange(256) * weight for weight in EXACT_LUMA_WEIGHTS]
    strip = max(1, 16384 // pixels.shape[1])  # in the cache, where float64 is as fast as bytes
    for first in range(0, len(pixels), strip):
        planes = cv2.split(np.ascontiguousarray(pixels[first : first + strip]))
        red, green, blue = map(cv2.LUT, (planes[index] for index in find_layout(pixel_format).rgb), tables)
        cv2.add(cv2.add(red, green), blue, gray[first : first + strip], dtype=cv2.CV_8U)
    return gray


@cache
def make_gray_table() -> Pixels:
    """What Windows ML makes of a gray picture for a gray model: it converts it to colour, and that to gray."""
    gray = np.arange(256, dtype=np.uint8)
    write_gray([gray] * 3, gray, BufferCache())
    return gray


def _fill_planes(
    pixels: Pixels, pixel_format: BitmapPixelFormat, contract: ImageContract, out: Array, buffers: BufferCache
) -> None:
    layout = find_layout(pixel_format)
    if layout.is_gray:
        planes, order = [np.ascontiguousarray(pixels)] * 3, (0, 1, 2)
    else:
        import cv2

        planes = buffers.get_planes(layout.channels, pixels.shape[:2])
        cv2.split(make_rows_contiguous(pixels), planes)
        order = find_channel_order(pixel_format, contract)
    if out.dtype == np.float32 and (contract.mean or contract.std) and not contract.factor:
        import cv2

        for slot, index, (factor, summand) in zip(out, order, contract.affine(), strict=False):
            cv2.addWeighted(planes[index], factor, planes[index], 0, summand, slot, cv2.CV_32F)
        return
    # A gray tensor takes the first.
    for slot, index, numbers in zip(out, order, contract.numbers(out.dtype), strict=False):
        _look_up(planes[index], numbers, slot)


def _fill_pixels(
    pixels: Pixels, pixel_format: BitmapPixelFormat, contract: ImageContract, out: Array, buffers: BufferCache
) -> None:
    """Channels last: looks up the numbers of all channels in one table of 256 entries of three."""
    import cv2

    table = contract.numbers(out.dtype)
    if contract.channels == 1:
        _look_up(np.ascontiguousarray(pixels), table[0], out[..., 0])
        return
    ordered = buffers.get("ordered", (*pixels.shape[:2], 3))
    source = pixels[..., None] if pixels.ndim == 2 else pixels
    order = find_channel_order(pixel_format, contract)
    pairs = [channel for target, index in enumerate(order) for channel in (index, target)]
    cv2.mixChannels([make_rows_contiguous(source)], [ordered], pairs)
    entries = np.ascontiguousarray(table.T).view(_choose_lut_dtype(out.dtype)).reshape(1, 256, 3)
    cv2.LUT(ordered, entries, out.view(entries.dtype))


def find_channel_order(source: BitmapPixelFormat, contract: ImageContract) -> tuple[int, int, int]:
    """Which channel of a picture in this format goes to each channel of a colour tensor."""
    rgb = find_layout(source).rgb
    return rgb[::-1] if contract.pixel_format is BitmapPixelFormat.BGR8 else rgb


def _look_up(plane: Pixels, numbers: Array, slot: Array) -> None:
    """Writes the number of each byte of a contiguous plane into a contiguous slot."""
    if plane.size <= _SMALL:
        np.take(numbers, plane, out=slot, mode="clip")  # no byte is outside the table
        return
    import cv2

    words = _choose_lut_dtype(numbers.dtype)
    cv2.LUT(plane, numbers.view(words), slot.view(words))


def _choose_lut_dtype(dtype: DType) -> DType:
    """The type that OpenCV sees: it has no look-up for float16, so it moves the 16 bits as an integer."""
    return np.dtype(np.int16) if dtype == np.float16 else dtype
