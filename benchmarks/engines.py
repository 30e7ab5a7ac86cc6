"""Compares OpenVINO, by its package and by its plugin, with raw ONNX Runtime.

    python benchmarks/engines.py [--json FILE] [--models NAME ...]

Of the two ways to OpenVINO, those that this machine has are measured. The results are compared first (1e-3). Then the
ways take turns, each in its own process; a figure is the median of the turns' ratios. The processes are started eight
times, because two of one kind can differ by some percent all their lives. Target: the best engine of each model
reaches, in the geometric mean, 1.12 times raw ONNX Runtime on Intel's processors, and 1.05 on others.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from _measure import arguments, at_least, geometric_mean, medians, paired_processes, ratio, report, serve
from _models import inputs, public_models

from winml_py import LearningModel, LearningModelBinding, LearningModelSession, LearningModelSessionOptions
from winml_py.core.base import machine
from winml_py.core.base.machine import count_usable_cores
from winml_py.core.runtime.providers import plugins


def raw_session(path: str) -> onnxruntime.InferenceSession:
    native = onnxruntime.SessionOptions()
    native.log_severity_level, native.intra_op_num_threads = 4, count_usable_cores()
    return onnxruntime.InferenceSession(path, native, providers=["CPUExecutionProvider"])


def bound(path: str, engine: str, feed: dict[str, np.ndarray]) -> tuple[LearningModelSession, LearningModelBinding]:
    options = LearningModelSessionOptions()
    options.engine, options.batch_size_override = engine, 0
    session = LearningModelSession(LearningModel.load(path), None, options)
    binding = LearningModelBinding(session)
    for name, array in feed.items():
        binding.bind(name, array)
    session.evaluate(binding)
    return session, binding


def half_types() -> list[str]:
    """The 16-bit types that an engine of this machine computes in."""
    return sorted({kind for device in plugins.find_devices("cpu") for kind in device.half_types.split()})


def check(path: str, engines: list[str]) -> None:
    """Compares the results, and stores compiled models for the later processes."""
    raw = raw_session(path)
    feed = inputs(raw)
    expected = raw.run(None, feed)
    del raw
    for engine in engines:
        session, binding = bound(path, engine, feed)
        for value, output in zip(expected, session.evaluate(binding).outputs.values(), strict=True):
            assert np.abs(output.to_numpy() - value).max() <= 1e-3 * np.abs(value).max(), session.explain()


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
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--generations", type=int, default=8, help="how often the processes are started")
    parser.add_argument("--seconds", type=float, default=12, help="what the turns of one start take at most")
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--serve", nargs=2, metavar=("FILE", "WAY"), help="be one of the processes")
    options = parser.parse_args()
    if options.serve:
        work(*options.serve)
        return
    engines = [device.provider for device in plugins.find_devices("cpu") if "openvino" in device.provider.lower()]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WINML_PY_CACHE"] = folder
        for name, model in public_models().items():
            if options.models and name not in options.models:
                continue
            path = str(Path(folder, f"{name}.onnx"))
            onnx.save(model, path)
            check(path, engines)
            commands = {way: [sys.executable, __file__, "--serve", path, way] for way in ("raw", *engines)}
            seconds = paired_processes(commands, options.rounds, 0.06, options.generations, options.seconds)
            row = {"model": name, "raw ms": medians(seconds)["raw"] * 1e3}
            row |= {f"raw / {way}": ratio(seconds["raw"], seconds[way]) for way in engines}
            rows.append(row | {"raw / best": max(1.0, *(ratio(seconds["raw"], seconds[way]) for way in engines))})
            print(rows[-1], file=sys.stderr)
    ratios = {name: [row[name] for row in rows] for name in (*(f"raw / {way}" for way in engines), "raw / best")}
    means = {name: geometric_mean(values) for name, values in ratios.items()}
    limit = 1.12 if "Intel" in machine.read_processor_name() else 1.05
    bars = [at_least("raw / best, geometric mean", means["raw / best"], limit)]
    rows.append(dict.fromkeys(rows[0], "") | {"model": "geometric mean"} | means)
    report({"engines": rows}, options.json, bars)


if __name__ == "__main__":
    main()
