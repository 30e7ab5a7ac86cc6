"""Pictures of a red rectangle, which the models of `seeing_models` find, and the contracts that these get them by."""

from __future__ import annotations

import io

from PIL import Image

from winml_py import BitmapPixelFormat, ImageContract, ImageCropMode, LearningModelPixelRange

PICTURES = {
    # width, height, the red rectangle (left, top, right, bottom), EXIF's turn
    "landscape": (480, 300, (60, 42, 243, 222), 1),
    "portrait": (300, 480, (33, 120, 252, 405), 1),
    "square": (320, 320, (1, 2, 319, 318), 1),
    "turned right": (480, 300, (60, 42, 243, 222), 6),
    "turned left": (300, 480, (33, 120, 252, 405), 8),
    "upside down": (480, 300, (60, 42, 243, 222), 3),
}
_TURNED_BACK = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
LETTERBOX = ImageContract(
    BitmapPixelFormat.RGB8, LearningModelPixelRange.ZERO_TO_ONE, crop_mode=ImageCropMode.LETTERBOX
)
STRETCH = ImageContract(BitmapPixelFormat.RGB8, LearningModelPixelRange.ZERO_TO_ONE, crop_mode=ImageCropMode.STRETCH)


def file_of(name: str) -> bytes:
    """A red rectangle on gray, stored as its EXIF turn says."""
    width, height, box, turn = PICTURES[name]
    image = Image.new("RGB", (width, height), (60, 60, 60))
    image.paste((250, 0, 0), box)
    exif = Image.Exif()
    exif[0x0112] = turn
    stored = image.transpose(_TURNED_BACK[turn]) if turn in _TURNED_BACK else image
    stored.save(file := io.BytesIO(), "PNG", exif=exif)
    return file.getvalue()
