"""EncodedPicture: a picture file that is decoded once the wanted size is known."""

from __future__ import annotations

import os

from ..enums import BitmapPixelFormat
from . import codecs
from .formats import Pixels


class EncodedPicture:
    """A picture file in memory, of which only the head has been read.

    Attributes:
        width: pixels, once EXIF has turned the picture.
        height: pixels, once EXIF has turned the picture.
    """

    def __init__(self, source: str | os.PathLike[str] | bytes, max_pixels: int = codecs.MAX_PIXELS) -> None:
        """Reads the file; raises as `codecs.decode` does."""
        with codecs.opened(source, max_pixels) as (image, file):
            sides = image.size
            if codecs.orientation_of(image) >= 5:
                sides = sides[::-1]
            file.seek(0)
            self._data = file.read()
        self._max_pixels = max_pixels
        self.width, self.height = sides

    def decode(self, shrink: float = 1) -> tuple[Pixels, BitmapPixelFormat]:
        """The pixels.

        Args:
            shrink: by how much the caller will shrink the picture. A JPEG is then decoded to a half, a quarter or an
                eighth of its sides, which is never less than twice the size that the caller wants.
        """
        reduction = next((part for part in (8, 4, 2) if shrink >= 2 * part), 1)
        with codecs.opened(self._data, self._max_pixels) as (image, file):
            return codecs.decoded(image, file, reduction)
