"""The contract rules that place pictures where a function places them, plainest first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple, TypedDict

from ...core.base.arrays import Sides, Size
from ...core.imaging.contract import Placement, compute_placement
from ...enums import ImageAnchor, ImageRounding
from ...errors import WinMLError
from ...scaling import (
    CropSquare,
    CropToAspect,
    Ends,
    Fit,
    Keep,
    LeastChange,
    LongestSide,
    Multiple,
    Scaling,
    ShortestSide,
    Stretch,
)
from .measure_function import Area

ROUNDINGS = (ImageRounding.DOWN, ImageRounding.HALF_EVEN, ImageRounding.HALF_UP, ImageRounding.UP)
MULTIPLES = (1, 8, 14, 16, 28, 32, 64, 128)
STRIDES = (1, 8, 14, 16, 28, 32, 64, 128)


class Rule(NamedTuple):
    """The part of a contract that decides where a picture goes.

    Attributes:
        scaling: the rule for the scaled size.
        tensor: height and width of the tensor; None for a side that depends on the picture.
    """

    scaling: Scaling
    tensor: Sides

    @property
    def sides(self) -> set[int]:
        """The sides that it names: larger pictures may be treated differently."""
        return {side for side in (*self.tensor, *self.scaling.sides) if side is not None}

    def place(self, picture: Size) -> Placement:
        """Where a picture of that height and width goes."""
        return compute_placement(picture[1], picture[0], self.tensor, self.scaling)


def find_tensor_sides(areas: Sequence[Area]) -> Sides:
    """Height and width of the tensor; None for a side that differs from picture to picture."""
    heights, widths = {area.tensor[0] for area in areas}, {area.tensor[1] for area in areas}
    return heights.pop() if len(heights) == 1 else None, widths.pop() if len(widths) == 1 else None


def find_rules(areas: Sequence[Area]) -> list[Rule]:
    """The rules that place all pictures where the function does, to the visible pixel, plainest first.

    Texture decides later what a ramp cannot show: half a pixel of an offset, a pixel of a scaled size.
    """
    tensor = find_tensor_sides(areas)
    rules = dict.fromkeys(_propose_rules(areas, tensor))  # each once, in their order
    longest_short_side = max(min(area.picture) for area in areas)
    longest_side = max(max(area.picture) for area in areas)

    def has_visible_limits(scaling: Scaling) -> bool:
        """Whether the limits of a scaling are below the sides of the largest pictures, which show them."""
        match scaling:
            case ShortestSide(pixels=short, limit=long) | LeastChange(shortest_side=short, longest_side=long):
                return short < longest_short_side and (long or 0) < longest_side
            case LongestSide(pixels=long):
                return long < longest_side
        return True

    visible = [rule for rule in rules if has_visible_limits(rule.scaling)]
    return [rule for rule in visible if all(_is_consistent(rule, area) for area in areas)]


def _is_consistent(rule: Rule, area: Area) -> bool:
    """Whether a rule places a picture where the function does."""
    try:
        placement = rule.place(area.picture)
    except WinMLError:
        return False
    if placement.tensor != area.tensor or placement.target != area.target:
        return False
    # Where each axis begins in the picture, how much of it is used, and where that is cut after scaling.
    part, cut = placement.part, placement.cut
    axes = ((part.y, part.height, cut.y), (part.x, part.width, cut.x))
    for axis, (part_begin, part_length, cut_begin) in enumerate(axes):
        measured_side, measured_begin, side = area.scaled[axis], area.offset[axis], area.picture[axis]
        if math.isnan(measured_side):
            continue
        scale = placement.scaled[axis] / part_length
        # A ramp of 256 levels locates a pixel to a fraction of one level, of which a long picture has few. Aligned
        # corners scale by one pixel less.
        visible = (area.target.height, area.target.width)[axis]
        tolerance = 1.0 + max(0.01, 1 / visible) * measured_side + scale * side / 256
        if abs(side * scale - measured_side) > tolerance:
            return False
        if abs(part_begin * scale + cut_begin - measured_begin) > tolerance:
            return False
    return True


def _propose_rules(areas: Sequence[Area], tensor: Sides) -> Iterator[Rule]:
    """Rules whose numbers match the areas, plainest first."""
    yield Rule(Stretch(), tensor)
    if None not in tensor:
        yield from (Rule(CropToAspect(rounding), tensor) for rounding in (ImageRounding.HALF_UP, ImageRounding.DOWN))
        yield from (
            Rule(Fit(rounding=rounding), tensor) for rounding in (ImageRounding.HALF_EVEN, ImageRounding.HALF_UP)
        )
    for scaling in _propose_scalings(areas, tensor):
        yield Rule(scaling, tensor)


class _ScaledSides(NamedTuple):
    """Heights and widths of the scaled pictures; whole numbers where they are known to the pixel."""

    heights: list[float]
    widths: list[float]

    @property
    def shorter(self) -> list[float]:
        """The shorter side of each picture."""
        return list(map(min, self.heights, self.widths))

    @property
    def longer(self) -> list[float]:
        """The longer side of each picture."""
        return list(map(max, self.heights, self.widths))


class _Options(TypedDict):
    """The fields that most rules have."""

    rounding: ImageRounding
    multiple: Multiple
    ends: Ends


def _has_scale(area: Area) -> bool:
    """Whether enough of the picture is visible to tell its scale."""
    return not any(map(math.isnan, area.scaled))


def _find_scaled_side(area: Area, axis: int) -> float:
    """A side of the scaled picture; if it is not cropped, it is that of the visible part, which is exact."""
    visible = area.target.height if axis == 0 else area.target.width
    return visible if area.offset[axis] < 0.75 and not _is_cropped(area, axis) else area.scaled[axis]


def _is_cropped(area: Area, axis: int) -> bool:
    """Whether the scaled picture is larger along the axis than its visible part."""
    visible = area.target.height if axis == 0 else area.target.width
    return area.scaled[axis] - visible > 1.5 + 0.01 * visible


def _propose_scalings(areas: Sequence[Area], tensor: Sides) -> Iterator[Scaling]:
    """Scalings whose numbers match the areas, plainest first."""
    scaled = [area for area in areas if _has_scale(area)]
    sides = _ScaledSides(
        [_find_scaled_side(area, 0) for area in scaled], [_find_scaled_side(area, 1) for area in scaled]
    )
    for ends in _propose_crops_and_pads(areas, tensor):
        yield Keep(ends=ends)
        for size in product(_find_sides(sides.heights), _find_sides(sides.widths)):
            yield Stretch(size, ends)
        for number in _find_multiples(sides):
            multiples = [Multiple(number, rounding) for rounding in (ROUNDINGS if number > 1 else ROUNDINGS[:1])]
            if number > 1:
                yield from (Keep(multiple=multiple, ends=ends) for multiple in multiples)
            for rounding, multiple in product(ROUNDINGS, multiples):
                options: _Options = {"rounding": rounding, "multiple": multiple, "ends": ends}
                if None in tensor and any(tensor):
                    yield from _propose_by_tensor(sides, options)
                yield from _propose_by_one_side(sides, options)
                yield from _propose_by_two_sides(sides, options)
                yield from _propose_boxes(sides, options)
    if None not in tensor:
        yield from _propose_cropped_squares(sides, min(side for side in tensor if side is not None))


def _propose_crops_and_pads(areas: Sequence[Area], tensor: Sides) -> Iterator[Ends]:
    """How scaled pictures are cropped or padded to the tensor."""
    padded = [area for area in areas if (area.target.height, area.target.width) != area.tensor]
    stride = 1
    if None in tensor and padded:
        free = [area.tensor[axis] for area in areas for axis in (0, 1) if tensor[axis] is None]
        stride = [stride for stride in STRIDES if not any(side % stride for side in free)][-1]
    is_in_corner = bool(padded) and not any(area.target.x or area.target.y for area in padded)
    anchor = ImageAnchor.TOP_LEFT if is_in_corner else ImageAnchor.CENTER
    is_cropped = any(_is_cropped(area, axis) for area in areas if _has_scale(area) for axis in (0, 1))
    for crop_rounding in (ImageRounding.DOWN, ImageRounding.HALF_EVEN)[: 2 if is_cropped else 1]:
        yield Ends(crop_rounding, anchor, stride)


def _find_multiples(sides: _ScaledSides) -> list[int]:
    """The largest number that all exact sides are multiples of, and 1."""
    exact = [side for side in (*sides.heights, *sides.widths) if isinstance(side, int)]
    common = [multiple for multiple in MULTIPLES if exact and not any(side % multiple for side in exact)]
    return sorted({1, *common[-1:]}, reverse=True)


def _propose_by_tensor(sides: _ScaledSides, options: _Options) -> Iterator[Scaling]:
    """One side is the tensor's, and the other follows, with or without a limit."""
    yield Keep(**options)
    yield from (LongestSide(limit, **options) for limit in _find_sides(sides.longer, largest=True))


def _propose_by_one_side(sides: _ScaledSides, options: _Options) -> Iterator[Scaling]:
    """The shorter or the longer side is stated."""
    for side in _add_typical_sides(_find_sides(sides.shorter), options):
        yield ShortestSide(side, **options)
    for side in _add_typical_sides(_find_sides(sides.longer), options):
        yield LongestSide(side, **options)
    # Sides that only limit: the largest of all pictures, or the smallest.
    for side in _add_typical_sides(_find_sides(sides.longer, largest=True), options):
        yield LongestSide(side, enlarges=False, **options)
    for side in _add_typical_sides(_find_sides(sides.shorter, largest=True), options):
        yield ShortestSide(side, enlarges=False, **options)
    for side in _find_sides(sides.shorter, least=True):
        yield ShortestSide(side, shrinks=False, **options)


def _propose_by_two_sides(sides: _ScaledSides, options: _Options) -> Iterator[Scaling]:
    """The shorter and the longer side are stated, and one of them decides."""
    multiple, ends = options["multiple"], options["ends"]
    for shortest, longest in product(_find_sides(sides.shorter, largest=True), _find_sides(sides.longer, largest=True)):
        if longest > shortest:
            yield ShortestSide(shortest, longest, **options)
            yield ShortestSide(shortest, longest, limits_rounded=True, **options)
            yield LeastChange(shortest, longest, multiple=multiple, ends=ends)
    # A side of most pictures, as the shorter or as the longer one (Depth Anything).
    for side, _ in Counter(map(round, (*sides.shorter, *sides.longer))).most_common(2):
        yield LeastChange(side, side, multiple=multiple, ends=ends)


def _propose_boxes(sides: _ScaledSides, options: _Options) -> Iterator[Scaling]:
    """Pictures keep their aspect ratio in a square or another box.

    `Fit` multiplies in floating point, like `int(side * scale)`: if the product is just below a whole number,
    `LongestSide`, which is exact, gives a pixel more.
    """
    squares = [(side, side) for side in _find_sides(sides.longer, largest=True)]
    boxes = [*product(_find_sides(sides.heights, largest=True), _find_sides(sides.widths, largest=True))]
    for size in dict.fromkeys([*squares, *boxes]):
        yield Fit(size, **options)
        yield Fit(size, enlarges=False, **options)


def _propose_cropped_squares(sides: _ScaledSides, side: int) -> Iterator[Scaling]:
    """A square is cropped first, whose side is a share of the picture's shorter one."""
    for ratio in sorted({round(side / shorter, 3) for shorter in sides.shorter if shorter >= side}, reverse=True):
        if 0 < ratio <= 1:
            yield CropSquare(ratio)


def _add_typical_sides(sides: Sequence[int], options: _Options) -> list[int]:
    """The sides, and typical sides that become the same multiples."""
    multiple = options["multiple"].of
    nearby = [number for side in sides for number in range(max(1, side - multiple + 1), side + multiple)]
    typical = [number for number in nearby if number % 8 == 0 or number % 10 == 0]
    return list(dict.fromkeys([*sides, *typical]))


def _find_sides(measured: Iterable[float], largest: bool = False, least: bool = False) -> list[int]:
    """Whole numbers for the side of all pictures, or for the largest or the smallest of them."""
    values = sorted(measured)
    if not values:
        return []
    if largest:
        side = values[-1]
    elif least:
        side = values[0]
    else:
        side = values[len(values) // 2]
        if values[-1] - values[0] > max(3, 0.02 * side):
            return []  # it differs from picture to picture
    if isinstance(side, int):
        return [side]
    reach = max(1, round(0.004 * side))
    nearest = round(side)
    candidates = range(max(1, nearest - reach), nearest + reach + 1)
    # Typical sides come first.
    return sorted(candidates, key=lambda number: (number % 32 != 0, number % 8 != 0, abs(number - side)))
