"""Pictures of drawn shapes, with the box and the class of each, and a class for every pixel."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ("circle", "square", "triangle")
SIDE = 128
_FINE = 4
"""Shapes are drawn this many times larger, and shrunk: their rims are smooth."""


class Scene(NamedTuple):
    """A picture of shapes that do not touch.

    Attributes:
        picture: RGB.
        boxes: shapes x 4: left, top, right, bottom.
        classes: shapes: the index of each in `CLASSES`.
        mask: height x width: 0 for the ground, 1 and more for the classes.
    """

    picture: Image.Image
    boxes: np.ndarray
    classes: np.ndarray
    mask: np.ndarray


def scene(random: np.random.Generator, width: int = SIDE, height: int = SIDE) -> Scene:
    """Draws up to six shapes, of any colour, size and turn, on a ground of two colours and some noise."""
    size = (width * _FINE, height * _FINE)
    ground = _ground(random, width, height)
    picture, mask = ground.resize(size, Image.Resampling.BICUBIC), Image.new("L", size)
    boxes: list[tuple[float, float, float, float]] = []
    classes: list[int] = []
    colour_of_ground = np.asarray(ground).mean(axis=(0, 1))
    for _ in range(random.integers(1, 7)):
        index, points = _shape(random, min(width, height))
        reach = np.abs(points).max(axis=0)
        middle = random.uniform(reach + 1, np.array([width, height]) - reach - 1)
        corners = points + middle
        box = (*corners.min(axis=0), *corners.max(axis=0))
        if any(_touch(box, other) for other in boxes):
            continue
        colour = _unlike(random, colour_of_ground)
        outline = [tuple(point) for point in corners * _FINE]
        ImageDraw.Draw(picture).polygon(outline, fill=colour)
        ImageDraw.Draw(mask).polygon(outline, fill=index + 1)
        boxes.append(box)
        classes.append(index)
    small = picture.resize((width, height), Image.Resampling.BOX)
    noisy = np.asarray(small) + random.normal(0, random.uniform(0, 8), (height, width, 3))
    found = np.asarray(mask)[_FINE // 2 :: _FINE, _FINE // 2 :: _FINE]
    whole = Image.fromarray(np.clip(np.rint(noisy), 0, 255).astype(np.uint8))
    return Scene(whole, np.array(boxes, np.float32).reshape(-1, 4), np.array(classes, np.int64), found)


def _shape(random: np.random.Generator, side: int) -> tuple[int, np.ndarray]:
    """A class, and the corners of a shape around the origin."""
    index = int(random.integers(len(CLASSES)))
    corners = (48, 4, 3)[index]
    radius = side * random.uniform(0.08, 0.3)
    angles = random.uniform(0, 2 * math.pi) + np.arange(corners) * 2 * math.pi / corners
    return index, radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _touch(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    gap = 2
    return not (
        one[2] + gap < other[0] or other[2] + gap < one[0] or one[3] + gap < other[1] or other[3] + gap < one[1]
    )


def _unlike(random: np.random.Generator, colour: np.ndarray) -> tuple[int, int, int]:
    while True:
        found = random.integers(0, 256, 3)
        if np.abs(found - colour).sum() > 150:
            return int(found[0]), int(found[1]), int(found[2])


def _ground(random: np.random.Generator, width: int, height: int) -> Image.Image:
    first, last = random.integers(0, 256, 3), random.integers(0, 256, 3)
    last = first + (last - first) * 0.3
    slope = np.linspace(0, 1, width)[None, :, None] * random.uniform() + np.linspace(0, 1, height)[:, None, None] * 0.5
    return Image.fromarray(np.clip(first + (last - first) * slope, 0, 255).astype(np.uint8))
