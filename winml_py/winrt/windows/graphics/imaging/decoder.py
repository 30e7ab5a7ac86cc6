"""BitmapDecoder and BitmapTransform: from a picture file in a stream to pixels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from .....core.base.arguments import require_member
from .....core.base.async_operation import AsyncOperation
from .....core.base.messages import type_name
from .....core.imaging import codecs
from .....core.imaging.bitmap import SoftwareBitmap
from .....core.imaging.geometry import BitmapBounds
from .....enums import BitmapAlphaMode, BitmapPixelFormat
from .....errors import InvalidArgumentError
from ....system import Array, UInt8
from ...storage.streams import IRandomAccessStream

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
            self._dpi = tuple(float(number) for number in image.info.get("dpi", (96.0, 96.0)))
            self._has_alpha = image.has_transparency_data
            self._is_gray = image.mode != "P" and len(image.getbands()) == 1
            self._orientation = codecs.read_orientation(image)
            self._frames = int(getattr(image, "n_frames", 1))

    @contextmanager
    def _open(self) -> Iterator[Image]:
        with codecs.open_picture(self._data) as (image, *_):
            try:
                image.seek(self._index)
            except EOFError:
                raise InvalidArgumentError(f"The file has no frame {self._index}.") from None
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
            image = scale(SoftwareBitmap.from_array(*codecs.read_stored_pixels(managed)).to_pil(), transform)
        if orientation == ExifOrientationMode.RESPECT_EXIF_ORIENTATION:
            image.getexif()[ExifTags.Base.Orientation] = self._orientation
            image = ImageOps.exif_transpose(image)
        decoded = codecs.read_stored_pixels(crop(flip_and_rotate(image, transform), transform))
        bitmap = SoftwareBitmap.from_array(*decoded, self.bitmap_alpha_mode)
        return SoftwareBitmap.convert(bitmap, pixel_format or self.bitmap_pixel_format, alpha_mode)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._codec} {self.pixel_width}x{self.pixel_height}>"


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
                hint="Open one: await file.open_async(FileAccessMode.READ).",
            )
        return AsyncOperation(lambda _: cls(stream.clone_stream().read(), 0))

    @property
    def frame_count(self) -> int:
        """The number of pictures in the file."""
        return self._frames

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


def scale(image: Image, transform: BitmapTransform) -> Image:
    """The image in a transform's size."""
    from PIL.Image import Resampling

    mode = require_member(BitmapInterpolationMode, transform.interpolation_mode, "The interpolation mode")
    size = (int(transform.scaled_width) or image.width, int(transform.scaled_height) or image.height)
    if min(size) < 1:
        raise InvalidArgumentError(f"A picture cannot be scaled to {size[0]}x{size[1]}.")
    return image.resize(size, (Resampling.NEAREST, Resampling.BILINEAR, Resampling.BICUBIC, Resampling.BOX)[mode])


def flip_and_rotate(image: Image, transform: BitmapTransform) -> Image:
    """The image mirrored, then rotated."""
    from PIL import ImageOps

    flip = require_member(BitmapFlip, transform.flip, "The flip")
    if flip != BitmapFlip.NONE:
        image = ImageOps.mirror(image) if flip == BitmapFlip.HORIZONTAL else ImageOps.flip(image)
    rotation = require_member(BitmapRotation, transform.rotation, "The rotation")
    return image.rotate(-90 * rotation, expand=True)  # Pillow rotates counterclockwise


def crop(image: Image, transform: BitmapTransform) -> Image:
    """The part of the image inside a transform's bounds."""
    x, y, width, height = transform.bounds
    if (x, y, width, height) == (0, 0, 0, 0):
        return image
    if min(x, y) < 0 or min(width, height) < 1 or x + width > image.width or y + height > image.height:
        raise InvalidArgumentError(
            f"Bounds of {width}x{height} at ({x}, {y}) do not lie inside the picture of {image.width}x{image.height}."
        )
    return image.crop((x, y, x + width, y + height))
