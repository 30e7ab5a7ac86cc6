"""Compares making an OpenVINO session from its saved model with compiling it, on public models.

    python benchmarks/openvino_starts.py [--json FILE] [--rounds N] [--models NAME ...]

The figures are the processor's milliseconds, all threads together, because starts are short and machines are shared;
the least of some rounds, in which the two ways take turns. "First" is the one start that compiles and saves. The bar: a
start from a saved model takes at most half of the time of compiling, on every model.
"""

import os
import tempfile
import time
from pathlib import Path

import onnx
from _measure import arguments, at_most, geometric_mean, report
from _models import public_models

from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions, Weights
from winml_py.core.cache import folders


def start(path: str, weights: Weights) -> float:
    """Seconds of a session's start; with private weights, nothing is saved or opened."""
    options = LearningModelSessionOptions()
    options.engine, options.batch_size_override, options.weights = "openvino", 0, weights
    model = LearningModel.load(path)
    began = time.process_time()
    with LearningModelSession(model, None, options):
        return time.process_time() - began


def measure(name: str, path: str, rounds: int) -> dict[str, object]:
    start(path, Weights.PRIVATE)
    first = start(path, Weights.SHARED)
    saved = [entry for entry in folders.entries() if entry.model == path]
    if not saved:
        raise SystemExit(f"{name}: nothing was saved; see the log of winml_py")
    pairs = [(start(path, Weights.PRIVATE), start(path, Weights.SHARED)) for _ in range(rounds)]
    compiled, opened = map(min, zip(*pairs, strict=True))
    sizes = {"model MB": os.path.getsize(path) / 1e6, "saved MB": saved[0].size / 1e6}
    ratios = {"first / compiled": first / compiled, "saved / compiled": opened / compiled}
    return {"model": name} | sizes | {"compiled ms": compiled * 1e3} | ratios


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="*", default=[])
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WINML_PY_CACHE"] = os.path.join(folder, "cache")
        for name, model in public_models().items():
            if options.models and name not in options.models:
                continue
            path = Path(folder, f"{name}.onnx")
            onnx.save(model, path)
            rows.append(measure(name, str(path), options.rounds))
            path.unlink()
            folders.clear()
    ratios = [float(str(row["saved / compiled"])) for row in rows]
    rows.append(dict.fromkeys(rows[0], "") | {"model": "geometric mean", "saved / compiled": geometric_mean(ratios)})
    report({"openvino_starts": rows}, options.json, [at_most("saved / compiled, largest", max(ratios), 0.5)])


if __name__ == "__main__":
    main()
