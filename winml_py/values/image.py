"""ImageFeatureValue: pictures as the value of a feature."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import InvalidArgumentError
from ..imaging.bitmap import SoftwareBitmap
from ..imaging.formats import Pixels
from ..imaging.frame import VideoFrame
from ..kinds import BitmapPixelFormat, LearningModelFeatureKind

if TYPE_CHECKING:
    from PIL.Image import Image


class ImageFeatureValue:
    """One picture, or a batch of them, to bind to a feature. It shares its frames with the caller.

    Bound to an input, pictures are cropped, scaled and turned into numbers at `bind`: bind again after
    changing one. Bound to an output, they are written by `evaluate`.

    Example:
        >>> import numpy as np
        >>> from winml_py import BitmapPixelFormat, ImageFeatureValue
        >>> ImageFeatureValue.from_array(np.zeros((4, 6, 3), np.uint8), BitmapPixelFormat.RGB8)
        <ImageFeatureValue RGB8 6x4>
    """

    def __init__(self, frames: Iterable[VideoFrame]) -> None:
        """Use `create_from_video_frame`, `load`, `from_pil` or `from_array` for a single picture."""
        self._frames = tuple(frames)
        if not self._frames:
            raise InvalidArgumentError("A batch of no pictures cannot be bound.")

    @classmethod
    def create_from_video_frame(cls, frame: VideoFrame, /) -> ImageFeatureValue:
        """A value that shares a frame."""
        return cls([frame])

    @classmethod
    def from_software_bitmap(cls, bitmap: SoftwareBitmap, /) -> ImageFeatureValue:
        """A value that shares a bitmap."""
        return cls([VideoFrame.create_with_software_bitmap(bitmap)])

    @classmethod
    def load(cls, source: str | os.PathLike[str] | bytes, /) -> ImageFeatureValue:
        """Decodes a picture file or its bytes; raises as `SoftwareBitmap.load` does."""
        return cls.from_software_bitmap(SoftwareBitmap.load(source))

    @classmethod
    def from_pil(cls, image: Image, /) -> ImageFeatureValue:
        """A value with a copy of a Pillow image."""
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
        return self._frames[0]

    @property
    def video_frames(self) -> tuple[VideoFrame, ...]:
        """All pictures of the batch."""
        return self._frames

    def to_numpy(self) -> Pixels:
        """The (first) picture as an array: a view; see `SoftwareBitmap.to_numpy`."""
        return self.video_frame.software_bitmap.to_numpy()

    def to_pil(self) -> Image:
        """The (first) picture as a Pillow image: a copy."""
        return self.video_frame.software_bitmap.to_pil()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the (first) picture to a file; see `SoftwareBitmap.save`."""
        self.video_frame.software_bitmap.save(path)

    def __repr__(self) -> str:
        bitmap = self.video_frame.software_bitmap
        batch = f"{len(self._frames)} x " if len(self._frames) > 1 else ""
        size = f"{bitmap.pixel_width}x{bitmap.pixel_height}"
        return f"<ImageFeatureValue {batch}{bitmap.bitmap_pixel_format.name} {size}>"
