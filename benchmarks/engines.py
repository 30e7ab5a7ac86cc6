"""Compares `engine = "auto"` with raw ONNX Runtime and the OpenVINO plugin, on public models in float32.

    python benchmarks/engines.py [--json FILE] [--models NAME ...]

The results are compared first (1e-3). Then the ways take turns, each in its own process. Bars: auto reaches at least
0.97 of the better engine on every model, and at least 1.12 times raw ONNX Runtime in the geometric mean.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from _measure import arguments, geometric_mean, medians, paired_processes, report, serve
from _models import inputs, public_models

from winml_py import LearningModel, LearningModelBinding, LearningModelSession, LearningModelSessionOptions, Precision
from winml_py.base.cpu_cores import usable_cores

OPENVINO = "OpenVINOExecutionProvider"
WAYS = ("raw", OPENVINO, "auto")


def raw_session(path: str) -> onnxruntime.InferenceSession:
    native = onnxruntime.SessionOptions()
    native.log_severity_level, native.intra_op_num_threads = 4, usable_cores()
    return onnxruntime.InferenceSession(path, native, providers=["CPUExecutionProvider"])


def bound(path: str, engine: str, feed: dict[str, np.ndarray]) -> tuple[LearningModelSession, LearningModelBinding]:
    options = LearningModelSessionOptions()
    options.engine, options.precision, options.batch_size_override = engine, Precision.FLOAT32, 0
    session = LearningModelSession(LearningModel.load(path), None, options)
    binding = LearningModelBinding(session)
    for name, array in feed.items():
        binding.bind(name, array)
    session.evaluate(binding)  # makes the choice where it is still open
    return session, binding


def check(path: str) -> str:
    """Compares the results. Returns the engine that auto chose, and stores the choice for the later processes."""
    raw = raw_session(path)
    feed = inputs(raw)
    expected = raw.run(None, feed)
    del raw
    for engine in (OPENVINO, "auto"):
        session, binding = bound(path, engine, feed)
        for value, output in zip(expected, session.evaluate(binding).outputs.values(), strict=True):
            assert np.abs(output.to_numpy() - value).max() <= 1e-3 * np.abs(value).max(), session.explain()
    print(session.explain(), file=sys.stderr)
    return session.engine.removesuffix("ExecutionProvider")


def work(path: str, way: str) -> None:
    feed = inputs(raw_session(path))
    if way == "raw":
        raw = raw_session(path)
        serve(lambda: raw.run(None, feed))
    else:
        session, binding = bound(path, way, feed)
        serve(lambda: session.evaluate(binding))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--serve", nargs=2, metavar=("FILE", "WAY"), help="be one of the processes")
    options = parser.parse_args()
    if options.serve:
        work(*options.serve)
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WINML_PY_CACHE"] = folder
        for name, model in public_models().items():
            if options.models and name not in options.models:
                continue
            path = str(Path(folder, f"{name}.onnx"))
            onnx.save(model, path)
            took = check(path)
            commands = {way: [sys.executable, __file__, "--serve", path, way] for way in WAYS}
            middle = medians(paired_processes(commands, options.rounds, 0.06))
            raw, forced, auto = (middle[way] for way in WAYS)
            row = {"model": name, "raw ms": raw * 1e3, "OpenVINO ms": forced * 1e3, "auto ms": auto * 1e3, "took": took}
            rows.append(row | {"auto, of the better": min(raw, forced) / auto, "auto, of raw": raw / auto})
            print(rows[-1], file=sys.stderr)
    report("engines", rows, options.json)
    print(f"geometric mean over raw: {geometric_mean([row['auto, of raw'] for row in rows]):.3f}")
    print(f"worst of the better: {min(row['auto, of the better'] for row in rows):.3f}")


if __name__ == "__main__":
    main()
