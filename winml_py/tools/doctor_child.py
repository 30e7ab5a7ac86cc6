"""A program in a process of its own: it runs a small model on one device for a second, and prints a line of JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from ..base.agreement import FLOAT_TOLERANCE, relative_error
from ..errors import WinMLError
from ..session.binding import LearningModelBinding
from ..session.device import LearningModelDevice
from ..session.model import LearningModel
from ..session.session import LearningModelSession

SECONDS = 1.0


def main() -> None:
    """Tries the device whose number in `find_all` is on the command line."""
    device = LearningModelDevice.find_all()[int(sys.argv[1])]
    facts: dict[str, Any] = {"device": device.name, "provider": device.provider, "hardware": device.hardware}
    try:
        facts |= _run(device)
    except WinMLError as error:
        facts["problem"] = str(error)
    sys.stdout.write(json.dumps(facts) + "\n")


def _run(device: LearningModelDevice) -> dict[str, Any]:
    model = LearningModel.load(small_model())
    picture = np.random.default_rng(0).random((1, 3, 32, 32), np.float32)
    started = time.perf_counter()
    session = LearningModelSession(model, device)
    binding = LearningModelBinding(session)
    binding.bind("x", picture)
    outputs = session.evaluate(binding).outputs["y"].to_numpy()
    first = time.perf_counter() - started
    expected = LearningModelSession(model).evaluate_features({"x": picture}).outputs["y"].to_numpy()
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        session.evaluate(binding)
        count += 1
    seconds = (time.perf_counter() - started) / count
    facts = {"first_ms": first * 1e3, "evaluation_ms": seconds * 1e3, "error": relative_error(expected, outputs)}
    return facts | ({} if facts["error"] <= FLOAT_TOLERANCE else {"problem": "its results differ from the CPU's"})


def small_model() -> bytes:
    """A convolution, a rectifier and a mean, with seeded weights."""
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(1).normal(0, 0.2, (8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 1, 1]),
    ]
    graph = helper.make_graph(nodes, "trial", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    data: bytes = model.SerializeToString()
    return data


if __name__ == "__main__":
    main()
