"""Generated pictures: colours, ramps that carry coordinates, and texture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ...core.base.arrays import Array, Pixels, Size
from ...core.imaging.formats import GRAY_WEIGHTS, LUMA_WEIGHTS

SIZES: tuple[Size, ...] = (
    (300, 400), (400, 300), (320, 320), (480, 640), (701, 350), (97, 131), (150, 1000), (900, 200),
    (33, 47), (1500, 2100), (224, 224), (256, 257), (300, 9000), (3024, 4032),
)  # fmt: skip
"""Height and width: landscape, portrait, square, tiny, long, odd, large. Rules for sizes differ in at least one of
them. The last two exceed the limits of typical functions, for the longer side and for the shorter one."""

MAX_SIDE = 3000
"""The longest side, in pixels, of most pictures that a contract is proven on."""

LARGEST_SIZES: tuple[Size, ...] = ((3024, 4032), (4032, 3024), (700, 9000), (9000, 700))
"""Height and width of the largest pictures that a contract is proven on: a camera's, and long ones."""

LARGE = 2_000_000
"""Pixels: a larger picture repeats its texture, which is slow to generate."""

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
        part = make_texture((min(height, 997), min(width, 997)), rng, low, high)
        return np.tile(part, (-(-height // 997), -(-width // 997), 1))[:height, :width].copy()
    total = np.zeros((height, width, 3))
    for step, weight in ((1, 1.0), (3, 1.0), (9, 1.0)):
        rough = rng.random((-(-height // step) + 1, -(-width // step) + 1, 3))
        total += weight * rough.repeat(step, axis=0).repeat(step, axis=1)[:height, :width]
    return (low + (high - low) * total / 3).astype(np.uint8)


def make_fresh_pictures(count: int, seed: int, scaled_side: int) -> Iterator[Pixels]:
    """Pictures to prove a contract on: texture in all levels, of sizes that no probe had.

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
        named: the sides of the rule to prove: `int(side * scale)` loses a pixel at some sizes.
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
