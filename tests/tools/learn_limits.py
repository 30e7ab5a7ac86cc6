"""Are contracts learned wrongly from functions that do something else above a limit, or with another content?

    python tests/tools/learn_limits.py [--count 500] [--first 0] [--seed 0]

Each function is made up: a limit of the longer or the shorter side, a canvas or none, multiples, a rounding, OpenCV's
or Pillow's kernels, sizes or factors (`fx`, `fy`), and in some a blur, or another kernel above a ratio, or a branch on
what is in the picture. What is learned is compared with the function on pictures that the learner has not seen, up to
4032x3024 and 9000x700. Bar: 0.3 gray levels on average over all pictures, 3 at most.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageOps

from winml_py import BitmapPixelFormat, SoftwareBitmap, WinMLError
from winml_py.authoring import LearnedContract, learn_contract
from winml_py.core.imaging.contract import ImageContract
from winml_py.core.imaging.geometry import compute_placement
from winml_py.core.imaging.tensorize import tensorize

Array = np.ndarray[Any, Any]
MAX_MEAN, MAX_DIFFERENCE = 0.3, 3.0
KERNELS: dict[str, tuple[int, bool]] = {
    "nearest": (cv2.INTER_NEAREST, True),
    "linear": (cv2.INTER_LINEAR, True),
    "cubic": (cv2.INTER_CUBIC, True),
    "area": (cv2.INTER_AREA, True),
    "pillow's linear": (Image.Resampling.BILINEAR, False),
    "pillow's cubic": (Image.Resampling.BICUBIC, False),
}
ROUNDINGS: dict[str, Callable[[float], int]] = {
    "int": int,
    "ceil": math.ceil,
    "round": round,
    "half up": lambda value: int(value + 0.5),
}
SIZES = (
    (3024, 4032), (4032, 3024), (700, 9000), (9000, 700), (2448, 3264), (1080, 1920), (1333, 750), (517, 389),
    (60, 700),
)  # fmt: skip


@dataclass(frozen=True)
class MadeUp:
    """A function that prepares pictures: red, green, blue in, channels x height x width from 0 to 1 out."""

    side: str
    limit: int
    multiple: int
    least: int
    to_multiple: str
    rounding: str
    kernel: str
    scales_by_factor: bool
    canvas: bool
    blurs: bool
    other_kernel: str
    ratio: float
    branch: str

    def __call__(self, pixels: Array) -> Array:
        """The tensor."""
        height, width = pixels.shape[:2]
        if self.branch == "dark" and pixels.mean() < 40:
            pixels = np.asarray(ImageOps.autocontrast(Image.fromarray(pixels)))
        elif self.branch == "flat" and pixels.std() < 12:
            pixels = np.clip(pixels.astype(np.int16) * 2 - 128, 0, 255).astype(np.uint8)
        elif self.branch == "bright" and pixels.mean() > 210:
            pixels = (pixels // 2).astype(np.uint8)
        long, short = max(height, width), min(height, width)
        scale = 1.0
        if self.side == "longer" and long > self.limit:
            scale = self.limit / long
        elif self.side == "shorter" and short > self.limit:
            scale = self.limit / short
        elif self.side == "always":
            scale = self.limit / long
        sides = [ROUNDINGS[self.rounding](side * scale) for side in (height, width)]
        if self.multiple > 1:
            number = ROUNDINGS[self.to_multiple]
            sides = [max(self.least, number(side / self.multiple) * self.multiple) for side in sides]
        high, wide = (max(1, side) for side in sides)
        if (high, wide) != (height, width):
            if self.blurs:
                pixels = cv2.GaussianBlur(pixels, (0, 0), max(0.3, 0.4 / scale))
            pixels = self._scale(pixels, high, wide, scale, long / short)
        if self.canvas:
            whole = np.zeros((self.limit, self.limit, 3), np.uint8)
            part = pixels[: self.limit, : self.limit]
            whole[: part.shape[0], : part.shape[1]] = part
            pixels = whole
        numbers: Array = pixels.transpose(2, 0, 1).astype(np.float32) / 255
        return numbers

    def _scale(self, pixels: Array, high: int, wide: int, scale: float, ratio: float) -> Array:
        kernel = self.other_kernel if self.ratio and ratio > self.ratio else self.kernel
        flag, is_opencv = KERNELS[kernel]
        if not is_opencv:
            return np.asarray(Image.fromarray(pixels).resize((wide, high), Image.Resampling(flag)))
        if self.scales_by_factor and scale < 1 and min(pixels.shape[:2]) * scale >= 1:
            return np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=flag))
        return np.asarray(cv2.resize(pixels, (wide, high), interpolation=flag))


def make_up(rng: np.random.Generator) -> MadeUp:
    """A function, drawn."""

    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    side = pick("none", "longer", "longer", "shorter", "always")
    multiple = pick(1, 8, 16, 32, 64) if side != "none" else pick(8, 14, 32)
    oddity = pick("", "", "factor", "blur", "ratio", "branch", "branch")
    has_canvas = side in ("longer", "always") and multiple == 1 and rng.random() < 0.5
    limit = pick(320, 640, 800, 960, 1024, 1280, 1536) if has_canvas else pick(320, 736, 960, 1024, 1600, 2000, 2560)
    kernel, other = (list(KERNELS)[int(index)] for index in rng.choice(len(KERNELS), 2, replace=False))
    return MadeUp(
        side=side,
        limit=limit,
        multiple=multiple,
        least=32 if multiple == 8 and rng.random() < 0.3 else multiple,
        to_multiple=pick(*ROUNDINGS),
        rounding=pick(*ROUNDINGS),
        kernel=kernel,
        scales_by_factor=oddity == "factor" and side in ("longer", "shorter") and multiple == 1,
        canvas=has_canvas,
        blurs=oddity == "blur" and side != "none",
        other_kernel=other if oddity == "ratio" else kernel,
        ratio=float(pick(2, 4, 8)) if oddity == "ratio" else 0.0,
        branch=pick("dark", "flat", "bright") if oddity == "branch" else "",
    )


def unseen(rng: np.random.Generator, count: int) -> list[Array]:
    """Pictures of the large sizes and of random ones: coarse noise with fine grain, some dark, bright or flat."""
    sizes = [*SIZES, *((int(a), int(b)) for a, b in rng.integers(80, 1700, (count, 2)))]
    found = []
    for index, (height, width) in enumerate(sizes):
        low, high = ((0, 255), (0, 255), (0, 22), (230, 255), (124, 134))[index % 5 if index >= 4 else 0]
        rough = rng.integers(0, 256, (height // 5 + 1, width // 5 + 1, 3), np.uint8)
        mixed = rough.repeat(5, 0).repeat(5, 1)[:height, :width] // 2
        mixed += rng.integers(0, 128, mixed.shape, np.uint8)
        found.append((low + mixed.astype(np.uint16) * (high - low) // 255).astype(np.uint8))
    return found


def bound(contract: ImageContract, pixels: Array) -> Array:
    """What a bind makes of a picture, as channels x height x width."""
    height, width = contract.size or (None, None)
    place = compute_placement(
        pixels.shape[1], pixels.shape[0], width, height, contract.crop_mode, None, contract.scaling
    )
    made = np.empty((3, *place.tensor), np.float32)
    tensorize(SoftwareBitmap.from_array(pixels, BitmapPixelFormat.RGB8), contract, made, place)
    return made


def compare(function: MadeUp, learned: LearnedContract, rng: np.random.Generator) -> tuple[float, float]:
    """Gray levels between the contract and the function: on average, and at most."""
    means, most = [], 0.0
    for pixels in unseen(rng, 10):
        wanted, got = function(pixels), bound(learned.contract, pixels)
        if wanted.shape != got.shape:
            return math.inf, math.inf
        off = np.abs(wanted - got)
        off *= 255
        means.append(float(off.mean()))
        most = max(most, float(off.max()))
    return float(np.mean(means)), most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, metavar="N", help="functions; 500 by default")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="which comes first: for several processes")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the functions; 0 by default")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for index in range(options.first, options.first + options.count):
        rng = np.random.default_rng([options.seed, index])
        function, begin = make_up(rng), time.monotonic()
        try:
            learned = learn_contract(function, pictures="rgb")
            mean, most = compare(function, learned, rng)
            kind = "right" if mean <= MAX_MEAN and most <= MAX_DIFFERENCE else "wrong"
            words = f"{mean:.3f} and {most:.1f} levels: {learned.contract.describe()}"
        except WinMLError as error:
            kind, words = "refused", str(error)[:300]
        counts[kind] += 1
        print(f"{index} {kind} in {time.monotonic() - begin:.0f} s: {function}\n    {words}", flush=True)
    print(
        f"{options.count} functions: {counts['right']} learned and right, {counts['wrong']} learned wrongly, "
        f"{counts['refused']} refused"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
