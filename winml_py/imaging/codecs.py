"""Picture files and Pillow images, to and from pixels."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ..errors import InvalidArgumentError, PictureError, PictureNotFoundError, WinMLError
from ..files import written_whole
from ..kinds import BitmapPixelFormat
from .formats import Pixels, convert

if TYPE_CHECKING:
    from PIL.Image import Image

# Pillow's decoders raise all of these for damaged files.
_DECODER_ERRORS = (OSError, ValueError, SyntaxError, EOFError, RuntimeError, MemoryError)
ORIENTATION = 0x0112
"""EXIF's tag for how a camera was held: 1 to 8, of which 5 to 8 swap the sides."""

_WIDE_GRAY = ("I;16", "I;16L", "I;16B", "I;16N")
GRAY_MODES = ("1", "L", *_WIDE_GRAY)
"""Pillow's modes that become GRAY8."""


def decode(source: str | os.PathLike[str] | bytes) -> tuple[Pixels, BitmapPixelFormat]:
    """Decodes a picture file or its bytes; EXIF orientation is obeyed, of an animation the first frame counts.

    Raises:
        PictureNotFoundError: there is no such file.
        PictureError: it is not a picture, or it is damaged, or larger than Pillow's limit.
    """
    with opened(source) as image:
        return from_pil(oriented(image))


@contextmanager
def opened(source: str | os.PathLike[str] | bytes) -> Iterator[Image]:
    """Opens a picture file or its bytes with Pillow; what goes wrong in the block is told as `decode` does.

    Raises:
        PictureNotFoundError: there is no such file.
        PictureError: it is not a picture, or it is damaged, or larger than Pillow's limit.
    """
    from PIL import Image

    name = f"{len(source):,} bytes" if isinstance(source, bytes) else os.fspath(source)
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            yield image
    except FileNotFoundError:
        raise PictureNotFoundError(f"There is no picture {name}.", hint="Check the working directory.") from None
    except (*_DECODER_ERRORS, Image.DecompressionBombError) as error:
        if isinstance(error, WinMLError) and not isinstance(error, PictureError):
            raise
        raise PictureError(
            f"{name} is not a picture that can be decoded: {error}.",
            hint="Formats: JPEG, PNG, WebP, BMP, TIFF, GIF and what else Pillow reads.",
        ) from error


def oriented(image: Image) -> Image:
    """The image turned as its EXIF data say: a new one, or itself."""
    return turned(image, image.getexif().get(ORIENTATION, 1))


def turned(image: Image, orientation: int) -> Image:
    """The image turned by one of EXIF's eight orientations: a new one, or itself."""
    from PIL.Image import Transpose

    steps = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image.transpose(steps[orientation]) if orientation in steps else image


def from_pil(image: Image) -> tuple[Pixels, BitmapPixelFormat]:
    """The pixels of a Pillow image, copied: gray as GRAY8, with transparency as RGBA8, all else as RGB8.

    Raises:
        InvalidArgumentError: no pixels, or numbers without a range.
        PictureError: the image has been closed, or its file is damaged.
    """
    try:
        return _pixels(image)
    except _DECODER_ERRORS as error:
        if isinstance(error, WinMLError):
            raise
        raise PictureError(
            f"The Pillow image cannot be read: {error}.", hint="Keep it open until it is bound."
        ) from error


def _pixels(image: Image) -> tuple[Pixels, BitmapPixelFormat]:
    if image.mode in _WIDE_GRAY:
        return convert(np.asarray(image, np.uint16), BitmapPixelFormat.GRAY16, BitmapPixelFormat.GRAY8), (
            BitmapPixelFormat.GRAY8
        )
    if image.mode in ("1", "L"):
        return np.array(image.convert("L")), BitmapPixelFormat.GRAY8
    if image.mode in ("I", "F"):
        raise InvalidArgumentError(
            f"A Pillow image of mode {image.mode} has no range that would say what is white.",
            hint="Scale it to 0..255 and convert it to mode L first.",
        )
    if image.has_transparency_data:
        return np.array(image.convert("RGBA")), BitmapPixelFormat.RGBA8
    return np.array(image.convert("RGB")), BitmapPixelFormat.RGB8


def to_pil(pixels: Pixels, pixel_format: BitmapPixelFormat) -> Image:
    """A Pillow image with a copy of the pixels: mode L for gray, RGBA with alpha, else RGB."""
    from PIL import Image

    if pixel_format in (BitmapPixelFormat.GRAY8, BitmapPixelFormat.GRAY16):
        return Image.fromarray(convert(pixels, pixel_format, BitmapPixelFormat.GRAY8).copy())
    has_alpha = pixels.shape[2] == 4
    target = BitmapPixelFormat.RGBA8 if has_alpha else BitmapPixelFormat.RGB8
    return Image.fromarray(np.ascontiguousarray(convert(pixels, pixel_format, target)))


def save(pixels: Pixels, pixel_format: BitmapPixelFormat, path: str | os.PathLike[str]) -> None:
    """Writes a picture file, whole or not at all; an opaque alpha channel is left out.

    Raises:
        PictureError: the name's ending is that of no picture format, or the format refuses the picture.
    """
    from PIL import Image

    target = os.fspath(path)
    image = to_pil(pixels, pixel_format)
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        image = image.convert("RGB")
    kind = Image.registered_extensions().get(os.path.splitext(target)[1].lower())
    if kind is None or kind not in Image.SAVE:
        raise PictureError(
            f"{target} does not end like a picture file that can be written.", hint="Use .png, .jpg or .webp."
        )
    try:
        with written_whole(target) as file:
            encode(image, file, kind)
    except PictureError:
        raise
    except OSError as error:
        raise PictureError(f"{target} cannot be written: {error.strerror or error}.") from error


def encode(image: Image, file: BinaryIO, kind: str, **options: Any) -> None:
    """Writes an image to an open file, without its alpha channel where the format has none.

    Raises:
        PictureError: the format refuses the picture.
    """
    if kind == "JPEG":
        image = image.convert("L" if image.mode == "L" else "RGB")
    try:
        image.save(file, kind, **options)
    except ValueError as error:
        raise PictureError(f"The picture cannot be written as {kind}: {error}.") from error
