"""Windows.Graphics.Imaging: bitmaps, and the codecs that read and write picture files, over Pillow."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from ....core.base.arguments import require_member
from ....core.base.async_operation import AsyncOperation
from ....core.base.buffers import BitmapBuffer as BitmapBuffer
from ....core.base.buffers import BitmapPlaneDescription as BitmapPlaneDescription
from ....core.base.collections import PropertySet
from ....core.base.messages import type_name
from ....core.imaging import codecs
from ....core.imaging.bitmap import SoftwareBitmap as SoftwareBitmap
from ....core.imaging.contract import BitmapBounds as BitmapBounds
from ....enums import BitmapAlphaMode as BitmapAlphaMode
from ....enums import BitmapBufferAccessMode as BitmapBufferAccessMode
from ....enums import BitmapPixelFormat as BitmapPixelFormat
from ....errors import IllegalCallError, InvalidArgumentError, NotSupportedError
from ...system import Array, UInt8
from ..foundation import PropertyType
from ..storage.streams import IRandomAccessStream

if TYPE_CHECKING:
    from PIL.Image import Image


class BitmapSize(NamedTuple):
    """A width and a height, in pixels."""

    width: int = 0
    height: int = 0


class ExifOrientationMode(IntEnum):
    """Whether a picture is turned as its EXIF data state."""

    IGNORE_EXIF_ORIENTATION = 0
    RESPECT_EXIF_ORIENTATION = 1


class ColorManagementMode(IntEnum):
    """Whether a picture's colours are converted to sRGB."""

    DO_NOT_COLOR_MANAGE = 0
    COLOR_MANAGE_TO_S_RGB = 1


class PixelDataProvider:
    """The pixels of a decoded picture, row after row."""

    def __init__(self, bitmap: SoftwareBitmap) -> None:
        self._data = bitmap.to_numpy().tobytes()

    def detach_pixel_data(self) -> Array:
        """The bytes."""
        return Array(UInt8, self._data)


class BitmapFrame:
    """One picture of a file."""

    def __init__(self, data: bytes, index: int) -> None:
        self._data = data
        self._index = index
        with self._open() as image:
            self._codec = image.format or ""
            self._size = image.size
            # A file may state any number, but encoders write only some.
            self._dpi = tuple(dpi if 0 < dpi < 1 << 16 else 96.0 for dpi in map(float, image.info.get("dpi", (96, 96))))
            self._has_alpha = image.has_transparency_data
            self._is_gray = image.mode != "P" and len(image.getbands()) == 1 and not self._has_alpha
            self._orientation = codecs.read_orientation(image)

    @contextmanager
    def _open(self) -> Iterator[Image]:
        with codecs.open_picture(self._data, frame=self._index) as (image, *_):
            yield image

    @property
    def bitmap_pixel_format(self) -> BitmapPixelFormat:
        """The format of decoded pixels, unless another is requested: GRAY8 or BGRA8."""
        return BitmapPixelFormat.GRAY8 if self._is_gray else BitmapPixelFormat.BGRA8

    @property
    def bitmap_alpha_mode(self) -> BitmapAlphaMode:
        """Straight if the file has transparency."""
        return BitmapAlphaMode.STRAIGHT if self._has_alpha else BitmapAlphaMode.IGNORE

    @property
    def pixel_width(self) -> int:
        """Pixels in a row, before EXIF turns the picture."""
        return self._size[0]

    @property
    def pixel_height(self) -> int:
        """Rows, before EXIF turns the picture."""
        return self._size[1]

    @property
    def oriented_pixel_width(self) -> int:
        """Pixels in a row, after EXIF has turned the picture."""
        return self._size[1 if self._orientation >= 5 else 0]

    @property
    def oriented_pixel_height(self) -> int:
        """Rows, after EXIF has turned the picture."""
        return self._size[0 if self._orientation >= 5 else 1]

    @property
    def dpi_x(self) -> float:
        """Pixels per inch horizontally, 96 if the file does not state them."""
        return self._dpi[0]

    @property
    def dpi_y(self) -> float:
        """Pixels per inch vertically, 96 if the file does not state them."""
        return self._dpi[1]

    def get_software_bitmap_async(
        self,
        pixel_format: BitmapPixelFormat | None = None,
        alpha_mode: BitmapAlphaMode | None = None,
        transform: BitmapTransform | None = None,
        exif_orientation_mode: ExifOrientationMode = ExifOrientationMode.RESPECT_EXIF_ORIENTATION,
        color_management_mode: ColorManagementMode = ColorManagementMode.COLOR_MANAGE_TO_S_RGB,
        /,
    ) -> AsyncOperation[SoftwareBitmap]:
        """Decodes the picture.

        Args:
            pixel_format: the format of the bitmap; by default `bitmap_pixel_format`.
            alpha_mode: how alpha relates to the colours; by default `bitmap_alpha_mode`.
            transform: what to do to the picture; by default nothing.
            exif_orientation_mode: whether EXIF turns it, after the transform's scaling and before its rotation.
            color_management_mode: whether colours of another space are converted to sRGB.
        """
        return AsyncOperation(
            lambda _: self._decode(pixel_format, alpha_mode, transform, exif_orientation_mode, color_management_mode)
        )

    get_software_bitmap_converted_async = get_software_bitmap_async  # pywinrt 3's names
    get_software_bitmap_transformed_async = get_software_bitmap_async

    def get_pixel_data_async(
        self,
        pixel_format: BitmapPixelFormat | None = None,
        alpha_mode: BitmapAlphaMode | None = None,
        transform: BitmapTransform | None = None,
        exif_orientation_mode: ExifOrientationMode = ExifOrientationMode.RESPECT_EXIF_ORIENTATION,
        color_management_mode: ColorManagementMode = ColorManagementMode.COLOR_MANAGE_TO_S_RGB,
        /,
    ) -> AsyncOperation[PixelDataProvider]:
        """Decodes the picture to bytes, as `get_software_bitmap_async` does to a bitmap."""
        return AsyncOperation(
            lambda _: PixelDataProvider(
                self._decode(pixel_format, alpha_mode, transform, exif_orientation_mode, color_management_mode)
            )
        )

    get_pixel_data_transformed_async = get_pixel_data_async

    def _decode(
        self,
        pixel_format: BitmapPixelFormat | None,
        alpha_mode: BitmapAlphaMode | None,
        transform: BitmapTransform | None,
        orientation: ExifOrientationMode,
        colours: ColorManagementMode,
    ) -> SoftwareBitmap:
        from PIL import ExifTags, ImageOps

        transform = transform or BitmapTransform()
        with self._open() as file:
            managed = codecs.convert_to_srgb(file) if colours == ColorManagementMode.COLOR_MANAGE_TO_S_RGB else file
            # Not turned by EXIF yet: a transform scales before that, and rotates and crops afterwards.
            image = _scale(SoftwareBitmap.from_array(*codecs.read_stored_pixels(managed)).to_pil(), transform)
        if orientation == ExifOrientationMode.RESPECT_EXIF_ORIENTATION:
            image.getexif()[ExifTags.Base.Orientation] = self._orientation
            image = ImageOps.exif_transpose(image)
        decoded = codecs.read_stored_pixels(_crop(_flip_and_rotate(image, transform), transform))
        bitmap = SoftwareBitmap.from_array(*decoded, self.bitmap_alpha_mode)
        bitmap.dpi_x, bitmap.dpi_y = self._dpi
        return SoftwareBitmap.convert(bitmap, pixel_format or self.bitmap_pixel_format, alpha_mode)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._codec} {self.pixel_width}x{self.pixel_height}>"


IBitmapFrame = BitmapFrame


class BitmapDecoder(BitmapFrame):
    """A picture file, and its first picture.

    Example:
        >>> from winml_py.winrt.windows.graphics.imaging import BitmapDecoder
        >>> from winml_py.winrt.windows.storage import FileAccessMode, StorageFile
        >>> file = StorageFile.get_file_from_path_async("samples/pictures/seven.png").get()
        >>> stream = file.open_async(FileAccessMode.READ).get()
        >>> decoder = BitmapDecoder.create_async(stream).get()
        >>> decoder.get_software_bitmap_async().get()
        <SoftwareBitmap GRAY8 200x200>
    """

    @classmethod
    def create_async(cls, stream: IRandomAccessStream, /) -> AsyncOperation[BitmapDecoder]:
        """Opens the picture file in a stream, from its start; the stream keeps its position."""
        if not isinstance(stream, IRandomAccessStream):
            raise InvalidArgumentError(
                f"Expected a stream, got {type_name(stream)}.",
                hint="Open one with await file.open_async(FileAccessMode.READ).",
            )
        return AsyncOperation(lambda _: cls(stream.clone_stream().read(), 0))

    @property
    def frame_count(self) -> int:
        """The number of pictures in the file, which is read to its end."""
        with self._open() as image:
            return int(getattr(image, "n_frames", 1))

    def get_frame_async(self, frame_index: int, /) -> AsyncOperation[BitmapFrame]:
        """One of the file's pictures."""
        return AsyncOperation(lambda _: BitmapFrame(self._data, frame_index))


# BitmapTransform: scaling, turning and cropping while reading or writing a file.


class BitmapInterpolationMode(IntEnum):
    """How pictures are scaled: Pillow's nearest, bilinear, bicubic and box filters, which antialias."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1
    CUBIC = 2
    FANT = 3


class BitmapFlip(IntEnum):
    """Whether a picture is mirrored, and how."""

    NONE = 0
    HORIZONTAL = 1
    VERTICAL = 2


class BitmapRotation(IntEnum):
    """The angle by which a picture is rotated."""

    NONE = 0
    CLOCKWISE90_DEGREES = 1
    CLOCKWISE180_DEGREES = 2
    CLOCKWISE270_DEGREES = 3


class BitmapTransform:
    """What to do to a picture, in this order: scale, flip, rotate, crop. Initially nothing.

    Attributes:
        scaled_width: pixels, before the rotation; 0 keeps the width.
        scaled_height: pixels, before the rotation; 0 keeps the height.
        interpolation_mode: how it is scaled.
        flip: whether it is mirrored.
        rotation: the angle by which it is rotated.
        bounds: the part to keep of the scaled and rotated picture; an empty one keeps all.
    """

    def __init__(self) -> None:
        self.scaled_width = 0
        self.scaled_height = 0
        self.interpolation_mode = BitmapInterpolationMode.NEAREST_NEIGHBOR
        self.flip = BitmapFlip.NONE
        self.rotation = BitmapRotation.NONE
        self.bounds = BitmapBounds(0, 0, 0, 0)


def _scale(image: Image, transform: BitmapTransform) -> Image:
    """The image in a transform's size."""
    from PIL.Image import Resampling

    mode = require_member(BitmapInterpolationMode, transform.interpolation_mode, "The interpolation mode")
    size = (int(transform.scaled_width) or image.width, int(transform.scaled_height) or image.height)
    if min(size) < 1:
        raise InvalidArgumentError(f"A picture cannot be scaled to {size[0]}x{size[1]}.")
    return image.resize(size, (Resampling.NEAREST, Resampling.BILINEAR, Resampling.BICUBIC, Resampling.BOX)[mode])


def _flip_and_rotate(image: Image, transform: BitmapTransform) -> Image:
    """The image mirrored, then rotated."""
    from PIL import ImageOps

    flip = require_member(BitmapFlip, transform.flip, "The flip")
    if flip != BitmapFlip.NONE:
        image = ImageOps.mirror(image) if flip == BitmapFlip.HORIZONTAL else ImageOps.flip(image)
    rotation = require_member(BitmapRotation, transform.rotation, "The rotation")
    return image.rotate(-90 * rotation, expand=True)  # Pillow rotates counterclockwise


def _crop(image: Image, transform: BitmapTransform) -> Image:
    """The part of the image inside a transform's bounds."""
    x, y, width, height = transform.bounds
    if (x, y, width, height) == (0, 0, 0, 0):
        return image
    if min(x, y) < 0 or min(width, height) < 1 or x + width > image.width or y + height > image.height:
        raise InvalidArgumentError(
            f"Bounds of {width}x{height} at ({x}, {y}) do not lie inside the {image.width}x{image.height} picture."
        )
    return image.crop((x, y, x + width, y + height))


# BitmapEncoder: from pixels to a picture file in a stream.


BitmapPropertySet = PropertySet


class BitmapTypedValue(NamedTuple):
    """A value and its type, as encoding options take them."""

    value: Any
    type: PropertyType


class BitmapEncoder:
    """A picture file to be written: set a bitmap, then await `flush_async`.

    Attributes:
        bitmap_transform: what is done to the picture before it is written.

    Example:
        >>> from winml_py import BitmapPixelFormat, SoftwareBitmap
        >>> from winml_py.winrt.windows.graphics.imaging import BitmapEncoder
        >>> from winml_py.winrt.windows.storage.streams import InMemoryRandomAccessStream
        >>> stream = InMemoryRandomAccessStream()
        >>> encoder = BitmapEncoder.create_async(BitmapEncoder.png_encoder_id, stream).get()
        >>> encoder.set_software_bitmap(SoftwareBitmap(BitmapPixelFormat.BGRA8, 4, 2))
        >>> encoder.flush_async().get()
        >>> stream.get_input_stream_at(1).read(3)
        b'PNG'
    """

    __slots__ = ("_bitmap", "_codec", "_options", "_stream", "bitmap_transform")

    bmp_encoder_id = UUID("69be8bb4-d66d-47c8-865a-ed1589433782")
    gif_encoder_id = UUID("114f5598-0b22-40a0-86a1-c83ea495adbd")
    jpeg_encoder_id = UUID("1a34f5c1-4a5a-46dc-b644-1f4567e7a676")
    png_encoder_id = UUID("27949969-876a-41d7-9447-568f6a35a4dc")
    tiff_encoder_id = UUID("0131be10-2001-4c5f-a9b0-cc88fab64ce8")

    def __init__(self, codec: str, stream: IRandomAccessStream, options: dict[str, Any]) -> None:
        """Use `create_async`."""
        self._codec = codec
        self._stream = stream
        self._options = options
        self._bitmap: SoftwareBitmap | None = None
        self.bitmap_transform = BitmapTransform()

    @classmethod
    def create_async(
        cls, encoder_id: UUID, stream: IRandomAccessStream, encoding_options: Mapping[str, Any] | None = None, /
    ) -> AsyncOperation[BitmapEncoder]:
        """An encoder that will write to a stream, from its start.

        Args:
            encoder_id: `png_encoder_id` or another of the class.
            stream: where to write to.
            encoding_options: `ImageQuality` of JPEG, from 0.0 to 1.0.
        """
        codec = _find_codec(encoder_id)
        return AsyncOperation(lambda _: cls(codec, stream, _read_options(codec, encoding_options)))

    create_with_encoding_options_async = create_async  # pywinrt 3's name

    def set_software_bitmap(self, bitmap: SoftwareBitmap, /) -> None:
        """Sets the picture to write: a copy is made."""
        self._bitmap = SoftwareBitmap.copy(bitmap)

    def set_pixel_data(
        self,
        pixel_format: BitmapPixelFormat,
        alpha_mode: BitmapAlphaMode,
        width: int,
        height: int,
        dpi_x: float,
        dpi_y: float,
        pixels: object,
        /,
    ) -> None:
        """Sets the picture to write: a copy of bytes, row after row."""
        bitmap = SoftwareBitmap.create_copy_from_buffer(pixels, pixel_format, width, height, alpha_mode)
        bitmap.dpi_x, bitmap.dpi_y = float(dpi_x), float(dpi_y)
        self._bitmap = bitmap

    def flush_async(self) -> AsyncOperation[None]:
        """Encodes the picture, and writes the whole file to the stream at once."""
        return AsyncOperation(lambda _: self._flush())

    def _flush(self) -> None:
        if self._bitmap is None:
            raise IllegalCallError("No bitmap was set for encoding.", hint="Call set_software_bitmap first.")
        bitmap = self._bitmap
        if bitmap.bitmap_alpha_mode == BitmapAlphaMode.PREMULTIPLIED:  # files do not hold premultiplied colours
            bitmap = SoftwareBitmap.convert(bitmap, bitmap.bitmap_pixel_format, BitmapAlphaMode.STRAIGHT)
        transform = self.bitmap_transform
        image = _crop(_flip_and_rotate(_scale(bitmap.to_pil(), transform), transform), transform)
        if bitmap.bitmap_alpha_mode == BitmapAlphaMode.IGNORE:
            image = image.convert("L" if image.mode == "L" else "RGB")
        # In memory first: if the encoder fails, the stream keeps its contents.
        file = io.BytesIO()
        codecs.encode(image, file, self._codec, dpi=(bitmap.dpi_x, bitmap.dpi_y), **self._options)
        self._stream.size = 0
        self._stream.seek(0)
        self._stream.write(file.getvalue())


_CODECS = {
    BitmapEncoder.bmp_encoder_id: "BMP",
    BitmapEncoder.gif_encoder_id: "GIF",
    BitmapEncoder.jpeg_encoder_id: "JPEG",
    BitmapEncoder.png_encoder_id: "PNG",
    BitmapEncoder.tiff_encoder_id: "TIFF",
}
"""The encoders by Pillow's names."""


def _find_codec(encoder_id: UUID) -> str:
    if encoder_id not in _CODECS:
        raise NotSupportedError(
            f"There is no encoder {encoder_id}.", hint="Use an id such as BitmapEncoder.png_encoder_id."
        )
    return _CODECS[encoder_id]


def _read_options(codec: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    options = {}
    for key, typed in (given or {}).items():
        if key != "ImageQuality" or codec != "JPEG":
            raise NotSupportedError(f"{codec} has no encoding option {key!r}.", hint="Use only ImageQuality, for JPEG.")
        quality = float(getattr(typed, "value", typed))
        if not 0 <= quality <= 1:
            raise InvalidArgumentError(f"Expected an ImageQuality from 0.0 to 1.0, got {quality}.")
        options["quality"] = round(quality * 100)
    return options
