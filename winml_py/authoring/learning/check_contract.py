"""Proving a learned contract on fresh pictures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...core.base.arrays import Size
from ..picture_function import PictureFunction
from .candidates import ContractCandidate
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
        picture_count: how many pictures were compared.
        mean_difference: over all numbers of all pictures, each picture counting the same.
        largest_difference: of all numbers.
        worst_size: height and width of the picture with the largest difference.
        other_size: a picture size whose tensor has another size; None if there is none.
        other_tiny_size: the same among pictures whose longer side is below `TINY`, which count nowhere else.
    """

    picture_count: int
    mean_difference: float
    largest_difference: float
    worst_size: Size | None
    other_size: Size | None
    other_tiny_size: Size | None

    @property
    def is_close(self) -> bool:
        """Whether the contract may be written."""
        has_small_differences = self.mean_difference <= MAX_MEAN and self.largest_difference <= MAX_DIFFERENCE
        return self.other_size is None and has_small_differences


def prove_contract(
    prepare: PictureFunction, candidate: ContractCandidate, rivals: Iterable[Rule], mapping: ColourMapping, seed: int
) -> ContractProof:
    """Compares a contract with the function on fresh pictures: texture in all levels, of many sizes.

    Args:
        prepare: the function.
        candidate: the contract.
        rivals: the rules that also fit the ramps: a side that one of them names may be the function's.
        mapping: how levels become numbers.
        seed: the seed of the pictures.
    """
    means, largest, worst_size, count = [], -1.0, None, 0
    other_size = other_tiny_size = None
    longest = max(*candidate.rule.place((300, 400)).scaled, *candidate.rule.sides)
    fresh_pictures = make_fresh_pictures(PICTURES, seed, longest)
    sides = _select_distinct_sides(itertools.chain([candidate.rule], rivals))
    decisive_pictures = make_decisive_pictures(sides, candidate.rule.sides, seed + 1)
    for pixels in itertools.chain(fresh_pictures, decisive_pictures):
        if count >= PICTURES and (largest > MAX_DIFFERENCE or other_size is not None):
            break  # the contract is refused, and the large pictures take longest
        count += 1
        size = (pixels.shape[0], pixels.shape[1])
        differences = candidate.compute_differences(pixels, prepare(pixels), mapping)
        if differences is None and max(size) < TINY:
            other_tiny_size = size
        elif differences is None:
            other_size = size
        else:
            means.append(float(differences.mean()))
            if differences.max() > largest:
                largest, worst_size = float(differences.max()), size
    mean = float(np.mean(means)) if means else np.inf
    return ContractProof(count, mean, largest, worst_size, other_size, other_tiny_size)


def _select_distinct_sides(rules: Iterable[Rule]) -> list[int]:
    """The sides of the rules, without nearly equal ones."""
    distinct: list[int] = []
    for side in (side for rule in rules for side in sorted(rule.sides)):
        if len(distinct) < SIDES and all(abs(side - known) > 0.02 * known for known in distinct):
            distinct.append(side)
    return distinct
