"""The placement of a picture in a tensor: which part of it is scaled to which size, and where it goes.

These rules use only operators, rounding, `choose`, `minimum` and `maximum`. So the sides of a picture can also be
values of a graph (`Expression`): the same rules then write the nodes of a built-in contract.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...enums import ImageAnchor, ImageCropMode, ImageRounding
from ...errors import InvalidArgumentError, InvalidBindingError
from ..base.arguments import require_bool, require_member, require_whole_number
from ..base.arrays import Size

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
    (rows, columns), tensor = placement.scaled, placement.tensor
    if rows * columns > max(MAX_SCALED_PIXELS, tensor[0] * tensor[1]):
        raise InvalidBindingError(
            f"A picture of {width}x{height} would be scaled to {columns}x{rows} pixels.",
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
            x, y = region.x + (region.width - side) // 2, region.y + (region.height - side) // 2
            full = _make_full_bounds(tensor)
            return Placement(BitmapBounds(x, y, side, side), tensor, full, full, picture, tensor)
        scaled = scaling.compute_size(region.width, region.height, tensor)
    else:
        scaling = scaling or ImageScaling()
        if scaling.states_size or (tensor_width is None and tensor_height is None):
            scaled = scaling.compute_size(region.width, region.height)
        elif tensor_height is not None:
            scaled = tensor_height, scaling.round_side(region.width * tensor_height / region.height)
        else:
            wide = tensor_width or 1
            scaled = scaling.round_side(region.height * wide / region.width), wide
        tensor = (tensor_height or scaling.pad_side(scaled[0]), tensor_width or scaling.pad_side(scaled[1]))
    # Along each axis, what extends beyond the tensor is cropped, and the rest is padded.
    top, left = (scaling.compute_offset(side, room) for side, room in zip(scaled, tensor, strict=True))
    height, width = (minimum(side, room) for side, room in zip(scaled, tensor, strict=True))
    cut = BitmapBounds(maximum(0, left), maximum(0, top), width, height)  # an offset below 0 is room before the picture
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
    ratio, half = np.float32(model_width) / np.float32(model_height), np.float32(0.5)
    from_height = to_float32(height) * ratio
    narrow = maximum(1, minimum(math.floor(from_height + half), width))
    low = maximum(1, minimum(math.floor(to_float32(width) / ratio + half), height))
    is_wide = from_height < to_float32(width)
    part_width, part_height = choose(is_wide, narrow, width), choose(is_wide, height, low)
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
    ImageCropMode.CENTER: lambda given, tensor: (compute_center_crop(*given[2:], *tensor[2:]), tensor),
    ImageCropMode.STRETCH: lambda given, tensor: (given, tensor),
    ImageCropMode.LETTERBOX: lambda given, tensor: (given, compute_letterbox(*given[2:], *tensor[2:])),
}
"""Each mode's rule, from the given rectangle and that of the tensor to the part and the target. A new mode needs a
member of the enumeration, and a rule here. Its word in a model's metadata is the member's name."""


def require_inside(bounds: BitmapBounds, width: int, height: int) -> None:
    """Refuses a crop that is empty or extends beyond the picture: InvalidBindingError. Windows ML does not check."""
    x, y, crop_width, crop_height = bounds
    if min(x, y) < 0 or min(crop_width, crop_height) < 1 or x + crop_width > width or y + crop_height > height:
        raise InvalidBindingError(
            f"BitmapBounds of {crop_width}x{crop_height} at ({x}, {y}) do not lie inside the picture of "
            f"{width}x{height}.",
            hint="Expected x, y, width and height, in pixels of the picture.",
        )


# ImageScaling: the size that a picture is scaled to before it is cropped, or padded, to the size of the tensor.


@dataclass(frozen=True, slots=True)
class ImageScaling:
    """The size that a picture is scaled to. A result larger than the tensor is cropped from the middle; a smaller one
    is padded.

    Torchvision's, Hugging Face's and timm's pipelines scale by the shorter side and crop afterwards; detectors limit
    the longer side and pad. State one of: `height` and `width`; `shortest_side`, `longest_side` or both; `crop_ratio`.
    Without any of them, a picture keeps its size.

    Attributes:
        height: pixels; the picture is stretched to `height` and `width`, at any aspect ratio.
        width: pixels; see `height`.
        keeps_aspect: with `height` and `width`: the picture keeps its aspect ratio, and becomes as large as fits.
        shortest_side: pixels of the shorter side; the other follows.
        longest_side: pixels of the longer side. With `shortest_side`, the limit, at which the shorter one
            follows (DETR).
        crop_ratio: the shorter side becomes that of the tensor divided by this, rounded down; 0.875 is 224 of 256.
        crops_first: with `crop_ratio`: a square from the middle of the picture, `crop_ratio` of its shorter side, is
            cropped first, and then scaled (Perceiver).
        changes_least: with both sides: the rule that changes the picture less is used (Depth Anything). Nothing is
            rounded before the sides become multiples.
        limits_rounded: with both sides: `longest_side` limits the rounded side (torchvision's `max_size`, MaskFormer)
            instead of the exact one (DETR), and the shorter side is rounded as `rounding` says.
        enlarges: False keeps the size of a picture that would become larger (PaddleOCR's limit of the longer side).
        shrinks: False keeps the size of a picture that would become smaller (RapidOCR's least shorter side).
        rounding: how the side that follows is rounded.
        multiple: both sides become multiples of this.
        multiple_rounding: how a side is rounded to a multiple.
        crop_rounding: for the crop's offset: `DOWN` in Hugging Face's processors, `HALF_EVEN` in torchvision and timm.
        pad_multiple: a side that nothing fixes becomes the next multiple of this, by padding (the stride of detectors).
        anchor: where the picture lies in the padding.

    Raises:
        InvalidArgumentError: more than one way, or invalid numbers.

    Example:
        >>> from winml_py import ImageScaling
        >>> ImageScaling(shortest_side=256).compute_size(451, 300)
        (256, 384)
        >>> ImageScaling(shortest_side=800, longest_side=1333).compute_size(300, 900)
        (1333, 444)
    """

    height: int | None = None
    width: int | None = None
    keeps_aspect: bool = False
    shortest_side: int | None = None
    longest_side: int | None = None
    crop_ratio: float | None = None
    crops_first: bool = False
    changes_least: bool = False
    limits_rounded: bool = False
    enlarges: bool = True
    shrinks: bool = True
    rounding: ImageRounding = ImageRounding.DOWN
    multiple: int = 1
    multiple_rounding: ImageRounding = ImageRounding.DOWN
    crop_rounding: ImageRounding = ImageRounding.DOWN
    pad_multiple: int = 1
    anchor: ImageAnchor = ImageAnchor.CENTER

    def __post_init__(self) -> None:
        for field in fields(self):
            default, value = field.default, getattr(self, field.name)
            what = f"The {field.name} of a scaling"
            if isinstance(default, bool):
                value = require_bool(value, what)
            elif isinstance(default, IntEnum):
                value = require_member(type(default), value, what)
            elif value is None and default is None:
                continue
            elif field.name == "crop_ratio":
                value = _require_crop_ratio(value)
            else:
                value = require_whole_number(value, what, 1, 1 << 20)
            object.__setattr__(self, field.name, value)
        has_sides = self.shortest_side is not None or self.longest_side is not None
        ways = (self.height is not None or self.width is not None, has_sides, self.crop_ratio is not None)
        if sum(ways) > 1 or (self.height is None) != (self.width is None):
            raise InvalidArgumentError(
                f"More than one size is stated, or half of one: {self}.",
                hint="State height and width, or shortest_side and longest_side, or crop_ratio.",
            )
        if self.changes_least and self.limits_rounded:
            raise InvalidArgumentError("changes_least excludes limits_rounded.", hint="State one of them.")
        if not self.enlarges and not self.shrinks:
            raise InvalidArgumentError(
                "A scaling that cannot enlarge or shrink does nothing.", hint="Write ImageScaling(), without a side."
            )
        has_both = self.shortest_side is not None and self.longest_side is not None
        for name, is_used, has_size, needed in (
            ("crops_first", self.crops_first, self.crop_ratio is not None, "a crop_ratio"),
            ("keeps_aspect", self.keeps_aspect, self.height is not None, "height and width"),
            ("changes_least", self.changes_least, has_both, "shortest_side and longest_side"),
            ("limits_rounded", self.limits_rounded, has_both, "shortest_side and longest_side"),
            ("enlarges", not self.enlarges, has_sides or self.keeps_aspect, "a side"),
            ("shrinks", not self.shrinks, has_sides or self.keeps_aspect, "a side"),
        ):
            if is_used and not has_size:
                raise InvalidArgumentError(f"A scaling with {name} needs {needed}.")

    def __str__(self) -> str:
        words = self.to_text().replace("=", " ").replace(",", ", ")
        return f"scaling ({words})" if words else "no scaling"

    def to_text(self) -> str:
        """The fields that differ from their defaults, as a model's metadata hold them: `shortest_side=256,...`."""
        pairs = ((field, getattr(self, field.name)) for field in fields(self))
        stated = {field.name: value for field, value in pairs if value != field.default}
        words = (value.name.lower() if isinstance(value, IntEnum) else value for value in stated.values())
        return ",".join(map("{}={}".format, stated, words))

    @classmethod
    def from_text(cls, text: str) -> ImageScaling:
        """Reads what `to_text` writes."""
        defaults: dict[str, Any] = {field.name: field.default for field in fields(cls)}
        values: dict[str, Any] = {}
        try:
            for name, _, word in (part.partition("=") for part in text.split(",") if part):
                enum = type(defaults[name])
                values[name] = enum[word.upper()] if issubclass(enum, IntEnum) else json.loads(word.lower())
            return cls(**values)
        except (KeyError, ValueError, RecursionError):
            raise InvalidArgumentError(
                f"The model's metadata say Image.Scaling is {text!r}.", hint=f"Fields: {', '.join(defaults)}."
            ) from None

    def compute_size(self, width: int, height: int, tensor: Size | None = None) -> Size:
        """The size that a picture, or its used part, is scaled to.

        Args:
            width: pixels.
            height: pixels.
            tensor: height and width of the tensor; `crop_ratio` needs it.

        Returns:
            Height and width in pixels, at least `multiple`.
        """
        if self.height is not None and self.width is not None:
            if not self.keeps_aspect:
                return self.height, self.width
            scale = minimum(self.height / height, self.width / width)
            scale = choose(self._may_scale(scale), scale, 1.0)
            fitted_height = self._round_to_multiple(_round(height * scale, self.rounding))
            fitted_width = self._round_to_multiple(_round(width * scale, self.rounding))
            return maximum(self.multiple, fitted_height), maximum(self.multiple, fitted_width)
        sides = minimum(width, height), maximum(width, height)
        scaled = self._compute_sides(*sides, tensor)
        may_scale = self._may_scale(maximum(scaled[0] / sides[0], scaled[1] / sides[1]))
        chosen = (self._round_to_multiple(choose(may_scale, *pair)) for pair in zip(scaled, sides, strict=True))
        short, long = (maximum(self.multiple, side) for side in chosen)
        is_flat = height <= width
        return choose(is_flat, short, long), choose(is_flat, long, short)

    def _may_scale(self, factor: float) -> bool:
        """Whether a picture may be scaled by this factor."""
        if not self.enlarges:
            return factor <= 1
        return self.shrinks or factor >= 1

    def _compute_sides(self, short: int, long: int, tensor: Size | None) -> tuple[float, float]:
        """The shorter and the longer side, before they become multiples."""
        shortest, longest = self.shortest_side, self.longest_side
        if self.crop_ratio is not None:
            if tensor is None:
                raise InvalidArgumentError(
                    "A crop ratio needs the tensor's size, which nothing states.",
                    hint="State a size: ImageContract(size=(224, 224)), or override the model's free sides.",
                )
            shortest = math.floor(min(tensor) / self.crop_ratio)
        if longest is None:
            return (shortest or short), _round((shortest or short) * long / short, self.rounding)
        if shortest is None:
            return _round(longest * short / long, self.rounding), longest
        return self._compute_limited_sides(short, long, shortest, longest)

    def _compute_limited_sides(self, short: int, long: int, shortest: int, longest: int) -> tuple[float, float]:
        """The shorter and the longer side where both are stated."""
        if self.changes_least:
            by_short, by_long = shortest / short, longest / long
            scale = choose(abs(1 - by_short) < abs(1 - by_long), by_short, by_long)
            return short * scale, long * scale
        followed = _round(shortest * long / short, self.rounding)
        if self.limits_rounded:
            is_over = followed > longest
            limited = _round(longest * shortest / followed, self.rounding)
            return choose(is_over, limited, shortest), choose(is_over, longest, followed)
        # DETR's rule: the shorter side is rounded, and the longer one follows the unrounded shorter one. DETR leaves a
        # picture alone whose shorter side is right then; ViLT and Detectron2, which round both half up, do not.
        exact = longest * short / long
        is_half_up = self.rounding is ImageRounding.HALF_UP
        nearest = _round(exact, ImageRounding.HALF_UP if is_half_up else ImageRounding.HALF_EVEN)
        from_exact = _round(exact * long / short, self.rounding)
        if self.rounding is ImageRounding.DOWN:
            from_exact = choose(abs(nearest - short) < 1, long, from_exact)
        fits = long * shortest <= longest * short
        return choose(fits, shortest, nearest), choose(fits, followed, from_exact)

    def _round_to_multiple(self, side: float) -> int:
        """The multiple that a side becomes; 0 for a short side."""
        return _round(side / self.multiple if self.multiple > 1 else side, self.multiple_rounding) * self.multiple

    @property
    def states_size(self) -> bool:
        """Whether it determines the scaled size; a `longest_side` alone only limits a side that follows."""
        return any(value is not None for value in (self.height, self.shortest_side, self.crop_ratio))

    def round_side(self, side: float) -> int:
        """A side that follows the other one: in whole pixels, a multiple, and at most `longest_side`."""
        limit = self.longest_side or (1 << 20)
        followed: int = maximum(1, minimum(limit, self._round_to_multiple(_round(side, self.rounding))))
        return followed

    def pad_side(self, side: int) -> int:
        """The next multiple of `pad_multiple`."""
        return (side + (self.pad_multiple - 1)) // self.pad_multiple * self.pad_multiple

    def compute_offset(self, scaled: int, tensor: int) -> int:
        """Where the tensor begins in the scaled picture, along one axis; below 0 where the picture begins inside it."""
        before = 0 if self.anchor is ImageAnchor.TOP_LEFT else -((tensor - scaled) // 2)
        return choose(scaled >= tensor, _round((scaled - tensor) / 2, self.crop_rounding), before)


def _require_crop_ratio(value: Any) -> float:
    try:
        ratio = float(value)
    except (TypeError, ValueError):
        ratio = math.nan
    if not 0 < ratio <= 1:
        raise InvalidArgumentError(
            f"The crop_ratio of a scaling is {value!r}.", hint="It is above 0 and at most 1: 0.875 is 224 of 256."
        )
    return ratio


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


def minimum(one: Any, other: Any) -> Any:
    """The smaller of two numbers."""
    if isinstance(one, _NUMBERS):
        return min(one, other) if isinstance(other, _NUMBERS) else other.at_most(one)
    return one.at_most(other)


def maximum(one: Any, other: Any) -> Any:
    """The larger of two numbers."""
    if isinstance(one, _NUMBERS):
        return max(one, other) if isinstance(other, _NUMBERS) else other.at_least(one)
    return one.at_least(other)


def to_float32(number: Any) -> Any:
    """A number as float32."""
    return np.float32(number) if isinstance(number, _NUMBERS) else number.cast(np.float32)
