"""What was found, drawn on the picture by Pillow."""

from __future__ import annotations

import colorsys
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..errors import InvalidArgumentError
from ..features.conversion import as_picture
from ..features.pictures import ImageFeatureValue

if TYPE_CHECKING:
    from .detections import Detections
    from .segmentation import Segmentation

Colour = tuple[int, int, int]
_GOLDEN = 0.618034  # steps of this share of the circle keep hues apart, however many there are
_SURE = 0.5
"""A point that the model is less sure of is not drawn."""


def draw_detections(found: Detections, picture: Any) -> Image.Image:
    """See `Detections.draw`."""
    image = _image(picture, found.picture_width, found.picture_height)
    colours = [_colour(index) for index in found.indices]
    if found.has_masks:
        for number, colour in reversed(list(enumerate(colours))):
            _tint(image, found.mask(number), colour)
    draw = ImageDraw.Draw(image)
    size = max(12, round(max(image.size) / 50))
    line, font = max(2, round(max(image.size) / 400)), ImageFont.load_default(size)
    for one, colour in reversed(list(zip(found, colours, strict=True))):  # the best on top
        draw.rectangle(tuple(one.box), outline=colour, width=line)
        for x, y, *sure in [] if one.points is None else one.points:
            if not sure or sure[0] >= _SURE:
                draw.circle((x, y), 2 * line, fill=colour, outline="white")
    for one, colour in reversed(list(zip(found, colours, strict=True))):
        _write(draw, f"{one.label or one.index} {one.score:.2f}", one.box, colour, font, image.size)
    return image


def draw_segmentation(found: Segmentation, picture: Any, background: int | None) -> Image.Image:
    """See `Segmentation.draw`."""
    height, width = found.classes.shape
    image = _image(picture, width, height)
    for index in found.shares:
        if index != background:
            _tint(image, found.mask(index), _colour(index))
    return image


def _image(picture: Any, width: int, height: int) -> Image.Image:
    """A copy of the picture in RGB, upright."""
    value = ImageFeatureValue.load(picture) if isinstance(picture, (str, bytes, os.PathLike)) else as_picture(picture)
    if value is None:
        raise InvalidArgumentError(
            f"{type(picture).__name__} is no picture that can be drawn on.",
            hint="Pass a path, a Pillow image, or ImageFeatureValue.from_array(array, pixel_format).",
        )
    image = value.to_pil().convert("RGB")
    if image.size != (width, height):
        raise InvalidArgumentError(
            f"The picture is {image.width}x{image.height}, and the one that was evaluated is {width}x{height}.",
            hint="Draw on the same picture.",
        )
    return image


def _colour(index: int) -> Colour:
    """The colour of a class: always the same, and unlike its neighbours'."""
    red, green, blue = colorsys.hsv_to_rgb(0.58 + index * _GOLDEN, 0.85, 0.9)
    return round(red * 255), round(green * 255), round(blue * 255)


def _tint(image: Image.Image, mask: np.ndarray[Any, Any], colour: Colour) -> None:
    image.paste(colour, mask=Image.fromarray(mask * np.uint8(115)))


def _write(draw: ImageDraw.ImageDraw, text: str, box: Any, colour: Colour, font: Any, size: tuple[int, int]) -> None:
    """The name above its box, or inside where there is no room; never out of the picture."""
    *_, right, bottom = draw.textbbox((0, 0), text, font=font)
    width, height = right + 6, bottom + 6
    x = min(max(0, box[0]), max(0, size[0] - width))
    y = box[1] - height if box[1] >= height else box[1]
    draw.rectangle((x, y, x + width, y + height), fill=colour)
    luma = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    draw.text((x + 3, y + 2), text, fill="black" if luma > 140 else "white", font=font)
