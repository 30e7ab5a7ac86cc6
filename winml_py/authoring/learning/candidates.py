"""Which of the contracts that fit the ramps the function follows: texture shows the kernel, and odd sizes the rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...core.base.arrays import Array, Pixels, Size
from ...core.imaging.bitmap import SoftwareBitmap
from ...core.imaging.contract import ImageContract, Placement
from ...core.imaging.tensorize import tensorize
from ...enums import BitmapPixelFormat, ImageKernel, TensorKind, TensorLayout
from ...errors import WinMLError
from ..picture_function import PictureFunction, PictureTensor
from .placement_rules import Rule
from .probe_images import SIZES, ColourMapping, make_texture

TEXTURES: tuple[Size, ...] = ((97, 131), (300, 400), (701, 350))
"""Height and width of the pictures that determine a kernel, smallest first: it rules out most. Antialiasing shows when
a picture shrinks: if it shrinks in none of these, a larger one is tried."""

MAX_SIDE = 4096
"""The longest side, in pixels, of a picture that decides between two rules."""

ENOUGH = 300
"""How many sizes are tried to find the most distinctive one. More are tried if none of these tells two rules apart."""

CLOSE = 0.05
"""Gray levels: candidates this close to the best one are kept until a picture tells them apart."""


class ContractCandidate(NamedTuple):
    """A contract, and its rule for placing pictures."""

    contract: ImageContract
    rule: Rule

    def compute_tensor(self, pixels: Pixels) -> Array | None:
        """The tensor of a picture, as in a bind: float32 of channels x height x width; None if there is none."""
        try:
            placement = self.rule.place((pixels.shape[0], pixels.shape[1]))
        except WinMLError:
            return None
        bitmap = SoftwareBitmap.from_array(pixels, BitmapPixelFormat.RGB8)
        plain = replace(self.contract, tensor_kind=TensorKind.FLOAT, layout=TensorLayout.NCHW)
        out = np.empty((plain.channels, *placement.tensor), np.float32)
        tensorize(bitmap, plain, out, placement)
        return out

    def compute_differences(self, pixels: Pixels, answer: PictureTensor, mapping: ColourMapping) -> Array | None:
        """The differences from the function's tensor, in gray levels; None if their sizes differ."""
        tensor = self.compute_tensor(pixels)
        if tensor is None or tensor.shape != answer.numbers.shape:
            return None
        differences: Array = tensor - answer.numbers
        differences /= mapping.factors[:, None, None]
        return np.abs(differences, out=differences)

    def compute_mean_difference(self, pixels: Pixels, answer: PictureTensor, mapping: ColourMapping) -> float:
        """The mean of the differences; more than any of them if the sizes differ."""
        differences = self.compute_differences(pixels, answer, mapping)
        return 1e3 if differences is None else float(differences.mean())


def choose_candidate(
    prepare: PictureFunction, contract: ImageContract, rules: Sequence[Rule], mapping: ColourMapping, seed: int
) -> ContractCandidate:
    """The candidate closest to the function; of several that make the same of all pictures, the plainest.

    Args:
        prepare: the function.
        contract: order, range, mean, std, padding and size, as determined from colours.
        rules: how pictures may be placed, plainest first.
        mapping: how levels become numbers.
        seed: the seed of the pictures.
    """
    rng = np.random.default_rng(seed)
    # Rules that place all probe pictures alike are tried as one.
    groups: dict[tuple[Placement, ...], list[Rule]] = {}
    for rule in rules:
        groups.setdefault(tuple(rule.place(size) for size in (*SIZES, *TEXTURES)), []).append(rule)
    scores = {(kernel, placements): 0.0 for placements in groups for kernel in ImageKernel}
    for size in _select_texture_sizes(rules[0]):
        pixels = make_texture(size, rng)
        answer = prepare(pixels)
        for kernel, placements in scores:
            candidate = _make_candidate(contract, groups[placements][0], kernel)
            scores[kernel, placements] += candidate.compute_mean_difference(pixels, answer, mapping)
        best = min(scores.values())
        scores = {key: score for key, score in scores.items() if score <= 2 * best + 1}
    best = min(scores.values())
    close = [key for key in sorted(scores, key=scores.__getitem__) if scores[key] <= best + CLOSE]
    candidates = [
        _make_candidate(contract, rule, kernel) for kernel, placements in close for rule in groups[placements]
    ]
    return _tell_apart(prepare, candidates, mapping, rng)[0]


def _select_texture_sizes(rule: Rule) -> Sequence[Size]:
    """`TEXTURES`, and a larger picture if none of them shrinks."""
    longest = max(*rule.place((300, 400)).scaled, *rule.sides)
    if longest <= max(TEXTURES[-1]):
        return TEXTURES
    larger = min(MAX_SIDE, longest * 3 // 2)
    return (*TEXTURES, (larger * 4 // 5, larger))


def _make_candidate(contract: ImageContract, rule: Rule, kernel: ImageKernel) -> ContractCandidate:
    return ContractCandidate(replace(contract, kernel=kernel, scaling=rule.scaling), rule)


def _tell_apart(
    prepare: PictureFunction, candidates: list[ContractCandidate], mapping: ColourMapping, rng: np.random.Generator
) -> list[ContractCandidate]:
    """Tries pictures that two candidates place differently, until one candidate is left, or none differ."""
    while len(candidates) > 1:
        size = _find_distinctive_size(candidates, rng)
        if size is None:
            break
        pixels = make_texture(size, rng)
        answer = prepare(pixels)
        # Candidates with one kernel that place the picture alike make the same tensor, which is compared once.
        keys = [(_try_placing(candidate.rule, size), candidate.contract.kernel) for candidate in candidates]
        means: dict[tuple[Placement | None, ImageKernel], float] = {}
        for key, candidate in zip(keys, candidates, strict=True):
            if key not in means:
                means[key] = candidate.compute_mean_difference(pixels, answer, mapping)
        limit = min(means.values()) + CLOSE
        close = [candidate for key, candidate in zip(keys, candidates, strict=True) if means[key] <= limit]
        if len(close) == len(candidates):  # they place it differently, but texture does not show it
            break
        candidates = close
    return candidates


def _find_distinctive_size(candidates: Iterable[ContractCandidate], rng: np.random.Generator) -> Size | None:
    """The picture size that the rules place most differently; None if they place all tried sizes alike."""
    rules = list({candidate.rule: None for candidate in candidates})
    if len(rules) == 1:
        return None
    # Ties come last: a function that computes in floating point may round them by another rule.
    for sizes in (_generate_random_sizes(rng), _find_tie_sizes(rules)):
        most_placements, best_size = 1, None
        for index, size in enumerate(sizes):
            if most_placements > 1 and index >= ENOUGH:
                break
            placements = len({_try_placing(rule, size) for rule in rules})
            if placements > most_placements:
                most_placements, best_size = placements, size
        if best_size is not None:
            return best_size
    return None


def _generate_random_sizes(rng: np.random.Generator) -> Iterator[Size]:
    for attempt in range(3000):
        long = int(np.exp(rng.uniform(np.log(16), np.log(MAX_SIDE))))
        short = max(8, int(long * (rng.uniform(0.04, 0.3) if attempt % 3 == 0 else rng.uniform(0.3, 1))))
        yield (short, long) if attempt % 2 else (long, short)


def _find_tie_sizes(rules: Sequence[Rule]) -> Iterator[Size]:
    """Sizes with a side that scales to a whole number and a half, where rounding up and rounding to even differ.

    One side is twice its scaled length, and the other is odd.
    """
    placements = [_try_placing(rule, size) for rule in rules for size in ((300, 400), (400, 300))]
    scaled_sides = {side for placement in placements if placement is not None for side in placement.scaled}
    for scaled in sorted(scaled_sides.union(*(rule.sides for rule in rules))):
        even = 2 * scaled
        for odd in (301, scaled // 2 * 2 + 1, scaled // 2 * 2 + 3, even - 1, even + 1, even + 3):
            if even * odd <= MAX_SIDE * 3000:
                yield even, odd
                yield odd, even


def _try_placing(rule: Rule, picture: Size) -> Placement | None:
    try:
        return rule.place(picture)
    except WinMLError:
        return None
