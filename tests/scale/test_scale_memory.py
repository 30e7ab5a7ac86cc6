"""Four workers of one large model: together they hold its weights once."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from helpers.models import model, tensor
from winml_py.scale import Evaluator

pytestmark = [
    pytest.mark.once,
    pytest.mark.kept,
    pytest.mark.skipif(sys.platform != "linux", reason="the proportional share of memory is Linux's"),
]

SIDE, MATRICES = 2048, 6  # 100 MB of weights

WORKER = """
import pickle, sys
import numpy as np

def share():
    return next(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Pss:")) * 1024

def wait(word):
    print(word, flush=True)
    sys.stdin.buffer.readline()

small, large = pickle.load(sys.stdin.buffer)
small({"x": np.zeros((1, 8), np.float32)})
small.close()
wait("started")
before = share()
wait("measured")
answered = large({"x": np.load(sys.argv[1])})
wait(float(answered["y"][0, 0]))
wait(share() - before)
"""


def chain(path: Path, side: int, count: int) -> Path:
    rng = np.random.default_rng(0)
    weights = {f"w{index}": rng.random((side, side), np.float32) / side for index in range(count)}
    names = ["x", *(f"h{index}" for index in range(1, count)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(count)]
    proto = model(nodes, [tensor("x", ["n", side])], [tensor("y", ["n", side])], weights)
    path.write_bytes(proto.SerializeToString())
    return path


def together(workers: list[subprocess.Popen[bytes]]) -> list[str]:
    """What each says next; then all go on."""
    lines = []
    for worker in workers:
        assert worker.stdout is not None
        lines.append(worker.stdout.readline().decode().strip())
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    return lines


def held(count: int, evaluators: tuple[Evaluator, Evaluator], rows: Path) -> tuple[list[int], list[float]]:
    """The bytes that each of so many workers holds of a large model, and what it answers."""
    command = [sys.executable, "-c", WORKER, str(rows)]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(pickle.dumps(evaluators))
            worker.stdin.flush()
        together(workers)
        together(workers)
        answers = list(map(float, together(workers)))
        return list(map(int, together(workers))), answers
    finally:
        for worker in workers:
            worker.communicate(timeout=60)


def test_four_workers_hold_the_weights_once(tmp_path: Path, record_property: Any) -> None:
    small, large = chain(tmp_path / "small.onnx", 8, 2), chain(tmp_path / "large.onnx", SIDE, MATRICES)
    rows = tmp_path / "rows.npy"
    np.save(rows, np.random.default_rng(1).random((1, SIDE), np.float32))
    evaluators = Evaluator(small), Evaluator(large)
    weights = SIDE * SIDE * MATRICES * 4
    (one,), _ = held(1, evaluators, rows)
    four, answers = held(4, evaluators, rows)
    print(f"weights {weights:,}; one worker {one / weights:.3f}; four together {sum(four) / weights:.3f}")  # noqa: T201
    assert 0.9 * weights < one
    assert sum(four) <= 1.3 * one
    expected = onnxruntime.InferenceSession(large, providers=["CPUExecutionProvider"]).run(None, {"x": np.load(rows)})
    np.testing.assert_allclose(answers, [expected[0][0, 0]] * 4, rtol=1e-4)
