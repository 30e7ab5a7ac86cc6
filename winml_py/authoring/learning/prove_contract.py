"""Proving a learned contract on fresh pictures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...core.base.arrays import Size
from ..picture_function import PictureFunction
from .choose_contract import ContractCandidate
from .placement_rules import Rule
from .probe_images import ColourMapping, make_decisive_pictures, make_fresh_pictures

PICTURES = 50
"""How many pictures of random sizes prove a contract, besides those that decide whether there is a limit."""

SIDES = 4
"""How many sides of the rules are tried as limits."""

MAX_MEAN, MAX_DIFFERENCE = 0.3, 3.0
"""Gray levels: the largest effect of another way of rounding. A larger difference means another function."""

TINY = 64
"""Pixels: text detectors place smaller pictures by a special rule, and such pictures are rare."""


class ContractProof(NamedTuple):
    """The differences of a contract from the function, on pictures that it was not learned from; in gray levels.

    Attributes:
        pictures: how many.
        mean: over all numbers of all pictures, each picture counting the same.
        most: of all numbers.
        worst_size: height and width of the picture with that difference.
        sizes_differ: a picture size whose tensor has another size; None if there is none.
        tiny_differ: the same among pictures whose longer side is below `TINY`, which count nowhere else.
    """

    pictures: int
    mean: float
    most: float
    worst_size: Size | None
    sizes_differ: Size | None
    tiny_differ: Size | None

    @property
    def holds(self) -> bool:
        """Whether the contract may be written."""
        return self.sizes_differ is None and self.mean <= MAX_MEAN and self.most <= MAX_DIFFERENCE


def prove_contract(
    prepare: PictureFunction, candidate: ContractCandidate, rivals: Iterable[Rule], numbers: ColourMapping, seed: int
) -> ContractProof:
    """Compares a contract with the function on fresh pictures: texture in all levels, of many sizes.

    Args:
        prepare: the function.
        candidate: the contract.
        rivals: the rules that also fit the ramps: a side that one of them names may be the function's.
        numbers: how levels become numbers.
        seed: the seed of the pictures.
    """
    means, most, worst_size, count = [], -1.0, None, 0
    differing: dict[bool, Size] = {}
    sides = _select_distinct_sides(itertools.chain([candidate.rule], rivals))
    scaled = max(*candidate.rule.place((300, 400)).scaled, *candidate.rule.sides)
    for pixels in itertools.chain(
        make_fresh_pictures(PICTURES, seed, scaled), make_decisive_pictures(sides, candidate.rule.sides, seed + 1)
    ):
        if count >= PICTURES and (most > MAX_DIFFERENCE or False in differing):
            break  # it is refused, and the large pictures take longest
        count += 1
        size = (pixels.shape[0], pixels.shape[1])
        differences = candidate.compute_differences(pixels, prepare(pixels), numbers)
        if differences is None:
            differing[max(size) < TINY] = size
            continue
        means.append(float(differences.mean()))
        if differences.max() > most:
            most, worst_size = float(differences.max()), size
    mean = float(np.mean(means)) if means else np.inf
    return ContractProof(count, mean, most, worst_size, differing.get(False), differing.get(True))


def _select_distinct_sides(rules: Iterable[Rule]) -> list[int]:
    """The sides of the rules, without nearly equal ones."""
    kept: list[int] = []
    for side in (side for rule in rules for side in sorted(rule.sides)):
        if len(kept) < SIDES and all(abs(side - other) > 0.02 * other for other in kept):
            kept.append(side)
    return kept
