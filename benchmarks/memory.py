"""Memory at the peak of loading a 512 MB model from a path and creating sessions, against raw ONNX Runtime.

    python benchmarks/memory.py [--json FILE]

Each figure is the peak resident size (VmHWM) of a fresh process, Python and all libraries included, as the median
of several processes, divided by the size of the weights. Before that, both ways must give the same result.
The bars: at most 1.15x for one session and never above raw ONNX Runtime; four sessions within 1.2x of one.
Linux only: it reads /proc/self/status.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from _measure import arguments, report

LAYERS, SIDE = 32, 2048
WEIGHTS = LAYERS * SIDE * SIDE * 4

RAW = """
import onnxruntime
sessions = [onnxruntime.InferenceSession(path, enable_fallback=0) for _ in range(count)]
"""
OURS = """
from winml_py import LearningModel, LearningModelSession
model = LearningModel.load(path)
sessions = [LearningModelSession(model) for _ in range(count)]
"""
PEAK = """
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak) * 1024)
"""
RESULT = f"""
import sys, numpy
x = numpy.random.default_rng(1).random((2, {SIDE}), numpy.float32)
if hasattr(sessions[-1], "run"):
    y = sessions[-1].run(None, {{"x": x}})[0]
else:
    y = sessions[-1].evaluate_features({{"x": x}}).outputs["y"].to_numpy()
sys.stdout.buffer.write(y.tobytes())
"""


def write_model(path: Path) -> None:
    """A chain of matrix products, small enough to stay finite."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    names = ["x", *(f"h{index}" for index in range(1, LAYERS)), "y"]
    nodes, tensors = [], []
    for index in range(LAYERS):
        weight = (rng.random((SIDE, SIDE), np.float32) - 0.5) * (3.4 / SIDE**0.5)
        tensors.append(numpy_helper.from_array(weight, f"w{index}"))
        nodes.append(helper.make_node("MatMul", [names[index], f"w{index}"], [names[index + 1]]))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, SIDE]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", values[:1], values[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def fresh(code: str, path: Path, count: int, after: str) -> bytes:
    program = f"path, count = {str(path)!r}, {count}\n{code}\n{after}"
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--processes", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.onnx"
        write_model(path)
        if fresh(RAW, path, 1, RESULT) != fresh(OURS, path, 1, RESULT):
            raise SystemExit("the results differ")
        cases = [
            ("raw ONNX Runtime", RAW, 1),
            ("winml-py", OURS, 1),
            ("raw ONNX Runtime", RAW, 4),
            ("winml-py", OURS, 4),
        ]
        peaks: list[list[int]] = [[] for _ in cases]
        for _ in range(options.processes):
            for peak, (_, code, count) in zip(peaks, cases, strict=True):
                peak.append(int(fresh(code, path, count, PEAK)))
    rows = []
    one = {"raw ONNX Runtime": statistics.median(peaks[0]), "winml-py": statistics.median(peaks[1])}
    for (name, _, count), peak in zip(cases, peaks, strict=True):
        middle = statistics.median(peak)
        rows.append(
            {
                "way": name,
                "sessions": count,
                "peak MB": middle / 1e6,
                "lowest MB": min(peak) / 1e6,
                "highest MB": max(peak) / 1e6,
                "x weights": middle / WEIGHTS,
                "x one session": middle / one[name],
            }
        )
    report("memory", rows, options.json)


if __name__ == "__main__":
    main()
