"""The placement of a picture in a tensor: which part of it is scaled to which size, and where it goes.

These rules use only operators, rounding, `choose`, `minimum` and `maximum`. So the sides of a picture can also be
values of a graph (`Expression`): the same rules then write the nodes of a built-in contract.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...enums import ImageAnchor, ImageCropMode, ImageRounding
from ...errors import InvalidArgumentError, InvalidBindingError
from ..base.arrays import Size
from .scaling import ImageScaling

T = TypeVar("T")

MAX_SCALED_PIXELS = 1 << 28
"""The most pixels that a picture may be scaled to; of a long thin one, most are cropped afterwards."""


class BitmapBounds(NamedTuple):
    """A rectangle of a picture, in pixels from its top left corner."""

    x: int = 0
    y: int = 0
    width: int = 0
    height: int = 0


class Placement(NamedTuple):
    """Which part of a picture goes to which part of the tensor: everything that the contract and the bounds decide.

    Attributes:
        part: the used rectangle of the picture, in its pixels.
        scaled: height and width that the part is scaled to.
        cut: the rectangle of the scaled part that remains.
        target: the rectangle of the tensor that `cut` goes to, of the same size.
        picture: height and width of the picture.
        tensor: height and width of the tensor.
    """

    part: BitmapBounds
    scaled: Size
    cut: BitmapBounds
    target: BitmapBounds
    picture: Size
    tensor: Size

    @property
    def is_identity(self) -> bool:
        """Whether nothing is cropped, scaled or padded."""
        return self.part == self.target and self.picture == self.tensor == self.scaled

    @property
    def has_padding(self) -> bool:
        """Whether the tensor has padding around the picture."""
        return (self.target.height, self.target.width) != self.tensor

    @property
    def shrink(self) -> tuple[float, float]:
        """The factors by which width and height shrink; less than 1 where they grow."""
        return self.part.width / self.scaled[1], self.part.height / self.scaled[0]

    @property
    def to_picture(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Along x and y, a factor and a summand: picture = tensor * factor + summand."""
        across, down = self.shrink
        left = self.part.x + across * (self.cut.x - self.target.x)
        top = self.part.y + down * (self.cut.y - self.target.y)
        return (across, left), (down, top)

    def reduce_to(self, width: int, height: int) -> Placement:
        """The same for a smaller copy of the picture: the part covers the same share of it."""
        across, down = width / self.picture[1], height / self.picture[0]
        left, top = round(self.part.x * across), round(self.part.y * down)
        right, bottom = round((self.part.x + self.part.width) * across), round((self.part.y + self.part.height) * down)
        part = BitmapBounds(left, top, max(1, right - left), max(1, bottom - top))
        return self._replace(part=part, picture=(height, width))


@lru_cache(maxsize=256)  # frames of a video, and pictures of a folder, mostly have one size
def compute_placement(
    width: int,
    height: int,
    tensor_width: int | None,
    tensor_height: int | None,
    mode: ImageCropMode,
    bounds: BitmapBounds | None = None,
    scaling: ImageScaling | None = None,
) -> Placement:
    """Decides where a picture goes in a tensor.

    Args:
        width: of the picture.
        height: of the picture.
        tensor_width: of the tensor; None where nothing fixes it.
        tensor_height: of the tensor; None where nothing fixes it. With one free side, the picture is scaled to the
            other, and its aspect ratio is kept; with two, the picture keeps its size, unless the scaling states one.
        mode: what happens where the aspect ratios differ.
        bounds: the part to use. If the mode crops, it is stretched and not cropped again, as in Windows ML; if the mode
            pads, it keeps its aspect ratio.
        scaling: the size that the part is scaled to, in place of the mode.

    Raises:
        InvalidBindingError: the bounds extend beyond the picture, or it would be scaled to more than 2**28 pixels.
        InvalidArgumentError: the scaling is relative to a size that nothing fixes.
    """
    if bounds is not None:
        require_inside(bounds, width, height)
    if tensor_width is None and tensor_height is None and scaling is None:
        tensor_height, tensor_width = height, width
    region = bounds or BitmapBounds(0, 0, width, height)
    placement = place(region, (height, width), tensor_width, tensor_height, mode, scaling)
    scaled_height, scaled_width = placement.scaled
    if scaled_height * scaled_width > max(MAX_SCALED_PIXELS, math.prod(placement.tensor)):
        raise InvalidBindingError(
            f"A picture of {width}x{height} would be scaled to {scaled_width}x{scaled_height} pixels.",
            hint="Bind a part of it with BitmapBounds, or state another scaling in the contract.",
        )
    # Bounds are the part, even where the mode would use less of them.
    return placement if bounds is None or scaling is not None else placement._replace(part=bounds)


def place(
    region: BitmapBounds,
    picture: Size,
    tensor_width: int | None,
    tensor_height: int | None,
    mode: ImageCropMode,
    scaling: ImageScaling | None,
) -> Placement:
    """Where a region of a picture goes, as numbers or as values of a graph; see `compute_placement`.

    The tensor has a stated side, or there is a scaling.
    """
    if tensor_width is not None and tensor_height is not None:
        tensor = (tensor_height, tensor_width)
        if scaling is None:
            part, target = _CROP_RULES[mode](region, _make_full_bounds(tensor))
            scaled = (target.height, target.width)
            return Placement(part, scaled, _make_full_bounds(scaled), target, picture, tensor)
        if scaling.crops_first:
            side = maximum(1, math.floor(minimum(region.width, region.height) * float(scaling.crop_ratio or 1)))
            x = region.x + (region.width - side) // 2
            y = region.y + (region.height - side) // 2
            full = _make_full_bounds(tensor)
            return Placement(BitmapBounds(x, y, side, side), tensor, full, full, picture, tensor)
        scaled = compute_scaled_size(scaling, region.width, region.height, tensor)
    else:
        scaling = scaling or ImageScaling()
        # A `longest_side` alone does not determine the size: it only limits the free side.
        states_size = any(size is not None for size in (scaling.height, scaling.shortest_side, scaling.crop_ratio))
        if states_size or (tensor_width is None and tensor_height is None):
            scaled = compute_scaled_size(scaling, region.width, region.height)
        elif tensor_height is not None:
            scaled = tensor_height, _round_free_side(scaling, region.width * tensor_height / region.height)
        else:
            scaled_width = tensor_width or 1
            scaled = _round_free_side(scaling, region.height * scaled_width / region.width), scaled_width
        tensor = (tensor_height or pad_side(scaling, scaled[0]), tensor_width or pad_side(scaling, scaled[1]))
    # Along each axis, what extends beyond the tensor is cropped, and what does not fill it is padded. An offset above 0
    # says how much is cropped before the tensor begins; one below 0, how much is padded before the picture begins.
    top = _compute_offset(scaling, scaled[0], tensor[0])
    left = _compute_offset(scaling, scaled[1], tensor[1])
    height = minimum(scaled[0], tensor[0])
    width = minimum(scaled[1], tensor[1])
    cut = BitmapBounds(maximum(0, left), maximum(0, top), width, height)
    target = BitmapBounds(maximum(0, -left), maximum(0, -top), width, height)
    return Placement(region, scaled, cut, target, picture, tensor)


def _make_full_bounds(size: Size) -> BitmapBounds:
    return BitmapBounds(0, 0, size[1], size[0])


def compute_center_crop(width: int, height: int, model_width: int, model_height: int) -> BitmapBounds:
    """The largest centred part of a picture that has the model's aspect ratio.

    Windows ML's rule (`CenterAndCropBounds` in `ImageFeatureValue.cpp`), in its float32 arithmetic: the size is rounded
    half up, the offset down, so an odd pixel remains on the right or below. The size is at least 1.

    Example:
        >>> compute_center_crop(1920, 1080, 224, 224)
        BitmapBounds(x=420, y=0, width=1080, height=1080)
    """
    ratio = np.float32(model_width) / np.float32(model_height)
    half = np.float32(0.5)
    fitting_width = to_float32(height) * ratio
    fitting_height = to_float32(width) / ratio
    is_wide = fitting_width < to_float32(width)
    part_width = choose(is_wide, maximum(1, minimum(math.floor(fitting_width + half), width)), width)
    part_height = choose(is_wide, height, maximum(1, minimum(math.floor(fitting_height + half), height)))
    return BitmapBounds((width - part_width) // 2, (height - part_height) // 2, part_width, part_height)


def compute_letterbox(width: int, height: int, model_width: int, model_height: int) -> BitmapBounds:
    """The centred rectangle of a tensor that a whole picture fills with its aspect ratio kept.

    Sizes are rounded half to even, as in Ultralytics' preprocessing; an odd remainder goes right and below.

    Example:
        >>> compute_letterbox(1920, 1080, 640, 640)
        BitmapBounds(x=0, y=140, width=640, height=360)
    """
    scale = minimum(model_width / width, model_height / height)
    inner_width = minimum(maximum(1, round(width * scale)), model_width)
    inner_height = minimum(maximum(1, round(height * scale)), model_height)
    return BitmapBounds((model_width - inner_width) // 2, (model_height - inner_height) // 2, inner_width, inner_height)


_CROP_RULES: dict[ImageCropMode, Callable[[BitmapBounds, BitmapBounds], tuple[BitmapBounds, BitmapBounds]]] = {
    ImageCropMode.CENTER: lambda region, tensor: (compute_center_crop(*region[2:], *tensor[2:]), tensor),
    ImageCropMode.STRETCH: lambda region, tensor: (region, tensor),
    ImageCropMode.LETTERBOX: lambda region, tensor: (region, compute_letterbox(*region[2:], *tensor[2:])),
}
"""Each mode's rule: from a region of the picture and the tensor's rectangle to the part that is used and the target. A
new mode needs a member of the enumeration, and a rule here. Its word in a model's metadata is the member's name."""


def require_inside(bounds: BitmapBounds, width: int, height: int) -> None:
    """Refuses a crop that is empty or extends beyond the picture: InvalidBindingError. Windows ML does not check."""
    x, y, crop_width, crop_height = bounds
    if min(x, y) < 0 or min(crop_width, crop_height) < 1 or x + crop_width > width or y + crop_height > height:
        raise InvalidBindingError(
            f"BitmapBounds of {crop_width}x{crop_height} at ({x}, {y}) do not lie inside the picture of "
            f"{width}x{height}.",
            hint="Expected x, y, width and height, in pixels of the picture.",
        )


# The size that a picture is scaled to where the contract states an `ImageScaling`, before it is cropped or padded.


def compute_scaled_size(scaling: ImageScaling, width: int, height: int, tensor: Size | None = None) -> Size:
    """The size that a picture, or its used part, is scaled to.

    Args:
        scaling: what the contract states.
        width: pixels.
        height: pixels.
        tensor: height and width of the tensor; `crop_ratio` needs it.

    Returns:
        Height and width in pixels, at least `multiple`.

    Example:
        >>> compute_scaled_size(ImageScaling(shortest_side=800, longest_side=1333), 300, 900)
        (1333, 444)
    """
    if scaling.height is not None and scaling.width is not None:
        if not scaling.keeps_aspect:
            return scaling.height, scaling.width
        scale = minimum(scaling.height / height, scaling.width / width)
        scale = choose(_allows_scale(scaling, scale), scale, 1.0)
        fitted_height = _round_to_multiple(scaling, _round(height * scale, scaling.rounding))
        fitted_width = _round_to_multiple(scaling, _round(width * scale, scaling.rounding))
        return fitted_height, fitted_width
    short, long = minimum(width, height), maximum(width, height)
    scaled_short, scaled_long = _compute_sides(scaling, short, long, tensor)
    is_allowed = _allows_scale(scaling, maximum(scaled_short / short, scaled_long / long))
    new_short = _round_to_multiple(scaling, choose(is_allowed, scaled_short, short))
    new_long = _round_to_multiple(scaling, choose(is_allowed, scaled_long, long))
    is_flat = height <= width
    return choose(is_flat, new_short, new_long), choose(is_flat, new_long, new_short)


def _allows_scale(scaling: ImageScaling, factor: float) -> bool:
    """Whether a picture may be scaled by this factor."""
    if not scaling.enlarges:
        return factor <= 1
    return scaling.shrinks or factor >= 1


def _compute_sides(scaling: ImageScaling, short: int, long: int, tensor: Size | None) -> tuple[float, float]:
    """The shorter and the longer side, before they become multiples."""
    shortest, longest = scaling.shortest_side, scaling.longest_side
    if scaling.crop_ratio is not None:
        if tensor is None:
            raise InvalidArgumentError(
                "A crop ratio needs the tensor's size, which nothing states.",
                hint="State a size: ImageContract(size=(224, 224)), or override the model's free sides.",
            )
        shortest = math.floor(min(tensor) / scaling.crop_ratio)
    if longest is None:
        shortest = shortest or short
        return shortest, _round(shortest * long / short, scaling.rounding)
    if shortest is None:
        return _round(longest * short / long, scaling.rounding), longest
    return _compute_limited_sides(scaling, short, long, shortest, longest)


def _compute_limited_sides(
    scaling: ImageScaling, short: int, long: int, shortest: int, longest: int
) -> tuple[float, float]:
    """The shorter and the longer side where both are stated."""
    if scaling.changes_least:
        by_short, by_long = shortest / short, longest / long
        scale = choose(abs(1 - by_short) < abs(1 - by_long), by_short, by_long)
        return short * scale, long * scale
    following_long = _round(shortest * long / short, scaling.rounding)
    if scaling.limits_rounded:
        is_over = following_long > longest
        limited_short = _round(longest * shortest / following_long, scaling.rounding)
        return choose(is_over, limited_short, shortest), choose(is_over, longest, following_long)
    # DETR's rule: the shorter side is rounded, and the longer one follows from the shorter one before rounding. DETR
    # keeps a picture whose shorter side is right already; ViLT and Detectron2, which round both half up, do not.
    exact_short = longest * short / long
    is_half_up = scaling.rounding is ImageRounding.HALF_UP
    limited_short = _round(exact_short, ImageRounding.HALF_UP if is_half_up else ImageRounding.HALF_EVEN)
    limited_long = _round(exact_short * long / short, scaling.rounding)
    if scaling.rounding is ImageRounding.DOWN:
        limited_long = choose(abs(limited_short - short) < 1, long, limited_long)
    fits = long * shortest <= longest * short
    return choose(fits, shortest, limited_short), choose(fits, following_long, limited_long)


def _round_to_multiple(scaling: ImageScaling, side: float) -> int:
    """The multiple that a side becomes, at least `multiple` itself."""
    count = _round(side / scaling.multiple if scaling.multiple > 1 else side, scaling.multiple_rounding)
    multiple: int = maximum(scaling.multiple, count * scaling.multiple)
    return multiple


def _round_free_side(scaling: ImageScaling, side: float) -> int:
    """A side that follows the other one: in whole pixels, a multiple, and at most `longest_side`."""
    rounded = _round_to_multiple(scaling, _round(side, scaling.rounding))
    limited: int = minimum(scaling.longest_side or (1 << 20), rounded)
    return limited


def pad_side(scaling: ImageScaling, side: int) -> int:
    """The next multiple of `pad_multiple`."""
    return (side + (scaling.pad_multiple - 1)) // scaling.pad_multiple * scaling.pad_multiple


def _compute_offset(scaling: ImageScaling, scaled: int, tensor: int) -> int:
    """Where the tensor begins in the scaled picture, along one axis; below 0 where the picture begins inside it."""
    padded_before = 0 if scaling.anchor is ImageAnchor.TOP_LEFT else (tensor - scaled) // 2
    cropped_before = _round((scaled - tensor) / 2, scaling.crop_rounding)
    return choose(scaled >= tensor, cropped_before, -padded_before)


def _round(value: float, rounding: ImageRounding) -> int:
    match rounding:
        case ImageRounding.DOWN:
            return math.floor(value)
        case ImageRounding.UP:
            return math.ceil(value)
        case ImageRounding.HALF_UP:
            return math.floor(value + 0.5)
    return round(value)


# The arithmetic of these rules, for numbers and for values of a graph (`core/onnx_file/expressions.py`).


_NUMBERS: Any = (int, float, np.generic)


def choose(condition: Any, if_true: T, if_false: T) -> T:
    """The one or the other number, by a condition that may be a value of a graph."""
    if isinstance(condition, _NUMBERS):
        return if_true if condition else if_false
    chosen: T = condition.graph.where(condition, if_true, if_false)
    return chosen


def minimum(first: Any, second: Any) -> Any:
    """The smaller of two numbers."""
    if isinstance(first, _NUMBERS):
        return min(first, second) if isinstance(second, _NUMBERS) else second.at_most(first)
    return first.at_most(second)


def maximum(first: Any, second: Any) -> Any:
    """The larger of two numbers."""
    if isinstance(first, _NUMBERS):
        return max(first, second) if isinstance(second, _NUMBERS) else second.at_least(first)
    return first.at_least(second)


def to_float32(number: Any) -> Any:
    """A number as float32."""
    return np.float32(number) if isinstance(number, _NUMBERS) else number.cast(np.float32)
