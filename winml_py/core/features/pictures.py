"""ImageFeatureValue: pictures as the value of a feature."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from ...enums import BitmapPixelFormat, LearningModelFeatureKind
from ...errors import InvalidArgumentError, WinMLError
from ..base.messages import type_name
from ..base.winrt_object import Object
from ..imaging.bitmap import LONGEST, SoftwareBitmap, figure
from ..imaging.codecs import MAX_PIXELS, EncodedPicture, PictureSource
from ..imaging.formats import Pixels
from ..imaging.frame import VideoFrame

if TYPE_CHECKING:
    from PIL.Image import Image

SHOWN = 8
"""Of a batch, a notebook shows so many pictures."""


class ImageFeatureValue(Object):
    """One picture, or a batch of them, to bind to a feature. It shares its frames with the caller.

    Bound to an input, pictures are cropped, scaled and turned into numbers at `bind`: bind again after
    changing one. Bound to an output, they are written by `evaluate`.

    Example:
        >>> import numpy as np
        >>> from winml_py import BitmapPixelFormat, ImageFeatureValue
        >>> ImageFeatureValue.from_array(np.zeros((4, 6, 3), np.uint8), BitmapPixelFormat.RGB8)
        <ImageFeatureValue RGB8 6x4>
    """

    def __init__(self, frames: Iterable[VideoFrame] | EncodedPicture) -> None:
        """Use `create_from_video_frame`, `load`, `from_pil` or `from_array` for a single picture."""
        self._encoded = frames if isinstance(frames, EncodedPicture) else None
        self._frames = () if isinstance(frames, EncodedPicture) else tuple(frames)
        if not self._frames and self._encoded is None:
            raise InvalidArgumentError("A batch of no pictures cannot be bound.")

    @classmethod
    def create_from_video_frame(cls, frame: VideoFrame, /) -> ImageFeatureValue:
        """A value that shares a frame."""
        if not isinstance(frame, VideoFrame):
            raise InvalidArgumentError(f"A VideoFrame is wanted, not {type_name(frame)}.")
        return cls([frame])

    @classmethod
    def from_software_bitmap(cls, bitmap: SoftwareBitmap, /) -> ImageFeatureValue:
        """A value that shares a bitmap."""
        return cls([VideoFrame.create_with_software_bitmap(bitmap)])

    @classmethod
    def load(
        cls,
        source: PictureSource,
        /,
        *,
        fast_decode: bool = False,
        max_pixels: int = MAX_PIXELS,
    ) -> ImageFeatureValue:
        """A picture file, its bytes, or a stream of them.

        Args:
            source: the path of the file, its bytes, or an open binary stream, which is read to its end.
            fast_decode: a JPEG much larger than the model is decoded at bind, to a half, a quarter or an eighth of its
                sides, never to less than twice the model's. Where the model's kernel is antialiased, it is shrunk
                from there by area: about half the time, and within two levels on average of the exact way. The other
                kernels skip pixels, and other ones then.
            max_pixels: how many pixels a file may claim to hold.

        Raises:
            PictureNotFoundError: there is no such file.
            PictureError: it is not a picture, or it is damaged or too large.
        """
        if not fast_decode:
            return cls.from_software_bitmap(SoftwareBitmap.load(source, max_pixels=max_pixels))
        return cls(EncodedPicture(source, max_pixels))

    @classmethod
    def from_pil(cls, image: Image, /) -> ImageFeatureValue:
        """A value with a copy of a Pillow image, turned as its EXIF data say; see `SoftwareBitmap.from_pil`."""
        return cls.from_software_bitmap(SoftwareBitmap.from_pil(image))

    @classmethod
    def from_array(cls, array: Pixels, pixel_format: BitmapPixelFormat, /) -> ImageFeatureValue:
        """A value over an array of pixels, which it shares; see `SoftwareBitmap.from_array`."""
        return cls.from_software_bitmap(SoftwareBitmap.from_array(array, pixel_format))

    @property
    def kind(self) -> LearningModelFeatureKind:
        """IMAGE."""
        return LearningModelFeatureKind.IMAGE

    @property
    def video_frame(self) -> VideoFrame:
        """The picture; of a batch, the first."""
        return self.video_frames[0]

    @property
    def video_frames(self) -> tuple[VideoFrame, ...]:
        """All pictures of the batch; decoded whole, where that has not been done."""
        encoded = self._encoded
        if encoded is not None:
            self._frames = (_frame(SoftwareBitmap.from_array(*encoded.decode())),)
            self._encoded = None
        return self._frames

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Width and height of each picture of the batch."""
        encoded = self._encoded
        if encoded is not None:
            return ((encoded.width, encoded.height),)
        bitmaps = (frame.software_bitmap for frame in self._frames)
        return tuple((bitmap.pixel_width, bitmap.pixel_height) for bitmap in bitmaps)

    def to_numpy(self) -> Pixels:
        """The (first) picture as an array: a view; see `SoftwareBitmap.to_numpy`."""
        return self.video_frame.software_bitmap.to_numpy()

    def to_pil(self) -> Image:
        """The (first) picture as a Pillow image: a copy."""
        return self.video_frame.software_bitmap.to_pil()

    def save(self, path: str | os.PathLike[str] | BinaryIO, *, kind: str = "") -> None:
        """Writes the (first) picture to a file, or an open one; see `SoftwareBitmap.save`."""
        self.video_frame.software_bitmap.save(path, kind=kind)

    def _repr_html_(self) -> str | None:
        try:
            return pictures_html(self)
        except WinMLError:  # a picture that was closed, or cannot be decoded, is shown as text
            return None

    def __repr__(self) -> str:
        (width, height), *others = self.sizes
        batch = f"{1 + len(others)} x " if others else ""
        kind = self._frames[0].software_bitmap.bitmap_pixel_format.name if self._frames else "file"
        return f"<ImageFeatureValue {batch}{kind} {width}x{height}>"


def bitmaps_of(value: ImageFeatureValue, shrink: float) -> list[SoftwareBitmap]:
    """The pictures of a value. A JPEG that is not decoded yet is decoded smaller if the caller will shrink it a lot."""
    encoded = value._encoded  # noqa: SLF001 - users ask for `fast_decode`, and only bind knows the size
    if encoded is None or shrink < 4:
        return [frame.software_bitmap for frame in value.video_frames]
    return [SoftwareBitmap.from_array(*encoded.decode(shrink))]


def pictures_html(value: ImageFeatureValue, longest: int = LONGEST) -> str:
    """The pictures of a value as a notebook shows them, eight at most.

    Raises:
        WinMLError: one is closed, or cannot be decoded.
    """
    shrink = max(map(max, value.sizes)) / longest
    words = repr(value).strip("<>")
    return "".join(figure(bitmap.to_pil(), words, longest) for bitmap in bitmaps_of(value, shrink)[:SHOWN])


def _frame(bitmap: SoftwareBitmap) -> VideoFrame:
    return VideoFrame.create_with_software_bitmap(bitmap)
