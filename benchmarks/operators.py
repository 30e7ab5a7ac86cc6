"""What a cached single operator costs on top of raw ONNX Runtime, on small tensors.

    python benchmarks/operators.py [--json FILE]

Results are checked for equality first. Then all ways take turns in this process; processor time of the calling thread
counts, and the least of many rounds. The target: a call costs at most 25 microseconds more than `InferenceSession.run`
of the same model of one node.
"""

import time
from collections.abc import Callable

import numpy as np
import onnxruntime
from _measure import arguments, at_most, report
from onnx import TensorProto, helper

from winml_py import operators

REPEATS = 50


def raw_session(node: str, inputs: dict[str, np.ndarray], **attributes: object) -> onnxruntime.InferenceSession:
    """The same model of one node, made by hand."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in inputs.items()]
    graph = helper.make_graph(
        [helper.make_node(node, list(inputs), ["y"], **attributes)],
        "node",
        ends,
        [helper.make_empty_tensor_value_info("y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def cases() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    rng = np.random.default_rng(0)
    x, w = rng.random((1, 3, 8, 8), np.float32), rng.random((4, 3, 3, 3), np.float32)
    a, b = rng.random((4, 4), np.float32), rng.random((4, 4), np.float32)
    relu, add = raw_session("Relu", {"X": a}), raw_session("Add", {"A": a, "B": b})
    conv = raw_session("Conv", {"X": x, "W": w}, strides=[2, 2], pads=[1, 1, 1, 1])
    return {
        "Relu": (lambda: relu.run(None, {"X": a})[0], lambda: operators.Relu(a)),
        "Add": (lambda: add.run(None, {"A": a, "B": b})[0], lambda: operators.Add(a, b)),
        "Conv, two attributes": (
            lambda: conv.run(None, {"X": x, "W": w})[0],
            lambda: operators.Conv(x, w, strides=[2, 2], pads=[1, 1, 1, 1]),
        ),
    }


def processor_seconds(call: Callable[[], object]) -> float:
    started = time.thread_time()
    for _ in range(REPEATS):
        call()
    return (time.thread_time() - started) / REPEATS


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    rows = []
    for name, (raw, ours) in cases().items():
        np.testing.assert_array_equal(raw(), ours())
        pairs = [(processor_seconds(raw), processor_seconds(ours)) for _ in range(options.rounds)]
        least_raw, least_ours = (min(seconds) * 1e6 for seconds in zip(*pairs, strict=True))
        rows.append(
            {"operator": name, "raw run, µs": least_raw, "call, µs": least_ours, "overhead, µs": least_ours - least_raw}
        )
    bars = [at_most("overhead, µs", max(row["overhead, µs"] for row in rows), 25)]
    report({"operators": rows}, options.json, bars)


if __name__ == "__main__":
    main()
