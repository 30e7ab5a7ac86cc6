"""The codecs by WinRT's numbers (`wincodec.h`) and Pillow's names."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class BitmapCodecInformation(NamedTuple):
    """A codec: its number, its name, and the files it is for."""

    codec_id: UUID
    friendly_name: str
    mime_types: tuple[str, ...]
    file_extensions: tuple[str, ...]


class DecoderIds:
    """The numbers of the decoders, by Pillow's names."""

    __slots__ = ()

    bmp_decoder_id = UUID("6b462062-7cbf-400d-9fdb-813dd10f2778")
    gif_decoder_id = UUID("381dda3c-9ce9-4834-a23e-1f98f8fc52be")
    ico_decoder_id = UUID("c61bfcdf-2e0f-4aad-a8d7-e06bafebcdfe")
    jpeg_decoder_id = UUID("9456a480-e88b-43ea-9e73-0b2d9b71b1ca")
    png_decoder_id = UUID("389ea17b-5078-4cde-b6ef-25c15175c751")
    tiff_decoder_id = UUID("b54e85d9-fe23-499f-8b88-6acea713752b")
    webp_decoder_id = UUID("7693e886-51c9-4070-8419-9f70738ec8fa")


class EncoderIds:
    """The numbers of the encoders, by Pillow's names."""

    __slots__ = ()

    bmp_encoder_id = UUID("69be8bb4-d66d-47c8-865a-ed1589433782")
    gif_encoder_id = UUID("114f5598-0b22-40a0-86a1-c83ea495adbd")
    jpeg_encoder_id = UUID("1a34f5c1-4a5a-46dc-b644-1f4567e7a676")
    png_encoder_id = UUID("27949969-876a-41d7-9447-568f6a35a4dc")
    tiff_encoder_id = UUID("0131be10-2001-4c5f-a9b0-cc88fab64ce8")


_EXTENSIONS = {"JPEG": (".jpeg", ".jpg"), "TIFF": (".tiff", ".tif")}


def codecs_by_id(ids: type[DecoderIds] | type[EncoderIds]) -> dict[UUID, str]:
    """Pillow's name of each codec that has a number."""
    return {number: name.split("_")[0].upper() for name, number in vars(ids).items() if isinstance(number, UUID)}


def codec_information(name: str, ids: type[DecoderIds] | type[EncoderIds]) -> BitmapCodecInformation:
    """The facts about a codec; a codec without a number in WinRT has the number 0."""
    number = next((number for number, known in codecs_by_id(ids).items() if known == name), UUID(int=0))
    extensions = _EXTENSIONS.get(name, (f".{name.lower()}",))
    return BitmapCodecInformation(number, name, (f"image/{name.lower()}",), extensions)
