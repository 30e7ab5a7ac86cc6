"""What an engine in a process of its own costs.

    python benchmarks/isolation.py [--json FILE]

The digit model, evaluated by a plain session and by an isolated one, and a bare exchange of messages of the same size
between two processes, over the same kind of socket: they take turns in this process, after their results were found
equal. Target: the isolated session takes at most 70 microseconds more than the other two together.

Then a model that does nothing with tensors of 64 MB, and the copy of one: what the isolated session takes more than the
plain one, in copies of the tensor. Target: 2, one each way.
"""

import socket
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _measure import arguments, at_most, interleaved, medians, report
from onnx import helper

from winml_py import LearningModel, LearningModelBinding, LearningModelSession, LearningModelSessionOptions

DIGITS = Path(__file__).parent.parent / "models" / "digits.onnx"
BAR, COPIES = 70, 2
ELEMENTS = 16 << 20

ECHO = """
import socket, sys
lane = socket.socket(fileno=int(sys.argv[1]))
while data := lane.recv(64):
    lane.sendall(data)
"""


def sessions(model: str | bytes) -> dict[str, LearningModelSession]:
    """A plain one, and an isolated one, of one thread."""
    made = {}
    for name, isolation in (("plain", None), ("isolated", "process")):
        options = LearningModelSessionOptions()
        options.isolation, options.intra_op_num_threads, options.batch_size_override = isolation, 1, 0
        made[name] = LearningModelSession(LearningModel.load(model), options=options)
    return made


def exchange() -> tuple[Callable[[], object], subprocess.Popen[bytes]]:
    """Sends a message to another process, and waits for its answer."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([sys.executable, "-c", ECHO, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    message = bytes(20)

    def call() -> None:
        ours.sendall(message)
        ours.recv(len(message), socket.MSG_WAITALL)

    return call, process


Measured = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Rows, and targets."""


def row(what: str, middle: dict[str, float], floor: str) -> dict[str, Any]:
    times = {"isolated, µs": middle["isolated"], "plain session, µs": middle["plain"], f"{floor}, µs": middle[floor]}
    return {"what": what} | {name: seconds * 1e6 for name, seconds in times.items()}


def measure_small(rounds: int) -> Measured:
    """The digit model: both ways to evaluate."""
    made, (ping, process) = sessions(str(DIGITS)), exchange()
    image = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    rows, bars = [], []
    try:
        for way in ("`evaluate_features`", "`evaluate`, all bound"):
            calls: dict[str, Callable[[], Any]] = {"bare exchange": ping}
            results = {}
            for name, session in made.items():
                target = np.zeros((1, 10), np.float32)
                binding = LearningModelBinding(session)
                binding.bind("image", image)
                binding.bind("probabilities", target)
                if way == "`evaluate_features`":
                    calls[name] = lambda session=session: session.evaluate_features({"image": image})
                    results[name] = [calls[name]().outputs["probabilities"].to_numpy() for _ in range(3)][-1]
                else:
                    calls[name] = lambda session=session, binding=binding: session.evaluate(binding)
                    results[name] = [calls[name]().outputs["probabilities"] for _ in range(3)][-1]
            np.testing.assert_array_equal(results["isolated"], results["plain"])
            seconds = interleaved(calls, rounds, 100)
            middle = medians(seconds)
            turns = zip(seconds["isolated"], seconds["plain"], seconds["bare exchange"], strict=True)
            more = statistics.median(isolated - plain - bare for isolated, plain, bare in turns)
            rows.append(row(way, middle, "bare exchange"))
            bars.append(at_most(f"{way}, µs beyond the other two", more * 1e6, BAR))
    finally:
        process.terminate()
        process.wait()
        for session in made.values():
            session.close()
    return rows, bars


def measure_large(rounds: int) -> Measured:
    """A model that changes signs: what two copies cost, and what the isolated session costs."""
    ends = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "large", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    made = sessions(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    x, copy = np.random.default_rng(0).random(ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
    calls: dict[str, Callable[[], Any]] = {"copy": lambda: np.copyto(copy, x)}
    for name, session in made.items():
        target = np.zeros(ELEMENTS, np.float32)
        binding = LearningModelBinding(session)
        binding.bind("x", x)
        binding.bind("y", target)
        calls[name] = lambda session=session, binding=binding: session.evaluate(binding)
        calls[name]()
        np.testing.assert_array_equal(target, -x)
    seconds = interleaved(calls, rounds, 1)
    turns = zip(seconds["isolated"], seconds["plain"], seconds["copy"], strict=True)
    copies = statistics.median((isolated - plain) / bare for isolated, plain, bare in turns)
    middle = medians(seconds)
    for session in made.values():
        session.close()
    bars = [at_most("the large tensor, additional copies", copies, COPIES)]
    return [row(f"a {ELEMENTS * 4 >> 20} MB tensor", middle, "copy")], bars


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    small, bars = measure_small(options.rounds)
    large, bars_of_large = measure_large(max(5, options.rounds // 10))
    report({"isolation": small, "isolation-large": large}, options.json, bars + bars_of_large)


if __name__ == "__main__":
    main()
