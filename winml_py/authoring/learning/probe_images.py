"""Pictures to try a function with: colours, ramps that carry coordinates, texture, and a photograph."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import PIL.Image
from PIL import ImageEnhance, ImageFilter, ImageOps

from ..._examples import find_examples
from ...core.base.arrays import Array, Pixels, Size
from ...core.imaging.pixels import GRAY_WEIGHTS, LUMA_WEIGHTS

SIZES: tuple[Size, ...] = (
    (300, 400), (400, 300), (320, 320), (480, 640), (701, 350), (97, 131), (150, 1000), (900, 200),
    (33, 47), (1500, 2100), (224, 224), (256, 257), (300, 9000), (3024, 4032),
)  # fmt: skip
"""Height and width: landscape, portrait, square, tiny, long, odd, large. Rules for sizes differ in at least one of
them. The last two exceed the limits of typical functions, for the longer side and for the shorter one."""

MAX_SIDE = 3000
"""The longest side, in pixels, of most pictures that a contract is checked on."""

LARGEST_SIZES: tuple[Size, ...] = ((3024, 4032), (4032, 3024), (700, 9000), (9000, 700))
"""Height and width of the largest pictures that a contract is checked on: a camera's, and long ones."""

COMMON_SIZES: tuple[Size, ...] = (
    # data sets and models
    (28, 28), (32, 32), (64, 64), (96, 96), (128, 128), (192, 192), (224, 224), (256, 256), (299, 299), (300, 400),
    (320, 320), (384, 384), (416, 416), (480, 640),
    (512, 512), (640, 640), (768, 768), (1024, 1024), (333, 500), (375, 500), (426, 640), (427, 640), (683, 1024),
    # screens and videos
    (144, 176), (240, 320), (288, 352), (360, 640), (480, 720), (480, 854), (540, 960), (576, 720), (600, 800),
    (720, 1280), (768, 1024), (768, 1366), (800, 1280), (900, 1440), (900, 1600), (960, 1280), (1024, 1280),
    (1050, 1680), (1080, 1440), (1080, 1920), (1080, 2340), (1080, 2400), (1170, 2532), (1200, 1600), (1200, 1920),
    (1440, 2560), (1600, 2560), (1920, 1080), (2160, 3840), (2400, 1080),
    # cameras and scanners
    (1000, 1500), (1125, 2000), (1200, 1800), (1500, 2000), (1536, 2048), (1754, 1240), (1944, 2592), (2000, 3000),
    (2200, 1700), (2268, 4032), (2448, 3264), (3000, 4000), (4000, 3000),
)  # fmt: skip
"""Height and width of pictures as they come; smaller ones are also turned. Larger ones are in `LARGEST_SIZES`."""

LARGE = 250_000
"""Pixels: a larger picture repeats its texture, which is slow to generate."""

PERIOD = 499
"""The height and width of the repeated part: a prime, so that no kernel meets it in step."""

GRAYS = (0, 255, 128, 5, 31, 64, 100, 200, 254)
"""Some functions take a picture without a level above 1 for one with numbers from 0 to 1: none of these is."""
COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (10, 200, 90), (230, 40, 120))


def make_plain_picture(size: Size, colour: tuple[int, int, int]) -> Pixels:
    """A picture of one colour: height x width x RGB."""
    return np.full((*size, 3), colour, np.uint8)


def make_ramp(size: Size, axis: int) -> Pixels:
    """Gray from black to white along the height (0) or the width (1): its levels are coordinates."""
    levels = np.rint(np.linspace(0, 255, size[axis])).astype(np.uint8)
    plane = np.broadcast_to(levels[:, None] if axis == 0 else levels, size)
    return np.repeat(plane[..., None], 3, axis=2)


def make_texture(size: Size, rng: np.random.Generator, low: int = 48, high: int = 208) -> Pixels:
    """Noise of several scales, which shows the kernel. Its levels avoid both ends, where a kernel that overshoots would
    be cut off.
    """
    height, width = size
    if height * width > LARGE:
        part = make_texture((min(height, PERIOD), min(width, PERIOD)), rng, low, high)
        return np.tile(part, (-(-height // PERIOD), -(-width // PERIOD), 1))[:height, :width].copy()
    total = np.zeros((height, width, 3))
    for step, weight in ((1, 1.0), (3, 1.0), (9, 1.0)):
        rough = rng.random((-(-height // step) + 1, -(-width // step) + 1, 3))
        total += weight * rough.repeat(step, axis=0).repeat(step, axis=1)[:height, :width]
    return (low + (high - low) * total / 3).astype(np.uint8)


def make_fresh_pictures(count: int, seed: int, scaled_side: int) -> Iterator[Pixels]:
    """Pictures to check a contract on: texture in all levels, of sizes that no probe had.

    Args:
        count: how many.
        seed: the seed of sizes and pictures.
        scaled_side: the longer side, in pixels, that pictures are scaled to: some are larger, and shrink.
    """
    rng = np.random.default_rng(seed)
    for index in range(count):
        # Most pictures have hundreds of pixels; every seventh is tiny, every fifth is long, every eighth shrinks.
        longest = int(rng.integers(12, 60)) if index % 7 == 3 else int(rng.integers(120, 900))
        if index % 8 == 4:
            longest = min(MAX_SIDE, int(scaled_side * rng.uniform(1.1, 2.5)))
        ratio = float(rng.uniform(0.2, 0.4)) if index % 5 == 2 else float(rng.uniform(0.5, 1))
        shortest = max(8, int(longest * ratio))
        yield make_texture((shortest, longest) if rng.random() < 0.5 else (longest, shortest), rng, 0, 255)


def make_decisive_pictures(sides: Iterable[int], named: Iterable[int], seed: int) -> Iterator[Pixels]:
    """Pictures that reveal a function with a limit, or one that depends on a picture's content.

    Args:
        sides: the rules' sides: pictures are below, at and above each, with their longer and their shorter side.
        named: the sides of the rule to check: `int(side * scale)` loses a pixel at some sizes.
        seed: the seed of the pictures.
    """
    rng = np.random.default_rng(seed)
    for size in ((300, 400), (1250, 1000)):
        for low, high in ((0, 20), (0, 60), (235, 255), (190, 255), (120, 136), (90, 165)):
            yield make_texture(size, rng, low, high)
        yield np.repeat(make_texture(size, rng, 0, 255)[..., :1], 3, axis=2)
        halves = make_texture(size, rng, 0, 255)
        halves[:, : size[1] // 2] //= 16
        yield halves
        yield np.where(make_texture(size, rng, 0, 255) > 200, 0, 255).astype(np.uint8)
    sizes = [(40, 1000), (800, 31), (1000, 1360), (1900, 1500), *LARGEST_SIZES]
    for side in sides:
        sizes += [(side * 3 // 5, side - 1), (side, side * 3 // 5), (side * 3 // 5, side + 1)]
        sizes += [(side * 7 // 5, width) for width in (side - 1, side, side + 1)]
    for side in named:
        sizes += _find_inexact_sizes(side)
    largest = LARGEST_SIZES[0][0] * LARGEST_SIZES[0][1]
    for height, width in sorted(set(sizes), key=math.prod):
        if min(height, width) >= 8 and height * width <= largest:
            yield make_texture((height, width), rng, 0, 255)


def make_common_pictures(seed: int) -> Iterator[Pixels]:
    """Texture of the sizes that cameras, screens and data sets have, and of sizes between."""
    rng = np.random.default_rng(seed)
    between = [(int(side * rng.uniform(0.3, 0.5)), side) for side in range(1700, 4000, 270)]
    for height, width in (*COMMON_SIZES, *between):
        is_turned = height != width and height * width < 1_100_000
        for size in ((height, width), (width, height))[: 1 + is_turned]:
            yield make_texture(size, rng, 0, 255)


def make_contents(seed: int) -> Iterator[Pixels]:
    """A photograph, and what becomes of it: other light, colour, sharpness, noise, borders, a page, a drawing.

    A function may look at what is in a picture: at its mean, contrast, colour, noise, edges or borders.
    """
    rng = np.random.default_rng(seed)
    with PIL.Image.open(find_examples() / "samples" / "pictures" / "cat.jpg") as opened:
        photograph = opened.convert("RGB")
    yield from _make_variants(photograph, rng)
    yield from itertools.islice(
        _make_variants(photograph.resize((800, 600), PIL.Image.Resampling.BICUBIC), rng), 0, None, 3
    )
    colours = (0, 0, 0), (255, 255, 255), (128, 128, 128), (114, 114, 114), (20, 90, 200)
    yield from _make_bordered(np.asarray(photograph), colours, rng)
    yield from _make_bordered(make_texture((400, 300), rng, 20, 235), colours[:2], rng)


def _make_variants(image: PIL.Image.Image, rng: np.random.Generator) -> Iterator[Pixels]:
    pixels = np.asarray(image)
    yield pixels
    for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        for factor in (0.2, 0.5, 1.7, 3.0):
            yield np.asarray(enhance(image).enhance(factor))
    yield np.asarray(ImageOps.invert(image))
    yield pixels[..., ::-1].copy()
    yield pixels[..., [1, 0, 2]].copy()
    for radius in (1, 3, 12):
        yield np.asarray(image.filter(ImageFilter.GaussianBlur(radius)))
    yield np.asarray(image.filter(ImageFilter.UnsharpMask(2, 300)))
    for deviation in (3, 10, 30, 80):
        yield np.clip(pixels + rng.normal(0, deviation, pixels.shape), 0, 255).astype(np.uint8)
    for share in (0.01, 0.1):
        salt = rng.choice([0, 255], (*pixels.shape[:2], 1))
        yield np.where(rng.random(salt.shape) < share, salt, pixels).astype(np.uint8)
    yield np.asarray(ImageOps.posterize(image, 2))
    gray = np.asarray(image.convert("L"))
    for levels in (gray, np.where(gray > np.median(gray), 255, 0), np.where(gray > 60, 255, 20)):
        yield np.repeat(levels.astype(np.uint8)[..., None], 3, axis=2)
    for paper, ink in ((255, 0), (0, 255), (230, 90)):
        yield _make_page((pixels.shape[0], pixels.shape[1]), rng, paper, ink)


def _make_page(size: Size, rng: np.random.Generator, paper: int, ink: int) -> Pixels:
    """Lines of marks, as text has them, on a page with wide margins."""
    page = np.full((*size, 3), paper, np.uint8)
    for top in range(size[0] // 8, size[0] * 7 // 8, 16):
        marks = rng.random((9, size[1] * 3 // 4)) < 0.35
        page[top : top + 9, size[1] // 8 : size[1] // 8 + marks.shape[1]][marks[: len(page) - top]] = ink
    return page


def _make_bordered(
    pixels: Pixels, colours: Sequence[tuple[int, int, int]], rng: np.random.Generator
) -> Iterator[Pixels]:
    """A picture with borders of one colour, or nearly so: on all sides, above and below, left and right, or below."""
    height, width = pixels.shape[:2]
    everywhere, *others = (24, 24, 24, 24), (60, 60, 0, 0), (0, 0, 80, 80), (0, 40, 0, 0), (3, 2, 1, 4)
    for index, colour in enumerate(colours):
        for top, bottom, left, right in (everywhere, others[index % 4], others[(index + 1) % 4]):
            framed = np.full((height + top + bottom, width + left + right, 3), colour, np.uint8)
            framed[top : top + height, left : left + width] = pixels
            yield framed
            if left == 24:  # as in scans and JPEG files
                noisy = (framed + rng.integers(-8, 9, framed.shape)).clip(0, 255).astype(np.uint8)
                noisy[top : top + height, left : left + width] = pixels
                yield noisy


def _find_inexact_sizes(side: int) -> Iterator[Size]:
    """Sizes that a factor scales to whole pixels, and whose product in floating point is just below or just above."""
    for short_part, long_part in ((1, 1), (3, 4)):
        for parts in (range(side // long_part + 1, 3 * side), range(side // long_part - 1, side // 3, -1)):
            sizes: dict[bool, Size] = {}  # by whether the product is below the whole number
            for part in parts:
                short, long = short_part * part, long_part * part
                for divisor, multiplicand in ((long, short), (short, long)):
                    exact, remainder = divmod(multiplicand * side, divisor)
                    product = multiplicand * (side / divisor)
                    if not remainder and product != exact:
                        sizes.setdefault(product < exact, (short, long))
                if len(sizes) == 2:
                    break
            yield from sizes.values()


class ColourMapping(NamedTuple):
    """How levels become numbers: number = level * factor + summand, for each channel.

    Attributes:
        order: which of red, green and blue each channel is; empty if the channel is a gray.
        weights: of red, green and blue in the gray; empty if there is no gray.
        factors: one for each channel.
        summands: one for each channel.
    """

    order: tuple[int, ...]
    weights: tuple[float, ...]
    factors: Array
    summands: Array

    @property
    def is_luma(self) -> bool:
        """Whether gray is mixed as in Pillow and OpenCV."""
        return bool(self.weights) and abs(self.weights[0] - LUMA_WEIGHTS[0]) < abs(self.weights[0] - GRAY_WEIGHTS[0])

    def to_levels(self, numbers: Array) -> Array:
        """The levels of numbers, channels x height x width."""
        levels: Array = (numbers - self.summands[:, None, None]) / self.factors[:, None, None]
        return levels
