"""Programs that measure memory, each in a fresh process, and a model whose weights show in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from helpers.models import model, tensor, unary

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")

SMALL = unary("Neg", [1, 2])
WEIGHTS = 64
"""Of the large model, in MB."""
PROLOGUE = f"""
import sys, gc
import numpy as np
from winml_py import *
def resident(key="VmRSS"):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) / 1024
def share():
    return next(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Pss:")) / 1024
def small():  # what any model brings: the code of libraries takes tens of MB, which are no weights
    with LearningModel.load({SMALL!r}) as model, LearningModelSession(model) as session:
        session.evaluate_features({{"x": np.ones((1, 2), np.float32)}})
path = sys.argv[1]
"""
"""What every program begins with."""


def write_large(path: Path) -> Path:
    """Writes a model of four large matrices."""
    weights = {f"w{index}": np.full((2048, 2048), 1e-3 * index, np.float32) for index in range(4)}
    nodes = [helper.make_node("MatMul", [f"h{index}", f"w{index}"], [f"h{index + 1}"]) for index in range(4)]
    proto = model(nodes, [tensor("h0", [None, 2048])], [tensor("h4", [None, 2048])], weights)
    path.write_bytes(proto.SerializeToString())
    return path


def measure(code: str, path: Path) -> list[float]:
    """Runs a program in a fresh process, with the path of a model; gives the numbers that it prints."""
    done = subprocess.run([sys.executable, "-c", PROLOGUE + code, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]
