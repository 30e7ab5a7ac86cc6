"""Drawing on a picture, with Pillow."""

from __future__ import annotations

import colorsys
import os

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..core.base.arrays import Array
from ..core.base.messages import type_name
from ..core.features.pictures import ImageFeatureValue
from ..core.features.prepare import as_picture
from ..errors import InvalidArgumentError

Colour = tuple[int, int, int]
_GOLDEN = 0.618034  # steps of this share of the circle keep any number of hues apart
_SURE = 0.5
"""Points of a lower confidence are not drawn."""


class Drawing:
    """A copy of a picture in RGB, and what is drawn on it. Every class has a separate colour.

    Raises:
        InvalidArgumentError: it is not a picture, or not of the size of the one that was evaluated.
    """

    def __init__(self, picture: object, width: int, height: int) -> None:
        self.image = copy_picture(picture, width, height)
        self._draw = ImageDraw.Draw(self.image)
        longest = max(width, height)
        self._line = max(2, round(longest / 400))
        self._font = ImageFont.load_default(max(12, round(longest / 50)))

    def tint(self, mask: Array, index: int) -> None:
        """Colours the pixels where the mask is true."""
        self.image.paste(_choose_class_colour(index), mask=Image.fromarray(mask * np.uint8(115)))

    def outline(self, box: Array, index: int) -> None:
        """Draws a box."""
        self._draw.rectangle(tuple(box), outline=_choose_class_colour(index), width=self._line)

    def outline_corners(self, corners: Array, index: int) -> None:
        """Draws a quadrilateral, corners x 2."""
        self._draw.line([*map(tuple, corners), tuple(corners[0])], _choose_class_colour(index), self._line)

    def draw_points(self, points: Array, index: int) -> None:
        """Draws points of two or three numbers, if their confidence is high enough."""
        for x, y, *sure in points:
            if not sure or sure[0] >= _SURE:
                self._draw.circle((x, y), 2 * self._line, fill=_choose_class_colour(index), outline="white")

    def write(self, text: str, box: Array, index: int) -> None:
        """Writes a name above its box, or inside where there is no room; never outside the picture."""
        *_, right, bottom = self._draw.textbbox((0, 0), text, font=self._font)
        width, height, colour = right + 6, bottom + 6, _choose_class_colour(index)
        x = min(max(0, box[0]), max(0, self.image.width - width))
        y = box[1] - height if box[1] >= height else box[1]
        self._draw.rectangle((x, y, x + width, y + height), fill=colour)
        luma = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
        self._draw.text((x + 3, y + 2), text, fill="black" if luma > 140 else "white", font=self._font)


def copy_picture(picture: object, width: int, height: int) -> Image.Image:
    """A copy of the picture in RGB, upright."""
    value = ImageFeatureValue.load(picture) if isinstance(picture, (str, bytes, os.PathLike)) else as_picture(picture)
    if value is None:
        raise InvalidArgumentError(
            f"Expected the picture that was evaluated, got {type_name(picture)}.",
            hint="Pass a path, a Pillow image, or ImageFeatureValue.from_array(array, pixel_format).",
        )
    image = value.to_pil().convert("RGB")
    if image.size != (width, height):
        raise InvalidArgumentError(
            f"The picture is {image.width}x{image.height}, but the evaluated one is {width}x{height}."
        )
    return image


def _choose_class_colour(index: int) -> Colour:
    """The colour of a class: always the same, and different from its neighbours'."""
    red, green, blue = colorsys.hsv_to_rgb(0.58 + index * _GOLDEN, 0.85, 0.9)
    return round(red * 255), round(green * 255), round(blue * 255)
