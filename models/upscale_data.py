"""Pictures to learn enlarging from: drawn leaves over leaves, lines, text and textures, each with its half."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIDE = 128
_FINE = 4
"""Pictures are drawn this many times larger, and shrunk: their rims are smooth."""

_LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.,:;!?()+-=/&%  "))


def halved(picture: Image.Image, kernel: Image.Resampling = Image.Resampling.BICUBIC) -> Image.Image:
    """The picture with half its width and height, which are even."""
    return picture.resize((picture.width // 2, picture.height // 2), kernel)


def leaves(random: np.random.Generator) -> Image.Image:
    """Shapes of all sizes over each other, the small ones most often: edges as photographs have them."""
    side = SIDE * _FINE
    picture = _texture(random).resize((side, side), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(picture)
    for _ in range(int(random.integers(40, 600))):
        radius = side * 0.015 / math.sqrt(1 - random.uniform(0, 0.997))
        corners = int(random.choice([3, 4, 5, 7, 48]))
        angles = np.sort(random.uniform(0, 2 * math.pi, corners)) if corners < 48 else np.linspace(0, 2 * math.pi, 48)
        stretch = random.uniform(0.3, 1, 2)
        points = random.uniform(0, side, 2) + radius * stretch * np.stack([np.cos(angles), np.sin(angles)], 1)
        pen.polygon([tuple(point) for point in points], _colour(random))
    return _with_noise(random, _shrunk(picture), _texture(random))


def lines(random: np.random.Generator) -> Image.Image:
    """Lines, curves, rings and hatches, from thin to thick, on one colour."""
    side = SIDE * _FINE
    picture = Image.new("RGB", (side, side), _colour(random))
    pen = ImageDraw.Draw(picture)
    for _ in range(int(random.integers(4, 30))):
        colour, width = _colour(random), int(_FINE * random.uniform(0.7, 5))
        start = random.uniform(0, side, 2)
        kind = random.integers(4)
        if kind == 0:
            pen.line([tuple(start), tuple(random.uniform(0, side, 2))], colour, width)
        elif kind == 1:
            points = start + np.cumsum(random.normal(0, side / 12, (6, 2)), axis=0)
            pen.line([tuple(point) for point in points], colour, width, joint="curve")
        elif kind == 2:
            radius = random.uniform(side / 40, side / 4)
            pen.ellipse((*(start - radius), *(start + radius)), outline=colour, width=width)
        else:
            angle, reach = random.uniform(0, math.pi), side / 5
            along = np.array([math.cos(angle), math.sin(angle)])
            for step in range(int(random.integers(3, 8))):
                middle = start + along[::-1] * (1, -1) * step * width * random.uniform(2.2, 2.8)
                pen.line([tuple(middle - along * reach), tuple(middle + along * reach)], colour, width)
    return _shrunk(picture)


def text(random: np.random.Generator) -> Image.Image:
    """Rows of letters, upright or turned."""
    side = SIDE * _FINE
    ground, ink = _unlike(random)
    picture = Image.new("RGB", (side, side), ground)
    pen = ImageDraw.Draw(picture)
    top = float(random.uniform(-20, 20))
    while top < side:
        size = _FINE * float(random.uniform(7, 28))
        row = "".join(random.choice(_LETTERS, 40))
        pen.text((random.uniform(-side / 4, side / 4), top), row, ink, ImageFont.load_default(size))
        top += size * random.uniform(1.1, 1.6)
    if random.random() < 0.4:
        picture = picture.rotate(random.uniform(-45, 45), Image.Resampling.BICUBIC, fillcolor=ground)
    return _shrunk(picture)


def textures(random: np.random.Generator) -> Image.Image:
    """Noise of all scales, as fur, clouds and stones have it."""
    return _with_noise(random, _texture(random), _texture(random))


KINDS: dict[str, Callable[[np.random.Generator], Image.Image]] = {
    "leaves": leaves,
    "lines": lines,
    "text": text,
    "textures": textures,
}


def _colour(random: np.random.Generator) -> tuple[int, int, int]:
    """Of any brightness, and more often dull than bright."""
    levels = random.integers(0, 256) + random.normal(0, random.choice([5, 30, 100]), 3)
    red, green, blue = np.clip(np.rint(levels), 0, 255).astype(int).tolist()
    return red, green, blue


def _unlike(random: np.random.Generator) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Two colours of which one can be read on the other; often black on white."""
    if random.random() < 0.3:
        return (255, 255, 255), (0, 0, 0)
    while True:
        one, other = _colour(random), _colour(random)
        if sum(abs(a - b) for a, b in zip(one, other, strict=True)) > 200:
            return one, other


def _shrunk(picture: Image.Image) -> Image.Image:
    return picture.resize((SIDE, SIDE), Image.Resampling.BOX)


def _texture(random: np.random.Generator) -> Image.Image:
    """Noise whose power falls with its frequency, longer in one direction than in the other, between two colours."""
    down, across = np.meshgrid(np.fft.fftfreq(SIDE), np.fft.fftfreq(SIDE), indexing="ij")
    angle, stretch = random.uniform(0, math.pi), random.uniform(0.3, 1)
    u = across * math.cos(angle) + down * math.sin(angle)
    v = (down * math.cos(angle) - across * math.sin(angle)) * stretch
    falling = np.maximum(np.hypot(u, v), 1 / SIDE) ** -random.uniform(0.9, 2)
    noise = np.fft.ifft2(np.fft.fft2(random.normal(size=(SIDE, SIDE))) * falling).real
    share = np.clip(noise / noise.std() * 0.25 + 0.5, 0, 1)[:, :, None]
    one, other = (np.array(_colour(random)) for _ in range(2))
    return Image.fromarray(np.rint(one + (other - one) * share).astype(np.uint8))


def _with_noise(random: np.random.Generator, picture: Image.Image, noise: Image.Image) -> Image.Image:
    return Image.blend(picture, noise, float(random.uniform(0, 0.3)))
