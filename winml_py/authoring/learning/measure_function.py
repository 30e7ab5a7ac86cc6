"""Measuring a function with probe pictures: its numbers, and where it places a picture in the tensor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.base.arrays import Array, Size
from ...core.imaging.contract import BitmapBounds
from ...core.imaging.pixels import GRAY_WEIGHTS, LUMA_WEIGHTS
from ...errors import NotSupportedError
from ..picture_function import PictureFunction
from .probe_images import COLOURS, GRAYS, SIZES, ColourMapping, make_plain_picture, make_ramp

EXACT = 0.02
"""Gray levels: the largest deviation of a colour's numbers from a straight line. Functions compute in float32."""

MIN_LEVELS = 20
"""The least levels of a ramp that determine a scale: a long picture's middle has too few, and a turned one none."""


class Area(NamedTuple):
    """For a picture size: its place and its scale.

    Attributes:
        picture: height and width of the picture.
        tensor: height and width of the tensor.
        target: the rectangle of the tensor with the picture; the rest is padding.
        scaled: height and width of the whole picture at this scale; NaN if too little is visible.
        offset: where the tensor's rectangle begins in that, down and across.
        padding: numbers of the padding, one per channel; None if there is none.
    """

    picture: Size
    tensor: Size
    target: BitmapBounds
    scaled: tuple[float, float]
    offset: tuple[float, float]
    padding: Array | None


Middle = tuple[slice, slice, slice]
"""The middle of the picture in a tensor of channels x height x width."""


def measure_colours(function: PictureFunction) -> ColourMapping:
    """How the levels of a colour become numbers, from pictures of one colour.

    Raises:
        NotSupportedError: not by one factor and summand per channel.
    """
    size = SIZES[0]
    middle = _find_middle(function, size)
    if middle is None:
        raise NotSupportedError(
            f"{function.name} returns the same values for every plain colour. It subtracts a value that depends on "
            "the picture, such as its mean, or equalises the picture.",
            hint="Bind the function's tensor, because in a contract each value depends only on its pixel.",
        )
    factors, summands = _measure_levels(function, size, middle)
    # Two levels side by side keep their numbers. A kernel that overshoots does so by less than a fifth of the edge.
    pixels = make_plain_picture(size, (100, 100, 100))
    pixels[:, size[1] // 2 :] = 150
    levels = ((function(pixels).numbers - summands[:, None, None]) / factors[:, None, None])[middle]
    if levels.min() < 85 or levels.max() > 165:
        raise NotSupportedError(
            f"{function.name} maps the adjacent levels 100 and 150 to {levels.min():.0f} and {levels.max():.0f}. It "
            "corrects each picture's contrast, or equalises it.",
            hint="Bind the function's tensor, because in a contract each value depends only on its pixel.",
        )
    weights = _measure_mix(function, size, middle, factors, summands)
    if len(weights) == 3 and np.abs(weights - np.round(weights)).max() < 0.004:
        order = tuple(int(index) for index in weights.argmax(axis=1))
        if sorted(order) == [0, 1, 2]:
            return ColourMapping(order, (), factors, summands)
    if len(weights) == 1 and min(np.abs(weights[0] - known).max() for known in (GRAY_WEIGHTS, LUMA_WEIGHTS)) < 0.01:
        return ColourMapping((), tuple(float(weight) for weight in weights[0]), factors, summands)
    raise NotSupportedError(
        f"{function.name} mixes the colours: its weights for red, green and blue are {np.round(weights, 3).tolist()}.",
        hint="Convert the picture. A contract supports unchanged red, green and blue, or gray by BT.601 or BT.709.",
    )


def _measure_levels(function: PictureFunction, size: Size, middle: Middle) -> tuple[Array, Array]:
    """The factor and the summand of each channel, from grays."""
    grays = np.array([_measure_colour(function, size, (level,) * 3, middle) for level in GRAYS])
    black, white = grays[0], grays[1]
    span = white - black
    if np.any(span == 0):
        raise NotSupportedError(f"{function.name} returns the same values for black and white in one channel.")
    deviations = (grays - black) / span * 255 - np.array(GRAYS, float)[:, None]
    if np.abs(deviations).max() > EXACT + _find_rounding(grays):
        raise NotSupportedError(
            f"{function.name} does not map levels to values linearly. It applies a gamma, a threshold or a contrast "
            "correction, or divides by the picture's largest value.",
            hint="Bind the function's tensor, because a contract supports only level * factor + summand.",
        )
    return span / 255, black


def _measure_mix(function: PictureFunction, size: Size, middle: Middle, factors: Array, summands: Array) -> Array:
    """The share of red, green and blue in each channel: channels x 3."""
    colours = np.array([_measure_colour(function, size, colour, middle) for colour in COLOURS])
    levels = (colours - summands) / factors  # colours x channels
    mix, *_ = np.linalg.lstsq(np.array(COLOURS, float), levels, rcond=None)
    if np.abs(np.array(COLOURS) @ mix - levels).max() > 1.01:
        raise NotSupportedError(
            f"{function.name} does not return weighted sums of red, green and blue, perhaps because of JPEG or a "
            "tone curve.",
            hint="Convert the picture first. A contract supports only unchanged red, green and blue, or gray.",
        )
    weights: Array = mix.T
    return weights


def _find_middle(function: PictureFunction, size: Size) -> Middle | None:
    """The middle of the picture in the tensor, away from padding; None if no number shows the colour."""
    answers = [function(make_plain_picture(size, (level,) * 3)).numbers for level in (0, 255, 128)]
    if len({answer.shape for answer in answers}) > 1:
        raise NotSupportedError(f"{function.name} returns tensors of different shapes for different colours.")
    shows = np.ptp(np.stack(answers), axis=0).max(axis=0) > 1e-6
    rows, columns = np.flatnonzero(shows.any(axis=1)), np.flatnonzero(shows.any(axis=0))
    if not rows.size:
        return None
    third_of_rows, third_of_columns = len(rows) // 3, len(columns) // 3
    return (
        slice(None),
        slice(int(rows[0]) + third_of_rows, int(rows[-1]) + 1 - third_of_rows),
        slice(int(columns[0]) + third_of_columns, int(columns[-1]) + 1 - third_of_columns),
    )


def _measure_colour(function: PictureFunction, size: Size, colour: tuple[int, int, int], middle: Middle) -> Array:
    """The numbers of a colour, one per channel."""
    numbers: Array = np.median(function(make_plain_picture(size, colour)).numbers[middle], axis=(1, 2))
    return numbers


def _find_rounding(numbers: Array) -> float:
    """Half a level if the numbers are whole, because they are rounded."""
    is_whole = np.abs(np.ptp(numbers, axis=0)).max() > 2 and not np.any(numbers % 1)
    return 0.51 if is_whole else 0.0


def measure_area(function: PictureFunction, size: Size, mapping: ColourMapping) -> Area:
    """Where a picture of a size goes in the tensor.

    Raises:
        NotSupportedError: not as a scaled rectangle of the picture in a rectangle of the tensor.
    """
    black, white = (function(make_plain_picture(size, (level,) * 3)) for level in (0, 255))
    name = f"{function.name}, for a {size[1]}x{size[0]} picture,"
    if black.numbers.shape != white.numbers.shape:
        raise NotSupportedError(f"{name} returns tensors of different shapes for black and white.")
    tensor = (black.numbers.shape[1], black.numbers.shape[2])
    shows = np.abs(mapping.to_levels(white.numbers) - mapping.to_levels(black.numbers)).min(axis=0) > 0.5
    rows, columns = np.flatnonzero(shows.any(axis=1)), np.flatnonzero(shows.any(axis=0))
    if not rows.size:
        raise NotSupportedError(f"{name} returns a tensor that does not depend on the picture.")
    target = BitmapBounds(int(columns[0]), int(rows[0]), int(columns[-1] - columns[0] + 1), int(rows[-1] - rows[0] + 1))
    inside = (slice(target.y, target.y + target.height), slice(target.x, target.x + target.width))
    if not shows[inside].all():
        raise NotSupportedError(f"{name} does not place the picture in a rectangle.")
    for level, answer in ((0, black), (255, white)):
        deviations = np.abs(mapping.to_levels(answer.numbers)[(slice(None), *inside)] - level)
        if deviations.max() > 1.01:
            raise NotSupportedError(
                f"{name} returns different values for the same colour in different places: it is random, or it pads "
                "before scaling, which blends the picture's edge with the padding.",
                hint="Bind the function's tensor, because in a contract each value depends only on its pixel.",
            )
    outside = ~shows
    padding = None
    if outside.any():
        paddings = black.numbers[:, outside]
        if np.ptp(paddings, axis=1).max() > 1e-5:
            raise NotSupportedError(f"{name} pads with more than one colour.")
        padding = paddings[:, 0]
    scaled, offset = [], []
    for axis in (0, 1):
        levels = mapping.to_levels(function(make_ramp(size, axis)).numbers)[(slice(None), *inside)].mean(axis=0)
        side, begin = _fit_ramp(levels.mean(axis=1 - axis), size[axis], name)
        scaled.append(side)
        offset.append(begin)
    return Area(size, tensor, target, (scaled[0], scaled[1]), (offset[0], offset[1]), padding)


def _fit_ramp(levels: Array, pixels: int, name: str) -> tuple[float, float]:
    """From the levels along a ramp: the scaled side of the whole picture, and where the rectangle begins in it."""
    # The ends of a scaled picture are flatter than the rest, because there is nothing beyond them.
    inner = np.flatnonzero((levels > 3) & (levels < 252))
    if inner.size < 6 or 1 < np.ptp(levels[inner]) < MIN_LEVELS:
        return np.nan, np.nan
    margin = min(3, (inner.size - 4) // 2)
    inner = inner[margin : inner.size - margin]
    coordinates = levels[inner] * (pixels - 1) / 255 + 0.5
    step, first = np.polyfit(inner + 0.5, coordinates, 1)
    if step <= 0:
        raise NotSupportedError(f"{name} mirrors or rotates the picture.", hint="Rotate pictures before you bind them.")
    if np.abs(np.polyval((step, first), inner + 0.5) - coordinates).max() > max(3.0, 3 * step, 0.02 * pixels):
        raise NotSupportedError(f"{name} distorts the picture: it scales coordinates unevenly.")
    return pixels / step, first / step
