"""Where the tiles of a treemap lie: rectangles whose areas are the shares of numbers, as square as can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """A rectangle: left, top, width and height."""

    x: float
    y: float
    width: float
    height: float


def squarified(numbers: Sequence[float], width: float, height: float) -> list[Place]:
    """A rectangle for each number inside one of this size, by the algorithm of Bruls, Huizing and van Wijk.

    Args:
        numbers: above 0, the largest first.
        width: of the whole.
        height: of the whole.
    """
    scale = width * height / sum(numbers) if numbers else 0
    areas = [number * scale for number in numbers]
    places: list[Place] = []
    left = Place(0, 0, width, height)
    while areas:
        count = _row(areas, min(left.width, left.height))
        row, areas = areas[:count], areas[count:]
        places += _lay(row, left)
        left = _rest(left, sum(row))
    return places


def _row(areas: Sequence[float], side: float) -> int:
    """How many of the areas, laid along the side, give rectangles that are as square as can be."""
    count = 1
    while count < len(areas) and _worst(areas[: count + 1], side) <= _worst(areas[:count], side):
        count += 1
    return count


def _worst(row: Sequence[float], side: float) -> float:
    """The longest side over the shortest, of the row's rectangles."""
    thickness = sum(row) / side
    return max(thickness**2 / row[-1], row[0] / thickness**2)


def _lay(row: Sequence[float], left: Place) -> list[Place]:
    """The row along the shorter side of what is left."""
    thickness = sum(row) / min(left.width, left.height)
    places, along = [], 0.0
    for area in row:
        length = area / thickness
        if left.width >= left.height:
            places.append(Place(left.x, left.y + along, thickness, length))
        else:
            places.append(Place(left.x + along, left.y, length, thickness))
        along += length
    return places


def _rest(left: Place, area: float) -> Place:
    """What the row leaves."""
    x, y, width, height = left
    if width >= height:
        return Place(x + area / height, y, width - area / height, height)
    return Place(x, y + area / width, width, height - area / width)
