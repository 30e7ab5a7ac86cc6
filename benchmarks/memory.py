"""Memory, start and time of two large models, compared with raw ONNX Runtime: 32 matrices, and convolutions with batch
normalizations.

    python benchmarks/memory.py [--json FILE] [--processes N]

Every figure is the median of several fresh processes; both ways must first give the same numbers. Memory is given in
multiples of the weights. It is what a process has beyond its state after the full cycle of a small model of the same
operators, so the libraries' code is not counted. The table has

* the highest resident size (VmHWM) up to the end of the first evaluation,
* the proportional share (PSS) with one session and with four, each after an evaluation,
* the resident size after all is closed.

"First" starts find an empty cache folder; "second" starts find the files of the first.

The targets: the peak is at most raw ONNX Runtime's, and 1.15x the weights for the matrices; four sessions,
with any number of threads, are within 1.2x of one; the time per evaluation is within 1.05x of raw ONNX Runtime's; the
second start of the convolutions takes at most a quarter of the first; after closing, at most 0.02x the weights are
left. Linux only: it reads /proc.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _measure import arguments, at_most, medians, paired_processes, report

MATRICES, SIDE = 32, 2048
CONVOLUTIONS, CHANNELS, PIXELS = 4, 1024, 14
WIDTH = 64  # of the small models
BATCHES = (1, 8)

PROLOGUE = """
import sys, time
import numpy as np
path, small, how, threads, count, shape = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:])
def field(file, name):
    return next(int(line.split()[1]) for line in open(file) if line.startswith(name)) * 1024
def resident(name="VmRSS"):
    return field("/proc/self/status", name)
def share():
    return field("/proc/self/smaps_rollup", "Pss:")
if how == "raw":
    import onnxruntime
    def load(path, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"], enable_fallback=0)
    def evaluate(session, x):
        return session.run(None, {"x": x})[0]
else:
    from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions
    models = {}
    def load(path, threads):
        options = LearningModelSessionOptions()
        options.intra_op_num_threads = threads
        if path not in models:
            models[path] = LearningModel.load(path)
        return LearningModelSession(models[path], None, options)
    def evaluate(session, x):
        return session.evaluate_features({"x": x}).outputs["y"].to_numpy()
x = np.random.default_rng(1).random(shape, np.float32)
"""
FIGURES = """
evaluate(load(small, threads), x[:, :WIDTH, ...])
if how == "ours":
    models.clear()
baseline, base_share = resident(), share()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # resets the peak
started = time.perf_counter()
sessions = [load(path, threads)]
seconds = time.perf_counter() - started
evaluate(sessions[0], x)
peak = field("/proc/self/status", "VmHWM") - baseline
one = share() - base_share
for index in range(1, count):
    sessions.append(load(path, threads))
    evaluate(sessions[-1], x)
many = share() - base_share
for session in sessions:
    if how == "ours":
        session.close()
session = None
sessions.clear()
if how == "ours":
    models.clear()
found = {"peak": peak, "one session": one, "all sessions": many}
print(json.dumps(found | {"after closing": resident() - baseline, "seconds": seconds}))
"""
OTHER_THREADS = FIGURES.replace("append(load(path, threads))", "append(load(path, threads + index))")
ANSWER = "sys.stdout.buffer.write(evaluate(load(path, threads), x).tobytes())"
TIMING = f"""
sys.path.insert(0, {str(Path(__file__).parent)!r})
from _measure import serve
session = load(path, threads)
if how == "raw":
    serve(lambda: session.run(None, {{"x": x}}))
else:
    from winml_py import LearningModelBinding
    binding = LearningModelBinding(session)
    binding.bind("x", x)
    serve(lambda: session.evaluate(binding))
"""


def matrices(path: Path, side: int) -> int:
    """Writes a chain of matrix products that is small enough to stay finite. Returns the bytes of its weights."""
    from onnx import helper

    rng = np.random.default_rng(0)
    names = ["x", *(f"h{index}" for index in range(1, MATRICES)), "y"]
    weights = {f"w{i}": (rng.random((side, side), np.float32) - 0.5) * (3.4 / side**0.5) for i in range(MATRICES)}
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(MATRICES)]
    return _write(path, nodes, weights, [None, side])


def convolutions(path: Path, channels: int) -> int:
    """Writes convolutions of 3 x 3, each with a batch normalization and a Relu. Returns the bytes of their weights."""
    from onnx import helper

    rng = np.random.default_rng(0)
    nodes, weights, value = [], {}, "x"
    for i in range(CONVOLUTIONS):
        kernel = rng.standard_normal((channels, channels, 3, 3), np.float32) * np.float32((2 / channels / 9) ** 0.5)
        weights[f"w{i}"] = kernel
        for name in ("scale", "shift", "mean", "variance"):
            weights[f"{name}{i}"] = rng.random(channels, np.float32) + np.float32(0.5)
        after = "y" if i == CONVOLUTIONS - 1 else f"h{i}"
        parameters = [f"{name}{i}" for name in ("scale", "shift", "mean", "variance")]
        nodes += [
            helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", [f"c{i}", *parameters], [f"n{i}"]),
            helper.make_node("Relu", [f"n{i}"], [after]),
        ]
        value = after
    return _write(path, nodes, weights, [None, channels, PIXELS, PIXELS])


def _write(path: Path, nodes: list[Any], weights: dict[str, np.ndarray], shape: list[int | None]) -> int:
    from onnx import TensorProto, helper, numpy_helper

    tensors = [numpy_helper.from_array(weight, name) for name, weight in weights.items()]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "model", [x], [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return sum(weight.nbytes for weight in weights.values())


class Setting:
    """A model, its inputs' shape, and a cache folder."""

    def __init__(self, folder: Path, name: str, shape: list[int]) -> None:
        self.path, self.small, self.shape = folder / f"{name}.onnx", folder / f"{name}-small.onnx", shape
        self.cache = folder / f"cache-{name}"
        self.threads = len(os.sched_getaffinity(0))

    def command(self, code: str, how: str, count: int = 1, batch: int = 1) -> list[str]:
        """The command of a process that makes the code's preparations and then runs it."""
        words = [how, self.threads, count, [batch, *self.shape]]
        program = f"import json\nWIDTH = {WIDTH}\n" + PROLOGUE + code
        return [sys.executable, "-c", program, str(self.path), str(self.small), *map(json.dumps, words)]

    def run(self, code: str, how: str, count: int = 1, batch: int = 1) -> bytes:
        """Runs the code in a process, and returns what it prints."""
        os.environ["WINML_PY_CACHE"] = str(self.cache)
        return subprocess.run(self.command(code, how, count, batch), check=True, stdout=subprocess.PIPE).stdout

    def figures(self, code: str, how: str, count: int, processes: int, is_first: bool = False) -> dict[str, float]:
        """The medians of the numbers that several processes print."""
        import shutil

        runs = []
        for _ in range(processes):
            if is_first:
                shutil.rmtree(self.cache, ignore_errors=True)
            runs.append(json.loads(self.run(code, how, count)))
        return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def measure(setting: Setting, weights: int, processes: int) -> list[dict[str, Any]]:
    for batch in BATCHES:
        if setting.run(ANSWER, "raw", batch=batch) != setting.run(ANSWER, "ours", batch=batch):
            raise SystemExit(f"{setting.path.stem}: the results differ")
    cases = {
        "raw, 1 session": ("raw", FIGURES, 1, False),
        "raw, 4 sessions": ("raw", FIGURES, 4, False),
        "winml-py, first start": ("ours", FIGURES, 1, True),
        "winml-py, second start": ("ours", FIGURES, 1, False),
        "winml-py, 4 with equal options": ("ours", FIGURES, 4, False),
        "winml-py, 4 with other threads": ("ours", OTHER_THREADS, 4, False),
    }
    rows = []
    for name, (how, code, count, is_first) in cases.items():
        found = setting.figures(code, how, count, processes, is_first)
        row: dict[str, Any] = {"model": setting.path.stem, "way": name, "start s": found["seconds"]}
        row |= {key: size / weights for key, size in found.items() if key != "seconds"}
        rows.append(row)
    return rows


def times(setting: Setting, rounds: int) -> list[dict[str, Any]]:
    os.environ["WINML_PY_CACHE"] = str(setting.cache)
    rows = []
    for batch in BATCHES:
        commands = {how: setting.command(TIMING, how, batch=batch) for how in ("raw", "ours")}
        found = medians(paired_processes(commands, rounds, 0.6))
        rows.append({"model": setting.path.stem, "batch": batch, "raw ms": found["raw"] * 1e3})
        rows[-1] |= {"winml-py ms": found["ours"] * 1e3, "winml-py / raw": found["ours"] / found["raw"]}
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rows, timed = [], []
    with tempfile.TemporaryDirectory() as folder:
        for make, shape in ((matrices, [SIDE]), (convolutions, [CHANNELS, PIXELS, PIXELS])):
            setting = Setting(Path(folder), make.__name__, shape)
            make(setting.small, WIDTH)
            rows += measure(setting, make(setting.path, shape[0]), options.processes)
            timed += times(setting, options.rounds)
    report({"memory": rows, "memory-times": timed}, options.json, bars_of(rows, timed))


def bars_of(rows: list[dict[str, Any]], timed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_way = {(row["model"], row["way"]): row for row in rows}
    ours = [row for row in rows if row["way"].startswith("winml-py")]
    raw_peaks = {row["model"]: row["peak"] for row in rows if row["way"] == "raw, 1 session"}
    starts = {way: by_way["convolutions", f"winml-py, {way} start"]["start s"] for way in ("first", "second")}
    alone = [row for row in ours if "start" in row["way"]]
    return [
        at_most("matrices, peak", max(row["peak"] for row in alone if row["model"] == "matrices"), 1.15),
        at_most("peak / raw", max(row["peak"] / raw_peaks[row["model"]] for row in alone), 1),
        at_most("four sessions / one", max(row["all sessions"] / row["one session"] for row in ours), 1.2),
        at_most("evaluation / raw", max(row["winml-py / raw"] for row in timed), 1.05),
        at_most("convolutions, second / first start", starts["second"] / starts["first"], 0.25),
        at_most("after closing", max(row["after closing"] for row in ours), 0.02),
    ]


if __name__ == "__main__":
    main()
