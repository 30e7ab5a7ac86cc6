"""A small network for engines to choose from, its pictures, and a substitute for what a processor computes in."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from helpers.models import FLOAT16, data, tensor
from winml_py.core.runtime.openvino.openvino_engine import OpenVinoEngine
from winml_py.core.runtime.providers.provider import Target
from winml_py.core.runtime.request import CompileRequest


def conv(element: int = 1, gain: float = 1.0, bias: float = 0.0, batch: Any = 1) -> bytes:
    """A small network whose inner values are `gain` times as large as those that come out."""
    dtype = np.float16 if element == FLOAT16 else np.float32
    rng = np.random.default_rng(0)
    weights = {
        "w": (rng.normal(0, 0.2, (8, 3, 3, 3)) * gain).astype(dtype),
        "b": np.full(8, bias * gain, dtype),
        "k": np.array(1 / gain, dtype),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Mul", ["p", "k"], ["y"]),
    ]
    return data(nodes, [tensor("x", [batch, 3, 16, 16], element)], [tensor("y", [batch, 8, 1, 1], element)], weights)


def noise(dtype: Any = np.float32, batch: int = 1) -> np.ndarray:
    """Pictures for `conv`."""
    return np.random.default_rng(1).random((batch, 3, 16, 16)).astype(dtype)


def as_asked_for(compiled: Any, request: CompileRequest, target: Target) -> OpenVinoEngine:
    """Believes that what was compiled is what was asked for, as on a processor that has all types."""
    return OpenVinoEngine(compiled, request, target, target.half_type)
