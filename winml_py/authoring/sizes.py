"""The rules of `ImageScaling` as nodes of a graph, for pictures of any size.

They are those of `imaging/scaling.py`, line by line, and in the same order: all divisions are float64 in both, so that
sizes are rounded alike.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.imaging.scaling import ImageScaling, Size
from ..enums import ImageAnchor, ImageRounding
from .values import Operand, Value

Sides = tuple[Operand, Operand]


def scaled(rule: ImageScaling, width: Value, height: Value, tensor: Size | None) -> tuple[Value, Value]:
    """Height and width that a picture is scaled to: `ImageScaling.scaled`."""
    graph = width.graph
    if rule.height is not None and rule.width is not None:
        if not rule.keeps_aspect:
            return graph.of(rule.height), graph.of(rule.width)
        scale = (rule.height / height).at_most(rule.width / width)
        high, wide = (_multiple(rule, rounded(side * scale, rule.rounding)) for side in (height, width))
        return high, wide
    sides = _sides(rule, width.at_most(height), width.at_least(height), tensor)
    short, long = (_multiple(rule, graph.of(side)) for side in sides)
    is_flat = height <= width
    return graph.where(is_flat, short, long), graph.where(is_flat, long, short)


def _sides(rule: ImageScaling, short: Value, long: Value, tensor: Size | None) -> Sides:
    """The shorter and the longer side, before they become multiples."""
    shortest, longest = rule.shortest_side, rule.longest_side
    if rule.crop_ratio is not None and tensor is None:
        rule.scaled(1, 1)  # raises: the ratio is of a size that nothing fixes
    elif rule.crop_ratio is not None and tensor is not None:
        shortest = math.floor(min(tensor) / rule.crop_ratio)
    if longest is None:
        followed = long * shortest if shortest else short * long
        return (shortest or short), rounded(followed / short, rule.rounding)
    if shortest is None:
        return rounded(short * longest / long, rule.rounding), longest
    return _limited(rule, short, long, shortest, longest)


def _limited(rule: ImageScaling, short: Value, long: Value, shortest: int, longest: int) -> Sides:
    """The shorter and the longer side where both are stated."""
    where = short.graph.where
    if rule.changes_least:
        by_long, by_short = longest / long, shortest / short
        scale = where(abs(1 - by_short) < abs(1 - by_long), by_short, by_long)
        return short * scale, long * scale
    followed = rounded(long * shortest / short, rule.rounding)
    if rule.limits_rounded:
        is_over = followed > longest
        limited = rounded(longest * shortest / followed, rule.rounding)
        return where(is_over, limited, shortest), where(is_over, longest, followed)
    exact = short * longest / long
    nearest = exact.apply("Round").cast(np.int64)
    from_exact = rounded(exact * long / short, rule.rounding)
    if rule.rounding is ImageRounding.DOWN:
        from_exact = where(nearest.equals(short), long, from_exact)
    fits = long * shortest <= short * longest
    return where(fits, shortest, nearest), where(fits, followed, from_exact)


def followed(rule: ImageScaling, side: Value) -> Value:
    """A side that follows the other one: `ImageScaling.followed`."""
    multiple = _to_multiple(rounded(side, rule.rounding), rule.multiple, rule.multiple_rounding)
    return multiple.at_most(rule.longest_side or (1 << 20)).at_least(1)


def padded(rule: ImageScaling, side: Value) -> Value:
    """The next multiple of `pad_multiple`."""
    return (side + (rule.pad_multiple - 1)) // rule.pad_multiple * rule.pad_multiple


def offset(rule: ImageScaling, scaled_side: Value, tensor: Value) -> Value:
    """Where the tensor begins in the scaled picture: `ImageScaling.offset`."""
    cropped = rounded((scaled_side - tensor) / 2, rule.crop_rounding)
    inside: Operand = 0
    if rule.anchor is not ImageAnchor.TOP_LEFT:
        inside = 0 - (tensor - scaled_side) // 2
    return scaled_side.graph.where(scaled_side >= tensor, cropped, inside)


def rounded(value: Value, rounding: ImageRounding) -> Value:
    """A whole number of a fraction."""
    match rounding:
        case ImageRounding.DOWN:
            whole = value.apply("Floor")
        case ImageRounding.UP:
            whole = value.apply("Ceil")
        case ImageRounding.HALF_UP:
            whole = (value + 0.5).apply("Floor")
        case _:
            whole = value.apply("Round")
    return whole.cast(np.int64)


def _multiple(rule: ImageScaling, side: Value) -> Value:
    return _to_multiple(side, rule.multiple, rule.multiple_rounding).at_least(1)


def _to_multiple(side: Value, multiple: int, rounding: ImageRounding) -> Value:
    if multiple == 1 and side.dtype is np.int64:
        return side
    return rounded(side / multiple, rounding) * multiple
