"""What stays behind: nothing, after sessions and models are closed. Each case runs in a fresh process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from build import model, tensor
from onnx import helper

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")

PROLOGUE = """
import sys, gc
import numpy as np
from winml_py import *
def resident(key="VmRSS"):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) / 1024
path = sys.argv[1]
"""
WEIGHTS = 64  # MB


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = {f"w{index}": np.full((2048, 2048), 1e-3 * index, np.float32) for index in range(4)}
    nodes = [helper.make_node("MatMul", [f"h{index}", f"w{index}"], [f"h{index + 1}"]) for index in range(4)]
    proto = model(nodes, [tensor("h0", [None, 2048])], [tensor("h4", [None, 2048])], weights)
    path = tmp_path_factory.mktemp("models") / "large.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def figures(code: str, path: Path) -> list[float]:
    done = subprocess.run([sys.executable, "-c", PROLOGUE + code, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


@linux
def test_loading_brings_no_weights_into_memory(large: Path) -> None:
    (grown,) = figures(
        """
LearningModel.load(path)
before = resident()
models = [LearningModel.load(path) for _ in range(50)]
print(resident() - before)
""",
        large,
    )
    assert grown < 4


@linux
def test_four_sessions_hold_one_copy(large: Path) -> None:
    one, four = figures(
        """
import onnxruntime  # its code takes tens of MB, which are no weights
model = LearningModel.load(path)
before = resident()
sessions = [LearningModelSession(model)]
one = resident() - before
sessions += [LearningModelSession(model) for _ in range(3)]
for session in sessions:
    session.evaluate_features({"h0": np.ones((1, 2048), np.float32)})
print(one, resident() - before)
""",
        large,
    )
    assert WEIGHTS * 0.9 < one < WEIGHTS * 1.4
    assert four < one * 1.2 + 4


@linux
def test_closing_gives_the_weights_back_again_and_again(large: Path) -> None:
    first, last = figures(
        """
def once():
    with LearningModel.load(path) as model, LearningModelSession(model) as session:
        session.evaluate_features({"h0": np.ones((1, 2048), np.float32)})
once()
first = resident()
for _ in range(8):
    once()
print(first, resident())
""",
        large,
    )
    assert last < first + WEIGHTS / 2


@linux
def test_evaluating_again_and_again_takes_no_more_memory() -> None:
    path = Path(__file__).parent.parent / "models" / "digits.onnx"
    first, last = figures(
        """
session = LearningModelSession(LearningModel.load(path))
def some():
    for _ in range(3000):
        session.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
some()
first = resident()
for _ in range(5):
    some()
print(first, resident())
""",
        path,
    )
    assert last < first + 4
