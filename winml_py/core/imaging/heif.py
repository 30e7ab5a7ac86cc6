"""HEIC pictures, as phones take them: read by pillow-heif, where that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from ...errors import PictureError

if TYPE_CHECKING:
    from PIL.Image import Image

_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1")


def is_heif(prefix: bytes) -> bool:
    """Whether a file that begins so is HEIC, or another HEIF."""
    return prefix[4:8] == b"ftyp" and prefix[8:12] in _BRANDS


def open_heif(file: BinaryIO, name: str) -> Image:
    """The image in a file, its pixels not decoded yet; it is turned already, and its EXIF data say so.

    The reader is called by itself: to register it would change Pillow for the whole process.

    Raises:
        PictureError: pillow-heif is not installed.
        SyntaxError: the file is damaged.
    """
    try:
        from pillow_heif import HeifImageFile
    except ImportError as error:
        raise PictureError(
            f"{name} is a HEIC picture, and pillow-heif, which reads those, is not installed.",
            hint="Install it: pip install pillow-heif.",
        ) from error
    image: Image = HeifImageFile(file, "")
    return image
