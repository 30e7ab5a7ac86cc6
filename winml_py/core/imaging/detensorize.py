"""Converts a model's numbers back to a picture."""

from __future__ import annotations

import numpy as np

from ...enums import BitmapPixelFormat, TensorLayout
from ..base.arrays import Array, Pixels
from .bitmap import SoftwareBitmap
from .contract import SCALE_AND_SHIFT, ImageContract
from .pixels import INTERLEAVED_FORMATS, BufferCache, convert, find_layout, resize, write_gray


def to_bytes(
    numbers: Array, contract: ImageContract, channel: int, out: Pixels, buffers: BufferCache | None = None
) -> None:
    """The bytes that one channel's numbers mean: half to even, 0 to 255, of scale * (v * std + mean + shift).

    With a factor, v is divided by it.

    NaN becomes 0. Windows ML rounds half up in the last few columns of a picture; we use one rule.

    Args:
        numbers: float32, float16 or uint8, of two dimensions.
        contract: what the numbers mean.
        channel: which channel they are.
        out: uint8, of the same shape; written in place.
        buffers: memory to reuse.
    """
    scale, shift = SCALE_AND_SHIFT[contract.pixel_range]
    values = (buffers or BufferCache()).get("values", numbers.shape, np.float32)
    np.copyto(values, numbers)
    if contract.std:
        values *= np.float32(contract.std[channel])
    if contract.factor:
        values /= np.float32(contract.factor[channel])
    if contract.mean:
        values += np.float32(contract.mean[channel])
    if shift:
        values += np.float32(shift)
    if scale != 1:
        values *= np.float32(scale)
    np.rint(values, out=values)
    np.fmin(np.fmax(values, 0, out=values), 255, out=values)  # fmax, unlike clip, turns NaN into 0
    np.copyto(out, values, casting="unsafe")


def detensorize(
    tensor: Array, contract: ImageContract, bitmap: SoftwareBitmap, buffers: BufferCache | None = None
) -> None:
    """Writes one picture of a batch into a bitmap, stretched to the bitmap's size and in its format; alpha becomes 255.

    Args:
        tensor: channels x height x width, or height x width x channels, as the contract says; float32, float16 or
            uint8; 1 or 3 channels.
        contract: how the tensor encodes the picture.
        bitmap: written in place.
        buffers: memory to reuse from call to call.
    """
    buffers = buffers or BufferCache()
    channels = tensor if contract.layout is TensorLayout.NCHW else np.moveaxis(tensor, -1, 0)
    height, width = channels.shape[1:]
    planes = buffers.get_planes(len(channels), (height, width))
    for index, plane in enumerate(planes):
        to_bytes(channels[index], contract, index, plane, buffers)
    pixels, pixel_format = bitmap.to_numpy(), bitmap.bitmap_pixel_format
    if (bitmap.pixel_width, bitmap.pixel_height) == (width, height) and pixel_format in INTERLEAVED_FORMATS:
        _fill(pixels, planes, contract, pixel_format, buffers)
        return
    colour = BitmapPixelFormat.GRAY8 if len(planes) == 1 else BitmapPixelFormat.BGRA8
    picture = buffers.get("whole", find_layout(colour).make_shape(width, height))
    _fill(picture, planes, contract, colour, buffers)
    scaled = resize(picture, bitmap.pixel_width, bitmap.pixel_height)
    if find_layout(pixel_format).is_gray and len(planes) > 1:
        # Rounded down, like the gray of pictures that are not scaled.
        gray = buffers.get("gray", scaled.shape[:2])
        write_gray([scaled[..., index] for index in find_layout(colour).rgb], gray, buffers)
        scaled, colour = gray, BitmapPixelFormat.GRAY8
    pixels[:] = convert(scaled, colour, pixel_format)


def _fill(
    pixels: Pixels, planes: list[Pixels], contract: ImageContract, pixel_format: BitmapPixelFormat, buffers: BufferCache
) -> None:
    target = find_layout(pixel_format)
    if target.is_gray and len(planes) == 1:
        pixels[:] = planes[0]
        return
    is_reversed = contract.pixel_format is BitmapPixelFormat.BGR8
    colours = planes * 3 if len(planes) == 1 else planes[::-1] if is_reversed else planes
    if target.is_gray:
        write_gray(colours, pixels, buffers)
        return
    ordered = [colours[target.rgb.index(channel)] for channel in range(3)]
    if target.channels == 4:
        opaque = buffers.get("opaque", planes[0].shape)
        opaque[:] = 255
        ordered.append(opaque)
    width, channels = pixels.shape[1:]
    if pixels.strides == (width * channels, channels, 1):  # for one pixel, numpy calls any strides contiguous
        import cv2

        cv2.merge(ordered, pixels)
        return
    for index, plane in enumerate(ordered):
        pixels[..., index] = plane
