"""The contract rules that place pictures where a function places them, plainest first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from ...core.base.arrays import Size
from ...core.imaging.geometry import ImageScaling, Placement, compute_placement
from ...enums import ImageAnchor, ImageCropMode, ImageRounding
from ...errors import WinMLError
from .measure import Area

ROUNDINGS = (ImageRounding.DOWN, ImageRounding.HALF_EVEN, ImageRounding.HALF_UP, ImageRounding.UP)
MULTIPLES = (1, 8, 14, 16, 28, 32, 64, 128)
STRIDES = (1, 8, 14, 16, 28, 32, 64, 128)


class Rule(NamedTuple):
    """The part of a contract that decides where a picture goes.

    Attributes:
        mode: the crop mode.
        scaling: the scaling, instead of the mode.
        tensor: height and width of the tensor; None for a side that depends on the picture.
    """

    mode: ImageCropMode
    scaling: ImageScaling | None
    tensor: tuple[int | None, int | None]

    @property
    def sides(self) -> set[int]:
        """The sides that it names: larger pictures may be treated differently."""
        named = self.scaling and (getattr(self.scaling, f"{name}_side") for name in ("shortest", "longest"))
        fitted = self.scaling and (self.scaling.height, self.scaling.width)
        return {side for side in (*self.tensor, *(named or ()), *(fitted or ())) if side is not None}

    def place(self, picture: Size) -> Placement:
        """Where a picture of that height and width goes."""
        height, width = self.tensor
        return compute_placement(picture[1], picture[0], width, height, self.mode, None, self.scaling)


def tensor_of(areas: Sequence[Area]) -> tuple[int | None, int | None]:
    """Height and width of the tensor; None for a side that differs from picture to picture."""
    heights, widths = {area.tensor[0] for area in areas}, {area.tensor[1] for area in areas}
    return heights.pop() if len(heights) == 1 else None, widths.pop() if len(widths) == 1 else None


def find_rules(areas: Sequence[Area]) -> list[Rule]:
    """The rules that place all pictures where the function does, to the visible pixel, plainest first.

    Texture decides later what a ramp cannot show: half a pixel of an offset, a pixel of a scaled size.
    """
    tensor = tensor_of(areas)
    rules = dict.fromkeys(_candidates(areas, tensor))  # each once, in their order
    # A limit as long as the longest picture cannot show.
    shortest, longest = (max(pick(area.picture) for area in areas) for pick in (min, max))
    shown = [
        rule
        for rule in rules
        if rule.scaling is None
        or ((rule.scaling.shortest_side or 0) < shortest and (rule.scaling.longest_side or 0) < longest)
    ]
    return [rule for rule in shown if all(_agrees(rule, area) for area in areas)]


def _agrees(rule: Rule, area: Area) -> bool:
    try:
        placement = rule.place(area.picture)
    except WinMLError:
        return False
    if placement.tensor != area.tensor or placement.target != area.target:
        return False
    # Where each axis begins in the picture, how much of it is used, and where that is cut after scaling.
    part, cut = placement.part, placement.cut
    axes = ((part.y, part.height, cut.y), (part.x, part.width, cut.x))
    for axis, (first, length, start) in enumerate(axes):
        measured, begin, picture = area.scaled[axis], area.offset[axis], area.picture[axis]
        if math.isnan(measured):
            continue
        scale = placement.scaled[axis] / length
        # A ramp of 256 levels locates a pixel to a fraction of one level, of which a long picture has few.
        unsure = 1.0 + 0.01 * measured + scale * picture / 256
        if abs(picture * scale - measured) > unsure or abs(first * scale + start - begin) > unsure:
            return False
    return True


def _candidates(areas: Sequence[Area], tensor: tuple[int | None, int | None]) -> Iterator[Rule]:
    """Rules whose numbers match the areas, plainest first."""
    is_fixed = None not in tensor
    if is_fixed:
        for mode in (ImageCropMode.STRETCH, ImageCropMode.CENTER, ImageCropMode.LETTERBOX):
            yield Rule(mode, None, tensor)
    else:
        yield Rule(ImageCropMode.STRETCH, None, tensor)
    for scaling in _scalings(areas, tensor):
        yield Rule(ImageCropMode.CENTER, scaling, tensor)


def _scalings(areas: Sequence[Area], tensor: tuple[int | None, int | None]) -> Iterator[ImageScaling]:
    """Scalings whose numbers match the areas."""
    seen = [area for area in areas if not any(map(math.isnan, area.scaled))]
    # A side that is not cropped is known to the pixel.
    heights = [a.target.height if a.offset[0] < 0.75 and not _is_cropped(a, 0) else a.scaled[0] for a in seen]
    widths = [a.target.width if a.offset[1] < 0.75 and not _is_cropped(a, 1) else a.scaled[1] for a in seen]
    short = [min(pair) for pair in zip(heights, widths, strict=True)]
    long = [max(pair) for pair in zip(heights, widths, strict=True)]
    whole = [side for side in (*heights, *widths) if isinstance(side, int)]
    multiples = [1, *(each for each in MULTIPLES[1:] if whole and not any(side % each for side in whole))]
    multiples = sorted({1, multiples[-1]}, reverse=True)
    padded = [area for area in areas if (area.target.height, area.target.width) != area.tensor]
    strides = [1]
    if None in tensor and padded:
        free = [area.tensor[axis] for area in areas for axis in (0, 1) if tensor[axis] is None]
        strides = [stride for stride in STRIDES if not any(side % stride for side in free)][-1:]
    is_in_corner = bool(padded) and not any(area.target.x or area.target.y for area in padded)
    anchor = ImageAnchor.TOP_LEFT if is_in_corner else ImageAnchor.CENTER
    is_cropped = any(_is_cropped(area, axis) for area in seen for axis in (0, 1))
    for crop_rounding in (ImageRounding.DOWN, ImageRounding.HALF_EVEN)[: 2 if is_cropped else 1]:
        ends: dict[str, Any] = {"crop_rounding": crop_rounding, "anchor": anchor, "pad_multiple": strides[0]}
        yield ImageScaling(**ends)
        for height, width in product(_near(heights), _near(widths)):
            yield ImageScaling(height=height, width=width, **ends)
        for multiple in multiples:
            ways = [
                ends | {"multiple": multiple, "multiple_rounding": rounding}
                for rounding in (ROUNDINGS if multiple > 1 else ROUNDINGS[:1])
            ]
            if multiple > 1:
                yield from (ImageScaling(**way) for way in ways)
            for rounding, way in product(ROUNDINGS, ways):
                rounded = way | {"rounding": rounding}
                if None in tensor and any(tensor):  # one side is the tensor's, and the other follows
                    yield ImageScaling(**rounded)
                    yield from (ImageScaling(longest_side=limit, **rounded) for limit in _near(long, largest=True))
                yield from _sided(short, long, heights, widths, rounded)
    if None not in tensor:
        side = min(side for side in tensor if side is not None)
        for ratio in sorted({round(side / each, 3) for each in short if each >= side}, reverse=True):
            if 0 < ratio <= 1:
                yield ImageScaling(crop_ratio=ratio, crops_first=True)


def _is_cropped(area: Area, axis: int) -> bool:
    """Whether the scaled picture is larger along the axis than its visible part."""
    seen = area.target.height if axis == 0 else area.target.width
    return area.scaled[axis] - seen > 1.5 + 0.01 * seen


def _sided(
    short: Sequence[float],
    long: Sequence[float],
    heights: Sequence[float],
    widths: Sequence[float],
    way: dict[str, Any],
) -> Iterator[ImageScaling]:
    """The ways to state a shorter or a longer side."""
    for side in _around(_near(short), way):
        yield ImageScaling(shortest_side=side, **way)
    for side in _around(_near(long), way):
        yield ImageScaling(longest_side=side, **way)
    # Sides that only limit: the largest of all pictures, or the smallest.
    for side in _around(_near(long, largest=True), way):
        yield ImageScaling(longest_side=side, enlarges=False, **way)
    for side in _around(_near(short, largest=True), way):
        yield ImageScaling(shortest_side=side, enlarges=False, **way)
    for side in _near(short, least=True):
        yield ImageScaling(shortest_side=side, shrinks=False, **way)
    for shortest, longest in product(_near(short, largest=True), _near(long, largest=True)):
        if longest > shortest:
            yield ImageScaling(shortest_side=shortest, longest_side=longest, **way)
            for rule in ("limits_rounded", "changes_least"):
                yield ImageScaling(shortest_side=shortest, longest_side=longest, **way | {rule: True})
    # A side of most pictures, as the shorter or as the longer one (Depth Anything).
    for most, _ in Counter(round(each) for each in (*short, *long)).most_common(2):
        yield ImageScaling(shortest_side=most, longest_side=most, changes_least=True, **way)
    # keeps_aspect multiplies in floating point, like `int(side * scale)`: if the product is just below a whole number,
    # longest_side, which is exact, gives a pixel more.
    squares = [(side, side) for side in _near(long, largest=True)]
    boxes = [*product(_near(heights, largest=True), _near(widths, largest=True))]
    for height, width in dict.fromkeys([*squares, *boxes]):
        yield ImageScaling(height=height, width=width, keeps_aspect=True, **way)
        yield ImageScaling(height=height, width=width, keeps_aspect=True, enlarges=False, **way)


def _around(sides: Sequence[int], way: dict[str, Any]) -> list[int]:
    """The sides, and typical sides that become the same multiples."""
    multiple = way["multiple"]
    near = (other for side in sides for other in range(max(1, side - multiple + 1), side + multiple))
    return list(dict.fromkeys([*sides, *(side for side in near if side % 8 == 0 or side % 10 == 0)]))


def _near(measured: Iterable[float], largest: bool = False, least: bool = False) -> list[int]:
    """Whole numbers for the side of all pictures, or for the largest or the smallest of them."""
    values = sorted(measured)
    if not values:
        return []
    most = values[-1] if largest else values[0] if least else values[len(values) // 2]
    if not largest and not least and values[-1] - values[0] > max(3, 0.02 * most):
        return []
    if isinstance(most, int):
        return [most]
    reach = max(1, round(0.004 * most))
    nearest = round(most)
    around = range(max(1, nearest - reach), nearest + reach + 1)
    # Typical sides come first.
    return sorted(around, key=lambda side: (side % 32 != 0, side % 8 != 0, abs(side - most)))
