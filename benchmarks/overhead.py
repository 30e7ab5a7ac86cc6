"""What `evaluate` and `evaluate_features` cost on top of raw ONNX Runtime.

    python benchmarks/overhead.py [--json FILE]

Two models: the 28x28 digit model, and a matrix product of about 20 microseconds. For each, raw ONNX Runtime and
winml-py have a session of their own, of one thread. Results are checked for equality first. Then all ways take turns in
this process, and the thread's own time is taken. Targets, in multiples of raw `InferenceSession.run`:
`evaluate_features` 1.4 on the digit model; `evaluate` with bound inputs and outputs 1.08 on both.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from _measure import arguments, at_most, interleaved, medians, report
from onnx import helper, numpy_helper

from winml_py import LearningModel, LearningModelBinding, LearningModelSession, TensorFloat
from winml_py import LearningModelSessionOptions as Options

DIGITS = Path(__file__).parent.parent / "models" / "digits.onnx"
SIDE = 256
BARS = (
    ("digits", "`evaluate_features`", 1.4),
    ("digits", "`evaluate`, all bound", 1.08),
    ("product", "`evaluate`, all bound", 1.08),
)


def product() -> bytes:
    """A vector times a matrix, and Relu."""
    weights = np.random.default_rng(0).normal(0, 0.1, (SIDE, SIDE)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    ends = [helper.make_tensor_value_info(name, 1, [1, SIDE]) for name in "xy"]
    graph = helper.make_graph(nodes, "product", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def ways(data: bytes) -> dict[str, Callable[[], Any]]:
    """Each way to evaluate a model of one input and one output; all give the same."""
    native, options = onnxruntime.SessionOptions(), Options()
    native.intra_op_num_threads = options.intra_op_num_threads = 1
    raw = onnxruntime.InferenceSession(data, native, providers=["CPUExecutionProvider"])
    session = LearningModelSession(LearningModel.load(data), None, options)
    (given,), (gives,) = raw.get_inputs(), raw.get_outputs()
    name, output = given.name, gives.name
    value = np.random.default_rng(0).random(given.shape, np.float32)
    expected = raw.run(None, {name: value})[0]

    binding, unbound, raw_binding = LearningModelBinding(session), LearningModelBinding(session), raw.io_binding()
    target, raw_target = TensorFloat.from_numpy(np.zeros_like(expected)), np.zeros_like(expected)
    binding.bind(name, value)
    binding.bind(output, target)
    unbound.bind(name, value)
    raw_binding.bind_input(name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)
    raw_binding.bind_output(output, "cpu", 0, np.float32, raw_target.shape, raw_target.ctypes.data)

    def bind_and_evaluate() -> Any:
        unbound.bind(name, value)
        return session.evaluate(unbound).outputs[output]

    calls: dict[str, Callable[[], Any]] = {
        "raw `run`": lambda: raw.run(None, {name: value})[0],
        "raw `run_with_iobinding`": lambda: raw.run_with_iobinding(raw_binding),
        "`evaluate`, all bound": lambda: session.evaluate(binding).outputs[output],
        "`evaluate`, output unbound": lambda: session.evaluate(unbound).outputs[output],
        "`bind` and `evaluate`": bind_and_evaluate,
        "`evaluate_features`": lambda: session.evaluate_features({name: value}).outputs[output],
    }
    for way, call in calls.items():
        came = call()
        np.testing.assert_array_equal(raw_target if way == "raw `run_with_iobinding`" else came, expected)
    return calls


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    for model, data in {"digits": DIGITS.read_bytes(), "product": product()}.items():
        calls = ways(data)
        interleaved(calls, 20, 50, time.thread_time)
        middle = medians(interleaved(calls, options.rounds, 20, time.thread_time))
        for way, seconds in middle.items():
            row = rows.setdefault(way, {"way": way})
            row |= {f"{model}, µs": seconds * 1e6, f"{model}, x raw": seconds / middle["raw `run`"]}
    bars = [at_most(f"{way}, {model}", rows[way][f"{model}, x raw"], limit) for model, way, limit in BARS]
    report({"overhead": list(rows.values())}, options.json, bars)


if __name__ == "__main__":
    main()
