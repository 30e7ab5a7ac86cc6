"""The rules of a contract for the size that a picture is scaled to; one class for each.

`contract.py` asks a rule for a size, and crops or pads the result to the tensor. A model's metadata call a rule by its
class.
"""

from __future__ import annotations

import json
import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from ...enums import ImageAnchor, ImageRounding
from ...errors import InvalidArgumentError
from ..base.arguments import require_bool, require_member, require_type, require_whole_number
from ..base.arrays import Sides, Size

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Checked:
    """A dataclass whose fields are checked by their names and defaults, so that equal objects compare equal."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = _check(field.name, field.default, getattr(self, field.name), type(self).__name__)
            object.__setattr__(self, field.name, value)


def _check(name: str, default: object, value: object, owner: str) -> object:
    what = f"The {name} of {owner}"
    if isinstance(default, bool):
        return require_bool(value, what)
    if isinstance(default, IntEnum):
        return require_member(type(default), value, what)
    if isinstance(default, _Checked):
        require_type(value, type(default), f"Pass it as the {name} of {owner}.")
        return value
    if name == "size":
        return default if value is None else require_size(value, what)
    if name == "ratio":
        return _require_ratio(value, what)
    return None if value is None and default is None else require_whole_number(value, what, 1, 1 << 20)


@dataclass(frozen=True, slots=True)
class Multiple(_Checked):
    """The number that both sides of a scaled picture are multiples of.

    Attributes:
        of: pixels; 1 changes nothing.
        rounding: how a side is rounded to a multiple. It never becomes 0.

    Example:
        >>> from winml_py import ImageRounding
        >>> from winml_py.scaling import Keep, Multiple
        >>> Keep(multiple=Multiple(32, ImageRounding.UP)).compute_size(451, 300)
        (320, 480)
    """

    of: int = 1
    rounding: ImageRounding = ImageRounding.DOWN

    def apply(self, side: float) -> int:
        """The multiple that a side becomes, at least `of` itself."""
        count = _round(side / self.of if self.of > 1 else side, self.rounding)
        multiple: int = maximum(self.of, count * self.of)
        return multiple


@dataclass(frozen=True, slots=True)
class Ends(_Checked):
    """What happens where a scaled picture is larger or smaller than the tensor.

    Attributes:
        crop_rounding: how the offset of the crop is rounded: `DOWN` in Hugging Face's processors, `HALF_EVEN` in
            torchvision and timm.
        anchor: where the picture lies in the padding.
        pad_multiple: a side of the tensor that nothing fixes is padded to a multiple of this (the stride of detectors).
    """

    crop_rounding: ImageRounding = ImageRounding.DOWN
    anchor: ImageAnchor = ImageAnchor.CENTER
    pad_multiple: int = 1

    def pad(self, side: int) -> int:
        """The next multiple of `pad_multiple`."""
        multiple = self.pad_multiple
        return side if multiple == 1 else (side + (multiple - 1)) // multiple * multiple

    def align(self, scaled: int, tensor: int) -> tuple[int, int, int]:
        """Places a scaled side in a side of the tensor.

        Returns:
            The first pixel that is used, its position in the tensor, and how many pixels are used.
        """
        if scaled == tensor:  # in a graph the same value, which then needs no nodes
            return 0, 0, scaled
        padded = 0 if self.anchor is ImageAnchor.TOP_LEFT else (tensor - scaled) // 2
        # Above 0, this many pixels are cropped before the tensor begins; below 0, padded before the picture begins.
        offset = choose(scaled >= tensor, _round((scaled - tensor) / 2, self.crop_rounding), -padded)
        return maximum(0, offset), maximum(0, -offset), minimum(scaled, tensor)


_ONE, _ENDS, _LEFT = Multiple(), Ends(), Ends(anchor=ImageAnchor.TOP_LEFT)


@dataclass(frozen=True, slots=True)
class Scaling(_Checked, ABC):
    """The base of all rules. A scaled picture is cropped or padded to the tensor."""

    @property
    def ends(self) -> Ends:
        """What happens where the scaled picture is larger or smaller than the tensor."""
        return _ENDS

    @property
    def sides(self) -> tuple[int, ...]:
        """The sides, in pixels, that the rule states."""
        values = (getattr(self, field.name) for field in fields(self))
        sides = (side for value in values for side in (value if isinstance(value, tuple) else [value]))
        return tuple(side for side in sides if type(side) is int)

    @property
    def takes_tensor_size(self) -> bool:
        """Whether a picture gets the size of the tensor, as the rule states none, or fits any."""
        return getattr(self, "size", ()) is None or self.fix_sides([], (None, None)) != (None, None)

    def compute_part(self, width: int, height: int, tensor: Sides) -> Size | None:
        """Height and width of the part in the middle of the picture that is scaled; None for the whole picture."""
        return None

    def fix_sides(self, sizes: Iterable[tuple[int, int]], tensor: Sides) -> Sides:
        """Height and width of the tensor for a batch of pictures; None for a side that nothing fixes.

        Args:
            sizes: width and height of each picture, in pixels.
            tensor: height and width, as the model or the contract fixes them.
        """
        return tensor

    def compute_size(self, width: int, height: int, tensor: Sides = (None, None)) -> Size:
        """The size that a picture, or its part, is scaled to.

        Args:
            width: pixels.
            height: pixels.
            tensor: height and width of the tensor; None for a side that nothing fixes.

        Returns:
            Height and width in pixels, at least 1.

        Raises:
            InvalidArgumentError: the rule needs the tensor's size, which nothing fixes.
        """
        return self._scale(width, height, tensor)

    @abstractmethod
    def _scale(self, width: int, height: int, tensor: Sides) -> Size: ...

    def to_text(self) -> str:
        """The rule as a model's metadata hold it: `shortest_side=256,crop_rounding=half_even`."""
        word, words = _find_word(type(self)), {}
        for key, (name, inner, default) in _list_keys(type(self)).items():
            value = getattr(self, name)
            value = getattr(value, inner) if inner else value
            if value != default:
                text = "x".join(map(str, value)) if isinstance(value, tuple) else getattr(value, "name", str(value))
                words[key] = text.lower()
        first = f"{word}={words.pop(word)}" if word in words else word
        return ",".join([first, *(f"{key}={text}" for key, text in words.items())])

    @staticmethod
    def from_text(text: str) -> Scaling:
        """Reads what `to_text` writes.

        Raises:
            InvalidArgumentError: it is not such a text.
        """
        stated = [part.partition("=")[::2] for part in text.split(",") if part]
        parts = dict(stated)
        word = next(iter(parts), "")
        rule: Any = next((rule for rule in _RULES if _find_word(rule) == word), None)
        if rule is None:
            known = ", ".join(map(_find_word, _RULES))
            raise InvalidArgumentError(f"Image.Scaling cannot be {text!r}.", hint=f"Use one of {known}.")
        if len(parts) < len(stated):
            raise InvalidArgumentError(f"Image.Scaling is {text!r}, which specifies a field twice.", hint="Omit one.")
        keys = _list_keys(rule)
        values: dict[str, Any] = {}
        records: dict[str, dict[str, Any]] = {"multiple": {}, "ends": {}}
        try:
            for key, spelt in parts.items():
                if key != word or spelt:
                    name, inner, default = keys[key]
                    owner, name = (records[name], inner) if inner else (values, name)
                    owner[name] = _parse(spelt, default)
            made = {"multiple": Multiple(**records["multiple"]), "ends": Ends(**records["ends"])}
            scaling: Scaling = rule(**values, **{name: record for name, record in made.items() if records[name]})
            return scaling
        except (KeyError, TypeError, ValueError, RecursionError):
            hint = f"{word} takes the fields {', '.join(keys)}." if keys else f"{word} takes no fields."
            raise InvalidArgumentError(f"Image.Scaling cannot be {text!r}.", hint=hint) from None

    def __str__(self) -> str:
        first, *options = self.to_text().replace("=", " ").split(",")
        return f"{first} ({', '.join(options)})" if options else first


@dataclass(frozen=True, slots=True)
class CropToAspect(Scaling):
    """Windows ML's rule: the largest part in the middle with the tensor's aspect ratio, scaled to the tensor's size.

    The part is computed as in `CenterAndCropBounds` (`ImageFeatureValue.cpp`), in its float32 arithmetic: the size is
    rounded half up, the offset down, so an odd pixel remains on the right or below. If the model leaves a side free, it
    follows the other one.

    Attributes:
        rounding: HALF_UP; or DOWN, in whole numbers, as in Windows ML's Runtime.
    """

    rounding: ImageRounding = ImageRounding.HALF_UP

    @property
    def takes_tensor_size(self) -> bool:
        """See `Scaling`."""
        return True

    def compute_part(self, width: int, height: int, tensor: Sides) -> Size | None:
        """See `Scaling`."""
        tensor_height, tensor_width = tensor
        if tensor_height is None or tensor_width is None:
            return None
        if self.rounding is ImageRounding.DOWN:
            is_wide = width * tensor_height > height * tensor_width
            part_width = choose(is_wide, maximum(1, height * tensor_width // tensor_height), width)
            return choose(is_wide, height, maximum(1, width * tensor_height // tensor_width)), part_width
        ratio = np.float32(tensor_width) / np.float32(tensor_height)
        half = np.float32(0.5)
        fitting_width = _to_float32(height) * ratio
        fitting_height = _to_float32(width) / ratio
        is_wide = fitting_width < _to_float32(width)
        part_width = choose(is_wide, maximum(1, minimum(math.floor(fitting_width + half), width)), width)
        part_height = choose(is_wide, height, maximum(1, minimum(math.floor(fitting_height + half), height)))
        return part_height, part_width

    def _scale(self, width: int, height: int, tensor: Sides) -> Size:
        return _fill(width, height, tensor)


@dataclass(frozen=True, slots=True)
class Stretch(Scaling):
    """Both sides are scaled to a size, at any aspect ratio: torchvision's `Resize((height, width))`.

    Attributes:
        size: height and width; None for the tensor's. If the model leaves a side free, it follows the other one.
        ends: what happens where the result is larger or smaller than the tensor.

    Example:
        >>> from winml_py import ImageContract
        >>> from winml_py.scaling import Stretch
        >>> print(ImageContract(size=(224, 224), scaling=Stretch((256, 256))).scaling)
        stretch 256x256
    """

    size: Size | None = None
    ends: Ends = Ends()

    def _scale(self, width: int, height: int, tensor: Sides) -> Size:
        return self.size or _fill(width, height, tensor)


@dataclass(frozen=True, slots=True)
class Fit(Scaling):
    """A picture keeps its aspect ratio, and becomes as large as fits into a size: a letterbox.

    Attributes:
        size: height and width; None for the tensor's. If the model leaves a side free, it follows the other one; if it
            leaves both free, the picture keeps its size.
        rounding: how both sides are rounded.
        enlarges: False keeps the size of a picture that would become larger.
        shrinks: False keeps the size of a picture that would become smaller.
        multiple: what both sides are multiples of.
        ends: what happens where the result is larger or smaller than the tensor.

    Example:
        >>> from winml_py.scaling import Fit
        >>> Fit((640, 640)).compute_size(1920, 1080)
        (360, 640)
    """

    size: Size | None = None
    rounding: ImageRounding = ImageRounding.HALF_EVEN
    enlarges: bool = True
    shrinks: bool = True
    multiple: Multiple = Multiple()
    ends: Ends = Ends()

    def _scale(self, width: int, height: int, tensor: Sides) -> Size:
        size = self.size or _find_size(tensor)
        if size is None:
            size = _follow(width, height, tensor, self.rounding)
            if size is None:
                return _keep(width, height, self.multiple)
            scaled = minimum(*size), maximum(*size)
            return _finish(width, height, scaled, self.multiple, self.enlarges, self.shrinks)
        scale = minimum(size[0] / height, size[1] / width)
        scale = scale if self.enlarges else minimum(scale, 1.0)
        scale = scale if self.shrinks else maximum(scale, 1.0)
        rounded = _round(height * scale, self.rounding), _round(width * scale, self.rounding)
        return self.multiple.apply(rounded[0]), self.multiple.apply(rounded[1])


@dataclass(frozen=True, slots=True)
class ShortestSide(Scaling):
    """The shorter side becomes `pixels`, and the longer one follows: torchvision's `Resize(256)`, DETR's with a limit.

    Attributes:
        pixels: of the shorter side.
        limit: of the longer side, in pixels. Beyond it, the longer side becomes `limit`, and the shorter one follows.
        limits_rounded: the limit is for the rounded side (torchvision's `max_size`, MaskFormer) instead of the exact
            one (DETR), and the shorter side is rounded as `rounding` says.
        rounding: how the side that follows is rounded.
        enlarges: False keeps the size of a picture that would become larger.
        shrinks: False keeps the size of a picture that would become smaller (RapidOCR).
        multiple: what both sides are multiples of.
        ends: what happens where the result is larger or smaller than the tensor.

    Example:
        >>> from winml_py.scaling import ShortestSide
        >>> ShortestSide(800, limit=1333).compute_size(300, 900)
        (1333, 444)
    """

    pixels: int
    limit: int | None = None
    limits_rounded: bool = False
    rounding: ImageRounding = ImageRounding.DOWN
    enlarges: bool = True
    shrinks: bool = True
    multiple: Multiple = Multiple()
    ends: Ends = Ends()

    def _scale(self, width: int, height: int, tensor: Sides) -> Size:
        scaled = self._compute_sides(minimum(width, height), maximum(width, height))
        return _finish(width, height, scaled, self.multiple, self.enlarges, self.shrinks)

    def _compute_sides(self, short: int, long: int) -> tuple[float, float]:
        """The shorter and the longer side, in whole pixels."""
        following_long = _round(self.pixels * long / short, self.rounding)
        if self.limit is None:
            return self.pixels, following_long
        if self.limits_rounded:
            is_over = following_long > self.limit
            limited_short = _round(self.limit * self.pixels / following_long, self.rounding)
            return choose(is_over, limited_short, self.pixels), choose(is_over, self.limit, following_long)
        # DETR's rule: the shorter side is rounded, and the longer one follows from the shorter one before rounding.
        # DETR keeps a picture whose shorter side is right already; ViLT and Detectron2, which round both half up, do
        # not.
        exact_short = self.limit * short / long
        is_half_up = self.rounding is ImageRounding.HALF_UP
        limited_short = _round(exact_short, ImageRounding.HALF_UP if is_half_up else ImageRounding.HALF_EVEN)
        limited_long = _round(exact_short * long / short, self.rounding)
        if self.rounding is ImageRounding.DOWN:
            limited_long = choose(abs(limited_short - short) < 1, long, limited_long)
        fits = long * self.pixels <= self.limit * short
        return choose(fits, self.pixels, limited_short), choose(fits, following_long, limited_long)


@dataclass(frozen=True, slots=True)
class LongestSide(Scaling):
    """The longer side becomes `pixels`, and the shorter one follows. It only limits a free side next to a fixed one.

    Attributes:
        pixels: of the longer side.
        rounding: how the side that follows is rounded.
        enlarges: False keeps the size of a picture that would become larger (PaddleOCR).
        shrinks: False keeps the size of a picture that would become smaller.
        multiple: what both sides are multiples of.
        ends: what happens where the result is larger or smaller than the tensor.
    """

    pixels: int
    rounding: ImageRounding = ImageRounding.DOWN
    enlarges: bool = True
    shrinks: bool = True
    multiple: Multiple = Multiple()
    ends: Ends = Ends()

    def _scale(self, width: int, height: int, tensor: Sides) -> Size:
        if size := _follow(width, height, tensor, self.rounding, self.multiple, self.pixels):
            return size
        following = _round(self.pixels * minimum(width, height) / maximum(width, height), self.rounding)
        return _finish(width, height, (following, self.pixels), self.multiple, self.enlarges, self.shrinks)


@dataclass(frozen=True, slots=True)
class LeastChange(Scaling):
    """The shorter or the longer side becomes what is stated, whichever changes the picture less: Depth Anything.

    Attributes:
        shortest_side: pixels.
        longest_side: pixels.
        enlarges: False keeps the size of a picture that would become larger.
        shrinks: False keeps the size of a picture that would become smaller.
        multiple: what both sides are multiples of; nothing is rounded before that.
        ends: what happens where the result is larger or smaller than the tensor.
    """

    shortest_side: int
    longest_side: int
    enlarges: bool = True
    shrinks: bool = True
    multiple: Multiple = Multiple()
    ends: Ends = Ends()

    def _scale(self, width: int, height: int, tensor: Sides) -> Size:
        short, long = minimum(width, height), maximum(width, height)
        by_short, by_long = self.shortest_side / short, self.longest_side / long
        scale = choose(abs(1 - by_short) < abs(1 - by_long), by_short, by_long)
        return _finish(width, height, (short * scale, long * scale), self.multiple, self.enlarges, self.shrinks)


@dataclass(frozen=True, slots=True)
class Keep(Scaling):
    """A picture keeps its size; if the model leaves one side free, it keeps its aspect ratio.

    Attributes:
        rounding: how a free side is rounded, which follows a fixed one.
        multiple: what both sides are multiples of (GLPN); only the free one, next to a fixed one.
        ends: what happens where the result is larger or smaller than the tensor.
    """

    rounding: ImageRounding = ImageRounding.DOWN
    multiple: Multiple = Multiple()
    ends: Ends = Ends()

    def _scale(self, width: int, height: int, tensor: Sides) -> Size:
        size = _follow(width, height, tensor, self.rounding, self.multiple)
        return size or _keep(width, height, self.multiple)


@dataclass(frozen=True, slots=True)
class CropRatio(Scaling):
    """The shorter side becomes the tensor's divided by `ratio`, and the middle is cropped: `crop_pct` of timm.

    Attributes:
        ratio: above 0 and at most 1; 0.875 is `Resize(256)` and `CenterCrop(224)`, for any size. The shorter side is
            rounded down.
        rounding: how the longer side is rounded.
        multiple: what both sides are multiples of.
        ends: what happens where the result is larger or smaller than the tensor.
    """

    ratio: float
    rounding: ImageRounding = ImageRounding.DOWN
    multiple: Multiple = Multiple()
    ends: Ends = Ends()

    def _scale(self, width: int, height: int, tensor: Sides) -> Size:
        shortest = math.floor(min(_require_fixed(tensor)) / self.ratio)
        following = _round(shortest * maximum(width, height) / minimum(width, height), self.rounding)
        return _finish(width, height, (shortest, following), self.multiple)


@dataclass(frozen=True, slots=True)
class CropSquare(Scaling):
    """A square in the middle, of `ratio` of the shorter side, is scaled to the tensor's size: Perceiver.

    Attributes:
        ratio: above 0 and at most 1.
    """

    ratio: float

    def compute_part(self, width: int, height: int, tensor: Sides) -> Size | None:
        """See `Scaling`."""
        side = maximum(1, math.floor(minimum(width, height) * self.ratio))
        return side, side

    def _scale(self, width: int, height: int, tensor: Sides) -> Size:
        return _require_fixed(tensor)


@dataclass(frozen=True, slots=True)
class FitHeight(Scaling):
    """A line of text gets the tensor's height, and its width follows: PaddleOCR's readers.

    A line lies at the left of the tensor. If it is too wide, only its width shrinks. If the model leaves the width
    free, the tensor is as wide as the widest line of the batch requires.

    Attributes:
        size: height and least width of the tensor, where the model leaves them free.

    Example:
        >>> from winml_py.scaling import FitHeight
        >>> FitHeight((48, 320)).compute_size(500, 20)
        (48, 1200)
        >>> FitHeight((48, 192)).compute_size(500, 20, tensor=(48, 192))
        (48, 192)
    """

    size: Size = (48, 320)

    @property
    def ends(self) -> Ends:
        """See `Scaling`."""
        return _LEFT

    def fix_sides(self, sizes: Iterable[tuple[int, int]], tensor: Sides) -> Sides:
        """See `Scaling`."""
        height, width = tensor
        height = self.size[0] if height is None else height
        if width is None:
            widest = reduce(maximum, (across / down for across, down in sizes), self.size[1] / self.size[0])
            width = math.floor(height * widest)
        return height, width

    def _scale(self, width: int, height: int, tensor: Sides) -> Size:
        tensor_height, tensor_width = self.fix_sides([(width, height)], tensor)
        assert tensor_height is not None
        return tensor_height, minimum(math.ceil(tensor_height * (width / height)), tensor_width)


_RULES: tuple[type[Scaling], ...] = (
    CropToAspect,
    Stretch,
    Fit,
    ShortestSide,
    LongestSide,
    LeastChange,
    Keep,
    CropRatio,
    CropSquare,
    FitHeight,
)


def _find_size(tensor: Sides) -> Size | None:
    """The tensor's size, if both sides are fixed."""
    height, width = tensor
    return None if height is None or width is None else (height, width)


def _require_fixed(tensor: Sides) -> Size:
    if size := _find_size(tensor):
        return size
    raise InvalidArgumentError(
        "A crop ratio requires the tensor size, but no size is specified.",
        hint="Specify a size, for example ImageContract(size=(224, 224)), or override the model's free sizes.",
    )


def _fill(width: int, height: int, tensor: Sides) -> Size:
    """The tensor's size, where a free side follows the other one; the picture's own where both are free."""
    return _find_size(tensor) or _follow(width, height, tensor, ImageRounding.DOWN) or (height, width)


def _keep(width: int, height: int, multiple: Multiple) -> Size:
    """A picture's own size, as multiples."""
    return (height, width) if multiple.of == 1 else (multiple.apply(height), multiple.apply(width))


def _follow(
    width: int, height: int, tensor: Sides, rounding: ImageRounding, multiple: Multiple = _ONE, limit: int = 1 << 20
) -> Size | None:
    """The size where the tensor fixes one side: the other follows, up to a limit. None where it fixes both, or none."""
    fixed_height, fixed_width = tensor
    if fixed_height is not None and fixed_width is None:
        return fixed_height, minimum(limit, multiple.apply(_round(width * fixed_height / height, rounding)))
    if fixed_width is not None and fixed_height is None:
        return minimum(limit, multiple.apply(_round(height * fixed_width / width, rounding))), fixed_width
    return None


def _finish(
    width: int,
    height: int,
    scaled: tuple[float, float],
    multiple: Multiple,
    enlarges: bool = True,
    shrinks: bool = True,
) -> Size:
    """Height and width from the scaled shorter and longer side, if a picture may change so; as multiples."""
    short, long = minimum(width, height), maximum(width, height)
    if not (enlarges and shrinks):
        factor = maximum(scaled[0] / short, scaled[1] / long)
        is_allowed = factor <= 1 if shrinks else factor >= 1 if enlarges else False
        scaled = choose(is_allowed, scaled[0], short), choose(is_allowed, scaled[1], long)
    new_short, new_long = multiple.apply(scaled[0]), multiple.apply(scaled[1])
    is_flat = height <= width
    return choose(is_flat, new_short, new_long), choose(is_flat, new_long, new_short)


# The text of a rule in a model's metadata, and on the command line.


_LEADING = ("size", "pixels", "shortest_side", "ratio")
"""The fields whose value follows the name of the rule: `fit=640x640`, `shortest_side=256`."""

_KEYS = {("multiple", "of"): "multiple", ("multiple", "rounding"): "multiple_rounding"}


def _find_word(rule: type[Scaling]) -> str:
    """The name of a rule: `ShortestSide` is `shortest_side`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", rule.__name__).lower()


def _list_keys(rule: type[Scaling]) -> dict[str, tuple[str, str, Any]]:
    """For each key of a rule's text: the field, the field inside it or "", and the default."""
    keys: dict[str, tuple[str, str, Any]] = {}
    for field in fields(rule):
        if isinstance(field.default, (Multiple, Ends)):
            for inner in fields(field.default):
                keys[_KEYS.get((field.name, inner.name), inner.name)] = field.name, inner.name, inner.default
        else:
            keys[_find_word(rule) if field.name in _LEADING else field.name] = field.name, "", field.default
    return keys


def _parse(text: str, default: object) -> object:
    if isinstance(default, IntEnum):
        return type(default)[text.upper()]
    return tuple(map(int, text.split("x"))) if "x" in text else json.loads(text.lower())


# Checks of fields.


def require_size(value: Any, what: str) -> Size | None:
    """Height and width, checked; None stays None."""
    if value is None:
        return None
    try:
        sides = tuple(operator.index(side) for side in value)
    except TypeError:
        sides = ()
    if len(sides) != 2 or not all(0 < side <= 1 << 20 for side in sides):
        raise InvalidArgumentError(f"{what} cannot be {value!r}.", hint="Pass height and width.")
    return sides[0], sides[1]


def _require_ratio(value: Any, what: str) -> float:
    try:
        ratio = float(value)
    except (TypeError, ValueError):
        ratio = math.nan
    if not 0 < ratio <= 1:
        raise InvalidArgumentError(
            f"{what} cannot be {value!r}.", hint="Pass a number above 0 and at most 1, for example 0.875."
        )
    return ratio


# The arithmetic of the rules. Where a contract is built into a model, the sides of a picture are values of a graph
# (`core/onnx_file/expressions.py`), and these functions write nodes: so the rules use no `if`, `min` or `max` on them.


_NUMBERS: Any = (int, float, np.generic)


def _round(value: float, rounding: ImageRounding) -> int:
    match rounding:
        case ImageRounding.DOWN:
            return math.floor(value)
        case ImageRounding.UP:
            return math.ceil(value)
        case ImageRounding.HALF_UP:
            return math.floor(value + 0.5)
    return round(value)


def choose(condition: Any, if_true: T, if_false: T) -> T:
    """The one or the other number, by a condition."""
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


def _to_float32(number: Any) -> Any:
    return np.float32(number) if isinstance(number, _NUMBERS) else number.cast(np.float32)
