"""Memory of OpenVINO sessions of two large models, and of ONNX Runtime's sessions of models from bytes.

    python benchmarks/openvino_memory.py [--json FILE] [--side N] [--cycles N]

The models are the 32 matrices (512 MB of weights) and the convolutions (151 MB) of `memory.py`, with a free batch and
with a fixed one. Each figure is from a fresh process, is what the process has resident beyond its state after the full
cycle of a small model of the same operators, and is given in multiples of the weights. The result of each session is
compared with raw ONNX Runtime's first (1e-3).

The bars, for OpenVINO: a session holds at most 2.3 times its weights with a free batch, and 3.3 times with a fixed one;
four sessions hold at most 1.1 times what one holds; after closing at most 0.08 of the weights are left; 500 sessions
that are made and closed one after the other grow the process by at most 1 % from the second to the last, and leave no
files or threads. For ONNX Runtime: a session of a model from bytes holds at most 1.15 times its weights, once the model
is disposed of and the caller has let go of the bytes. Linux only.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _measure import arguments, at_most, report
from memory import CHANNELS, PIXELS, SIDE, WIDTH, convolutions, matrices

PROLOGUE = """
import json, os, sys
import numpy as np
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions, Weights
path, small, source, shape, count = sys.argv[1], sys.argv[2], sys.argv[3], *map(json.loads, sys.argv[4:])
def field(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024
def resident():
    return field("VmRSS")
options = LearningModelSessionOptions()
options.engine = "onnxruntime" if source == "bytes" else "openvino"
def loaded(path):
    return LearningModel.load(open(path, "rb").read() if source == "bytes" else path)
def evaluate(session, width):
    x = np.full([size if number != 1 else min(size, width) for number, size in enumerate(shape)], 0.01, np.float32)
    return session.evaluate_features({"x": x}).outputs["y"].to_numpy().copy()
"""
FIGURES = """
for options.weights in (Weights.PRIVATE, Weights.SHARED):  # it is compiled, and opened from what was saved
    with loaded(small) as model, LearningModelSession(model, None, options) as session:
        evaluate(session, WIDTH)
baseline = resident()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # resets the peak
model = loaded(path)
sessions = [LearningModelSession(model, None, options)]
y = evaluate(sessions[0], 1 << 30)
peak = field("VmHWM") - baseline
if source == "bytes":
    model.dispose()
one = resident() - baseline
for _ in range(3):
    if source != "bytes":
        sessions.append(LearningModelSession(model, None, options))
        assert np.array_equal(evaluate(sessions[-1], 1 << 30), y)
four = resident() - baseline
for session in sessions:
    session.close()
model.dispose()
left = resident() - baseline
import onnxruntime
native = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
(expected,) = native.run(None, {"x": np.full(shape, 0.01, np.float32)})
error = float(np.abs(y - expected).max() / np.abs(expected).max())
print(json.dumps({"peak": peak, "one": one, "four": four, "left": left, "error": error}))
"""
CYCLES = """
def state():
    return resident(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
for number in range(count):
    with loaded(small) as model, LearningModelSession(model, None, options) as session:
        evaluate(session, WIDTH)
    if number == 1:
        before = state()
after = state()
growth, files, threads = after[0] / before[0] - 1, after[1] - before[1], after[2] - before[2]
print(json.dumps({"growth": growth, "files": files, "threads": threads}))
"""


WAYS = {"free": "free batch", "fixed": "fixed batch", "bytes": "ONNX Runtime, from bytes"}
LIMITS = {"free": 2.3, "fixed": 3.3, "bytes": 1.15}


def fix_batch(path: Path, to: Path) -> None:
    """Writes the model with a batch of 1."""
    import onnx

    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(model, to)


def run(code: str, path: Path, small: Path, source: str, shape: list[int], count: int = 0) -> dict[str, float]:
    """The figures that a fresh process prints."""
    program = f"WIDTH = {WIDTH}\n{PROLOGUE}{code}"
    words = [str(path), str(small), source, json.dumps(shape), str(count)]
    done = subprocess.run([sys.executable, "-c", program, *words], check=True, stdout=subprocess.PIPE)
    return {key: float(value) for key, value in json.loads(done.stdout).items()}


def measure(path: Path, small: Path, source: str, shape: list[int], weights: int) -> dict[str, Any]:
    found = run(FIGURES, path, small, source, shape)
    if found["error"] > 1e-3:
        raise SystemExit(f"{path.stem}: the results differ by {found['error']}")
    names = {"peak": "peak", "one": "held by one", "four": "held by four", "left": "left"}
    return {"model": path.stem.removesuffix("-fixed"), "way": WAYS[source]} | {
        name: found[key] / weights for key, name in names.items()
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--side", type=int, default=SIDE, help="of the matrices")
    parser.add_argument("--channels", type=int, default=CHANNELS, help="of the convolutions")
    parser.add_argument("--cycles", type=int, default=500)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["WINML_PY_CACHE"] = str(folder / "cache")
        for make, size, rest in ((matrices, options.side, []), (convolutions, options.channels, [PIXELS, PIXELS])):
            free, small = folder / f"{make.__name__}.onnx", folder / f"{make.__name__}-small.onnx"
            fixed, shape = folder / f"{make.__name__}-fixed.onnx", [1, size, *rest]
            make(small, WIDTH)
            weights = make(free, size)
            fix_batch(free, fixed)
            for path, source in ((free, "free"), (fixed, "fixed"), (free, "bytes")):
                rows.append(measure(path, small, source, shape, weights))
                print(rows[-1], file=sys.stderr)
        cycles = run(CYCLES, free, small, "free", shape, options.cycles)
    by_way = {source: [row for row in rows if row["way"] == way] for source, way in WAYS.items()}
    bars = [
        at_most(f"held by one, {WAYS[source]}", max(row["held by one"] for row in by_way[source]), limit)
        for source, limit in LIMITS.items()
    ]
    bars += [
        at_most("held by four / by one", max(row["held by four"] / row["held by one"] for row in rows), 1.1),
        at_most("left", max(row["left"] for row in rows), 0.08),
        at_most("growth of many sessions, %", cycles["growth"] * 100, 1),
        at_most("files and threads left by them", cycles["files"] + cycles["threads"], 0),
    ]
    report({"openvino_memory": rows}, options.json, bars)


if __name__ == "__main__":
    main()
