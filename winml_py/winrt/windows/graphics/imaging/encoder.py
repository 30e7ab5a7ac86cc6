"""BitmapEncoder: from pixels to a picture file in a stream."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from .....core.base.async_operation import AsyncOperation
from .....core.base.collections import PropertySet, Vector
from .....core.imaging import codecs
from .....core.imaging.bitmap import SoftwareBitmap
from .....enums import BitmapAlphaMode, BitmapPixelFormat
from .....errors import IllegalCallError, InvalidArgumentError, NotSupportedError
from ...foundation import PropertyType
from ...storage.streams import IRandomAccessStream
from .decoder import (
    BitmapCodecInformation,
    BitmapTransform,
    EncoderIds,
    all_codecs,
    codec_information,
    codecs_by_id,
    cropped,
    require_members,
    scaled,
    turned,
)

BitmapPropertySet = PropertySet


class BitmapTypedValue(NamedTuple):
    """A value and its type, as encoding options are given."""

    value: Any
    type: PropertyType


class BitmapEncoder(EncoderIds):
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

        Raises:
            NotSupportedError: there is no encoder of that number, or no such option.
        """
        return AsyncOperation(lambda _: cls(_codec(encoder_id), stream, _options(_codec(encoder_id), encoding_options)))

    create_with_encoding_options_async = create_async  # pywinrt 3's name

    @staticmethod
    def get_encoder_information_enumerator() -> Vector[BitmapCodecInformation]:
        """The kinds of files that it writes."""
        return all_codecs(EncoderIds)

    @property
    def encoder_information(self) -> BitmapCodecInformation:
        """What kind of file it writes."""
        return codec_information(self._codec, EncoderIds)

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
        """Sets the picture to write: a copy of bytes, row after row.

        Raises:
            InvalidArgumentError: fewer bytes than the picture has.
        """
        bitmap = SoftwareBitmap.create_copy_from_buffer(pixels, pixel_format, width, height, alpha_mode)
        bitmap.dpi_x, bitmap.dpi_y = float(dpi_x), float(dpi_y)
        self._bitmap = bitmap

    def flush_async(self) -> AsyncOperation[None]:
        """Encodes the picture, and writes the whole file to the stream at once.

        Raises:
            IllegalCallError: no picture was set; raised by the operation.
        """
        return AsyncOperation(lambda _: self._flush())

    def _flush(self) -> None:
        if self._bitmap is None:
            raise IllegalCallError("There is nothing to encode.", hint="Call set_software_bitmap first.")
        bitmap = self._bitmap
        require_members(self.bitmap_transform)
        if bitmap.bitmap_alpha_mode == BitmapAlphaMode.PREMULTIPLIED:  # no file holds colours times alpha
            bitmap = SoftwareBitmap.convert(bitmap, bitmap.bitmap_pixel_format, BitmapAlphaMode.STRAIGHT)
        transform = self.bitmap_transform
        image = cropped(turned(scaled(bitmap.to_pil(), transform), transform), transform)
        if bitmap.bitmap_alpha_mode == BitmapAlphaMode.IGNORE:
            image = image.convert("L" if image.mode == "L" else "RGB")
        # In memory first: where the encoder fails, the stream keeps what it had.
        file = io.BytesIO()
        codecs.encode(image, file, self._codec, dpi=(bitmap.dpi_x, bitmap.dpi_y), **self._options)
        self._stream.size = 0
        self._stream.seek(0)
        self._stream.write(file.getvalue())


def _codec(encoder_id: UUID) -> str:
    name = codecs_by_id(EncoderIds).get(encoder_id)
    if name is None:
        raise NotSupportedError(
            f"There is no encoder {encoder_id}.", hint="Use one such as BitmapEncoder.png_encoder_id."
        )
    return name


def _options(codec: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    options = {}
    for key, typed in (given or {}).items():
        if key != "ImageQuality" or codec != "JPEG":
            raise NotSupportedError(
                f"There is no encoding option {key!r} of {codec}.", hint="The only one is ImageQuality of JPEG."
            )
        quality = float(getattr(typed, "value", typed))
        if not 0 <= quality <= 1:
            raise InvalidArgumentError(f"ImageQuality is {quality}, and goes from 0.0 to 1.0.")
        options["quality"] = round(quality * 100)
    return options
