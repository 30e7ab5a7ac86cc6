"""BitmapEncoder: from pixels to a picture file in a stream."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from .....core.base.async_operation import AsyncOperation
from .....core.base.collections import PropertySet
from .....core.imaging import codecs
from .....core.imaging.bitmap import SoftwareBitmap
from .....enums import BitmapAlphaMode, BitmapPixelFormat
from .....errors import IllegalCallError, InvalidArgumentError, NotSupportedError
from ...foundation import PropertyType
from ...storage.streams import IRandomAccessStream
from .decoder import BitmapTransform, crop, flip_and_rotate, scale

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
            raise IllegalCallError("There is nothing to encode.", hint="Call set_software_bitmap first.")
        bitmap = self._bitmap
        if bitmap.bitmap_alpha_mode == BitmapAlphaMode.PREMULTIPLIED:  # files do not hold premultiplied colours
            bitmap = SoftwareBitmap.convert(bitmap, bitmap.bitmap_pixel_format, BitmapAlphaMode.STRAIGHT)
        transform = self.bitmap_transform
        image = crop(flip_and_rotate(scale(bitmap.to_pil(), transform), transform), transform)
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
            f"There is no encoder {encoder_id}.", hint="Use one such as BitmapEncoder.png_encoder_id."
        )
    return _CODECS[encoder_id]


def _read_options(codec: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    options = {}
    for key, typed in (given or {}).items():
        if key != "ImageQuality" or codec != "JPEG":
            raise NotSupportedError(
                f"{codec} has no encoding option {key!r}.", hint="The only one is ImageQuality of JPEG."
            )
        quality = float(getattr(typed, "value", typed))
        if not 0 <= quality <= 1:
            raise InvalidArgumentError(f"Expected an ImageQuality from 0.0 to 1.0, got {quality}.")
        options["quality"] = round(quality * 100)
    return options
