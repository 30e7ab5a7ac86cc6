"""Which of the contracts that fit the ramps the function follows: texture shows the kernel, and odd sizes the rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ...core.base.arrays import Array, Pixels, Size
from ...core.imaging.bitmap import SoftwareBitmap
from ...core.imaging.contract import ImageContract
from ...core.imaging.geometry import Placement
from ...core.imaging.tensorize import tensorize
from ...enums import BitmapPixelFormat, ImageCropMode, ImageKernel, TensorKind, TensorLayout
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

    def compute_differences(self, pixels: Pixels, answer: PictureTensor, numbers: ColourMapping) -> Array | None:
        """The differences from the function's tensor, in gray levels; None if their sizes differ."""
        made = self.compute_tensor(pixels)
        if made is None or made.shape != answer.numbers.shape:
            return None
        found: Array = made - answer.numbers
        found /= numbers.factors[:, None, None]
        return np.abs(found, out=found)


def choose_contract(
    prepare: PictureFunction, contract: ImageContract, rules: Sequence[Rule], numbers: ColourMapping, seed: int
) -> ContractCandidate:
    """The candidate closest to the function; of several that make the same of all pictures, the plainest.

    Args:
        prepare: the function.
        contract: order, range, mean, std, padding and size, as determined from colours.
        rules: how pictures may be placed, plainest first.
        numbers: how levels become numbers.
        seed: the seed of the pictures.
    """
    rng = np.random.default_rng(seed)
    # Rules that place all probe pictures alike are tried as one.
    alike: dict[tuple[Placement, ...], list[Rule]] = {}
    for rule in rules:
        alike.setdefault(tuple(rule.place(size) for size in (*SIZES, *TEXTURES)), []).append(rule)
    scored = [
        (0.0, _make_candidate(contract, group[0], kernel), group) for group in alike.values() for kernel in ImageKernel
    ]
    longest = max(*rules[0].place((300, 400)).scaled, *rules[0].sides)
    larger = min(MAX_SIDE, longest * 3 // 2)
    for size in (*TEXTURES, *([(larger * 4 // 5, larger)] if longest > max(TEXTURES[-1]) else [])):
        pixels = make_texture(size, rng)
        answer = prepare(pixels)
        scored = [
            (s + _compute_mean_difference(c.compute_differences(pixels, answer, numbers)), c, group)
            for s, c, group in scored
        ]
        best = min(score for score, *_ in scored)
        scored = [entry for entry in scored if entry[0] <= 2 * best + 1]
    best = min(score for score, *_ in scored)
    scored.sort(key=itemgetter(0))
    close = [(c.contract.kernel, group) for score, c, group in scored if score <= best + CLOSE]
    left = [_make_candidate(contract, rule, kernel) for kernel, group in close for rule in group]
    return _tell_apart(prepare, left, numbers, rng)[0]


def _compute_mean_difference(differences: Array | None) -> float:
    return 1e3 if differences is None else float(differences.mean())


def _make_candidate(contract: ImageContract, rule: Rule, kernel: ImageKernel) -> ContractCandidate:
    mode = ImageCropMode.CENTER if rule.scaling else rule.mode
    return ContractCandidate(replace(contract, kernel=kernel, crop_mode=mode, scaling=rule.scaling), rule)


def _tell_apart(
    prepare: PictureFunction, candidates: list[ContractCandidate], numbers: ColourMapping, rng: np.random.Generator
) -> list[ContractCandidate]:
    """Tries pictures that two candidates place differently, until one candidate is left, or none differ."""
    while len(candidates) > 1:
        size = _find_distinctive_size(candidates, rng)
        if size is None:
            break
        pixels = make_texture(size, rng)
        answer = prepare(pixels)
        ways = [(_try_placing(candidate.rule, size), candidate.contract.kernel) for candidate in candidates]
        by_way = dict(zip(ways, candidates, strict=True))
        found = {
            way: _compute_mean_difference(candidate.compute_differences(pixels, answer, numbers))
            for way, candidate in by_way.items()
        }
        means = [found[way] for way in ways]
        pairs = zip(candidates, means, strict=True)
        left = [candidate for candidate, mean in pairs if mean <= min(means) + CLOSE]
        if len(left) == len(candidates):  # they place it differently, but texture does not show it
            break
        candidates = left
    return candidates


def _find_distinctive_size(candidates: Iterable[ContractCandidate], rng: np.random.Generator) -> Size | None:
    """The picture size that the rules place most differently; None if they place all tried sizes alike."""
    rules = list({candidate.rule: None for candidate in candidates})
    if len(rules) == 1:
        return None
    # Ties come last: a function that computes in floating point may round them by another rule.
    for sizes in (_generate_random_sizes(rng), _find_tie_sizes(rules)):
        best, size = 1, None
        for index, tried in enumerate(sizes):
            if best > 1 and index >= ENOUGH:
                break
            kinds = len({_try_placing(rule, tried) for rule in rules})
            if kinds > best:
                best, size = kinds, tried
        if size is not None:
            return size
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
    placed = [_try_placing(rule, size) for rule in rules for size in ((300, 400), (400, 300))]
    sides = {side for placement in placed if placement is not None for side in placement.scaled}
    for side in sorted(sides.union(*(rule.sides for rule in rules))):
        for other in (301, side // 2 * 2 + 1, side // 2 * 2 + 3, 2 * side - 1, 2 * side + 1, 2 * side + 3):
            if 2 * side * other <= MAX_SIDE * 3000:
                yield 2 * side, other
                yield other, 2 * side


def _try_placing(rule: Rule, picture: Size) -> Placement | None:
    try:
        return rule.place(picture)
    except WinMLError:
        return None
