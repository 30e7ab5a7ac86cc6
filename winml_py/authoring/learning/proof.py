"""Proving a learned contract on fresh pictures; and if it fails, explaining how the function differs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from ...core.base.arrays import Array, Pixels, Size
from ...core.imaging.geometry import Placement
from ...core.imaging.resize import KERNELS, crop, resize
from ...enums import ImageKernel
from ..picture_function import PictureFunction, PictureTensor
from .candidates import ContractCandidate
from .probe_images import Numbers, deciding, fresh
from .rules import Rule

PICTURES = 50
"""How many pictures of random sizes prove a contract, besides those that decide whether there is a limit."""

SIDES = 4
"""How many sides of the rules are tried as limits."""

CLOSE_MEAN, CLOSE_MOST = 0.15, 2.0
"""Gray levels: below this, pictures are scaled in the same way."""

MAX_MEAN, MAX_DIFFERENCE = 0.3, 3.0
"""Gray levels: the largest effect of another way of rounding. A larger difference means another function."""


TINY = 64
"""Pixels: text detectors place smaller pictures by a special rule, and such pictures are rare."""

MIDDLES = (112, 128, 224, 232, 248, 256, 320, 384, 400, 448, 480, 512, 518, 600, 640, 768, 800, 1024)
"""Pixels: the sizes that functions first scale to, if they scale twice."""


class Proof(NamedTuple):
    """The differences of a contract from the function, on pictures that it was not learned from; in gray levels.

    Attributes:
        pictures: how many.
        mean: over all numbers of all pictures, each picture counting the same.
        most: of all numbers.
        worst: the picture with the largest difference, and the function's tensor for it.
        sizes_differ: a picture size whose tensor has another size; None if there is none.
        tiny_differ: the same among pictures whose longer side is below `TINY`, which count nowhere else.
    """

    pictures: int
    mean: float
    most: float
    worst: tuple[Pixels, PictureTensor]
    sizes_differ: Size | None
    tiny_differ: Size | None

    @property
    def is_close(self) -> bool:
        """Whether the function matches the contract, apart from rounding."""
        return self.sizes_differ is None and self.mean <= CLOSE_MEAN and self.most <= CLOSE_MOST

    @property
    def holds(self) -> bool:
        """Whether the contract may be written."""
        return self.sizes_differ is None and self.mean <= MAX_MEAN and self.most <= MAX_DIFFERENCE


def prove(
    prepare: PictureFunction, candidate: ContractCandidate, rivals: Iterable[Rule], numbers: Numbers, seed: int
) -> Proof:
    """Compares a contract with the function on fresh pictures: textures and scenes in all levels, of many sizes.

    Args:
        prepare: the function.
        candidate: the contract.
        rivals: the rules that also fit the ramps: a side that one of them names may be the function's.
        numbers: how levels become numbers.
        seed: the seed of the pictures.
    """
    means, most, farthest, count = [], -1.0, -1.0, 0
    differing: dict[bool, Size] = {}
    worst: tuple[Pixels, PictureTensor] | None = None
    sides = _apart(itertools.chain([candidate.rule], rivals))
    scaled = max(*candidate.rule.place((300, 400)).scaled, *candidate.rule.sides)
    for pixels in itertools.chain(fresh(PICTURES, seed, scaled), deciding(sides, candidate.rule.sides, seed + 1)):
        if count >= PICTURES and (most > MAX_DIFFERENCE or False in differing):
            break  # it is refused, and the large pictures take longest
        answer, count = prepare(pixels), count + 1
        differences = candidate.differences(pixels, answer, numbers)
        if differences is None:
            differing[max(pixels.shape) < TINY] = (pixels.shape[0], pixels.shape[1])
            worst = worst or (pixels, answer)
            continue
        means.append(float(differences.mean()))
        most = max(most, float(differences.max()))
        # Of the pictures that differ too much, explains one of about 300x400: tiny ones show little, and large ones
        # take long.
        rank = min(float(differences.max()), MAX_DIFFERENCE + 1) - 0.01 * abs(float(np.log(pixels.size / 360_000)))
        if rank > farthest:
            farthest, worst = rank, (pixels, answer)
    assert worst is not None
    return Proof(
        count, float(np.mean(means)) if means else np.inf, most, worst, differing.get(False), differing.get(True)
    )


def _apart(rules: Iterable[Rule]) -> list[int]:
    """The sides of the rules, without nearly equal ones."""
    kept: list[int] = []
    for side in (side for rule in rules for side in sorted(rule.sides)):
        if len(kept) < SIDES and all(abs(side - other) > 0.02 * other for other in kept):
            kept.append(side)
    return kept


# Reasons.


def explain(prepare: PictureFunction, candidate: ContractCandidate, numbers: Numbers, proof: Proof) -> str:
    """Why a contract does not match the function, in words: tries known causes, and names the one that fits."""
    if proof.sizes_differ is not None:
        height, width = proof.sizes_differ
        return (
            f"it gives the tensor of a picture of {width}x{height} another size: by the picture's content, or by an "
            "unknown rule for sizes"
        )
    pixels, answer = proof.worst
    placement = candidate.rule.place((pixels.shape[0], pixels.shape[1]))
    wanted = _planes(answer, numbers, placement)
    own = _own(candidate, pixels, numbers, placement)
    if words := _name_padding(answer, numbers, placement, own - wanted):
        return words
    found = min(CLOSE_MEAN, 0.5 * np.abs(own - wanted).mean())
    source = crop(pixels, placement.part)
    ways = _ways(placement, candidate.contract.kernel) if numbers.order else _ways_to_gray(placement)
    for what, scale in ways:
        made = scale(source).astype(np.float64)[_cut(placement)]
        if numbers.order:
            left = np.abs(made[..., list(numbers.order)].transpose(2, 0, 1) - wanted).mean()
        else:
            left = np.abs(np.rint(made @ np.array(numbers.weights)) - wanted[0]).mean()
        if left < found:
            found, words = left, what
    words = words or _name_other_size(candidate, pixels, answer, numbers, placement)
    if words:
        return words
    # Repeats the picture in the middle levels: a blur or another kernel then differs in proportion, and a function that
    # depends on a picture's levels does not differ at all.
    low, spread = float(pixels.min()), 160 / max(1.0, float(np.ptp(pixels)))
    middle = (48 + (pixels - low) * spread).astype(np.uint8)
    differences = candidate.differences(middle, prepare(middle), numbers)
    size = (pixels.shape[0], pixels.shape[1])
    if differences is not None and differences.max() <= 0.5 * min(1.0, spread) * np.abs(own - wanted).max():
        return f"it treats pictures of {size[1]}x{size[0]} by their content: for example, it changes dark or flat ones"
    return f"it makes other pixels from a picture of {size[1]}x{size[0]}, in an unknown way"


def _name_padding(answer: PictureTensor, numbers: Numbers, placement: Placement, differences: Array) -> str:
    """Whether only the padding differs, with a number between those of two levels."""
    if not placement.has_padding or np.abs(differences).max() > CLOSE_MOST:
        return ""
    levels = numbers.levels(answer.numbers)
    is_padding = np.ones(levels.shape, bool)
    is_padding[_target(placement)] = False
    level = levels[is_padding]
    if level.size == 0 or np.ptp(level) > 0.01 or abs(level[0] - np.rint(level[0])) < 0.05:
        return ""
    number = answer.numbers[is_padding][0]
    return f"it pads with the number {number:.3g}, the level {level[0]:.4g}, but a contract pads with whole levels"


def _name_other_size(
    candidate: ContractCandidate, pixels: Pixels, answer: PictureTensor, numbers: Numbers, placement: Placement
) -> str:
    """Whether the picture was scaled to a pixel more or less than the rule says, as with `int(width * scale)`."""
    scaling, (height, width) = candidate.rule.scaling, placement.scaled
    if scaling is None or not numbers.order:
        return ""
    given = numbers.levels(answer.numbers)
    for down, across in ((-1, 0), (0, -1), (-1, -1), (1, 0), (0, 1), (1, 1)):
        high, wide = height + down, width + across
        if min(high, wide) < 1:
            continue
        top, left = (scaling.offset(side, room) for side, room in zip((high, wide), placement.tensor, strict=True))
        scaled = resize(pixels, wide, high, candidate.contract.kernel, is_exact=True)[max(0, top) :, max(0, left) :]
        made = scaled[: placement.tensor[0], : placement.tensor[1], list(numbers.order)].transpose(2, 0, 1)
        inside = given[:, max(0, -top) :, max(0, -left) :][:, : made.shape[1], : made.shape[2]]
        if made.shape == inside.shape and np.abs(made.astype(np.float64) - inside).mean() < 0.3:
            return (
                f"it scales a picture of {pixels.shape[1]}x{pixels.shape[0]} to {wide}x{high}, but by the others' rule "
                f"it would be {width}x{height}"
                + "; int(side * scale) does that if the product is just below"
                * (max(down, across) == 0)
            )
    return ""


def _own(candidate: ContractCandidate, pixels: Pixels, numbers: Numbers, placement: Placement) -> Array:
    made = candidate.numbers(pixels)
    assert made is not None
    return numbers.levels(made.astype(np.float64))[_target(placement)]


def _planes(answer: PictureTensor, numbers: Numbers, placement: Placement) -> Array:
    return numbers.levels(answer.numbers)[_target(placement)]


def _target(placement: Placement) -> tuple[slice, slice, slice]:
    target = placement.target
    return slice(None), slice(target.y, target.y + target.height), slice(target.x, target.x + target.width)


def _cut(placement: Placement) -> tuple[slice, slice]:
    cut = placement.cut
    return slice(cut.y, cut.y + cut.height), slice(cut.x, cut.x + cut.width)


def _ways(placement: Placement, known: ImageKernel) -> Iterator[tuple[str, Callable[[Pixels], Array]]]:
    """Ways to scale that contracts lack, in words and as functions of height x width x 3."""
    import cv2

    height, width = placement.scaled

    def opencv(flag: int) -> Callable[[Pixels], Array]:
        return lambda pixels: np.asarray(cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=flag))

    for kernel in (kernel for kernel in KERNELS if KERNELS[kernel].fast):
        yield (
            "cykooz-resizer scales here, within a level or two of Pillow; exact=True uses Pillow",
            partial(resize, width=width, height=height, kernel=kernel, is_exact=True),
        )
    for kernel in (kernel for kernel in KERNELS if kernel is not known):
        yield (
            f"it scales to {width}x{height} with the kernel {kernel.name}, and to other sizes with {known.name}",
            partial(resize, width=width, height=height, kernel=kernel, is_exact=True),
        )
    for flag in ("INTER_NEAREST", "INTER_LANCZOS4", "INTER_LINEAR_EXACT"):
        yield f"it scales with OpenCV's {flag}, which no contract has", opencv(getattr(cv2, flag))
    for index, side in enumerate((height, width)):
        words = "it scales by a factor, like OpenCV's fx and fy, but a contract scales to a size"
        yield words, partial(_scale_by_factor, index=index, side=side, height=height, width=width)
    for kernel in KERNELS:
        words = f"it scales floating-point numbers ({kernel.name}) without rounding levels"
        yield words, _float_way(kernel, height, width)
    for kernel in (ImageKernel.ANTIALIASED_LINEAR, ImageKernel.ANTIALIASED_CUBIC, ImageKernel.LINEAR, ImageKernel.AREA):
        for side in MIDDLES:
            words = f"it scales twice: first to {side}x{side}, then to {width}x{height}"
            yield words, partial(_scale_twice, side=side, width=width, height=height, kernel=kernel)


def _ways_to_gray(placement: Placement) -> Iterator[tuple[str, Callable[[Pixels], Array]]]:
    """Ways to make a scaled gray from a picture with colours."""
    height, width = placement.scaled
    for kernel in KERNELS:
        words = f"it scales the colours ({kernel.name}) before it mixes them to gray"
        yield words, partial(resize, width=width, height=height, kernel=kernel, is_exact=True)


def _scale_by_factor(pixels: Pixels, index: int, side: int, height: int, width: int) -> Pixels:
    """Scales by the factor that makes one side this long; then to the size, if the other side differs."""
    import cv2

    factor, source = side / pixels.shape[index], np.ascontiguousarray(pixels)
    if min(pixels.shape[:2]) * factor < 1:
        return np.asarray(cv2.resize(source, (width, height)))
    scaled = np.asarray(cv2.resize(source, None, fx=factor, fy=factor, interpolation=cv2.INTER_LINEAR))
    return scaled if scaled.shape[:2] == (height, width) else np.asarray(cv2.resize(source, (width, height)))


def _scale_twice(pixels: Pixels, side: int, width: int, height: int, kernel: ImageKernel) -> Pixels:
    return resize(resize(pixels, side, side, kernel, is_exact=True), width, height, kernel, is_exact=True)


def _float_way(kernel: ImageKernel, height: int, width: int) -> Callable[[Pixels], Array]:
    import cv2

    def scale(pixels: Pixels) -> Array:
        floats = pixels.astype(np.float32)
        if KERNELS[kernel].opencv:
            flag = getattr(cv2, KERNELS[kernel].opencv)
            return np.asarray(cv2.resize(floats, (width, height), interpolation=flag))
        planes = [resize(np.ascontiguousarray(floats[..., index]), width, height, kernel) for index in range(3)]
        return np.stack(planes, axis=-1)

    return scale
