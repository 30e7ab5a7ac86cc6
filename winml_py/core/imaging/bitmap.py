"""SoftwareBitmap, a picture in memory, and VideoFrame, a frame that holds one."""

from __future__ import annotations

import io
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np

from ...enums import BitmapAlphaMode, BitmapBufferAccessMode, BitmapPixelFormat
from ...errors import IllegalCallError, InvalidArgumentError
from ..base.arguments import require_member, require_type, require_whole_number
from ..base.arrays import Pixels, as_unmasked_array
from ..base.async_operation import AsyncOperation
from ..base.buffers import BitmapBuffer, Buffer, view_as_bytes, view_used_bytes
from ..base.messages import type_name
from ..base.winrt_object import Closeable, Object
from . import codecs
from .contract import MAX_SCALED_PIXELS, BitmapBounds, compute_center_crop, require_inside
from .pixels import VIDEO_FORMATS, convert, convert_alpha, crop, find_layout, require_even, resize, to_interleaved

if TYPE_CHECKING:
    from PIL.Image import Image


_HOW_TO_MAKE = "Create one with SoftwareBitmap.load(path), from_array(array, pixel_format) or from_pil(image)."

SCREEN = 640
"""The longer side of a picture in a notebook, in pixels."""


class SoftwareBitmap(Object, Closeable):
    """A picture in memory.

    Args:
        pixel_format: the layout of its pixels.
        width: pixels.
        height: pixels.
        alpha: how the alpha channel relates to the colours; models never see it.

    Attributes:
        dpi_x: pixels per inch; only encoders use it.
        dpi_y: pixels per inch; only encoders use it.
        max_pixels: the most pixels that a model may have the picture scaled to, unless its tensor is larger; by
            default 2**28, and that of `load` for a file.

    Example:
        >>> from winml_py import BitmapPixelFormat, SoftwareBitmap
        >>> bitmap = SoftwareBitmap(BitmapPixelFormat.BGRA8, 4, 2)
        >>> bitmap.to_numpy()[:] = 255
        >>> bitmap.to_numpy().shape
        (2, 4, 4)
    """

    def __init__(
        self,
        pixel_format: BitmapPixelFormat,
        width: int,
        height: int,
        alpha: BitmapAlphaMode = BitmapAlphaMode.PREMULTIPLIED,
        /,
    ) -> None:
        layout = find_layout(pixel_format)
        width, height = require_whole_number(width, "The width", 1), require_whole_number(height, "The height", 1)
        require_even(pixel_format, width, height)
        try:
            pixels = np.zeros(layout.make_shape(width, height), layout.dtype)
        except (MemoryError, ValueError) as error:
            raise InvalidArgumentError(f"A {width}x{height} picture does not fit in memory.") from error
        self._hold(pixels, BitmapPixelFormat(pixel_format), require_member(BitmapAlphaMode, alpha, "The alpha mode"))

    def _hold(self, pixels: Pixels, pixel_format: BitmapPixelFormat, alpha: BitmapAlphaMode) -> Self:
        self._pixels: Pixels | None = pixels
        self._format, self._alpha = pixel_format, alpha
        self._width, self._height = find_layout(pixel_format).measure_picture(pixels)
        self.dpi_x = self.dpi_y = 96.0
        self.max_pixels = MAX_SCALED_PIXELS
        self.is_valid = True
        return self

    @classmethod
    def from_array(
        cls,
        array: Pixels,
        pixel_format: BitmapPixelFormat | None = None,
        alpha: BitmapAlphaMode = BitmapAlphaMode.PREMULTIPLIED,
    ) -> SoftwareBitmap:
        """A bitmap over an array: a view, so later changes to the array change the picture.

        Args:
            array: height x width x channels, or height x width for gray; uint8, or uint16 for the 16-bit formats; any
                strides. NV12 and P010: 3/2 height x width, the brightness plane above the colour plane. YUY2: height x
                width x 2.
            pixel_format: the order of its channels, which an array does not state. It may be left out for gray levels:
                uint8, of one channel.
            alpha: how the alpha channel relates to the colours; models never see it.

        Raises:
            InvalidArgumentError: no format was stated, or the array does not have the shape or dtype of the format.
        """
        if array is None:
            raise InvalidArgumentError(
                "Expected an array, got None.",
                hint="OpenCV's imread returns None if it cannot read the file. Check the path.",
            )
        pixels = as_unmasked_array(array)
        has_one_channel = pixels.ndim == 2 or pixels.shape[2:] == (1,)
        if pixel_format is None and pixels.dtype == np.uint8 and has_one_channel:
            pixel_format = BitmapPixelFormat.GRAY8
        if pixel_format is None and pixels.dtype not in (np.uint8, np.uint16):
            message = f"Expected an array of uint8 or uint16, got {_describe(pixels)}."
            raise InvalidArgumentError(message, hint=_NO_PIXELS)
        if pixel_format is None:
            raise InvalidArgumentError(
                "The array's channel order is not specified.",
                hint="Specify BitmapPixelFormat.RGB8 for arrays from Pillow, imageio and matplotlib, BGR8 for OpenCV, "
                "or GRAY8 for one channel.",
            )
        layout = find_layout(pixel_format)
        # Many libraries make gray pictures of height x width x 1.
        if pixels.ndim == 3 and pixels.shape[2] == 1 and layout.is_gray:
            pixels = pixels[..., 0]
        unit_shape = layout.make_shape(1, 1)
        rank = len(unit_shape)
        if pixels.ndim != rank or pixels.dtype != layout.dtype or pixels.shape[2:] != unit_shape[2:]:
            expected = ("3/2 height" if layout.is_planar else "height") + " x width"
            expected += "" if rank == 2 else f" x {layout.channels}"
            raise InvalidArgumentError(
                f"For {BitmapPixelFormat(pixel_format).name}, expected a {np.dtype(layout.dtype).name} array of "
                f"{expected}, got {_describe(pixels)}.",
                hint=_NO_PIXELS,
            )
        if pixels.size == 0:
            raise InvalidArgumentError(f"The array {_describe(pixels)} has no pixels.")
        # NV12 and similar formats: below the brightness plane, half as many rows of colour.
        if layout.is_planar and pixels.shape[0] % 3:
            raise InvalidArgumentError(f"The row count (3/2 height) must be a multiple of 3, got {pixels.shape[0]}.")
        pixel_format = require_member(BitmapPixelFormat, pixel_format, "The pixel format")
        bitmap = cls._hold(
            cls.__new__(cls), pixels, pixel_format, require_member(BitmapAlphaMode, alpha, "The alpha mode")
        )
        require_even(pixel_format, bitmap.pixel_width, bitmap.pixel_height)
        return bitmap

    @classmethod
    def from_pil(cls, image: Image) -> SoftwareBitmap:
        """A bitmap with a copy of a Pillow image: gray images become `GRAY8`, others `RGB8` or `RGBA8`.

        An opened file gives the same as `load`: it is turned as EXIF states, and its colours are converted to sRGB.

        Raises:
            InvalidArgumentError: its mode, I or F, has no defined range.
            PictureError: it has been closed, or its file is damaged.
        """
        return cls.from_array(*codecs.from_pil(image), BitmapAlphaMode.STRAIGHT)

    @classmethod
    def load(cls, source: codecs.PictureSource, *, max_pixels: int = codecs.MAX_PIXELS) -> SoftwareBitmap:
        """Decodes a picture file (JPEG, PNG, WebP, BMP, TIFF, GIF, ...) as viewers show it.

        The picture is turned as EXIF states, and its colours are converted to sRGB. An animation gives its first frame.
        HEIC is read where `pillow-heif` is installed.

        Args:
            source: the path to the file, its bytes, or an open binary stream, which is read to its end.
            max_pixels: the most pixels that the file may claim to hold. A pixel counts for several in formats that
                decode slowly: for 4 in JPEG 2000, for 16 in QOI, some PPM and compressed BMP.

        Raises:
            PictureNotFoundError: there is no such file.
            PictureError: it is not a picture, is damaged, or is too large.
            InvalidArgumentError: it holds numbers without a defined range, as float TIFFs do.
        """
        bitmap = cls._hold(cls.__new__(cls), *codecs.decode(source, max_pixels), BitmapAlphaMode.STRAIGHT)
        bitmap.max_pixels = max_pixels
        return bitmap

    @property
    def bitmap_pixel_format(self) -> BitmapPixelFormat:
        """The layout of the pixels."""
        return self._format

    @property
    def bitmap_alpha_mode(self) -> BitmapAlphaMode:
        """How the alpha channel relates to the colours; models never see it."""
        return self._alpha

    @property
    def pixel_width(self) -> int:
        """The width of the picture, in pixels."""
        return self._width

    @property
    def pixel_height(self) -> int:
        """The height of the picture, in pixels."""
        return self._height

    def to_numpy(self) -> Pixels:
        """A view of the pixels: height x width x channels, or as in `from_array` for gray and video formats.

        Raises:
            IllegalCallError: the bitmap has been closed, or it is an output whose last evaluation failed.
        """
        if not self.is_valid:
            raise IllegalCallError(
                "The picture is an output of an evaluation that failed or was stopped, so its pixels are invalid.",
                hint="Evaluate again.",
            )
        pixels = self._pixels  # another thread may close it in between
        if pixels is None:
            raise IllegalCallError("The bitmap has been closed.", hint="Keep it open while it is in use.")
        return pixels

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Pixels:
        return np.asarray(self.to_numpy(), dtype=dtype, copy=copy)

    @classmethod
    def convert(
        cls, source: SoftwareBitmap, pixel_format: BitmapPixelFormat, alpha: BitmapAlphaMode | None = None, /
    ) -> SoftwareBitmap:
        """A copy of a bitmap in another pixel format.

        Args:
            source: the bitmap to copy.
            pixel_format: the layout of the copy's pixels.
            alpha: how its alpha channel relates to the colours, by default as in the source.
        """
        require_type(source, SoftwareBitmap, _HOW_TO_MAKE)
        alpha_mode = (
            source.bitmap_alpha_mode if alpha is None else require_member(BitmapAlphaMode, alpha, "The alpha mode")
        )
        pixels = convert(source.to_numpy(), source.bitmap_pixel_format, pixel_format)
        pixels = convert_alpha(pixels, pixel_format, source.bitmap_alpha_mode, alpha_mode)
        pixels = pixels.copy() if pixels is source.to_numpy() else pixels
        return _keep_facts(cls.from_array(pixels, pixel_format, alpha_mode), source)

    @classmethod
    def copy(cls, source: SoftwareBitmap, /) -> SoftwareBitmap:
        """A copy of a bitmap with separate memory."""
        return cls.convert(source, source.bitmap_pixel_format)

    @classmethod
    def create_copy_from_buffer(
        cls,
        source: object,
        pixel_format: BitmapPixelFormat,
        width: int,
        height: int,
        alpha: BitmapAlphaMode = BitmapAlphaMode.PREMULTIPLIED,
        /,
    ) -> SoftwareBitmap:
        """A bitmap with a copy of the pixels in a buffer, row after row without gaps."""
        bitmap = cls(pixel_format, width, height, alpha)
        bitmap.copy_from_buffer(source)
        return bitmap

    convert_with_alpha = convert  # pywinrt 3's names
    create_copy_with_alpha_from_buffer = create_copy_from_buffer

    def copy_from_buffer(self, source: object, /) -> None:
        """Copies pixels from a buffer, whose part in use must be at least as large as the picture."""
        pixels = self.to_numpy()
        if self.is_read_only:
            raise InvalidArgumentError("The bitmap is read-only.", hint="Copy it first: SoftwareBitmap.copy(bitmap).")
        data = view_used_bytes(source)
        if data.nbytes < pixels.nbytes:
            raise InvalidArgumentError(f"The buffer holds {data.nbytes} bytes, but the picture needs {pixels.nbytes}.")
        pixels[:] = np.frombuffer(data[: pixels.nbytes], pixels.dtype).reshape(pixels.shape)

    def copy_to_buffer(self, target: object, /) -> None:
        """Copies the pixels into a writable buffer, which must be at least as large as the picture."""
        pixels = self.to_numpy()
        room = view_as_bytes(target)
        if room.nbytes < pixels.nbytes:
            raise InvalidArgumentError(f"The buffer has {room.nbytes} bytes, but the picture needs {pixels.nbytes}.")
        if room.readonly:
            raise InvalidArgumentError("The buffer cannot be written to.", hint="Pass a bytearray or a Buffer.")
        room[: pixels.nbytes] = np.ascontiguousarray(pixels).data.cast("B")
        if isinstance(target, Buffer):
            target.length = pixels.nbytes

    def copy_to(self, bitmap: SoftwareBitmap, /) -> None:
        """Copies the pixels to a bitmap of the same size, converted to its format."""
        target = bitmap.to_numpy()
        if bitmap.is_read_only:
            raise InvalidArgumentError("The bitmap is read-only.", hint="Pass a copy: SoftwareBitmap.copy(bitmap).")
        if (bitmap.pixel_width, bitmap.pixel_height) != (self._width, self._height):
            raise InvalidArgumentError(f"Expected a bitmap of the same size as {self!r}, got {bitmap!r}.")
        pixels = convert(self.to_numpy(), self._format, bitmap.bitmap_pixel_format)
        target[:] = convert_alpha(pixels, bitmap.bitmap_pixel_format, self._alpha, bitmap.bitmap_alpha_mode)

    def get_read_only_view(self) -> SoftwareBitmap:
        """A read-only bitmap over the same pixels."""
        pixels = self.to_numpy().view()
        pixels.flags.writeable = False
        return _keep_facts(type(self).from_array(pixels, self._format, self._alpha), self)

    def lock_buffer(self, mode: BitmapBufferAccessMode, /) -> BitmapBuffer:
        """Returns the memory as WinRT does, read-only with `READ`; `to_numpy` is simpler.

        Raises:
            InvalidArgumentError: it is a view of an array with gaps between its rows.
        """
        return BitmapBuffer(self.to_numpy(), require_member(BitmapBufferAccessMode, mode, "The access mode"))

    @property
    def is_read_only(self) -> bool:
        """Whether the pixels cannot be written to."""
        return not self.to_numpy().flags.writeable

    def to_pil(self) -> Image:
        """A Pillow image with a copy of the pixels: mode L, RGB or RGBA."""
        return codecs.to_pil(self.to_numpy(), self._format)

    def save(self, path: str | os.PathLike[str] | BinaryIO, *, kind: str = "") -> None:
        """Writes a picture file in the format of its name's ending; alpha is kept where the format supports it.

        Colours are written as they are, whatever the alpha mode: first convert premultiplied alpha to straight alpha.

        The file appears whole or not at all. An open file is written from its current position, and stays open.

        Args:
            path: the path, or an open binary file.
            kind: the format, by Pillow's name ("PNG", "JPEG", "WEBP"), for an open file without such a name.

        Raises:
            PictureError: no picture format has the name's ending.
            StorageAccessError: the file cannot be written.
        """
        codecs.save(self.to_numpy(), self._format, path, kind)

    def close(self) -> None:
        """Releases the pixels; arrays over them stay valid. A second call does nothing."""
        self._pixels = None

    dispose = close

    def _repr_png_(self) -> bytes | None:
        return None if self._pixels is None else encode_png(self.to_pil(), SCREEN)

    def __repr__(self) -> str:
        return f"<SoftwareBitmap {self._format.name} {self._width}x{self._height}>"


def _keep_facts(copy: SoftwareBitmap, source: SoftwareBitmap) -> SoftwareBitmap:
    copy.dpi_x, copy.dpi_y, copy.max_pixels = source.dpi_x, source.dpi_y, source.max_pixels
    return copy


def encode_png(image: Image, longest: int) -> bytes:
    """A picture as a PNG file, shrunk in place if its longer side exceeds `longest`; never enlarged."""
    image.thumbnail((longest, longest))
    memory = io.BytesIO()
    image.save(memory, "PNG")
    return memory.getvalue()


_NO_PIXELS = (
    "Convert the array, or specify its channel format. If its values are already prepared for the model, bind the "
    "array itself: binding.bind(name, array)."
)


def _describe(array: Pixels) -> str:
    return f"{'x'.join(map(str, array.shape)) or 'a scalar'} of {array.dtype.name}"


class VideoFrame(Closeable, Object):
    """A frame that holds one software bitmap.

    Args:
        pixel_format: the layout of its pixels.
        width: pixels.
        height: pixels.
        alpha: how the alpha channel relates to the colours; models never see it.

    Attributes:
        relative_time: when the frame was taken, relative to the start of its source.
        system_relative_time: the same by the system's clock.
        duration: how long it is shown.
        is_discontinuous: whether frames before it are missing.
        type: what kind of media frame it is.
        is_stable: whether its pixels are never written again, like those of a `VideoReader`: streams of evaluations do
            not copy such frames. Set it if each of your frames has separate memory.
    """

    relative_time: timedelta | None = None
    system_relative_time: timedelta | None = None
    duration: timedelta | None = None
    is_discontinuous = False
    type = "Video"
    is_stable = False

    def __init__(
        self,
        pixel_format: BitmapPixelFormat,
        width: int,
        height: int,
        alpha: BitmapAlphaMode = BitmapAlphaMode.PREMULTIPLIED,
        /,
    ) -> None:
        self._hold(SoftwareBitmap(pixel_format, width, height, alpha))

    def _hold(self, bitmap: SoftwareBitmap) -> Self:
        self._bitmap = bitmap
        return self

    @classmethod
    def create_with_software_bitmap(cls, bitmap: SoftwareBitmap, /) -> VideoFrame:
        """A frame over a bitmap, which it shares."""
        if not isinstance(bitmap, SoftwareBitmap):
            raise InvalidArgumentError(f"Expected a SoftwareBitmap, got {type_name(bitmap)}.", hint=_HOW_TO_MAKE)
        return cls._hold(cls.__new__(cls), bitmap)

    @property
    def software_bitmap(self) -> SoftwareBitmap:
        """The frame's bitmap, not a copy."""
        return self._bitmap

    @property
    def is_read_only(self) -> bool:
        """Whether the pixels cannot be written to."""
        return self._bitmap.is_read_only

    @property
    def direct3d_surface(self) -> None:
        """Always None: frames are in main memory."""
        return

    direct3_d_surface = direct3d_surface  # pywinrt 2's name

    def copy_to(
        self,
        frame: VideoFrame,
        source_bounds: BitmapBounds | None = None,
        destination_bounds: BitmapBounds | None = None,
        /,
    ) -> None:
        """Copies a part of the picture to a part of another frame, scaled and converted to that frame's format.

        Args:
            frame: written in place.
            source_bounds: the part to copy; by default the centre, cropped to the destination's aspect ratio.
            destination_bounds: the part to write; by default the whole frame.

        Raises:
            InvalidBindingError: bounds that extend beyond their picture.
        """
        source, target = self._bitmap, frame.software_bitmap
        if target.is_read_only:
            raise InvalidArgumentError("The destination frame is read-only.", hint="Pass a frame over a copy of it.")
        where = destination_bounds or BitmapBounds(0, 0, target.pixel_width, target.pixel_height)
        require_inside(where, target.pixel_width, target.pixel_height)
        part = source_bounds or compute_center_crop(source.pixel_width, source.pixel_height, where.width, where.height)
        require_inside(part, source.pixel_width, source.pixel_height)
        pixels, pixel_format = source.to_numpy(), source.bitmap_pixel_format
        if part[2:] != where[2:] or {pixel_format, target.bitmap_pixel_format} & set(VIDEO_FORMATS):
            pixels, pixel_format = to_interleaved(pixels, pixel_format)
        pixels = resize(crop(pixels, part), where.width, where.height)
        if target.bitmap_pixel_format in VIDEO_FORMATS:  # pixels share colours: the whole picture is rewritten
            interleaved, interleaved_format = to_interleaved(target.to_numpy(), target.bitmap_pixel_format)
            crop(interleaved, where)[:] = convert(pixels, pixel_format, interleaved_format)
            target.to_numpy()[:] = convert(interleaved, interleaved_format, target.bitmap_pixel_format)
            return
        pixels = convert(pixels, pixel_format, target.bitmap_pixel_format)
        pixels = convert_alpha(pixels, target.bitmap_pixel_format, source.bitmap_alpha_mode, target.bitmap_alpha_mode)
        crop(target.to_numpy(), where)[:] = pixels

    def copy_to_async(
        self,
        frame: VideoFrame,
        source_bounds: BitmapBounds | None = None,
        destination_bounds: BitmapBounds | None = None,
        /,
    ) -> AsyncOperation[None]:
        """Starts `copy_to` in a thread."""
        return AsyncOperation(lambda _: self.copy_to(frame, source_bounds, destination_bounds))

    copy_to_with_bounds_async = copy_to_async  # pywinrt 3's name

    def close(self) -> None:
        """Closes the bitmap. A second call does nothing."""
        self._bitmap.close()

    dispose = close

    def _repr_png_(self) -> bytes | None:
        return self._bitmap._repr_png_()

    def __repr__(self) -> str:
        bitmap = self._bitmap
        return f"<VideoFrame {bitmap.bitmap_pixel_format.name} {bitmap.pixel_width}x{bitmap.pixel_height}>"
