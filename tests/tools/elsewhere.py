"""Compares the answers of another Python, perhaps on another processor, with this one's.

    python tests/tools/elsewhere.py .arm64/python

Every model of models/ sees every picture of samples/. The exit code is 1 if an answer differs by more than
docs/pictures.md promises: pictures by a level, float32 by 0.001, and float16 by 0.02 of a channel's magnitude. Tests
compare scaled pictures with Pillow, on every processor.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from winml_py import ImageFeatureValue, ImageKernel, LearningModel, LearningModelSession
from winml_py.core.base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, as_numpy, relative_error

ROOT = Path(__file__).parents[2]


def answers() -> Iterator[tuple[str, Any]]:
    for path in sorted((ROOT / "models").glob("*.onnx")):
        model = LearningModel.load(path)
        name = model.input_features[0].name
        # Both see the same tensor: the libraries that scale otherwise differ by a level between processors.
        exact = replace(model.input_features[0].contract, kernel=ImageKernel.ANTIALIASED_LINEAR, exact=True)
        model.contracts[name] = exact
        with LearningModelSession(model) as session:
            for picture in sorted((ROOT / "samples" / "pictures").glob("*.[jp][pn]g")):
                outputs = session.evaluate_features({name: ImageFeatureValue.load(picture)}).outputs
                for output, value in outputs.items():
                    yield f"{path.stem}, {picture.name}, {output}", as_numpy(value)


def main() -> None:
    python, *written = sys.argv[1:]
    if written:  # the other Python
        np.savez(written[0], **dict(answers()))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "answers.npz")
        subprocess.run([python, __file__, python, path], check=True, cwd=ROOT)
        others = dict(np.load(path))
    wrong = 0
    for name, value in answers():
        if value.dtype == np.uint8:
            difference, allowed = np.abs(value.astype(int) - others[name].astype(int)).max(), 1
        else:
            allowed = HALF_TOLERANCE if "float16" in name else FLOAT_TOLERANCE
            difference = relative_error(value, others[name])
        wrong += difference > allowed
        print(f"{name}: differs by {difference:.2g} of {allowed:g}")
    sys.exit(int(wrong > 0))


if __name__ == "__main__":
    main()
