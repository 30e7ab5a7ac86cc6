"""Compares `engine = "auto"` with raw ONNX Runtime, and with OpenVINO by its package and by its plugin.

    python benchmarks/engines.py [--half] [--json FILE] [--models NAME ...]

Of the two ways to OpenVINO, those that this machine has are measured. The results are compared first (1e-3, or 2e-2 in
half precision). Then the ways take turns, each in its own process; a figure is the median of the turns' ratios. The
processes are started eight times, because two of one kind can differ by some percent all their lives. Bars: auto
reaches at least 0.97 of the best engine on every model; and of raw ONNX Runtime, in the geometric mean, at least 1.12
on Intel's processors and 1.05 on others, or 1.8 in half precision where the processor has AVX512-BF16 or AMX. With
`--half`, a model whose result is wrong in half precision must be caught; where no engine computes in half precision,
the program says so and ends.
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
from onnx import helper, numpy_helper

from winml_py import LearningModel, LearningModelBinding, LearningModelSession, LearningModelSessionOptions, Precision
from winml_py.core.base import machine
from winml_py.core.base.machine import count_usable_cores
from winml_py.core.runtime.providers import plugins

CHECKED = 16
"""Evaluations after which nothing is checked any more."""


def raw_session(path: str) -> onnxruntime.InferenceSession:
    native = onnxruntime.SessionOptions()
    native.log_severity_level, native.intra_op_num_threads = 4, count_usable_cores()
    return onnxruntime.InferenceSession(path, native, providers=["CPUExecutionProvider"])


def bound(
    path: str, engine: str, precision: Precision, feed: dict[str, np.ndarray]
) -> tuple[LearningModelSession, LearningModelBinding]:
    options = LearningModelSessionOptions()
    options.engine, options.precision, options.batch_size_override = engine, precision, 0
    session = LearningModelSession(LearningModel.load(path), None, options)
    binding = LearningModelBinding(session)
    for name, array in feed.items():
        binding.bind(name, array)
    for _ in range(CHECKED if engine == "auto" or precision is Precision.HALF else 1):
        session.evaluate(binding)  # the first chooses, and some check until the reference is closed
    return session, binding


def half_types() -> list[str]:
    """The types that an engine of this machine computes half precision in."""
    return sorted({kind for device in plugins.find_devices("cpu") for kind in device.half_types.split()})


def cancelling() -> onnx.ModelProto:
    """A model that adds 4,096 and takes it away again, between two convolutions: wrong by far in half precision."""
    rng, shape = np.random.default_rng(0), [1, 64, 56, 56]
    weights = {name: rng.normal(0, 0.125, (64, 64, 1, 1)).astype(np.float32) for name in ("v", "w")}
    weights |= {"b": np.full(64, 4096, np.float32), "c": -4096 * weights["w"].sum((1, 2, 3))}
    nodes = [helper.make_node("Conv", ["x", "v", "b"], ["h"]), helper.make_node("Conv", ["h", "w", "c"], ["y"])]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "cancelling", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def check(path: str, ways: list[str], precision: Precision) -> str:
    """Compares the results. Returns the engine that auto chose, and stores the choices for the later processes."""
    raw = raw_session(path)
    feed = inputs(raw)
    expected = raw.run(None, feed)
    del raw
    for engine in ways:
        session, binding = bound(path, engine, precision, feed)
        tolerance = 2e-2 if session.precision is Precision.HALF else 1e-3
        for value, output in zip(expected, session.evaluate(binding).outputs.values(), strict=True):
            assert np.abs(output.to_numpy() - value).max() <= tolerance * np.abs(value).max(), session.explain()
    print(session.explain(), file=sys.stderr)
    explained = session.explain()
    return f"{explained.engine.removesuffix('ExecutionProvider')} {explained.number_type}".strip()


def work(path: str, way: str, precision: Precision) -> None:
    feed = inputs(raw_session(path))
    if way == "raw":
        raw = raw_session(path)
        serve(lambda: raw.run(None, feed))
    else:
        session, binding = bound(path, way, precision, feed)
        serve(lambda: session.evaluate(binding))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--generations", type=int, default=8, help="how often the processes are started")
    parser.add_argument("--seconds", type=float, default=12, help="what the turns of one start take at most")
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--half", action="store_true", help="allow half precision")
    parser.add_argument("--serve", nargs=2, metavar=("FILE", "WAY"), help="be one of the processes")
    options = parser.parse_args()
    precision = Precision.HALF if options.half else Precision.FLOAT32
    if options.serve:
        work(*options.serve, precision)
        return
    engines = [device.provider for device in plugins.find_devices("cpu") if "openvino" in device.provider.lower()]
    if options.half and not half_types():
        print(f"{machine.read_processor_name()}: no engine here computes in half precision")
        return
    more, rows = ["--half"] if options.half else [], []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WINML_PY_CACHE"] = folder
        if options.half:
            path = str(Path(folder, "cancelling.onnx"))
            onnx.save(cancelling(), path)
            print(f"cancelling, whose half result is wrong: took {check(path, [*engines, 'auto'], precision)}")
        for name, model in public_models().items():
            if options.models and name not in options.models:
                continue
            path = str(Path(folder, f"{name}.onnx"))
            onnx.save(model, path)
            took = check(path, [*engines, "auto"], precision)
            commands = {
                way: [sys.executable, __file__, *more, "--serve", path, way] for way in ("raw", *engines, "auto")
            }
            seconds = paired_processes(commands, options.rounds, 0.06, options.generations, options.seconds)
            row = {"model": name, "raw ms": medians(seconds)["raw"] * 1e3}
            row |= {f"raw / {way}": ratio(seconds["raw"], seconds[way]) for way in (*engines, "auto")}
            best = min(ratio(seconds[way], seconds["auto"]) for way in ("raw", *engines))
            rows.append(row | {"best / auto": best, "auto took": took})
            print(rows[-1], file=sys.stderr)
    ratios = {name: [row[name] for row in rows] for name in (f"raw / {way}" for way in (*engines, "auto"))}
    means = {name: geometric_mean(values) for name, values in ratios.items()}
    is_intel, types = "Intel" in machine.read_processor_name(), " ".join(half_types())
    limit = 1.8 if options.half and "bfloat16" in types else 1.12 if is_intel else 1.05
    bars = [
        at_least("best / auto, least", min(row["best / auto"] for row in rows), 0.97),
        at_least("raw / auto, geometric mean", means["raw / auto"], limit),
    ]
    rows.append(dict.fromkeys(rows[0], "") | {"model": "geometric mean"} | means)
    report({"engines": rows}, options.json, bars)


if __name__ == "__main__":
    main()
