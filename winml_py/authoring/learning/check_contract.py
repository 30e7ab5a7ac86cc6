"""Comparing a learned contract with the function, on pictures that it was not learned from."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import PIL.Image

from ...core.base.arrays import Pixels, Size
from ..picture_function import PictureFunction
from .candidates import ContractCandidate
from .placement_rules import Rule
from .probe_images import (
    ColourMapping,
    make_common_pictures,
    make_contents,
    make_decisive_pictures,
    make_fresh_pictures,
)

PICTURES = 50
"""How many pictures of random sizes a contract is checked on, besides those that reveal a limit or a special case."""

SIDES = 4
"""How many sides of the rules are tried as limits."""

MAX_MEAN, MAX_DIFFERENCE = 0.3, 3.0
"""Gray levels: the largest effect of another way of rounding. A larger difference means another function."""

TINY = 64
"""Pixels: text detectors place smaller pictures by a special rule, and such pictures are rare."""


class ContractCheck(NamedTuple):
    """The differences of a contract from the function, on pictures that it was not learned from; in gray levels.

    Attributes:
        picture_count: how many pictures were compared.
        mean_difference: over all numbers of all pictures, each picture counting the same.
        largest_mean: of the picture with the largest mean.
        largest_mean_size: height and width of that picture.
        largest_difference: of all numbers.
        worst_size: height and width of the picture with the largest difference.
        other_size: a picture size whose tensor has another size; None if there is none.
        other_tiny_size: the same among pictures whose longer side is below `TINY`, which count nowhere else.
    """

    picture_count: int
    mean_difference: float
    largest_mean: float
    largest_mean_size: Size | None
    largest_difference: float
    worst_size: Size | None
    other_size: Size | None
    other_tiny_size: Size | None

    @property
    def is_close(self) -> bool:
        """Whether the contract may be written."""
        has_small_differences = self.largest_mean <= MAX_MEAN and self.largest_difference <= MAX_DIFFERENCE
        return self.other_size is None and has_small_differences


def check_contract(
    prepare: PictureFunction, candidate: ContractCandidate, rivals: Iterable[Rule], mapping: ColourMapping, seed: int
) -> ContractCheck:
    """Compares a contract with the function on other pictures: texture of many sizes, and a photograph in many states.

    Args:
        prepare: the function. If it takes files, every third picture is a JPEG.
        candidate: the contract.
        rivals: the rules that also fit the ramps: a side that one of them names may be the function's.
        mapping: how levels become numbers.
        seed: the seed of the pictures.
    """
    means: list[float] = []
    largest_mean, largest_mean_size, largest, worst_size, count = 0.0, None, -1.0, None, 0
    other_size = other_tiny_size = None
    longest = max(*candidate.rule.place((300, 400)).scaled, *candidate.rule.sides)
    sides = _select_distinct_sides(itertools.chain([candidate.rule], rivals))
    pictures = itertools.chain(
        make_fresh_pictures(PICTURES, seed, longest),
        make_contents(seed + 2),
        make_decisive_pictures(sides, candidate.rule.sides, seed + 1),
        make_common_pictures(seed + 3),
    )
    for pixels in pictures:
        if count >= PICTURES and (largest > MAX_DIFFERENCE or other_size is not None or largest_mean > MAX_MEAN):
            break  # the contract is refused, and the large pictures take longest
        count += 1
        size = (pixels.shape[0], pixels.shape[1])
        jpeg = _encode_jpeg(pixels) if prepare.takes_files and count % 3 == 0 else b""
        if jpeg:
            pixels = np.asarray(PIL.Image.open(io.BytesIO(jpeg)))
        differences = candidate.compute_differences(pixels, prepare(pixels, jpeg), mapping)
        if differences is None and max(size) < TINY:
            other_tiny_size = size
        elif differences is None:
            other_size = size
        else:
            means.append(float(differences.mean()))
            if means[-1] > largest_mean:
                largest_mean, largest_mean_size = means[-1], size
            if differences.max() > largest:
                largest, worst_size = float(differences.max()), size
    mean = float(np.mean(means)) if means else np.inf
    return ContractCheck(count, mean, largest_mean, largest_mean_size, largest, worst_size, other_size, other_tiny_size)


def _encode_jpeg(pixels: Pixels) -> bytes:
    """A JPEG with all colours of all pixels: decoders differ in how they make up others."""
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "jpeg", quality=95, subsampling=0)
    return file.getvalue()


def _select_distinct_sides(rules: Iterable[Rule]) -> list[int]:
    """The sides of the rules, without nearly equal ones."""
    distinct: list[int] = []
    for side in (side for rule in rules for side in sorted(rule.sides)):
        if len(distinct) < SIDES and all(abs(side - known) > 0.02 * known for known in distinct):
            distinct.append(side)
    return distinct
