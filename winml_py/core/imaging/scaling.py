"""ImageScaling: the size that a picture is scaled to before it is cropped or padded, as a contract states it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

from ...enums import ImageAnchor, ImageRounding
from ...errors import InvalidArgumentError
from ..base.arguments import require_bool, require_member, require_whole_number
from ..base.messages import suggest_fields


@suggest_fields
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
        >>> print(ImageScaling(shortest_side=256, multiple=32))
        scaling (shortest_side 256, multiple 32)
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
        has_both = self.shortest_side is not None and self.longest_side is not None
        has_size = self.height is not None or self.width is not None
        has_ratio = self.crop_ratio is not None
        if has_size + has_sides + has_ratio > 1 or (self.height is None) != (self.width is None):
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
        for name, is_used, has_needed, needed in (
            ("crops_first", self.crops_first, has_ratio, "a crop_ratio"),
            ("keeps_aspect", self.keeps_aspect, has_size, "height and width"),
            ("changes_least", self.changes_least, has_both, "shortest_side and longest_side"),
            ("limits_rounded", self.limits_rounded, has_both, "shortest_side and longest_side"),
            ("enlarges", not self.enlarges, has_sides or self.keeps_aspect, "a side"),
            ("shrinks", not self.shrinks, has_sides or self.keeps_aspect, "a side"),
        ):
            if is_used and not has_needed:
                raise InvalidArgumentError(f"A scaling with {name} needs {needed}.")

    def __str__(self) -> str:
        words = self.to_text().replace("=", " ").replace(",", ", ")
        return f"scaling ({words})" if words else "no scaling"

    def to_text(self) -> str:
        """The fields that differ from their defaults, as a model's metadata hold them: `shortest_side=256,...`."""
        words = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                words.append(f"{field.name}={value.name.lower() if isinstance(value, IntEnum) else value}")
        return ",".join(words)

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
