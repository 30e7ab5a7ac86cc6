"""ImageScaling: the size that a picture is scaled to before it is cropped, or padded, to the size of the tensor."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from ...enums import ImageAnchor, ImageRounding
from ...errors import InvalidArgumentError
from ..base.arguments import Fields, member, truth
from ..base.arrays import Size, choose, larger, smaller


@dataclass(frozen=True, slots=True)
class ImageScaling(Fields):
    """The size that a picture is scaled to. What is then larger than the tensor is cropped, from the middle; what is
    smaller is padded.

    Torchvision's, Hugging Face's and timm's pipelines scale by the shorter side and crop afterwards; detectors limit
    the longer side and pad. State one way: `height` and `width`; `shortest_side`, `longest_side` or both; `crop_ratio`.
    Without any of them, a picture keeps its size.

    Attributes:
        height: pixels; the picture is stretched to `height` and `width`, whatever its aspect ratio.
        width: pixels; see `height`.
        keeps_aspect: with `height` and `width`: the picture keeps its aspect ratio, and becomes as large as fits.
        shortest_side: pixels of the shorter side; the other follows.
        longest_side: pixels of the longer side. With `shortest_side`, the largest that it may have, and the shorter one
            follows then (DETR).
        crop_ratio: the shorter side becomes that of the tensor divided by this, rounded down; 0.875 is 224 of 256.
        crops_first: with `crop_ratio`: the middle of the picture is cropped first, square, `crop_ratio` of its shorter
            side, and then scaled (Perceiver).
        changes_least: with both sides: whichever of the two rules changes the picture less (Depth Anything). Nothing is
            rounded before the sides become multiples.
        limits_rounded: with both sides: `longest_side` limits the rounded side (torchvision's `max_size`, MaskFormer)
            instead of the exact one (DETR), and the shorter side is rounded as `rounding` says.
        enlarges: False leaves a picture at its size that would become larger (PaddleOCR's limit of the longer side).
        shrinks: False leaves a picture at its size that would become smaller (RapidOCR's least shorter side).
        rounding: of the side that follows.
        multiple: both sides become multiples of this.
        multiple_rounding: to which multiple.
        crop_rounding: of the crop's offset: `DOWN` in Hugging Face's processors, `HALF_EVEN` in torchvision and timm.
        pad_multiple: a side that nothing fixes becomes the next multiple of this, by padding (the stride of detectors).
        anchor: where the picture lies in the padding.

    Raises:
        InvalidArgumentError: more than one way, or numbers that mean nothing.

    Example:
        >>> from winml_py import ImageScaling
        >>> ImageScaling(shortest_side=256).scaled(451, 300)
        (256, 384)
        >>> ImageScaling(shortest_side=800, longest_side=1333).scaled(300, 900)
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
        """Brings each field to its one form."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or "None" not in str(field.type):
                object.__setattr__(self, field.name, _CHECKS[str(field.type)](field.name, value))
        has_sides = self.shortest_side is not None or self.longest_side is not None
        ways = (self.height is not None or self.width is not None, has_sides, self.crop_ratio is not None)
        if sum(ways) > 1 or (self.height is None) != (self.width is None):
            raise InvalidArgumentError(
                f"More than one size is stated, or half of one: {self}.",
                hint="State height and width, or shortest_side and longest_side, or crop_ratio.",
            )
        if self.changes_least and self.limits_rounded:
            raise InvalidArgumentError("changes_least and limits_rounded are two rules.", hint="State one of them.")
        if not self.enlarges and not self.shrinks:
            raise InvalidArgumentError(
                "A scaling that neither enlarges nor shrinks is none.", hint="Write ImageScaling(), without a side."
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

    def _stated(self) -> dict[str, str]:
        """The fields that do not have their default, as text."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _format_value(value) for name, value in values.items() if value != getattr(_DEFAULT, name)}

    def __str__(self) -> str:
        words = [f"{name} {value}" for name, value in self._stated().items()]
        return f"scaling ({', '.join(words)})" if words else "no scaling"

    def to_text(self) -> str:
        """The fields that do not have their default, as a model's metadata hold them: `shortest_side=256,...`."""
        return ",".join(f"{name}={value}" for name, value in self._stated().items())

    @classmethod
    def from_text(cls, text: str) -> ImageScaling:
        """Reads what `to_text` writes."""
        pairs = [part.partition("=") for part in text.split(",") if part]
        kinds = {field.name: str(field.type) for field in fields(cls)}
        try:
            return cls(**{name: _READERS[kinds[name]](value) for name, _, value in pairs})
        except (KeyError, ValueError):
            raise InvalidArgumentError(
                f"The model's metadata say Image.Scaling is {text!r}.", hint=f"Fields: {', '.join(kinds)}."
            ) from None

    def scaled(self, width: int, height: int, tensor: Size | None = None) -> Size:
        """The size that a picture, or the part of it that is used, is scaled to.

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
            scale = smaller(self.height / height, self.width / width)
            scale = choose(self._may_scale(scale), scale, 1.0)
            fitted = (self._multiple(_round(side * scale, self.rounding)) for side in (height, width))
            return next(fitted), next(fitted)
        sides = smaller(width, height), larger(width, height)
        scaled = self._sides(*sides, tensor)
        may_scale = self._may_scale(larger(scaled[0] / sides[0], scaled[1] / sides[1]))
        short, long = (self._multiple(choose(may_scale, *pair)) for pair in zip(scaled, sides, strict=True))
        is_flat = height <= width
        return choose(is_flat, short, long), choose(is_flat, long, short)

    def _may_scale(self, factor: float) -> bool:
        """Whether a picture may become so many times as large."""
        if not self.enlarges:
            return factor <= 1
        return self.shrinks or factor >= 1

    def _sides(self, short: int, long: int, tensor: Size | None) -> tuple[float, float]:
        """The shorter and the longer side, before they become multiples."""
        shortest, longest = self.shortest_side, self.longest_side
        if self.crop_ratio is not None:
            if tensor is None:
                raise InvalidArgumentError(
                    "A crop ratio is of the tensor's size, and nothing states that.",
                    hint="State a size: ImageContract(size=(224, 224)), or override the model's free sides.",
                )
            shortest = math.floor(min(tensor) / self.crop_ratio)
        if longest is None:
            return (shortest or short), _round((shortest or short) * long / short, self.rounding)
        if shortest is None:
            return _round(longest * short / long, self.rounding), longest
        return self._limit(short, long, shortest, longest)

    def _limit(self, short: int, long: int, shortest: int, longest: int) -> tuple[float, float]:
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
        # DETR's rule: the shorter side to the nearest, and the longer from the unrounded shorter one. DETR leaves a
        # picture alone whose shorter side is right then; ViLT and Detectron2, which round both sides half up, do not.
        exact = longest * short / long
        is_half_up = self.rounding is ImageRounding.HALF_UP
        nearest = _round(exact, ImageRounding.HALF_UP if is_half_up else ImageRounding.HALF_EVEN)
        from_exact = _round(exact * long / short, self.rounding)
        if self.rounding is ImageRounding.DOWN:
            from_exact = choose(abs(nearest - short) < 1, long, from_exact)
        fits = long * shortest <= longest * short
        return choose(fits, shortest, nearest), choose(fits, followed, from_exact)

    def _multiple(self, side: float) -> int:
        """The multiple that a side becomes; at least the first."""
        multiple: int = larger(self.multiple, _to_multiple(side, self.multiple, self.multiple_rounding))
        return multiple

    @property
    def states_size(self) -> bool:
        """Whether it says what a picture is scaled to, of itself; a `longest_side` alone limits a side that follows."""
        return any(value is not None for value in (self.height, self.shortest_side, self.crop_ratio))

    def followed(self, side: float) -> int:
        """A side that follows the other one: in whole pixels, a multiple, and not above `longest_side`."""
        limit = self.longest_side or (1 << 20)
        multiple = _to_multiple(_round(side, self.rounding), self.multiple, self.multiple_rounding)
        followed: int = larger(1, smaller(limit, multiple))
        return followed

    def padded(self, side: int) -> int:
        """The next multiple of `pad_multiple`."""
        return (side + (self.pad_multiple - 1)) // self.pad_multiple * self.pad_multiple

    def offset(self, scaled: int, tensor: int) -> int:
        """Where the tensor begins in the scaled picture, along one axis; below 0 where the picture begins inside it."""
        before = 0 if self.anchor is ImageAnchor.TOP_LEFT else -((tensor - scaled) // 2)
        return choose(scaled >= tensor, _round((scaled - tensor) / 2, self.crop_rounding), before)


def _format_value(value: object) -> str:
    return value.name.lower() if isinstance(value, (ImageRounding, ImageAnchor)) else str(value)


def _pixels(name: str, value: Any) -> int:
    try:
        pixels = operator.index(value)
    except TypeError:
        pixels = 0
    if not 1 <= pixels <= 1 << 20:
        raise InvalidArgumentError(f"The {name} of a scaling is {value!r}.", hint="It is a number of pixels from 1.")
    return pixels


def _ratio(name: str, value: Any) -> float:
    try:
        ratio = float(value)
    except (TypeError, ValueError):
        ratio = math.nan
    if not 0 < ratio <= 1:
        raise InvalidArgumentError(
            f"The {name} of a scaling is {value!r}.", hint="It is above 0 and at most 1: 0.875 is 224 of 256."
        )
    return ratio


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "int": _pixels,
    "int | None": _pixels,
    "float | None": _ratio,
    "bool": lambda name, value: truth(value, f"The {name} of a scaling"),
    "ImageRounding": lambda name, value: member(ImageRounding, value, f"The {name} of a scaling"),
    "ImageAnchor": lambda name, value: member(ImageAnchor, value, f"The {name} of a scaling"),
}
"""How a value of each type of field is checked."""

_READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "int | None": int,
    "float | None": float,
    "bool": {"True": True, "False": False}.__getitem__,
    "ImageRounding": lambda word: ImageRounding[word.upper()],
    "ImageAnchor": lambda word: ImageAnchor[word.upper()],
}
"""How the text of each type of field is read."""


def _round(value: float, rounding: ImageRounding) -> int:
    match rounding:
        case ImageRounding.DOWN:
            return math.floor(value)
        case ImageRounding.UP:
            return math.ceil(value)
        case ImageRounding.HALF_UP:
            return math.floor(value + 0.5)
    return round(value)


def _to_multiple(side: float, multiple: int, rounding: ImageRounding) -> int:
    return _round(side / multiple if multiple > 1 else side, rounding) * multiple


_DEFAULT = ImageScaling()
