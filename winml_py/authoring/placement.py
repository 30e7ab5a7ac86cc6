"""The rules of `imaging/geometry.py` as nodes of a graph: where a picture of any size goes in a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..core.imaging.contract import ImageContract
from ..core.imaging.scaling import ImageScaling, Size
from ..enums import ImageCropMode
from . import sizes
from .values import Operand, Value


class Rectangle(NamedTuple):
    """A rectangle, in pixels from the top left corner."""

    x: Operand
    y: Operand
    width: Value
    height: Value


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
    scaled: tuple[Value, Value]
    cut: Rectangle | None
    target: Rectangle | None
    tensor: tuple[Value, Value]
    is_cropped: bool = False


def graph_placement(
    width: Value, height: Value, tensor: tuple[int | None, int | None], contract: ImageContract
) -> GraphPlacement | None:
    """Where a picture goes: `compute_placement`. None where the picture keeps its size.

    Args:
        width: of the picture.
        height: of the picture.
        tensor: height and width of the tensor; None where nothing fixes them.
        contract: how pictures become numbers.
    """
    whole, scaling = Rectangle(0, 0, width, height), contract.scaling
    if tensor == (None, None) and scaling is None:
        return None
    high, wide = tensor
    if high is None or wide is None:
        return _free(whole, tensor, scaling or ImageScaling())
    if scaling is None:
        return _RULES[contract.crop_mode](whole, (high, wide))
    if scaling.crops_first:
        return _stretched(_square(whole, scaling), (high, wide), is_cropped=True)
    graph = width.graph
    return _anchored(
        whole, sizes.scaled(scaling, width, height, (high, wide)), (graph.of(high), graph.of(wide)), scaling
    )


def _free(whole: Rectangle, tensor: tuple[int | None, int | None], rule: ImageScaling) -> GraphPlacement:
    """Where at least one side of the tensor is free."""
    (high, wide), graph = tensor, whole.width.graph
    if rule.states_size or (wide is None and high is None):
        scaled = sizes.scaled(rule, whole.width, whole.height, None)
    elif high is not None:
        scaled = graph.of(high), sizes.followed(rule, whole.width * high / whole.height)
    else:
        scaled = sizes.followed(rule, whole.height * (wide or 1) / whole.width), graph.of(wide or 1)
    fixed = [graph.of(side) if side else sizes.padded(rule, own) for side, own in zip(tensor, scaled, strict=True)]
    return _anchored(whole, scaled, (fixed[0], fixed[1]), rule)


def _anchored(
    part: Rectangle, scaled: tuple[Value, Value], tensor: tuple[Value, Value], rule: ImageScaling
) -> GraphPlacement:
    """Crops what leaves the tensor, and pads where it is larger, along each axis."""
    y, x = (sizes.offset(rule, side, whole) for side, whole in zip(scaled, tensor, strict=True))
    height, width = (side.at_most(whole) for side, whole in zip(scaled, tensor, strict=True))
    cut = Rectangle(x.at_least(0), y.at_least(0), width, height)
    target = Rectangle((0 - x).at_least(0), (0 - y).at_least(0), width, height)
    return GraphPlacement(part, scaled, cut, target, tensor)


def _stretched(part: Rectangle, tensor: Size, is_cropped: bool = False) -> GraphPlacement:
    """The part becomes the whole tensor."""
    sides = part.width.graph.of(tensor[0]), part.width.graph.of(tensor[1])
    return GraphPlacement(part, sides, None, None, sides, is_cropped)


def _square(whole: Rectangle, rule: ImageScaling) -> Rectangle:
    """The middle of a picture, square."""
    side = (whole.width.at_most(whole.height) * float(rule.crop_ratio or 1)).cast(np.int64).at_least(1)
    return Rectangle((whole.width - side) // 2, (whole.height - side) // 2, side, side)


def _centred(whole: Rectangle, tensor: Size) -> GraphPlacement:
    """Windows ML's crop, in its float32 arithmetic: `center_crop`."""
    _, _, width, height = whole
    where = width.graph.where
    ratio = width.graph.constant(np.float32(tensor[1]) / np.float32(tensor[0]), np.float32)
    from_height, wide = ratio * height.cast(np.float32), width.cast(np.float32)
    narrower = (from_height + 0.5).cast(np.int64).at_most(width).at_least(1)
    lower = (wide / ratio + 0.5).cast(np.int64).at_most(height).at_least(1)
    is_wide = from_height < wide
    part_width, part_height = where(is_wide, narrower, width), where(is_wide, height, lower)
    part = Rectangle((width - part_width) // 2, (height - part_height) // 2, part_width, part_height)
    return _stretched(part, tensor, is_cropped=True)


def _letterboxed(whole: Rectangle, tensor: Size) -> GraphPlacement:
    """The whole picture in the middle of padding: `letterbox`."""
    high, wide = tensor
    graph = whole.width.graph
    scale = (wide / whole.width).at_most(high / whole.height)
    height, width = (
        (side * scale).apply("Round").cast(np.int64).at_least(1).at_most(limit)
        for side, limit in ((whole.height, high), (whole.width, wide))
    )
    target = Rectangle((wide - width) // 2, (high - height) // 2, width, height)
    return GraphPlacement(whole, (height, width), None, target, (graph.of(high), graph.of(wide)))


_RULES: dict[ImageCropMode, Callable[[Rectangle, Size], GraphPlacement]] = {
    ImageCropMode.CENTER: _centred,
    ImageCropMode.STRETCH: _stretched,
    ImageCropMode.LETTERBOX: _letterboxed,
}
