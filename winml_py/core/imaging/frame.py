"""VideoFrame: a frame that holds one bitmap."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from ...enums import BitmapAlphaMode, BitmapPixelFormat
from ...errors import InvalidArgumentError
from ..base.async_operation import AsyncOperation
from ..base.winrt_object import Closeable, Object
from .bitmap import SoftwareBitmap
from .formats import VIDEO_FORMATS, convert, convert_alpha, to_interleaved
from .geometry import BitmapBounds, center_crop, require_inside
from .resize import crop, resize


class VideoFrame(Closeable, Object):
    """A frame that holds one software bitmap.

    Args:
        pixel_format: how its pixels lie.
        width: pixels.
        height: pixels.
        alpha: how the alpha channel relates to the colours; models never see it.

    Attributes:
        relative_time: when the frame was taken, from the start of its source.
        system_relative_time: the same by the system's clock.
        duration: how long it is shown.
        is_discontinuous: whether frames before it are missing.
        type: what kind of media frame it is.
        is_stable: whether nobody writes its pixels any more, as those of a `VideoReader`: streams of evaluations do not
            copy such frames. Set it where each of your frames has memory of its own.
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
        """None: frames lie in main memory."""
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
            InvalidBindingError: bounds that leave their picture.
        """
        source, target = self._bitmap, frame.software_bitmap
        if target.is_read_only:
            raise InvalidArgumentError("The destination frame is read-only.")
        where = destination_bounds or BitmapBounds(0, 0, target.pixel_width, target.pixel_height)
        require_inside(where, target.pixel_width, target.pixel_height)
        part = source_bounds or center_crop(source.pixel_width, source.pixel_height, where.width, where.height)
        require_inside(part, source.pixel_width, source.pixel_height)
        pixels, pixel_format = source.to_numpy(), source.bitmap_pixel_format
        if part[2:] != where[2:] or {pixel_format, target.bitmap_pixel_format} & set(VIDEO_FORMATS):
            pixels, pixel_format = to_interleaved(pixels, pixel_format)
        pixels = resize(crop(pixels, part), where.width, where.height)
        if target.bitmap_pixel_format in VIDEO_FORMATS:  # pixels share colours: the whole picture is written again
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
        """Closes the bitmap. Twice is harmless."""
        self._bitmap.close()

    dispose = close

    def _repr_png_(self) -> bytes | None:
        return self._bitmap._repr_png_()

    def __repr__(self) -> str:
        bitmap = self._bitmap
        return f"<VideoFrame {bitmap.bitmap_pixel_format.name} {bitmap.pixel_width}x{bitmap.pixel_height}>"
