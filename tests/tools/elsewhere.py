"""Compares the answers of another Python, perhaps on another processor, with this one's.

    python tests/tools/elsewhere.py .arm64/python

Every model of models/ sees every picture of samples/, and pictures are scaled by every kernel, exactly and by default,
as in `core/imaging/resize.py`. The exit code is 1 if an answer differs by more than docs/pictures.md promises: scaled
pictures by two levels, and exact ones by none; float32 by 0.001, and float16 by 0.02 of a channel's magnitude.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession
from winml_py.core.base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, as_numpy, relative_error
from winml_py.core.imaging.resize import KERNELS, resize
from winml_py.enums import ImageKernel

ROOT = Path(__file__).parents[2]
SIZES = ((224, 224), (640, 360), (31, 77))
LEVELS = {"pictures of models": 1, "scaled": 2, "scaled by OpenCV": 1, "scaled exactly": 0}


def answers() -> Iterator[tuple[str, Any]]:
    pictures = sorted((ROOT / "samples/pictures").glob("*.[pj][np]g"))
    for model in sorted((ROOT / "models").glob("*.onnx")):
        loaded = LearningModel.load(model)
        image = loaded.input_features[0]
        # Both see the same tensor: the libraries that scale otherwise differ by a level between processors.
        exact = replace(image.contract, kernel=ImageKernel.ANTIALIASED_LINEAR, exact=True)
        loaded.contracts[image.name] = exact
        with LearningModelSession(loaded) as session:
            name = image.name
            for picture in pictures:
                outputs = session.evaluate_features({name: ImageFeatureValue.load(picture)}).outputs
                for output, value in outputs.items():
                    array = as_numpy(value)
                    group = "float16 models" if "float16" in model.stem else "float32 models"
                    group = "pictures of models" if array.dtype == np.uint8 else group
                    yield f"{group}/{model.stem}/{picture.name}/{output}", array
    noise = np.random.default_rng(0).integers(0, 256, (301, 451, 3), np.uint8)
    for kernel in ImageKernel:
        for width, height in SIZES:
            by_default = resize(noise, width, height, kernel)
            if KERNELS[kernel].pillow:
                yield f"scaled/{kernel.name}/{width}x{height}", by_default
                exactly = resize(noise, width, height, kernel, is_exact=True)
                yield f"scaled exactly/{kernel.name}/{width}x{height}", exactly
            else:
                yield f"scaled by OpenCV/{kernel.name}/{width}x{height}", by_default


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="?", help="the other interpreter")
    parser.add_argument("--write", help="writes the answers to a file, and compares nothing")
    options = parser.parse_args()
    if options.write:
        np.savez(options.write, **dict(answers()))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "answers.npz")
        subprocess.run([options.python, __file__, "--write", path], check=True, cwd=ROOT)
        others = dict(np.load(path))
    worst: dict[str, tuple[float, str, int]] = {}
    for name, value in answers():
        group = name.split("/")[0]
        if value.dtype == np.uint8:
            difference = float(np.abs(value.astype(int) - others[name].astype(int)).max())
        else:
            difference = relative_error(value, others[name])
        before = worst.get(group, (-1.0, "", 0))
        worst[group] = (*max((difference, name), before[:2]), before[2] + 1)
    is_wrong = False
    for group, (difference, name, count) in worst.items():
        allowed = LEVELS.get(group, HALF_TOLERANCE if "float16" in group else FLOAT_TOLERANCE)
        is_wrong |= difference > allowed
        print(f"{group}: {count} answers, the largest difference {difference:.2g} of {allowed:g} in {name}")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
