"""A small network for engines to choose from, its pictures, and a substitute for what a processor computes in."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers.models import FLOAT16, data, tensor
from winml_py.core.base import machine
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
    return OpenVinoEngine(compiled, request, target, target.precision)


def far(mean: float) -> tuple[bytes, np.ndarray]:
    """A float16 model whose convolution takes a mean off, as a BatchNormalization folded into it does, and inputs."""
    rng, half = np.random.default_rng(3), np.float16
    kernel = rng.normal(0, 0.2, (8, 3, 3, 3))
    weights = {"w": (kernel / (0.02 * mean)).astype(half), "b": (-kernel.sum((1, 2, 3)) / 0.02).astype(half)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]
    ends = tensor("x", [1, 3, 16, 16], FLOAT16), tensor("y", [1, 8, 1, 1], FLOAT16)
    return data(nodes, ends[:1], ends[1:], weights), (rng.normal(1, 0.02, (1, 3, 16, 16)) * mean).astype(half)


KELVIN, HECTOPASCAL = 288.0, 1013.0


def has_bfloat16() -> bool:
    """Whether this processor computes in bfloat16, and no substitute says otherwise."""
    flags = machine.read_processor_facts().get("flags", "").split()
    return not os.environ.get("WINML_PY_TEST_HALF_TYPES") and bool({"avx512_bf16", "amx_bf16"} & set(flags))


needs_bfloat16 = pytest.mark.skipif(
    not has_bfloat16(),
    reason="this processor has no bfloat16 (avx512_bf16 or amx_bf16), or a substitute took its place",
)
