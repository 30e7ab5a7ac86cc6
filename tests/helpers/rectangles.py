"""Pictures of a red rectangle, which the models of `seeing_models` find, their contracts, and how boxes overlap."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image

from winml_py import BitmapPixelFormat, ImageContract, LearningModelPixelRange
from winml_py.scaling import Fit, Stretch

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
LETTERBOX = ImageContract(BitmapPixelFormat.RGB8, LearningModelPixelRange.ZERO_TO_ONE, scaling=Fit())
STRETCH = ImageContract(BitmapPixelFormat.RGB8, LearningModelPixelRange.ZERO_TO_ONE, scaling=Stretch())


def make_file(name: str) -> bytes:
    """A red rectangle on gray, stored as its EXIF turn says."""
    width, height, box, turn = PICTURES[name]
    image = Image.new("RGB", (width, height), (60, 60, 60))
    image.paste((250, 0, 0), box)
    exif = Image.Exif()
    exif[0x0112] = turn
    stored = image.transpose(_TURNED_BACK[turn]) if turn in _TURNED_BACK else image
    stored.save(file := io.BytesIO(), "PNG", exif=exif)
    return file.getvalue()


def overlap(first: Sequence[float], second: Sequence[float]) -> float:
    """The part of two boxes (left, top, right, bottom) that both cover."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    both = max(width, 0) * max(height, 0)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second))
    return float(both / (areas - both))
