"""The rules of `imaging/geometry.py` as nodes of a graph: where a picture of any size goes in a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..core.imaging.contract import ImageContract
from ..core.imaging.scaling import ImageScaling, Size
from ..core.onnx_file.expressions import Expression, Operand
from ..enums import ImageAnchor, ImageCropMode, ImageRounding


class Rectangle(NamedTuple):
    """A rectangle, in pixels from the top left corner."""

    x: Operand
    y: Operand
    width: Expression
    height: Expression


class GraphPlacement(NamedTuple):
    """What `Placement` is, with values of a graph for numbers.

    Attributes:
        part: the rectangle of the picture that is used.
        scaled: height and width that it is scaled to.
        cut: the rectangle of the scaled part that is left; None is all of it.
        target: the rectangle of the tensor that it goes to; None is all of it.
        tensor: height and width of the tensor.
        is_cropped: whether `part` may be less than the picture.
    """

    part: Rectangle
    scaled: tuple[Expression, Expression]
    cut: Rectangle | None
    target: Rectangle | None
    tensor: tuple[Expression, Expression]
    is_cropped: bool = False


def graph_placement(
    width: Expression, height: Expression, tensor: tuple[int | None, int | None], contract: ImageContract
) -> GraphPlacement | None:
    """Where a picture goes: `compute_placement`. None where the picture keeps its size.

    Args:
        width: of the picture.
        height: of the picture.
        tensor: height and width of the tensor; None where nothing fixes them.
        contract: how pictures become numbers.
    """
    picture, scaling = Rectangle(0, 0, width, height), contract.scaling
    if tensor == (None, None) and scaling is None:
        return None
    high, wide = tensor
    if high is None or wide is None:
        return _free(picture, tensor, scaling or ImageScaling())
    if scaling is None:
        return _RULES[contract.crop_mode](picture, (high, wide))
    if scaling.crops_first:
        return _stretch(_square(picture, scaling), (high, wide), is_cropped=True)
    graph = width.graph
    return _crop_or_pad(
        picture,
        scaled_size(scaling, width, height, (high, wide)),
        (graph.as_expression(high), graph.as_expression(wide)),
        scaling,
    )


def _free(picture: Rectangle, tensor: tuple[int | None, int | None], rule: ImageScaling) -> GraphPlacement:
    """Where at least one side of the tensor is free."""
    (high, wide), graph = tensor, picture.width.graph
    if rule.states_size or (wide is None and high is None):
        size = scaled_size(rule, picture.width, picture.height, None)
    elif high is not None:
        size = graph.as_expression(high), following_side(rule, picture.width * high / picture.height)
    else:
        size = following_side(rule, picture.height * (wide or 1) / picture.width), graph.as_expression(wide or 1)
    fixed = [
        graph.as_expression(side) if side else padded_side(rule, scaled_side)
        for side, scaled_side in zip(tensor, size, strict=True)
    ]
    return _crop_or_pad(picture, size, (fixed[0], fixed[1]), rule)


def _crop_or_pad(
    part: Rectangle, scaled: tuple[Expression, Expression], tensor: tuple[Expression, Expression], rule: ImageScaling
) -> GraphPlacement:
    """Crops what leaves the tensor, and pads where it is larger, along each axis."""
    y, x = (offset(rule, side, room) for side, room in zip(scaled, tensor, strict=True))
    height, width = (side.at_most(room) for side, room in zip(scaled, tensor, strict=True))
    cut = Rectangle(x.at_least(0), y.at_least(0), width, height)
    target = Rectangle((0 - x).at_least(0), (0 - y).at_least(0), width, height)
    return GraphPlacement(part, scaled, cut, target, tensor)


def _stretch(part: Rectangle, tensor: Size, is_cropped: bool = False) -> GraphPlacement:
    """The part becomes the whole tensor."""
    sides = part.width.graph.as_expression(tensor[0]), part.width.graph.as_expression(tensor[1])
    return GraphPlacement(part, sides, None, None, sides, is_cropped)


def _square(picture: Rectangle, rule: ImageScaling) -> Rectangle:
    """The middle of a picture, square."""
    side = (picture.width.at_most(picture.height) * float(rule.crop_ratio or 1)).cast(np.int64).at_least(1)
    return Rectangle((picture.width - side) // 2, (picture.height - side) // 2, side, side)


def _centre(picture: Rectangle, tensor: Size) -> GraphPlacement:
    """Windows ML's crop, in its float32 arithmetic: `center_crop`."""
    _, _, width, height = picture
    where = width.graph.where
    ratio = width.graph.constant(np.float32(tensor[1]) / np.float32(tensor[0]), np.float32)
    from_height, wide = ratio * height.cast(np.float32), width.cast(np.float32)
    narrower = (from_height + 0.5).cast(np.int64).at_most(width).at_least(1)
    lower = (wide / ratio + 0.5).cast(np.int64).at_most(height).at_least(1)
    is_wide = from_height < wide
    part_width, part_height = where(is_wide, narrower, width), where(is_wide, height, lower)
    part = Rectangle((width - part_width) // 2, (height - part_height) // 2, part_width, part_height)
    return _stretch(part, tensor, is_cropped=True)


def _letterbox(picture: Rectangle, tensor: Size) -> GraphPlacement:
    """The whole picture in the middle of padding: `letterbox`."""
    high, wide = tensor
    graph = picture.width.graph
    scale = (wide / picture.width).at_most(high / picture.height)
    height, width = (
        (side * scale).apply("Round").cast(np.int64).at_least(1).at_most(limit)
        for side, limit in ((picture.height, high), (picture.width, wide))
    )
    target = Rectangle((wide - width) // 2, (high - height) // 2, width, height)
    return GraphPlacement(
        picture, (height, width), None, target, (graph.as_expression(high), graph.as_expression(wide))
    )


_RULES: dict[ImageCropMode, Callable[[Rectangle, Size], GraphPlacement]] = {
    ImageCropMode.CENTER: _centre,
    ImageCropMode.STRETCH: _stretch,
    ImageCropMode.LETTERBOX: _letterbox,
}


# The rules of `ImageScaling` as nodes of a graph, for pictures of any size.
#
# They are those of `imaging/scaling.py`, line by line, and in the same order: all divisions are float64 in both, so
# that sizes are rounded alike.


Sides = tuple[Operand, Operand]


def scaled_size(
    rule: ImageScaling, width: Expression, height: Expression, tensor: Size | None
) -> tuple[Expression, Expression]:
    """Height and width that a picture is scaled to: `ImageScaling.scaled`."""
    graph = width.graph
    if rule.height is not None and rule.width is not None:
        if not rule.keeps_aspect:
            return graph.as_expression(rule.height), graph.as_expression(rule.width)
        scale = (rule.height / height).at_most(rule.width / width)
        if not rule.enlarges:
            scale = scale.at_most(1.0)
        if not rule.shrinks:
            scale = scale.at_least(1.0)
        high, wide = (_multiple(rule, round_to_whole(side * scale, rule.rounding)) for side in (height, width))
        return high, wide
    given = width.at_most(height), width.at_least(height)
    sides = _keep_size(rule, given, _sides(rule, *given, tensor))
    short, long = (_multiple(rule, graph.as_expression(side)) for side in sides)
    is_flat = height <= width
    return graph.where(is_flat, short, long), graph.where(is_flat, long, short)


def _keep_size(rule: ImageScaling, given: tuple[Expression, Expression], scaled: Sides) -> Sides:
    """The sides that the picture has, where it would be enlarged, or shrunk, and the rule says no."""
    if rule.enlarges and rule.shrinks:
        return scaled
    graph = given[0].graph
    whole = [graph.as_expression(side) for side in scaled]
    by_short, by_long = (after / before for after, before in zip(whole, given, strict=True))
    factor = by_short.at_least(by_long)
    keeps = factor > 1 if not rule.enlarges else factor < 1
    return graph.where(keeps, given[0], whole[0]), graph.where(keeps, given[1], whole[1])


def _sides(rule: ImageScaling, short: Expression, long: Expression, tensor: Size | None) -> Sides:
    """The shorter and the longer side, before they become multiples."""
    shortest, longest = rule.shortest_side, rule.longest_side
    if rule.crop_ratio is not None and tensor is None:
        rule.scaled(1, 1)  # raises: the ratio is of a size that nothing fixes
    elif rule.crop_ratio is not None and tensor is not None:
        shortest = math.floor(min(tensor) / rule.crop_ratio)
    if longest is None:
        followed = long * shortest if shortest else short * long
        return (shortest or short), round_to_whole(followed / short, rule.rounding)
    if shortest is None:
        return round_to_whole(short * longest / long, rule.rounding), longest
    return _limit_sides(rule, short, long, shortest, longest)


def _limit_sides(rule: ImageScaling, short: Expression, long: Expression, shortest: int, longest: int) -> Sides:
    """The shorter and the longer side where both are stated."""
    where = short.graph.where
    if rule.changes_least:
        by_long, by_short = longest / long, shortest / short
        scale = where(abs(1 - by_short) < abs(1 - by_long), by_short, by_long)
        return short * scale, long * scale
    followed = round_to_whole(long * shortest / short, rule.rounding)
    if rule.limits_rounded:
        is_over = followed > longest
        limited = round_to_whole(longest * shortest / followed, rule.rounding)
        return where(is_over, limited, shortest), where(is_over, longest, followed)
    exact = short * longest / long
    is_half_up = rule.rounding is ImageRounding.HALF_UP
    nearest = round_to_whole(exact, ImageRounding.HALF_UP if is_half_up else ImageRounding.HALF_EVEN)
    from_exact = round_to_whole(exact * long / short, rule.rounding)
    if rule.rounding is ImageRounding.DOWN:
        from_exact = where(nearest.equals(short), long, from_exact)
    fits = long * shortest <= short * longest
    return where(fits, shortest, nearest), where(fits, followed, from_exact)


def following_side(rule: ImageScaling, side: Expression) -> Expression:
    """A side that follows the other one: `ImageScaling.followed`."""
    multiple = _to_multiple(round_to_whole(side, rule.rounding), rule.multiple, rule.multiple_rounding)
    return multiple.at_most(rule.longest_side or (1 << 20)).at_least(1)


def padded_side(rule: ImageScaling, side: Expression) -> Expression:
    """The next multiple of `pad_multiple`."""
    return (side + (rule.pad_multiple - 1)) // rule.pad_multiple * rule.pad_multiple


def offset(rule: ImageScaling, scaled_side: Expression, tensor: Expression) -> Expression:
    """Where the tensor begins in the scaled picture: `ImageScaling.offset`."""
    cropped = round_to_whole((scaled_side - tensor) / 2, rule.crop_rounding)
    inside: Operand = 0
    if rule.anchor is not ImageAnchor.TOP_LEFT:
        inside = 0 - (tensor - scaled_side) // 2
    return scaled_side.graph.where(scaled_side >= tensor, cropped, inside)


def round_to_whole(value: Expression, rounding: ImageRounding) -> Expression:
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


def _multiple(rule: ImageScaling, side: Expression) -> Expression:
    return _to_multiple(side, rule.multiple, rule.multiple_rounding).at_least(rule.multiple)


def _to_multiple(side: Expression, multiple: int, rounding: ImageRounding) -> Expression:
    if multiple == 1 and side.dtype is np.int64:
        return side
    return round_to_whole(side / multiple, rounding) * multiple
