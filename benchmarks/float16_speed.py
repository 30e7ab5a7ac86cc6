"""Compares float16 models on the CPU: default options, 16-bit types that are asked for, and raw ONNX Runtime.

    python benchmarks/float16_speed.py [--json FILE] [--models NAME ...]

The models are convolutional architectures of public wheels, converted by `winml_py.float16`. The results are compared
first: by default they are raw ONNX Runtime's to float16's rounding; a type whose results differ by more than 2e-2 is
not measured. Then the ways take turns, each in its own process. Targets: by default nowhere below 0.97 of raw; where an
engine computes in a 16-bit type, the faster of raw and that type is 1.6 times as fast in the geometric mean.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from _measure import arguments, at_least, geometric_mean, medians, paired_processes, ratio, report, serve
from _models import inputs, public_models
from engines import half_types, raw_session
from onnx import helper, numpy_helper

from winml_py import LearningModel, LearningModelBinding, LearningModelSession, LearningModelSessionOptions, Precision
from winml_py.core.base import machine
from winml_py.float16 import convert

CONVOLUTIONAL = (
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "PP-OCRv6_det_small",
    "ch_ppocr_mobile_v2.0_cls_mobile",
)


def overflowing() -> onnx.ModelProto:
    """A float16 model whose sums reach 80,000 before a mean of 1,250: correct in float32, infinite in float16."""
    shape = [1, 64, 56, 56]
    weight = np.full((64, 64, 1, 1), 20, np.float16)
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Add", ["a", "one"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["c"]),
        helper.make_node("ReduceMean", ["c"], ["m"], axes=[1, 2, 3]),
        helper.make_node("Div", ["m", "k"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info("x", 10, shape), helper.make_tensor_value_info("y", 10, [1, 1, 1, 1])]
    weights = {"w": weight, "one": np.float16(62), "k": np.float16(2)}
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "overflow", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def bound(path: str, way: str, feed: dict[str, np.ndarray]) -> tuple[LearningModelSession, LearningModelBinding]:
    """A session by default, or in a 16-bit type."""
    options = LearningModelSessionOptions()
    options.batch_size_override = 0
    options.precision = Precision.AUTO if way == "default" else Precision[way.upper()]
    session = LearningModelSession(LearningModel.load(path), None, options)
    binding = LearningModelBinding(session)
    for name, array in feed.items():
        binding.bind(name, array)
    session.evaluate(binding)
    return session, binding


def find_right_ways(path: str) -> list[str]:
    """Compares the results; gives the ways whose results are right."""
    raw = raw_session(path)
    feed = inputs(raw)
    expected = raw.run(None, feed)
    del raw
    right = ["raw"]
    for way in ("default", *half_types()):
        session, binding = bound(path, way, feed)
        tolerance = 2**-10 if way == "default" else 2e-2
        outputs = session.evaluate(binding).outputs.values()
        is_right = all(
            np.abs(output.to_numpy() - value.astype(np.float32)).max() <= tolerance * np.abs(value).max()
            for value, output in zip(expected, outputs, strict=True)
        )
        assert is_right or way != "default", session.explain()
        right += [way] if is_right else []
    return right


def work(path: str, way: str) -> None:
    raw = raw_session(path)
    feed = inputs(raw)
    if way == "raw":
        serve(lambda: raw.run(None, feed))
    else:
        del raw
        session, binding = bound(path, way, feed)
        serve(lambda: session.evaluate(binding))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--generations", type=int, default=6, help="how often the processes are started")
    parser.add_argument("--models", nargs="*", default=CONVOLUTIONAL)
    parser.add_argument("--serve", nargs=2, metavar=("FILE", "WAY"), help="be one of the processes")
    options = parser.parse_args()
    if options.serve:
        work(*options.serve)
        return
    halves = half_types()
    print(f"{machine.read_processor_name()}, 16-bit types: {', '.join(halves) or 'none'}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WINML_PY_CACHE"] = folder
        paths = {}
        for name, model in public_models().items():
            if name in options.models:
                paths[name] = str(Path(folder, f"{name}.onnx"))
                wide = str(Path(folder, "wide.onnx"))
                onnx.save(model, wide)
                convert(wide, paths[name])
        paths["overflowing"] = str(Path(folder, "overflowing.onnx"))
        onnx.save(overflowing(), paths["overflowing"])
        for name, path in paths.items():
            ways = find_right_ways(path)
            commands = {way: [sys.executable, __file__, "--serve", path, way] for way in ways}
            seconds = paired_processes(commands, options.rounds, 0.06, generations=options.generations)
            middle = medians(seconds)
            row = {"model": name} | {f"{way} ms": middle.get(way, np.nan) * 1e3 for way in ("raw", "default", *halves)}
            row |= {f"raw / {way}": ratio(seconds["raw"], seconds[way]) for way in ways[1:]}
            best = max((way for way in ways if way != "default"), key=lambda way: row.get(f"raw / {way}", 1.0))
            rows.append(row | {"raw / best": row.get(f"raw / {best}", 1.0), "best": best})
            print(rows[-1], file=sys.stderr)
    keys = ("raw / default", "raw / best")
    found = {key: [row[key] for row in rows if row["model"] in CONVOLUTIONAL] for key in keys}
    means = {name: geometric_mean(ratios) for name, ratios in found.items()}
    bars = [at_least("raw / default, minimum", min(found["raw / default"]), 0.97)]
    if halves:
        bars.append(at_least("raw / best, geometric mean", means["raw / best"], 1.6))
    rows.append(dict.fromkeys(rows[0], "") | {"model": "geometric mean, convolutional"} | means)
    report({"float16_speed": rows}, options.json, bars)


if __name__ == "__main__":
    main()
