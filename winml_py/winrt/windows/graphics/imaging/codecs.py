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


DECODER_IDS = {
    "BMP": UUID("6b462062-7cbf-400d-9fdb-813dd10f2778"),
    "GIF": UUID("381dda3c-9ce9-4834-a23e-1f98f8fc52be"),
    "ICO": UUID("c61bfcdf-2e0f-4aad-a8d7-e06bafebcdfe"),
    "JPEG": UUID("9456a480-e88b-43ea-9e73-0b2d9b71b1ca"),
    "PNG": UUID("389ea17b-5078-4cde-b6ef-25c15175c751"),
    "TIFF": UUID("b54e85d9-fe23-499f-8b88-6acea713752b"),
    "WEBP": UUID("7693e886-51c9-4070-8419-9f70738ec8fa"),
}

ENCODER_IDS = {
    "BMP": UUID("69be8bb4-d66d-47c8-865a-ed1589433782"),
    "GIF": UUID("114f5598-0b22-40a0-86a1-c83ea495adbd"),
    "JPEG": UUID("1a34f5c1-4a5a-46dc-b644-1f4567e7a676"),
    "PNG": UUID("27949969-876a-41d7-9447-568f6a35a4dc"),
    "TIFF": UUID("0131be10-2001-4c5f-a9b0-cc88fab64ce8"),
}

_EXTENSIONS = {"JPEG": (".jpeg", ".jpg"), "TIFF": (".tiff", ".tif")}


def codec_information(name: str, ids: dict[str, UUID]) -> BitmapCodecInformation:
    """What is known of a codec; those that WinRT has no number for have the number 0."""
    extensions = _EXTENSIONS.get(name, (f".{name.lower()}",))
    return BitmapCodecInformation(ids.get(name, UUID(int=0)), name, (f"image/{name.lower()}",), extensions)
