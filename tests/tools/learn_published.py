"""Are contracts learned correctly from the preprocessing functions of published packages?

    pip install --no-deps -r tests/tools/published-requirements.txt
    python tests/tools/learn_published.py [NAME...]

Each function of `published_functions.py` is learned, or refused with a reason. A learned contract is written into a
model, and 30 pictures of other sizes and content are bound to it: parts of two photographs, and noise. The tensors are
compared with those of the function, which may differ by 0.3 gray levels on average, and by 3 at most.

For each function, prints whether it was learned correctly, learned wrongly or refused, then the totals and the packages
that were skipped. The exit code is 1 if a contract was learned wrongly, or no function is installed.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

from helpers.models import unary
from tools.published_functions import FUNCTIONS, SKIPPED, Published
from winml_py import (
    BitmapPixelFormat,
    ImageFeatureValue,
    LearningModel,
    LearningModelSession,
    TensorLayout,
    WinMLError,
)
from winml_py.authoring import LearnedContract, learn_contract, write_contract
from winml_py.authoring.picture_function import PictureFunction

PICTURES, MAX_MEAN, MAX_DIFFERENCE = 30, 0.3, 3.0


def make_pictures() -> Iterator[np.ndarray[Any, Any]]:
    """Parts of photographs, scaled to sizes that the learner does not try, and noise."""
    photographs = [load_sample_image(name) for name in ("china.jpg", "flower.jpg")]
    rng = np.random.default_rng(7)
    for index in range(PICTURES):
        height, width = (int(side) for side in rng.integers(64, 1300, 2))
        if index % 6 == 5:
            yield rng.integers(0, 256, (height, width, 3), np.uint8)
            continue
        whole = photographs[index % 2]
        left, top = (int(rng.integers(0, side // 3)) for side in whole.shape[1::-1])
        part = Image.fromarray(whole).crop((left, top, whole.shape[1], whole.shape[0]))
        yield np.asarray(part.resize((width, height), Image.Resampling.BICUBIC))


def compare(published: Published, learned: LearnedContract, folder: Path) -> tuple[float, float]:
    """The differences in gray levels between a bind of the learned contract and the function: mean and largest."""
    contract, function = learned.contract, PictureFunction(published.function, published.pictures)  # type: ignore[arg-type]
    shapes = [function(np.zeros((*size, 3), np.uint8)).numbers.shape for size in ((300, 400), (400, 300), (200, 900))]
    sides = [sizes[0] if len(set(sizes)) == 1 else name for name, *sizes in zip("chw", *shapes, strict=True)][1:]
    is_first = contract.layout is TensorLayout.NCHW
    shape = (1, contract.channels, *sides) if is_first else (1, *sides, contract.channels)
    source, target = folder / "model.onnx", folder / "learned.onnx"
    source.write_bytes(unary(shape=shape))
    write_contract(source, target, learned.contract)
    factors = np.abs([factor for factor, _ in contract.affine()])[:, None, None]
    means, largest = [], 0.0
    with LearningModelSession(LearningModel.load(target)) as session:
        for pixels in make_pictures():
            expected = function(pixels).numbers
            picture = ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)
            actual = session.evaluate_features({"x": picture}).outputs["y"].to_numpy()[0]
            actual = actual if is_first else actual.transpose(2, 0, 1)
            if actual.shape != expected.shape:
                return math.inf, math.inf
            levels = np.abs(actual - expected) / factors
            means.append(levels.mean())
            largest = max(largest, float(levels.max()))
    return float(np.mean(means)), largest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only the functions with this in their names")
    wanted = parser.parse_args().names
    counts: Counter[str] = Counter()
    for name, published in FUNCTIONS.items():
        if wanted and not any(part in name for part in wanted):
            continue
        try:
            learned = learn_contract(published.function, pictures=published.pictures)  # type: ignore[arg-type]
            with tempfile.TemporaryDirectory() as folder:
                mean, largest = compare(published, learned, Path(folder))
            verdict = "right" if mean <= MAX_MEAN and largest <= MAX_DIFFERENCE else "WRONG"
            words = f"{mean:.3f} and {largest:.1f} levels: {learned.contract.describe()}"
        except WinMLError as error:
            verdict, words = "refused", str(error)[:200]
        counts[verdict] += 1
        print(f"{name} ({published.truth})\n    {verdict}, {words}", flush=True)
    for package in SKIPPED:
        print(f"SKIPPED {package}")
    print(
        f"{counts.total()} functions: {counts['right']} learned correctly, {counts['WRONG']} learned wrongly, "
        f"{counts['refused']} refused; {len(SKIPPED)} packages skipped"
    )
    return int(counts["WRONG"] > 0 or not counts)


if __name__ == "__main__":
    sys.exit(main())
