"""Are contracts learned wrongly from functions that do something else above a limit, or with another content?

    python tests/tools/learn_limits.py [--count 500] [--first 0] [--seed 0]

Each function is made up: a limit of the longer or the shorter side, a canvas or none, multiples, a rounding, OpenCV's
or Pillow's kernels, sizes or factors (`fx`, `fy`), and in some a blur, or another kernel above a ratio, or a branch on
what is in the picture. Some trim borders, blur pictures of some content, treat one common size differently, halve
pictures between two sizes, or read JPEG files at a part of their size. What is learned is compared with the function on
pictures that the learner has not seen, up to 4032x3024 and 9000x700, with photographs and borders. Bar: 0.3 gray levels
on average for each picture, 3 at most.

A contract may be learned wrongly from a function that treats a size that hardly any picture has, or content that none
of the learner's pictures has, differently (`--rare`), which the documentation says.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageFilter, ImageOps

from winml_py import BitmapPixelFormat, SoftwareBitmap, WinMLError
from winml_py.authoring import LearnedContract, learn_contract
from winml_py.core.imaging.contract import ImageContract, compute_placement
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
    (60, 700), (1300, 2300), (2100, 2750), (1900, 2050),
)  # fmt: skip
COMMON = (
    (480, 640), (640, 480), (1080, 1920), (720, 1280), (768, 1024), (3000, 4000), (2448, 3264), (2160, 3840),
    (1536, 2048), (1200, 1600), (600, 800), (1024, 1024), (512, 512), (256, 256), (224, 224), (375, 500), (427, 640),
    (900, 1600), (768, 1366), (1080, 2400), (2268, 4032), (1944, 2592), (1024, 1280), (1920, 1080), (1280, 720),
)  # fmt: skip
"""Height and width of pictures as cameras, screens and data sets have them."""

CONTENTS: dict[str, Callable[[Array], float]] = {
    "sharpness": lambda pixels: float(cv2.Laplacian(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), cv2.CV_64F).var()),
    "contrast": lambda pixels: float(pixels.std()),
    "brightness": lambda pixels: float(pixels.mean()),
    "saturation": lambda pixels: float(cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)[..., 1].mean()),
    "white": lambda pixels: float((pixels.min(axis=2) > 240).mean()),
    "edges": lambda pixels: float((cv2.Canny(pixels, 100, 200) > 0).mean()),
}
THRESHOLDS = {
    "sharpness": (100, 500, 2000), "contrast": (30, 50, 70), "brightness": (60, 120, 180), "saturation": (20, 60, 120),
    "white": (0.2, 0.5, 0.8), "edges": (0.02, 0.1, 0.3),
}  # fmt: skip
PHOTOGRAPH = Path(__file__).parents[2] / "samples" / "pictures" / "cat.jpg"


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
    special: str
    at: tuple[Any, ...]

    @property
    def takes_path(self) -> bool:
        """Whether it reads a file."""
        return self.special in ("reduced", "draft", "file")

    def __call__(self, pixels: Any) -> Array:
        """The tensor."""
        if self.takes_path:
            pixels = self._read(pixels)
        elif self.special == "trim":
            pixels = self._trim(pixels)
        elif self.special == "median":
            name, limit, is_above = self.at
            if (CONTENTS[name](pixels) > limit) == is_above:
                pixels = cv2.medianBlur(pixels, 3)
        elif self.special == "size" and pixels.shape[:2] == self.at:
            pixels = cv2.GaussianBlur(pixels, (5, 5), 0)
        elif self.special == "halving" and self.at[0] < max(pixels.shape) <= self.at[1]:
            half = pixels.shape[1] // 2, pixels.shape[0] // 2
            pixels = cv2.resize(pixels, half, interpolation=cv2.INTER_AREA)
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

    def _read(self, path: str) -> Array:
        if self.special == "reduced":
            return np.ascontiguousarray(cv2.imread(path, self.at[0])[..., ::-1])
        image = Image.open(path)
        if self.special == "draft":
            image.draft("RGB", (self.limit, self.limit))
        return np.asarray(image.convert("RGB"))

    def _trim(self, pixels: Array) -> Array:
        background = {"corner": pixels[0, 0].astype(int), "black": 0, "white": 255}[self.at[0]]
        shows = np.abs(pixels.astype(int) - background).max(axis=2) > self.at[1]
        rows, columns = np.flatnonzero(shows.any(axis=1)), np.flatnonzero(shows.any(axis=0))
        if not rows.size:
            return pixels
        return np.ascontiguousarray(pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])

    def _scale(self, pixels: Array, high: int, wide: int, scale: float, ratio: float) -> Array:
        kernel = self.other_kernel if self.ratio and ratio > self.ratio else self.kernel
        flag, is_opencv = KERNELS[kernel]
        if not is_opencv:
            return np.asarray(Image.fromarray(pixels).resize((wide, high), Image.Resampling(flag)))
        if self.scales_by_factor and scale < 1 and min(pixels.shape[:2]) * scale >= 1:
            return np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=flag))
        return np.asarray(cv2.resize(pixels, (wide, high), interpolation=flag))


def make_up(rng: np.random.Generator, is_rare: bool) -> MadeUp:
    """A function, drawn."""

    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    side = pick("none", "longer", "longer", "shorter", "always")
    multiple = pick(1, 8, 16, 32, 64) if side != "none" else pick(8, 14, 32)
    oddity = pick("", "", "", "", "factor", "blur", "ratio", "branch")
    has_canvas = side in ("longer", "always") and multiple == 1 and rng.random() < 0.5
    limit = pick(320, 640, 800, 960, 1024, 1280, 1536) if has_canvas else pick(320, 736, 960, 1024, 1600, 2000, 2560)
    special = pick("", "trim", "median", "size", "halving", "reduced", "draft", "file")
    at: tuple[Any, ...] = ()
    if is_rare:
        special, at = "size", (int(rng.integers(100, 1500)), int(rng.integers(100, 1500)))
    elif special == "trim":
        at = pick("corner", "black", "white"), pick(0, 10, 30)
    elif special == "median":
        name = pick(*CONTENTS)
        at = name, pick(*THRESHOLDS[name]), pick(True, False)
    elif special == "size":
        at = pick(*COMMON)
    elif special == "halving":
        at = pick((2000, 2900), (2000, 10000), (2200, 2700), (2400, 10000), (2900, 10000))
    elif special == "reduced":
        at = (pick(cv2.IMREAD_REDUCED_COLOR_2, cv2.IMREAD_REDUCED_COLOR_4),)
    if special not in ("", "file"):  # nothing else is odd, so that this alone decides
        oddity = ""
    kernels = list(KERNELS)[1 if special else 0 :]  # no contract has "nearest"
    kernel, other = (kernels[int(index)] for index in rng.choice(len(kernels), 2, replace=False))
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
        special=special,
        at=at,
    )


def unseen(rng: np.random.Generator, count: int, special: tuple[Any, ...]) -> list[Array]:
    """Pictures of the large sizes, of random ones and of a special one: coarse noise with fine grain, some dark, bright
    or flat; and a photograph in several states, with borders or without.
    """
    sizes = [
        *SIZES,
        *([special] if special else []),
        *((int(a), int(b)) for a, b in rng.integers(80, 1700, (count, 2))),
    ]
    found = []
    for index, (height, width) in enumerate(sizes):
        low, high = ((0, 255), (0, 255), (0, 22), (230, 255), (124, 134))[index % 5 if index >= 4 else 0]
        rough = rng.integers(0, 256, (height // 5 + 1, width // 5 + 1, 3), np.uint8)
        mixed = rough.repeat(5, 0).repeat(5, 1)[:height, :width] // 2
        mixed += rng.integers(0, 128, mixed.shape, np.uint8)
        found.append((low + mixed.astype(np.uint16) * (high - low) // 255).astype(np.uint8))
    photograph = Image.open(PHOTOGRAPH).convert("RGB").transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    large = photograph.resize((1353, 900), Image.Resampling.LANCZOS)
    for image in (photograph.crop((50, 20, 430, 290)), large, large.filter(ImageFilter.GaussianBlur(4))):
        found.append(np.asarray(image))
        found.append((255 * (found[-1] / 255) ** float(rng.uniform(0.4, 2.5))).astype(np.uint8))
        for colour in (0, 255, (12, 140, 90)):
            found.append(np.asarray(ImageOps.expand(image, int(rng.integers(5, 90)), colour)))
    return found


def bound(contract: ImageContract, pixels: Array) -> Array:
    """What a bind makes of a picture, as channels x height x width."""
    place = compute_placement(pixels.shape[1], pixels.shape[0], contract.size or (None, None), contract.scaling)
    made = np.empty((3, *place.tensor), np.float32)
    tensorize(SoftwareBitmap.from_array(pixels, BitmapPixelFormat.RGB8), contract, made, place)
    return made


def compare(function: MadeUp, learned: LearnedContract, rng: np.random.Generator) -> tuple[float, float]:
    """Gray levels between the contract and the function: on average in the worst picture, and at most."""
    means, most = [], 0.0
    for pixels in unseen(rng, 10, function.at if function.special == "size" else ()):
        if function.takes_path:
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "jpeg", quality=90, subsampling=0)
            pixels = np.asarray(Image.open(file))
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "picture.jpg"
                path.write_bytes(file.getvalue())
                wanted = function(str(path))
        else:
            wanted = function(pixels)
        got = bound(learned.contract, pixels)
        if wanted.shape != got.shape:
            return math.inf, math.inf
        off = np.abs(wanted - got)
        off *= 255
        means.append(float(off.mean()))
        most = max(most, float(off.max()))
    return max(means), most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, metavar="N", help="functions; 500 by default")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="which comes first: for several processes")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the functions; 0 by default")
    parser.add_argument("--rare", action="store_true", help="functions that treat one size of a million differently")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for index in range(options.first, options.first + options.count):
        rng = np.random.default_rng([options.seed, index])
        function, begin = make_up(rng, options.rare), time.monotonic()
        try:
            learned = learn_contract(function, pictures="path" if function.takes_path else "rgb")
            mean, most = compare(function, learned, rng)
            is_right = mean <= MAX_MEAN and most <= MAX_DIFFERENCE
            kind = "right" if is_right else "rare" if options.rare else "wrong"
            words = f"{mean:.3f} and {most:.1f} levels: {learned.contract.describe()}"
        except WinMLError as error:
            kind, words = "refused", str(error)[:300]
        counts[kind] += 1
        print(f"{index} {kind} in {time.monotonic() - begin:.0f} s: {function}\n    {words}", flush=True)
    print(
        f"{options.count} functions: {counts['right']} learned and right, {counts['wrong']} learned wrongly, "
        f"{counts['rare']} wrongly with --rare, {counts['refused']} refused"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
