"""Arrays of pixels: their formats, how they are converted, and how they are cropped and scaled.

Pillow's kernels are antialiased, OpenCV's are not. If cykooz-resizer is installed, it scales with Pillow's kernels,
several times as fast as Pillow itself. Its result is within one level of Pillow's. With cubic and Lanczos, a few pixels
in a million, in drawings in ten thousand, are off by two. Pillow scales where the package is not installed, and where
exact numbers are requested.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ...enums import BitmapAlphaMode, BitmapPixelFormat, ImageKernel
from ...errors import InvalidArgumentError
from ..base.arrays import Array, Pixels
from .contract import BitmapBounds
from .scaling import maximum


class Layout(NamedTuple):
    """The layout of a pixel in memory.

    Attributes:
        dtype: uint8 or uint16.
        channels: numbers per pixel; 1 means no channel axis; 0 means that brightness and colour are separate planes.
        rgb: the positions of red, green and blue among the channels; all 0 for gray.
    """

    dtype: type[np.uint8] | type[np.uint16]
    channels: int
    rgb: tuple[int, int, int] = (0, 0, 0)

    @property
    def is_gray(self) -> bool:
        """Whether a pixel is one number."""
        return self.channels == 1

    @property
    def is_planar(self) -> bool:
        """Whether brightness and colour are separate: a plane of brightness above half a plane of colour."""
        return self.channels == 0

    def make_shape(self, width: int, height: int) -> tuple[int, ...]:
        """The shape of a picture's array."""
        if self.is_planar:
            return (height * 3 // 2, width)
        return (height, width) if self.is_gray else (height, width, self.channels)

    def measure_picture(self, pixels: Pixels) -> tuple[int, int]:
        """Width and height of the picture in an array."""
        height, width = pixels.shape[:2]
        return (width, height * 2 // 3) if self.is_planar else (width, height)


_LAYOUTS = {
    BitmapPixelFormat.RGBA16: Layout(np.uint16, 4, (0, 1, 2)),
    BitmapPixelFormat.RGBA8: Layout(np.uint8, 4, (0, 1, 2)),
    BitmapPixelFormat.GRAY16: Layout(np.uint16, 1),
    BitmapPixelFormat.GRAY8: Layout(np.uint8, 1),
    BitmapPixelFormat.BGRA8: Layout(np.uint8, 4, (2, 1, 0)),
    BitmapPixelFormat.RGB8: Layout(np.uint8, 3, (0, 1, 2)),
    BitmapPixelFormat.BGR8: Layout(np.uint8, 3, (2, 1, 0)),
    BitmapPixelFormat.NV12: Layout(np.uint8, 0),
    BitmapPixelFormat.P010: Layout(np.uint16, 0),
    BitmapPixelFormat.YUY2: Layout(np.uint8, 2),
}
VIDEO_FORMATS = (BitmapPixelFormat.NV12, BitmapPixelFormat.P010, BitmapPixelFormat.YUY2)
"""The formats of cameras: each pixel has its brightness, and two pixels share their colour. The numbers are those of
ITU-R BT.601, from 16 to 235, as OpenCV converts them."""
INTERLEAVED_FORMATS = (
    BitmapPixelFormat.GRAY8,
    BitmapPixelFormat.RGB8,
    BitmapPixelFormat.BGR8,
    BitmapPixelFormat.RGBA8,
    BitmapPixelFormat.BGRA8,
)
"""The 8-bit formats with all channels of a pixel side by side."""


def find_layout(pixel_format: BitmapPixelFormat) -> Layout:
    """The layout of a format; InvalidArgumentError for UNKNOWN, and for anything that is not a format."""
    layout = _LAYOUTS.get(pixel_format)
    if layout is None:
        names = ", ".join(held.name for held in _LAYOUTS)
        raise InvalidArgumentError(
            f"Pictures cannot have the pixel format {getattr(pixel_format, 'name', repr(pixel_format))}.",
            hint=f"Use one of {names}.",
        )
    return layout


def require_even(pixel_format: BitmapPixelFormat, width: int, height: int) -> None:
    """Refuses odd sizes where two pixels share their colour."""
    layout = find_layout(pixel_format)
    if pixel_format in VIDEO_FORMATS and (width % 2 or (layout.is_planar and height % 2)):
        raise InvalidArgumentError(
            f"{BitmapPixelFormat(pixel_format).name} pictures cannot have the size {width}x{height}.",
            hint="Make both sides even, because neighbouring pixels share colour.",
        )


def to_eight_bits(pixels: Pixels) -> Pixels:
    """Scales 16-bit numbers to 8 bits, rounding to the nearest: v / 257. Other arrays are returned unchanged."""
    if pixels.dtype != np.uint16:
        return pixels
    return ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)


def to_interleaved(pixels: Pixels, pixel_format: BitmapPixelFormat) -> tuple[Pixels, BitmapPixelFormat]:
    """The picture in an interleaved format of 8 bits: gray stays gray, video becomes BGR8."""
    if pixel_format in INTERLEAVED_FORMATS:
        return pixels, pixel_format
    if pixel_format in VIDEO_FORMATS:
        return convert_video_to_bgr(pixels, pixel_format), BitmapPixelFormat.BGR8
    interleaved = BitmapPixelFormat.GRAY8 if find_layout(pixel_format).is_gray else BitmapPixelFormat.RGBA8
    return to_eight_bits(pixels), interleaved


def convert_video_to_bgr(pixels: Pixels, pixel_format: BitmapPixelFormat, out: Pixels | None = None) -> Pixels:
    """A picture of a video format as BGR8: a new array, or `out`."""
    import cv2

    if pixel_format == BitmapPixelFormat.YUY2:
        return cv2.cvtColor(pixels, cv2.COLOR_YUV2BGR_YUY2, out)
    if pixel_format == BitmapPixelFormat.P010:  # ten bits, in the upper bits of sixteen
        pixels = (pixels >> 8).astype(np.uint8)
    return cv2.cvtColor(pixels, cv2.COLOR_YUV2BGR_NV12, out)


def _convert_to_video_format(bgr: Pixels, pixel_format: BitmapPixelFormat) -> Pixels:
    import cv2

    height, width = bgr.shape[:2]
    require_even(pixel_format, width, height)
    if pixel_format == BitmapPixelFormat.YUY2:
        return cv2.cvtColor(bgr, cv2.COLOR_BGR2YUV_YUY2)
    # OpenCV reads NV12 but writes only I420, whose two colour planes follow each other.
    planes = cv2.cvtColor(bgr, cv2.COLOR_BGR2YUV_I420)
    colour = planes[height:].reshape(2, -1).T.reshape(height // 2, width)  # U and V alternate
    video = np.concatenate([planes[:height], colour])
    return video if pixel_format == BitmapPixelFormat.NV12 else video.astype(np.uint16) << 8


def write_gray(colours: Sequence[Pixels], out: Pixels, buffers: BufferCache) -> None:
    """Writes Windows ML's gray into `out`: the weighted sum of red, green and blue in float32, truncated to a byte.

    As in `CpuTensorizer.h`. All arrays are uint8 of one shape.
    """
    total, term = (buffers.get(name, out.shape, np.float32) for name in ("gray total", "gray term"))
    np.multiply(colours[0], np.float32(GRAY_WEIGHTS[0]), out=total)
    for plane, weight in zip(colours[1:], GRAY_WEIGHTS[1:], strict=True):
        np.multiply(plane, np.float32(weight), out=term)
        total += term
    np.copyto(out, total, casting="unsafe")


def convert(pixels: Pixels, source: BitmapPixelFormat, target: BitmapPixelFormat) -> Pixels:
    """The picture in another format: a new array, or `pixels` itself when the formats are equal.

    Alpha is kept, or 255 where the source has none. Colours become gray in linear light, as in Windows. 16-bit formats
    become 8-bit ones by rounding, and 8-bit ones become 16-bit ones by repeating the byte.
    """
    if source == target:
        return pixels
    if source in VIDEO_FORMATS:
        return convert(convert_video_to_bgr(pixels, source), BitmapPixelFormat.BGR8, target)
    if target in VIDEO_FORMATS:
        return _convert_to_video_format(np.ascontiguousarray(convert(pixels, source, BitmapPixelFormat.BGR8)), target)
    source_layout, target_layout = find_layout(source), find_layout(target)
    if source_layout.dtype != target_layout.dtype:
        pixels = to_eight_bits(pixels) if target_layout.dtype == np.uint8 else pixels.astype(np.uint16) * 257
    if source_layout.is_gray and target_layout.is_gray:
        return pixels
    planes = [pixels] * 3 if source_layout.is_gray else [pixels[..., index] for index in source_layout.rgb]
    if target_layout.is_gray:
        gray = compute_linear_gray([to_eight_bits(plane) for plane in planes])
        return gray if target_layout.dtype == np.uint8 else gray.astype(np.uint16) * 257
    height, width = pixels.shape[:2]
    result = np.full(target_layout.make_shape(width, height), np.iinfo(target_layout.dtype).max, target_layout.dtype)
    for index, plane in zip(target_layout.rgb, planes, strict=True):
        result[..., index] = plane
    if target_layout.channels == 4 and source_layout.channels == 4:
        result[..., 3] = pixels[..., 3]
    return result


def convert_alpha(
    pixels: Pixels, pixel_format: BitmapPixelFormat, source: BitmapAlphaMode, target: BitmapAlphaMode
) -> Pixels:
    """The picture with its colours multiplied by alpha or divided by it: a new array, or `pixels` itself."""
    both = {source, target}
    if find_layout(pixel_format).channels != 4 or both != {BitmapAlphaMode.STRAIGHT, BitmapAlphaMode.PREMULTIPLIED}:
        return pixels
    opaque = np.iinfo(pixels.dtype).max
    alpha = pixels[..., 3:].astype(np.float64)
    if (alpha == opaque).all():
        return pixels
    factor = alpha / opaque if target == BitmapAlphaMode.PREMULTIPLIED else opaque / np.maximum(alpha, 1)
    result = pixels.copy()
    result[..., :3] = np.minimum(np.rint(pixels[..., :3] * factor), opaque)
    return result


# Gray of colours.


GRAY_WEIGHTS = (0.2126, 0.7152, 0.0722)
"""The weights of red, green and blue in gray: ITU-R BT.709, as in Windows ML (`CpuTensorizer.h`)."""

LUMA_WEIGHTS = (9798 / 32768, 19235 / 32768, 3735 / 32768)
"""The weights 0.299, 0.587 and 0.114 (BT.601) as OpenCV rounds them. In float32, sums of bytes with these weights are
exact, and so is the half that is added to round them. Pillow's weights have one bit more."""

EXACT_LUMA_WEIGHTS = (0.299, 0.587, 0.114)
"""The same in float64."""


def compute_linear_gray(colours: Sequence[Array]) -> Array:
    """The gray that Windows makes of red, green and blue, uint8: mixed in linear light, to the nearest level.

    It removes the curve of sRGB (IEC 61966-2-1), mixes the colours, and applies the curve again. Windows ML's
    tensorizer mixes the bytes themselves: see `write_gray`.
    """
    light: Array = np.zeros(colours[0].shape)
    for plane, weight in zip(colours, GRAY_WEIGHTS, strict=True):
        light += (_compute_light(np.arange(256)) * weight)[plane]
    limits = _compute_light(np.arange(255) + 0.5)  # above each, the next level is nearer
    return np.searchsorted(limits, light, side="right").astype(np.uint8)


def _compute_light(levels: Array) -> Array:
    shares = levels / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


# Cropping and scaling.


class Kernel(NamedTuple):
    """The library that scales with a kernel, and the kernel's name there.

    Attributes:
        pillow: Pillow's name for the filter; "" where OpenCV, or `_scale_with_aligned_corners`, scales.
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
    ImageKernel.ALIGN_CORNERS_LINEAR: Kernel(),
}
"""Everything specific to a kernel; its formula as nodes of a graph is in `authoring/scaling_nodes.py`."""

BY_PILLOW_NAME: Mapping[str, ImageKernel] = {entry.pillow: kernel for kernel, entry in KERNELS.items() if entry.pillow}
"""The kernels by Pillow's names, which timm and transformers use."""


def crop(pixels: Pixels, bounds: BitmapBounds) -> Pixels:
    """The part of a picture inside `bounds`: a view."""
    return pixels[bounds.y : bounds.y + bounds.height, bounds.x : bounds.x + bounds.width]


def make_rows_contiguous(pixels: Pixels) -> Pixels:
    """The pixels as OpenCV can read them: rows may have gaps, pixels may not."""
    row = pixels[:1]
    is_readable = row.flags.c_contiguous and pixels.strides[0] >= row.nbytes
    return pixels if is_readable else np.ascontiguousarray(pixels)


def resize(
    pixels: Pixels,
    width: int,
    height: int,
    kernel: ImageKernel = ImageKernel.ANTIALIASED_CUBIC,
    is_exact: bool = False,
    buffers: BufferCache | None = None,
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
        buffers: memory to reuse from call to call.

    Returns:
        A new array, which may be read-only, or one of the buffers, or `pixels` itself when nothing is to be done.
        `ALIGN_CORNERS_LINEAR` drops alpha.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    pixels = to_eight_bits(pixels)
    entry = KERNELS[kernel]
    if entry.fast and not is_exact and pixels.dtype == np.uint8 and import_fast_resizer() is not None:
        return _scale_fast(pixels, width, height, entry)
    if entry.pillow:
        return _scale_with_pillow(pixels, width, height, entry.pillow)
    if kernel is ImageKernel.ALIGN_CORNERS_LINEAR:
        return _scale_with_aligned_corners(pixels, width, height, buffers or BufferCache())
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


def _scale_with_aligned_corners(pixels: Pixels, width: int, height: int, buffers: BufferCache) -> Pixels:
    """Scales as Windows ML's Runtime (`windowsml` 2.7.2021a0) does, to the bit: halves up, all sums in float32."""
    import cv2

    has_alpha, colours = pixels.shape[2:] == (4,), 1 if pixels.ndim == 2 else 3
    strip = min(height, max(1, 17_000 // width))  # a strip's arrays stay in the processor's cache
    source = make_rows_contiguous(pixels)
    taps = gathered = buffers.get("taps", (4 * strip, width, *pixels.shape[2:]), pixels.dtype)
    if has_alpha:  # OpenCV gathers one number per pixel in less time than four
        source = np.ascontiguousarray(source) if source.strides[0] % 4 else source
        source, gathered = (array.view(np.int32)[..., 0] for array in (source, taps))
        taps = buffers.get("colour taps", (4 * strip, width, 3))
    terms = buffers.get("terms", (4 * strip, width * colours), np.float32)
    scaled = buffers.get("scaled", (height, width * colours), pixels.dtype)
    half = 0 if pixels.dtype == np.float32 else 0.5
    for first in range(0, height, strip):
        rows = range(height)[first : first + strip]
        places, weights = _find_corners(pixels.shape[1::-1], (width, height), rows, colours)
        used = slice(len(weights))
        if places.dtype == np.int16:
            cv2.remap(source, places, np.empty(0, np.int16), cv2.INTER_NEAREST, gathered[used])
        else:
            gathered[used] = source[places[..., 1], places[..., 0]]
        if has_alpha:
            cv2.cvtColor(gathered[used].view(np.uint8).reshape(-1, width, 4), cv2.COLOR_BGRA2BGR, taps[used])
        cv2.multiply(taps[used].reshape(weights.shape), weights, terms[used], dtype=cv2.CV_32F)
        total, *others = terms[used].reshape(4, len(rows), -1)
        for term in others:
            total += term
        np.add(total, half, out=scaled[first : first + strip], casting="unsafe")
    return scaled.reshape(height, width, *[colours] * (pixels.ndim - 2))


@lru_cache(16)
def _find_corners(source: tuple[int, int], target: tuple[int, int], rows: range, colours: int) -> tuple[Array, Array]:
    """The four pixels of each result in these rows, as x and y, and the weight of each of its colours, float32.

    Sizes are width and height. Places are int16, as OpenCV takes them, unless a side is too long for that.
    """
    is_short = max(*source, target[0], 4 * len(rows)) < np.iinfo(np.int16).max
    places = np.empty((4, len(rows), target[0], 2), np.int16 if is_short else np.intp)
    weights = np.empty((4, len(rows), target[0] * colours), np.float32)
    columns_taps, rows_taps = map(_find_taps, source, target)
    for corner, ((y, down), (x, across)) in enumerate(product(rows_taps, columns_taps)):
        places[corner, ..., 0], places[corner, ..., 1] = x, y[rows, None]
        np.multiply(down[rows, None], np.repeat(across, colours), out=weights[corner])
    places.flags.writeable = weights.flags.writeable = False  # the cache gives them to every caller
    return places.reshape(-1, target[0], 2), weights.reshape(4 * len(rows), -1)


def _find_taps(side: int, scaled: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The two pixels of each result along a side, each with its weight in float32."""
    positions = np.arange(scaled, dtype=np.float32) * (np.float32(side - 1) / np.float32(max(scaled - 1, 1)))
    first = positions.astype(np.intp)
    share = positions - first.astype(np.float32)
    return (first, 1 - share), (np.minimum(first + 1, side - 1), share)


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


# Memory that is reused from call to call.


class BufferCache:
    """Arrays by name, kept while their shape stays the same. For one thread at a time."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: object = np.uint8) -> Array:
        """An array with its last contents, or with undefined numbers; a name has one dtype."""
        array = self._arrays.get(name)
        if array is None or array.shape != shape:
            array = self._arrays[name] = np.empty(shape, dtype)
        return array

    def get_planes(self, count: int, shape: tuple[int, int]) -> list[Array]:
        """`count` arrays of uint8, each contiguous."""
        size = shape[0] * shape[1]
        # OpenCV's split writes planes that are aligned alike past the cache, and reading them would wait for memory:
        # a tensor of 224 x 224 would take a tenth longer.
        return [row[:size].reshape(shape) for row in self.get("planes", (count, -(-size // 64) * 64 + 16))]
