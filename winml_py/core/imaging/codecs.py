"""Picture files and Pillow images, to and from pixels."""

from __future__ import annotations

import io
import math
import os
import re
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from numbers import Integral
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ...enums import BitmapAlphaMode, BitmapPixelFormat
from ...errors import InvalidArgumentError, PictureError, PictureNotFoundError, WinMLError
from ..base.arguments import is_stream, read_bytes, refuse_address, suggest_path
from ..base.arrays import Pixels
from ..base.atomic_files import open_atomically, translate_write_errors
from ..base.messages import logger, require_no_pointer, type_name
from .pixels import convert, find_layout, to_eight_bits

if TYPE_CHECKING:
    from PIL.Image import Image


PictureSource = str | os.PathLike[str] | bytes | bytearray | BinaryIO
"""The path to a picture file, its bytes, or an open binary stream, read from its position to its end."""

MAX_PIXELS = 256 << 20
"""The most pixels that a picture file may claim, unless the caller allows more: 256 megapixels, 1 GiB once decoded."""

MAX_SCANS = 100
"""The most scans of a JPEG file, as in libtiff; usual files have 1 to 12. Each scan is a pass over all pixels, and may
take few bytes: 7,000 of them in 0.7 MB take half a minute."""

MAX_READS = 1 << 19
"""The most parts of a file: Pillow reads chunks, segments and blocks in Python, which takes microseconds."""

MAX_COMPRESSED_TEXTS = 256
"""The most texts and profiles of a PNG file: each of them may be inflated to a megabyte, from a thousandth of that."""

_PYTHON_COST, _COSTS = 16, {"jpeg2k": 4}
"""How many pixels one counts for, by the time that it may take. The first number is for what Pillow decodes in Python:
QOI, compressed BMP, and PPM as text or of a maximum other than 255 and 65535."""

ORIENTATION = 0x0112
"""EXIF's tag for the camera's orientation: 1 to 8; 5 to 8 swap the sides."""

WIDE_GRAY = ("I;16", "I;16L", "I;16B", "I;16N")
"""Pillow's modes for gray pictures of 16 bits."""

BITS_PER_SAMPLE, PHOTOMETRIC, PLANAR_CONFIGURATION, SAMPLE_FORMAT = 258, 262, 284, 339
"""TIFF's tags; photometric interpretations of 0 and 6 mean inverted gray and YCbCr, planes and signed numbers are 2."""

TILE_SIDES = (322, 323)
"""TIFF's tags for the width and height of a tile, which may be larger than the picture and is decoded whole."""

WITHOUT_RANGE = ("I", "F")
"""Pillow's modes for numbers without a defined white, such as a float TIFF's: they are refused."""

HEIF = (".heic", ".heics", ".heif", ".heifs", ".hif")
"""The endings of HEIC files, which pillow-heif reads."""

_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1")

JPEG = ("JPEG", "MPO")
"""Pillow's names of a JPEG file: one that holds several pictures, as many phones write them, is an MPO."""

FORMATS = ("JPEG", "PNG", "BMP", "DIB", "GIF", "PPM", "AVIF", "ICO", "JPEG2000", "QOI", "TGA", "TIFF", "WEBP")
"""The formats that are read, by Pillow's names; the plugins of the first five always load. All others are refused: to
read some, Pillow starts a program (Ghostscript for EPS), and some name another file, which it opens. HEIC has a package
of its own."""


def list_endings() -> tuple[str, ...]:
    """The endings of the picture files that are read, as Pillow knows them, and those of HEIC files."""
    from PIL.Image import registered_extensions

    return (*(ending for ending, kind in registered_extensions().items() if kind in (*FORMATS, *JPEG)), *HEIF)


def decode(
    source: PictureSource, max_pixels: int = MAX_PIXELS, reduction: int = 1, name: str = ""
) -> tuple[Pixels, BitmapPixelFormat]:
    """Decodes a picture file or its bytes as viewers show it: turned as EXIF states, with its colours in sRGB.

    Of an animation, it decodes the first frame.

    Args:
        source: what to read.
        max_pixels: the most pixels that it may claim to hold.
        reduction: 1, 2, 4 or 8: a JPEG's sides are divided by it, rounded up; other formats ignore it.
        name: what errors call it; by default its path.
    """
    with open_picture(source, max_pixels, name) as (image, file, name):
        if image.format in JPEG and image.mode in ("L", "RGB"):
            file.seek(0)
            decoded = _decode_jpeg(file.read(), image, reduction)
            if decoded is not None:
                return decoded
            file.seek(0)
        return _read_as_shown(image, name)


def _decode_jpeg(data: bytes, image: Image, reduction: int) -> tuple[Pixels, BitmapPixelFormat] | None:
    """The same pixels as Pillow's, but faster. None for a damaged file: Pillow reads it, or says what is wrong."""
    import simplejpeg
    from PIL.Image import fromarray

    width, height = (-(-side // reduction) for side in image.size)
    is_foreign = has_foreign_colours(image)
    colours = "GRAY" if image.mode == "L" else "RGB" if is_foreign else "BGR"
    try:
        pixels = simplejpeg.decode_jpeg(data, colours, min_width=width, min_height=height, min_factor=reduction)
    except ValueError:
        return None
    pixels, pixel_format = pixels[..., 0] if image.mode == "L" else pixels, BitmapPixelFormat[f"{colours}8"]
    if is_foreign:
        decoded = fromarray(pixels)
        decoded.info["icc_profile"] = image.info["icc_profile"]
        pixels, pixel_format = read_stored_pixels(convert_to_srgb(decoded))
    return np.ascontiguousarray(turn(pixels, read_orientation(image))), pixel_format


def _read_as_shown(image: Image, name: str) -> tuple[Pixels, BitmapPixelFormat]:
    pixels, pixel_format = read_stored_pixels(convert_to_srgb(image), name)
    return np.ascontiguousarray(turn(pixels, read_orientation(image))), pixel_format


def read_orientation(image: Image) -> int:
    """EXIF's orientation that remains to be applied: Pillow turns TIFF itself, and reports turned sizes for it."""
    try:
        stated = 1 if image.format == "TIFF" else image.getexif().get(ORIENTATION, 1)
    except Exception:  # a block that is not EXIF; Pillow raises nearly every kind of exception
        return 1
    return int(stated) if stated in range(1, 9) else 1


class EncodedPicture:
    """A picture file in memory with only its header read: it is decoded once the wanted size is known.

    `width` and `height` are those after EXIF has turned the picture. Raises the errors of `open_picture`.
    """

    def __init__(self, source: PictureSource, max_pixels: int = MAX_PIXELS) -> None:
        with open_picture(source, max_pixels) as (image, file, self._name):
            self.width, self.height = image.size if read_orientation(image) < 5 else image.size[::-1]
            file.seek(0)
            self._data = file.read()
        self.max_pixels = max_pixels

    def decode(self, shrink: float = 1) -> tuple[Pixels, BitmapPixelFormat, BitmapAlphaMode]:
        """The pixels, with straight alpha, as files hold it.

        Args:
            shrink: the factor by which the caller will shrink the picture. A JPEG is then decoded at a half, a quarter
                or an eighth of its sides, but never below twice the size that the caller wants.
        """
        reduction = next((part for part in (8, 4, 2) if shrink >= 2 * part), 1)
        return *decode(self._data, self.max_pixels, reduction, self._name), BitmapAlphaMode.STRAIGHT


@contextmanager
def open_picture(
    source: PictureSource, max_pixels: int = MAX_PIXELS, name: str = "", frame: int = 0
) -> Iterator[tuple[Image, BinaryIO, str]]:
    """Opens a picture file, its bytes or a stream with Pillow; translates errors in the block to those of `decode`.

    Gives the image at a frame, the file, and what errors call it: the name, or by default the path or how many bytes
    there are. No pixels have been decoded, except those of an ICO file, and of earlier frames of an animation.

    Raises:
        PictureNotFoundError: there is no such file.
        PictureError: it is not a picture, is damaged, or takes longer to decode than `max_pixels` and the other limits
            of this file allow.
        InvalidArgumentError: the file does not have that frame.
    """
    from PIL.Image import DecompressionBombError, DecompressionBombWarning

    if not isinstance(max_pixels, Integral):
        raise InvalidArgumentError(f"max_pixels cannot be {max_pixels!r}.", hint="It must be a whole number.")
    source = _require_path_or_bytes(source)
    if source in ("", b""):
        hint = "Pass a picture file's path or contents; over HTTP, send the contents as the body."
        raise PictureError(f"Expected a picture, got {'an empty path' if source == '' else '0 bytes'}.", hint=hint)
    if not isinstance(source, bytes) and os.path.isdir(source):
        hint = "Load its files one at a time, or evaluate all with session.evaluate_many(folder)."
        raise PictureError(f"Expected a picture, got the folder {os.fspath(source)}.", hint=hint)
    if not isinstance(source, bytes) and not os.path.exists(source):
        refuse_address(source)
    name = name or (f"Data of {len(source):,} bytes" if isinstance(source, bytes) else os.fspath(source))
    failure = f"{name} is not a picture that can be decoded"
    with (
        _translate_errors(failure, f"Supported formats: {', '.join(sorted(FORMATS))}."),
        io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file,
        override_pillow_limit(max_pixels),
    ):
        if not file.seekable():  # a pipe
            file = io.BytesIO(file.read())
        reads = _Reads(file, name)
        try:
            image = _identify(file, name, max_pixels)
            if frame:
                image.seek(frame)
            reads.left += _require_cheap(image, name, max_pixels)
        except (DecompressionBombError, DecompressionBombWarning):
            raise _make_size_error(name, max_pixels) from None
        except EOFError:
            if frame:
                raise InvalidArgumentError(f"The file has no frame {frame}.") from None
            raise
        if image.format in JPEG:
            file.seek(image.tile[0][2])  # of an MPO file, the start of the frame
            _require_few_scans(file.read(), name)
        yield image, file, name


class _Reads:
    """Takes the place of a file's `read`, and refuses a file of too many parts; `left` is how many may follow."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.left, self._read, self._name = MAX_READS, file.read, name
        file.read = self  # type: ignore[method-assign]  # of this object; Pillow's C code calls it too

    def __call__(self, size: int = -1) -> bytes:
        self.left -= 1
        if self.left < 0:
            hint = "Save the picture again, for example with Pillow."
            raise PictureError(f"{self._name} has too many parts, most of them tiny.", hint=hint)
        return self._read(size)


def _require_cheap(image: Any, name: str, max_pixels: int) -> int:
    """Refuses an image that takes longer to decode than `max_pixels` of a PNG file; how often its decoder may read."""
    from PIL.Image import DECODERS

    codec = image.tile[0][0] if getattr(image, "tile", None) else ""
    cost = _PYTHON_COST if codec in DECODERS else _COSTS.get(codec, 1)
    tile = [side for tag in TILE_SIDES if isinstance(side := _find_tiff_tags(image).get(tag), int)]
    pixels, limit = image.width * image.height, max_pixels // cost
    if not 0 < pixels <= limit or math.prod(tile) > limit:
        reason = f"Each pixel counts as {cost}, because {image.format} decodes slowly. " if cost > 1 else ""
        raise _make_size_error(name, limit, reason)
    return 4 * pixels if codec in DECODERS else 0


def _make_size_error(name: str, limit: int, reason: str = "") -> PictureError:
    hint = "To allow more, call load(source, max_pixels=...)."
    return PictureError(f"{name} has no pixels, or more than the limit of {limit:,}.", hint=reason + hint)


_MARKER = re.compile(b"\xff+([\xc0-\xcf\xd9-\xfe])")
"""A marker that begins a segment, or ends the picture. libjpeg reads no length after any other."""


def _require_few_scans(data: bytes, name: str) -> None:
    """Counts the scans of a JPEG file's first picture as libjpeg finds them: not those of a thumbnail in a segment."""
    # Pairs of bytes at even and at odd places: a tenth of the time of `data.count`.
    pairs = (np.frombuffer(data, "<u2", (len(data) - first) // 2, first) for first in (0, 1))
    if sum(np.count_nonzero(part == 0xDAFF) for part in pairs) <= MAX_SCANS:  # as nearly always
        return
    scans, start = 0, 0
    while (found := _MARKER.search(data, start)) and found[1] != b"\xd9":
        scans += found[1] == b"\xda"
        start = found.end() + max(2, int.from_bytes(data[found.end() : found.end() + 2], "big"))
    if scans > MAX_SCANS:
        hint = "Most files have 1 to 12. Save the picture again, for example with Pillow."
        raise PictureError(f"{name} is a JPEG file with {scans:,} scans, but the limit is {MAX_SCANS}.", hint=hint)


_limit_lock = threading.Lock()
_usual_limit: int | None = None
"""Pillow's own limit."""

_raised_limits: list[int] = []
"""The limits beyond Pillow's of the pictures that are being read."""


@contextmanager
def override_pillow_limit(pixels: int) -> Iterator[None]:
    """Within the block, Pillow decodes this many pixels: some of its readers check its limit regardless of ours.

    That limit is global to the process, so it is raised only while a picture is read.
    """
    global _usual_limit
    from PIL import Image

    with _limit_lock:
        if not _raised_limits:
            _usual_limit = Image.MAX_IMAGE_PIXELS
        is_raised = _usual_limit is not None and pixels > _usual_limit
        if is_raised:
            _raised_limits.append(pixels)
            Image.MAX_IMAGE_PIXELS = max(_raised_limits)
    try:
        yield
    finally:
        if is_raised:
            with _limit_lock:
                _raised_limits.remove(pixels)
                Image.MAX_IMAGE_PIXELS = max(_raised_limits, default=_usual_limit)


def _require_path_or_bytes(source: object) -> str | os.PathLike[str] | bytes:
    if isinstance(source, (bytes, str, os.PathLike)):
        return source
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    if is_stream(source):
        return read_bytes(source, "The picture stream", PictureError)
    raise InvalidArgumentError(
        f"Expected a path, bytes or a binary stream, got {type_name(source)}.",
        hint="For an array, use from_array; for a Pillow image, from_pil.",
    )


@contextmanager
def _translate_errors(failure: str, hint: str) -> Iterator[None]:
    """Translates Pillow's errors to ours: for damaged files its decoders raise nearly every kind of exception."""
    try:
        yield
    except WinMLError:
        raise
    except FileNotFoundError as error:
        what = "picture" if os.path.splitext(error.filename)[1] else "picture or folder"
        raise PictureNotFoundError(
            f"{error.filename}: There is no such {what}.", hint=suggest_path(error.filename)
        ) from None
    except Exception as error:
        raise PictureError(f"{failure}: {error}.", hint=hint) from error


_PNG, _ICO = b"\x89PNG\r\n\x1a\n", b"\0\0\1\0"
"""How such files begin."""

_NO_PICTURES = (
    (re.compile(b"\x93NUMPY"), "an array", "Bind numpy.load(path)."),
    (
        re.compile(b"(?s)....ftyp(iso|mp4|M4V|qt|avc|3g|dash)|RIFF....AVI |\x1aE\xdf\xa3"),
        "a video",
        "Pass VideoReader(path) to evaluate_many.",
    ),
    (re.compile(b"%PDF-"), "a PDF file", "Save its pages as pictures first."),
)
"""What is passed as a picture by mistake: how such files begin, their kind, and what to do."""


def _identify(file: BinaryIO, name: str, max_pixels: int) -> Image:
    """Pillow's image of a file in one of `FORMATS` or in HEIC, with its pixels not read yet."""
    from PIL import Image, UnidentifiedImageError

    prefix = file.read(64)
    file.seek(0)
    if prefix.startswith((_PNG, _ICO)):
        data = file.read()
        file.seek(0)
        if sum(map(data.count, (b"iCCP", b"zTXt", b"iTXt"))) > MAX_COMPRESSED_TEXTS:
            failure = f"{name} has more than {MAX_COMPRESSED_TEXTS} texts and colour profiles."
            raise PictureError(failure, hint="Save the picture again without its metadata.")
    with suppress(SyntaxError, IndexError, TypeError, struct.error):  # what Image.open takes for "not this format"
        # Directly: `Image.open` imports the plugins of five formats first, which takes as long as a small model.
        if prefix.startswith(_PNG):
            from PIL.PngImagePlugin import PngImageFile

            return PngImageFile(file, "")
        if prefix.startswith(b"\xff\xd8\xff"):
            from PIL.JpegImagePlugin import jpeg_factory

            return jpeg_factory(file, "")
    with suppress(UnidentifiedImageError):
        if prefix.startswith(_ICO):  # opening it decodes the picture in it, which may be larger than the ICO states
            from PIL.IcoImagePlugin import IcoFile

            picture = io.BytesIO(data[IcoFile(file).entry[0].offset :])
            _Reads(picture, name)
            _require_cheap(Image.open(picture, formats=("PNG", "DIB")), name, max_pixels)
        return Image.open(file, formats=FORMATS)
    if prefix[4:8] != b"ftyp" or prefix[8:12] not in _HEIF_BRANDS:
        require_no_pointer(prefix, name, "a picture", PictureError)
        for start, kind, hint in _NO_PICTURES:
            if start.match(prefix):
                raise PictureError(f"{name} is not a picture that can be decoded: it is {kind}.", hint=hint)
        raise UnidentifiedImageError("no decoder recognises it")
    try:
        from pillow_heif import HeifImageFile
    except ImportError as error:
        raise PictureError(
            f"{name} is a HEIC picture and requires pillow-heif, which is not installed.",
            hint="Run pip install pillow-heif.",
        ) from error
    file.seek(0)
    image: Image.Image = HeifImageFile(file, "")  # directly: registering it would change Pillow for the process
    return image


def turn(pixels: Pixels, orientation: int) -> Pixels:
    """A view of the pixels, turned by one of EXIF's eight orientations."""
    if orientation >= 5:
        pixels = np.swapaxes(pixels, 0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def from_pil(image: Image) -> tuple[Pixels, BitmapPixelFormat]:
    """The pixels of a Pillow image, copied: gray as GRAY8, with transparency as RGBA8, everything else as RGB8.

    Like `decode`, it turns them as EXIF states, if that has not been done, and converts their colours to sRGB.

    Raises:
        InvalidArgumentError: no pixels, or numbers without a defined range.
        PictureError: the image has been closed, or its file is damaged.
    """
    if not hasattr(image, "getbands"):
        raise InvalidArgumentError(
            f"Expected a Pillow image, got {type_name(image)}.",
            hint="For a file, use load; for an array, from_array.",
        )
    with _translate_errors("The Pillow image cannot be read", "Keep it open until it is bound."):
        if image.format == "EPS" and getattr(image, "tile", None):
            raise PictureError(
                "The Pillow image is an EPS file that has not been loaded, and loading it starts Ghostscript.",
                hint="Call image.load() yourself if you trust the file.",
            )
        return _read_as_shown(image, _PILLOW_IMAGE)


_PILLOW_IMAGE = "A Pillow image"


def read_stored_pixels(image: Image, name: str = _PILLOW_IMAGE) -> tuple[Pixels, BitmapPixelFormat]:
    """The pixels of a Pillow image as they are stored: neither turned nor converted to sRGB.

    Raises:
        InvalidArgumentError: numbers without a defined range.
    """
    _correct_tiff(image)
    has_transparent_level = isinstance(image.info.get("transparency"), int)  # bytes are those of a palette
    if is_wide_gray(image):
        pixels = to_eight_bits(_read_wide_gray(image))
        if has_transparent_level:
            return np.dstack((pixels, pixels, pixels, _read_wide_alpha(image))), BitmapPixelFormat.RGBA8
        return pixels, BitmapPixelFormat.GRAY8
    is_signed = _find_tiff_tags(image).get(SAMPLE_FORMAT) == (2,)
    if image.mode in ("1", "L") and not is_signed and not has_transparent_level:
        return np.array(image.convert("L")), BitmapPixelFormat.GRAY8
    if image.mode in WITHOUT_RANGE or is_signed:
        opened = "image" if name == _PILLOW_IMAGE else "PIL.Image.open(path)"
        raise InvalidArgumentError(
            f"{name} of mode {image.mode} has no defined range, so white is unknown.",
            hint=f'If you know white\'s value, bind {opened}.point(lambda level: level * 255 / white).convert("L").',
        )
    if image.has_transparency_data:
        return np.array(image.convert("RGBA")), BitmapPixelFormat.RGBA8
    return np.array(image.convert("RGB")), BitmapPixelFormat.RGB8


def is_wide_gray(image: Image) -> bool:
    """Whether an image is gray of 9 to 16 bits."""
    return image.mode in WIDE_GRAY or (image.mode == "I" and image.format == "PPM")


def _read_wide_gray(image: Image) -> Pixels:
    """The levels of such an image, 65535 being white: Pillow leaves 12 bits as they are, and inverted gray inverted."""
    levels: Pixels = np.asarray(image).astype(np.uint16)
    if tags := _find_tiff_tags(image):
        if tags.get(BITS_PER_SAMPLE) == (12,):
            levels = levels << 4 | levels >> 8
        if tags.get(PHOTOMETRIC, 0) == 0:  # black is the largest number
            levels = ~levels
    return levels


def _read_wide_alpha(image: Image) -> Pixels:
    """The alpha of such an image with one transparent level, which Pillow compares with levels of 8 bits."""
    return np.where(_read_wide_gray(image) == image.info["transparency"], np.uint8(0), np.uint8(255))


def _find_tiff_tags(image: Image) -> Mapping[int, Any]:
    """The tags of a TIFF file; none for other images."""
    return getattr(image, "tag_v2", {})


_libtiff_lock = threading.Lock()


def _correct_tiff(image: Any) -> None:
    """Has libtiff read a TIFF file that Pillow's own reader mangles: with planes, in YCbCr, or stored on its side.

    Raises:
        ValueError: Pillow mangles it either way.
    """
    tags = _find_tiff_tags(image)
    if not tags or not image.tile:
        return
    from PIL import TiffImagePlugin

    is_planar = tags.get(PLANAR_CONFIGURATION) == 2
    if is_planar and image.mode in ("LA", "PA", "LAB"):
        raise ValueError("Lab colour planes, and alpha planes with gray or a palette, are not supported")
    is_mangled = is_planar or tags.get(PHOTOMETRIC) == 6 or tags.get(ORIENTATION, 1) >= 5
    if is_mangled and not image.use_load_libtiff:
        with _libtiff_lock:  # the switch is global, but it mangles no file that another thread opens meanwhile
            before, TiffImagePlugin.READ_LIBTIFF = TiffImagePlugin.READ_LIBTIFF, True
            try:
                image._setup()  # noqa: SLF001 - Pillow has no other way to switch an open file
            finally:
                TiffImagePlugin.READ_LIBTIFF = before


# Colour profiles: colours are converted to sRGB.


def has_foreign_colours(image: Image) -> bool:
    """Whether the image names a colour space other than sRGB."""
    profile = image.info.get("icc_profile")
    return bool(profile) and not _is_srgb(profile)


@lru_cache(32)
def _is_srgb(profile: bytes) -> bool:
    """Whether converting to sRGB changes no level by more than one. A profile's name says nothing: it may be linear."""
    from PIL import Image, ImageCms

    try:
        read, srgb = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
        mode = {"RGB": "RGB", "GRAY": "L"}.get(read.profile.xcolor_space.strip())
        if mode is None:
            return False
        ramp = np.arange(256, dtype=np.uint8)
        grid = np.stack(np.meshgrid(*[ramp[::15]] * 3), -1).reshape(1, -1, 3)
        levels = ramp[None] if mode == "L" else np.hstack([grid, np.repeat(ramp[None, :, None], 3, 2)])
        transform = ImageCms.buildTransform(read, srgb, mode, "RGB", flags=ImageCms.Flags.NOOPTIMIZE)
        converted = np.asarray(transform.apply(Image.fromarray(levels)), np.int16)
        return bool(np.abs(converted - np.atleast_3d(levels)).max() <= 1)
    except (ImageCms.PyCMSError, OSError) as error:
        logger.warning("Ignoring a picture's unreadable colour profile: %s", error)
        return True


def convert_to_srgb(image: Image) -> Image:
    """The image with its colours converted to sRGB, where its profile names another colour space.

    Gray pictures of any depth become 8-bit gray pictures.
    """
    is_wide = is_wide_gray(image)
    if (image.mode in WITHOUT_RANGE and not is_wide) or not has_foreign_colours(image):
        return image
    from PIL import ImageCms
    from PIL.Image import fromarray

    _correct_tiff(image)
    image.load()
    profile = image.info["icc_profile"]
    try:
        if is_wide or image.mode in ("1", "L", "LA"):
            levels = _read_wide_gray(image) if is_wide else np.asarray(image.convert("L"), np.uint16) * 257
            converted = fromarray(_make_gray_table(profile)[levels])
        else:
            source = image if image.mode in ("RGB", "CMYK") else image.convert("RGB")
            read, srgb = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
            converted = ImageCms.buildTransform(read, srgb, source.mode, "RGB").apply(source)
    except ImageCms.PyCMSError as error:  # a profile for other channels than the image has
        logger.warning("Ignoring a colour profile that does not fit its picture: %s", error)
        return image
    if image.has_transparency_data:
        alpha = fromarray(_read_wide_alpha(image)) if is_wide else image.convert("RGBA").getchannel("A")
        converted = converted.convert("RGB")
        converted.putalpha(alpha)
    return converted


@lru_cache(32)
def _make_gray_table(profile: bytes) -> Pixels:
    """The sRGB byte of each of the 65536 levels of a gray profile.

    LittleCMS is called once per level, without its optimisation, which uses only 33 points and is up to ten levels
    wrong in the dark.
    """
    from PIL import Image, ImageCms

    levels = Image.fromarray(np.arange(1 << 16, dtype=np.uint16).reshape(256, 256))
    read, srgb = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
    transform = ImageCms.buildTransform(read, srgb, levels.mode, "RGB", flags=ImageCms.Flags.NOOPTIMIZE)
    return np.asarray(transform.apply(levels))[..., 1].reshape(-1)


# To Pillow images and files.


def to_pil(pixels: Pixels, pixel_format: BitmapPixelFormat) -> Image:
    """A Pillow image with a copy of the pixels: mode L for gray, RGBA with alpha, else RGB."""
    from PIL import Image

    formats = {1: BitmapPixelFormat.GRAY8, 4: BitmapPixelFormat.RGBA8}
    target = formats.get(find_layout(pixel_format).channels, BitmapPixelFormat.RGB8)
    return Image.fromarray(np.array(convert(pixels, pixel_format, target)))  # Pillow shares the memory of some arrays


def save(
    pixels: Pixels, pixel_format: BitmapPixelFormat, target: str | os.PathLike[str] | BinaryIO, kind: str = ""
) -> None:
    """Writes a picture file, whole or not at all, or writes into an open file; omits an opaque alpha channel.

    Args:
        pixels: the picture.
        pixel_format: the layout of its pixels.
        target: the path, or an open binary file.
        kind: Pillow's name of the format ("PNG"); by default, the format of the ending of the target's name.

    Raises:
        PictureError: no picture format has the name's ending, or the format refuses the picture.
        StorageAccessError: the file cannot be written.
    """
    image = to_pil(pixels, pixel_format)
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        image = image.convert("RGB")
    if not isinstance(target, (str, os.PathLike)):
        encode(image, target, _find_format(str(getattr(target, "name", "The file")), kind))
        return
    path = os.fspath(target)
    kind = _find_format(path, kind)
    with translate_write_errors(path), open_atomically(path) as file:
        encode(image, file, kind)


def _find_format(name: str, kind: str) -> str:
    """The requested format, or that of a name's ending, if Pillow writes it."""
    from PIL import Image

    ending = os.path.splitext(name)[1].lower()
    Image.preinit()
    kinds = Image.EXTENSION if ending in Image.EXTENSION else Image.registered_extensions()
    # No ending means no format: Pillow registers whatever a SPIDER file was saved as, possibly with no ending.
    pillow_kind = kind.upper() or (kinds.get(ending) if ending else None)
    if pillow_kind is not None and pillow_kind in Image.SAVE:
        return pillow_kind
    if kind:
        raise PictureError(f"Pillow cannot write {kind!r}.", hint='Use "PNG", "JPEG" or "WEBP".')
    raise PictureError(
        f"{name}: Pictures cannot be saved with this file extension.",
        hint='Use .png, .jpg or .webp. In Python, you can also name the format: save(file, kind="PNG").',
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
    except (OSError, ValueError, TypeError, OverflowError, struct.error) as error:
        if getattr(error, "errno", None):  # the file's, not the format's
            raise
        raise PictureError(f"The picture cannot be written as {kind}: {error}.") from error
