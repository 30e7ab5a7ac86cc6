"""Picture files and Pillow images, to and from pixels; HEIF, and the size that Pillow may decode."""

from __future__ import annotations

import io
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from ...enums import BitmapPixelFormat
from ...errors import InvalidArgumentError, PictureError, PictureNotFoundError, WinMLError
from ..base.arguments import is_stream, read_bytes
from ..base.atomic_files import written_whole
from ..base.file_kinds import PICTURE, kind_of_file, missing_file_hint
from ..base.messages import type_name
from .colour_profiles import WIDE_GRAY, WITHOUT_RANGE, has_foreign_colours, in_srgb
from .formats import Pixels, convert, layout_of, to_eight_bits

if TYPE_CHECKING:
    from PIL.Image import Image


PictureSource = str | os.PathLike[str] | bytes | BinaryIO
"""The path of a picture file, its bytes, or an open binary stream, which is read from where it stands to its end."""

MAX_PIXELS = 256 << 20
"""The size that a picture file may state, unless the caller allows more: 256 megapixels, 1 GiB once decoded."""

ORIENTATION = 0x0112
"""EXIF's tag for how a camera was held: 1 to 8, of which 5 to 8 swap the sides."""

GRAY_MODES = ("1", "L", *WIDE_GRAY)
"""Pillow's modes that become GRAY8."""

_UNKNOWN = "no decoder knows what it is"

FORMATS = ("AVIF", "BMP", "GIF", "ICO", "JPEG", "JPEG2000", "PNG", "PPM", "QOI", "TGA", "TIFF", "WEBP")
"""The formats that are read, by Pillow's names. Pillow knows more, and some of them start a program to read a file
(Ghostscript for EPS), or open another file inside of it: what is not named here is never opened. HEIC is read by a
package of its own."""


def decode(source: PictureSource, max_pixels: int = MAX_PIXELS, reduction: int = 1) -> tuple[Pixels, BitmapPixelFormat]:
    """Decodes a picture file or its bytes as viewers show it: turned by EXIF, in sRGB; an animation's first frame.

    Args:
        source: the path of the file, its bytes, or an open binary stream.
        max_pixels: how many pixels it may state that it has.
        reduction: 1, 2, 4 or 8: a JPEG's sides are divided by it, rounded up; other formats ignore it.

    Raises:
        PictureNotFoundError: there is no such file.
        PictureError: it is not a picture, or it is damaged, or larger than `max_pixels`.
    """
    with opened(source, max_pixels) as (image, file):
        plain = _plain_picture(image)
        if plain is not None:
            file.seek(0)
            decoded = plain.decode(file.read(), reduction)
            if decoded is not None:
                return decoded
            file.seek(0)
        return _as_shown(image)


def _as_shown(image: Image) -> tuple[Pixels, BitmapPixelFormat]:
    pixels, pixel_format = stored_pixels(in_srgb(image))
    return np.ascontiguousarray(turned(pixels, orientation_of(image))), pixel_format


def orientation_of(image: Image) -> int:
    """EXIF's orientation that must still be applied: Pillow turns TIFF itself, and gives turned sizes for it."""
    return 1 if image.format == "TIFF" else int(image.getexif().get(ORIENTATION, 1))


class _PlainPicture(NamedTuple):
    """A JPEG or WebP that another decoder reads: to the same pixels as Pillow, in less time.

    Attributes:
        kind: "JPEG" or "WEBP".
        size: width and height, before EXIF turns it.
        is_gray: whether it has no colours.
        orientation: EXIF's.
    """

    kind: str
    size: tuple[int, int]
    is_gray: bool
    orientation: int

    def decode(self, data: bytes, reduction: int) -> tuple[Pixels, BitmapPixelFormat] | None:
        """The pixels, turned; None where the decoder refuses the file.

        Pillow accepts some of those, and describes what is wrong with the others.
        """
        pixels = self._decode_jpeg(data, reduction) if self.kind == "JPEG" else self._decode_webp(data)
        if pixels is None:
            return None
        pixel_format = BitmapPixelFormat.GRAY8 if self.is_gray else BitmapPixelFormat.BGR8
        return np.ascontiguousarray(turned(pixels, self.orientation)), pixel_format

    def _decode_jpeg(self, data: bytes, reduction: int) -> Pixels | None:
        import simplejpeg

        width, height = (-(-side // reduction) for side in self.size)
        sizes = {"min_width": width, "min_height": height, "min_factor": reduction}
        try:
            pixels: Pixels = simplejpeg.decode_jpeg(data, "GRAY" if self.is_gray else "BGR", **sizes)
        except ValueError:
            return None
        return pixels[..., 0] if self.is_gray else pixels

    def _decode_webp(self, data: bytes) -> Pixels | None:
        # OpenCV decodes PNG faster, too, but writes to standard error where a file is damaged.
        import cv2

        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
        return pixels if pixels is not None and pixels.shape[1::-1] == self.size else None


def _plain_picture(image: Image) -> _PlainPicture | None:
    """What another decoder must know of a picture; None where it is of no such kind, or its colours are converted."""
    is_plain = image.mode in {"JPEG": ("L", "RGB"), "WEBP": ("RGB",)}.get(image.format or "", ())
    if not is_plain or getattr(image, "is_animated", False) or has_foreign_colours(image):
        return None
    return _PlainPicture(str(image.format), image.size, image.mode == "L", orientation_of(image))


class EncodedPicture:
    """A picture file in memory, of which only the head has been read: it is decoded once the wanted size is known.

    Args:
        source: the path of the file, its bytes, or an open binary stream.
        max_pixels: how many pixels it may state that it has.

    Attributes:
        width: pixels, once EXIF has turned the picture.
        height: pixels, once EXIF has turned the picture.

    Raises:
        PictureNotFoundError: there is no such file.
        PictureError: it is not a picture, or it is damaged, or larger than `max_pixels`.
    """

    def __init__(self, source: PictureSource, max_pixels: int = MAX_PIXELS) -> None:
        with opened(source, max_pixels) as (image, file):
            self.width, self.height = image.size if orientation_of(image) < 5 else image.size[::-1]
            self._plain = _plain_picture(image)
            file.seek(0)
            self._data = file.read()
        self._max_pixels = max_pixels

    def decode(self, shrink: float = 1) -> tuple[Pixels, BitmapPixelFormat]:
        """The pixels.

        Args:
            shrink: by how much the caller will shrink the picture. A JPEG is then decoded to a half, a quarter or an
                eighth of its sides, which is never less than twice the size that the caller wants.
        """
        reduction = next((part for part in (8, 4, 2) if shrink >= 2 * part), 1)
        # Of most pictures all that a decoder needs is known already: the file need not be opened a second time.
        decoded = self._plain.decode(self._data, reduction) if self._plain is not None else None
        return decode(self._data, self._max_pixels, reduction) if decoded is None else decoded


@contextmanager
def opened(source: PictureSource, max_pixels: int = MAX_PIXELS) -> Iterator[tuple[Image, BinaryIO]]:
    """Opens a picture file, its bytes or a stream of them with Pillow; errors in the block become those of `decode`.

    Raises:
        PictureNotFoundError: there is no such file.
        PictureError: it is not a picture, or it is damaged, or larger than `max_pixels`.
    """
    source = _path_or_bytes(source)
    if source == b"":
        hint = "Pass the contents of a picture file; over HTTP, send them as the body."
        raise PictureError("Expected a picture, got 0 bytes.", hint=hint)
    name = f"{len(source):,} bytes" if isinstance(source, bytes) else os.fspath(source)
    failure = f"{name} is not a picture that can be decoded"
    with (
        _translate_errors(failure, f"Formats that are read: {', '.join(FORMATS)}.", source),
        io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file,
    ):
        image = _open_image(file, max_pixels, name)
        _require_allowed_size(image, max_pixels, name)
        with raised_pillow_limit(image.width * image.height):
            yield image, file


def _path_or_bytes(source: object) -> str | os.PathLike[str] | bytes:
    if isinstance(source, (bytes, str, os.PathLike)):
        return source
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    if is_stream(source):
        return read_bytes(source, "The picture stream", PictureError)
    raise InvalidArgumentError(
        f"A picture is loaded from a path, bytes or a binary stream, not from {type_name(source)}.",
        hint="For an array, use from_array; for a Pillow image, from_pil.",
    )


@contextmanager
def _translate_errors(failure: str, hint: str, source: object = None) -> Iterator[None]:
    """Makes Pillow's errors ours: for damaged files its decoders raise nearly every kind of exception.

    Of a file that is no picture, the error says what it is: people pass saved web pages, pointers of Git LFS, models.
    """
    try:
        yield
    except WinMLError:
        raise
    except FileNotFoundError as error:
        what = "picture" if os.path.splitext(error.filename)[1] else "picture or folder"
        raise PictureNotFoundError(
            f"{error.filename}: There is no such {what}.", hint=missing_file_hint(error.filename)
        ) from None
    except Exception as error:
        path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
        kind = kind_of_file(path) if path else None
        if kind and kind is not PICTURE:
            raise PictureError(f"{path}: Expected a picture, got {kind.words}.", hint=kind.hint) from error
        raise PictureError(f"{failure}: {error}.", hint=hint) from error


def _open_image(file: BinaryIO, max_pixels: int, name: str) -> Image:
    from PIL import Image

    try:
        return _identify(file, name)
    # Some of Pillow's readers ask its limit, which is the process's, before they give the size. The one that counts is
    # the caller's, and is looked at next.
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        file.seek(0)
        with raised_pillow_limit(max_pixels):
            return _identify(file, name)


def _identify(file: BinaryIO, name: str) -> Image:
    """The image that one of Pillow's plugins for `FORMATS` makes of a file, its pixels not read yet.

    `PIL.Image.open` does the same, but its limit on sizes is one for the whole process, and not the caller's.
    """
    from PIL import Image, UnidentifiedImageError

    Image.preinit()
    prefix = file.read(16)
    # Pillow loads its most common readers first, and the others only when a file is none of theirs.
    for _ in range(2):
        for kind in Image.ID:
            factory, accepts = Image.OPEN[kind]
            if kind not in FORMATS or (accepts is not None and not _is_accepted(accepts, prefix)):
                continue
            file.seek(0)
            try:
                return factory(file, "")
            except (SyntaxError, IndexError, TypeError, struct.error):
                continue  # it begins like a file of that kind, but is none
        if not Image.init():
            break
    if is_heif(prefix):
        file.seek(0)
        return open_heif(file, name)
    refused = [kind for kind, (_, accepts) in Image.OPEN.items() if accepts and _is_accepted(accepts, prefix)]
    raise UnidentifiedImageError(f"{refused[0]} files are not read" if refused else _UNKNOWN)


def _is_accepted(accepts: Callable[[bytes], bool | str], prefix: bytes) -> bool:
    """Whether a plugin takes files that begin so. Of a few bytes some read more than there is; others give a reason."""
    try:
        return accepts(prefix) is True
    except (struct.error, IndexError):
        return False


def _require_allowed_size(image: Image, max_pixels: int, name: str) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise PictureError(
            f"{name} claims {width}x{height} pixels, and {max_pixels:,} are allowed.",
            hint="If that is intended, allow more: load(source, max_pixels=...).",
        )


def turned(pixels: Pixels, orientation: int) -> Pixels:
    """The pixels turned by one of EXIF's eight orientations: a view."""
    if orientation >= 5:
        pixels = np.swapaxes(pixels, 0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def from_pil(image: Image) -> tuple[Pixels, BitmapPixelFormat]:
    """The pixels of a Pillow image, copied: gray as GRAY8, with transparency as RGBA8, all else as RGB8.

    As `decode` does, it turns them as EXIF says, if that has not been done, and converts their colours to sRGB.

    Args:
        image: what Pillow opened or made.

    Raises:
        InvalidArgumentError: no pixels, or numbers without a range.
        PictureError: the image has been closed, or its file is damaged.
    """
    with _translate_errors("The Pillow image cannot be read", "Keep it open until it is bound."):
        _require_no_program(image)
        return _as_shown(image)


def _require_no_program(image: Image) -> None:
    """Refuses an image whose pixels Pillow would read by starting Ghostscript."""
    if image.format == "EPS" and getattr(image, "tile", None):
        raise PictureError(
            "The Pillow image is an EPS file that has not been loaded, and loading it starts Ghostscript.",
            hint="Call image.load() yourself if you trust the file.",
        )


def stored_pixels(image: Image) -> tuple[Pixels, BitmapPixelFormat]:
    """The pixels of a Pillow image as they are stored: neither turned nor converted to sRGB.

    Raises:
        InvalidArgumentError: numbers without a range.
    """
    if image.mode in WIDE_GRAY:
        return to_eight_bits(np.asarray(image, np.uint16)), BitmapPixelFormat.GRAY8
    if image.mode in ("1", "L"):
        return np.array(image.convert("L")), BitmapPixelFormat.GRAY8
    if image.mode in WITHOUT_RANGE:
        raise InvalidArgumentError(
            f"A Pillow image of mode {image.mode} has no range, so that white is unknown.",
            hint='With the number that is white, bind image.point(lambda level: level * 255 / white).convert("L").',
        )
    if image.has_transparency_data:
        return np.array(image.convert("RGBA")), BitmapPixelFormat.RGBA8
    return np.array(image.convert("RGB")), BitmapPixelFormat.RGB8


def to_pil(pixels: Pixels, pixel_format: BitmapPixelFormat) -> Image:
    """A Pillow image with a copy of the pixels: mode L for gray, RGBA with alpha, else RGB."""
    from PIL import Image

    formats = {1: BitmapPixelFormat.GRAY8, 4: BitmapPixelFormat.RGBA8}
    target = formats.get(layout_of(pixel_format).channels, BitmapPixelFormat.RGB8)
    return Image.fromarray(np.array(convert(pixels, pixel_format, target)))  # Pillow shares the memory of some arrays


def save(
    pixels: Pixels, pixel_format: BitmapPixelFormat, target: str | os.PathLike[str] | BinaryIO, kind: str = ""
) -> None:
    """Writes a picture file, whole or not at all, or into an open file; an opaque alpha channel is left out.

    Args:
        pixels: the picture.
        pixel_format: how its pixels lie.
        target: the path, or an open binary file.
        kind: the format, by Pillow's name ("PNG"); by default what the target's name ends with.

    Raises:
        PictureError: the name's ending is that of no picture format, or the format refuses the picture.
    """
    image = to_pil(pixels, pixel_format)
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        image = image.convert("RGB")
    if not isinstance(target, (str, os.PathLike)):
        encode(image, target, _kind_of(str(getattr(target, "name", "The file")), kind))
        return
    path = os.fspath(target)
    kind = _kind_of(path, kind)
    try:
        with written_whole(path) as file:
            encode(image, file, kind)
    except PictureError:
        raise
    except OSError as error:
        raise PictureError(f"{path} cannot be written: {error.strerror or error}.") from error


def _kind_of(name: str, kind: str) -> str:
    """The format that is asked for, or that a name ends with, where Pillow writes it."""
    from PIL import Image

    kinds, ending = Image.registered_extensions(), os.path.splitext(name)[1].lower()
    # No ending is no format's: Pillow registers whatever a SPIDER file was saved as, which may be none.
    pillow_kind = kind.upper() or (kinds.get(ending) if ending else None)
    if pillow_kind is not None and pillow_kind in Image.SAVE:
        return pillow_kind
    if kind:
        raise PictureError(f"Pillow writes no {kind!r}.", hint='Use "PNG", "JPEG" or "WEBP".')
    raise PictureError(
        f"{name}: Its name does not end like a picture file that can be written.",
        hint='Use .png, .jpg or .webp; in Python, save(file, kind="PNG") says the format, too.',
    )


def encode(image: Image, file: BinaryIO, kind: str, **options: object) -> None:
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


# HEIC pictures, as phones take them: read by pillow-heif, where that is installed.


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


# Pillow's own limit on the size of pictures, which some of its decoders check besides ours.


_lock = threading.Lock()
_raised_limits: list[int] = []
_usual_limit: list[int] = []
"""Pillow's limit, while another is in force."""


@contextmanager
def raised_pillow_limit(pixels: int) -> Iterator[None]:
    """Within the block, Pillow decodes pictures of so many pixels.

    Pillow has one limit for the whole process. So it is raised for pictures alone that are beyond it, and while one is
    read; the last block that ends puts it back.
    """
    from PIL import Image

    with _lock:
        limit = _usual_limit[0] if _usual_limit else Image.MAX_IMAGE_PIXELS
        is_raised = limit is not None and pixels > limit
        if is_raised and limit is not None:
            _usual_limit[:] = [limit]
            _raised_limits.append(pixels)
            Image.MAX_IMAGE_PIXELS = max(_raised_limits)
    try:
        yield
    finally:
        if is_raised:
            with _lock:
                _raised_limits.remove(pixels)
                Image.MAX_IMAGE_PIXELS = max(_raised_limits, default=_usual_limit[0])
                if not _raised_limits:
                    _usual_limit.clear()
