"""Is a contract learned from functions that nobody here wrote, and is it right?

    pip install --no-deps -r tests/tools/published-requirements.txt
    python tests/tools/learn_published.py [--json FILE] [NAME...]

Each function of `published_functions.py` is learned, or refused with a reason. What is learned is written into a model,
and bound: on 30 pictures of other sizes and content (two photographs, cut and scaled, and noise), the tensor that
reaches the model is compared with what the function gives. Bar: 0.3 gray levels on average, 3 at most.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

from helpers.models import unary
from tools.published_functions import FUNCTIONS, MISSING, Published
from winml_py import (
    BitmapPixelFormat,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    TensorLayout,
    WinMLError,
)
from winml_py.authoring import LearnedContract, learn_contract, write_contract
from winml_py.authoring.picture_function import PictureFunction

PICTURES, MAX_MEAN, MAX_DIFFERENCE = 30, 0.3, 3.0


def pictures(seed: int) -> Iterator[np.ndarray[Any, Any]]:
    """Parts of photographs, scaled to sizes that no probe has, and noise."""
    from sklearn.datasets import load_sample_image

    photographs = [load_sample_image(name) for name in ("china.jpg", "flower.jpg")]
    rng = np.random.default_rng(seed)
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
    """Gray levels between a bind of the learned contract and the function: on average, and at most."""
    contract = learned.contract
    function = PictureFunction(published.function, published.pictures)  # type: ignore[arg-type]
    asked = [function(np.zeros((*size, 3), np.uint8)).numbers.shape for size in ((300, 400), (400, 300), (200, 900))]
    heights, widths = {shape[1] for shape in asked}, {shape[2] for shape in asked}
    sides = [heights.pop() if len(heights) == 1 else "h", widths.pop() if len(widths) == 1 else "w"]
    shape = (1, contract.channels, *sides) if contract.layout is TensorLayout.NCHW else (1, *sides, contract.channels)
    source, target = folder / "model.onnx", folder / "learned.onnx"
    source.write_bytes(unary(shape=shape))
    write_contract(source, target, learned)
    factors = np.abs([factor for factor, _ in contract.affine()])
    means, most = [], 0.0
    with LearningModelSession(LearningModel.load(target)) as session:
        for pixels in pictures(7):
            wanted = function(pixels).numbers
            binding = LearningModelBinding(session)
            binding.bind("x", ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8))
            came = session.evaluate(binding).outputs["y"].to_numpy()[0]
            came = came if contract.layout is TensorLayout.NCHW else came.transpose(2, 0, 1)
            if came.shape != wanted.shape:
                return float("inf"), float("inf")
            levels = np.abs(came - wanted) / factors[:, None, None]
            means.append(levels.mean())
            most = max(most, float(levels.max()))
    return float(np.mean(means)), most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="those whose names hold one of these; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, published in FUNCTIONS.items():
        if options.names and not any(part in name for part in options.names):
            continue
        begin, row = time.monotonic(), {"name": name, "truth": published.truth}
        try:
            learned = learn_contract(published.function, pictures=published.pictures)  # type: ignore[arg-type]
            with tempfile.TemporaryDirectory() as folder:
                mean, most = compare(published, learned, Path(folder))
            row |= {"contract": learned.contract.describe(), "calls": learned.calls, "mean": mean, "most": most}
            row["is_right"] = mean <= MAX_MEAN and most <= MAX_DIFFERENCE
            words = f"{'right' if row['is_right'] else 'WRONG'}, {mean:.3f} and {most:.1f} levels: {row['contract']}"
        except WinMLError as error:
            row["refused"] = str(error)
            words = f"refused: {str(error)[:200]}"
        row["seconds"] = round(time.monotonic() - begin, 1)
        rows.append(row)
        print(f"{name} ({published.truth})\n    {words}", flush=True)
    right = [row for row in rows if row.get("is_right")]
    wrong = [row for row in rows if row.get("is_right") is False]
    packages = {row["name"].partition(":")[0] for row in rows}
    print(
        f"{len(rows)} functions of {len(packages)} packages: {len(right)} learned and right, {len(wrong)} learned "
        f"wrongly, {len(rows) - len(right) - len(wrong)} refused; not installed: {', '.join(MISSING) or 'none'}"
    )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
