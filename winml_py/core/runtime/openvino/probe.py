"""Tries OpenVINO's package, in another process: see `plugins.probe`."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from ....enums import Precision, Weights
from ....errors import NotSupportedError
from ...base import machine
from ...base.messages import Facts
from ..engine import EngineOptions
from ..providers.openvino import OPENVINO_PACKAGE
from ..providers.probe import format_first_line, make_small_model
from ..providers.provider import ProviderDevice, Target
from ..request import CompileRequest
from ..runs import Bound
from .compile import compile_with_openvino
from .package import get_core

_HALF_TYPES = {"BF16": Precision.BFLOAT16, "FP16": Precision.FLOAT16}


def main(_: str) -> Facts:
    """The facts about the CPU."""
    try:
        cpu = get_core()
        name = str(cpu.get_property("CPU", "FULL_DEVICE_NAME")).strip()
        device = ProviderDevice(
            OPENVINO_PACKAGE.name, OPENVINO_PACKAGE.package, "", 0, "cpu", name, machine.read_processor_vendor()
        )
        if problem := _find_problem(Target(device)):
            return {"problem": problem}
        halves = []
        for word, kind in _HALF_TYPES.items():
            if word in cpu.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
                with suppress(NotSupportedError):  # OpenVINO compiled it in another type
                    halves += [] if _find_problem(Target(device, kind)) else [kind.name.lower()]
        device = device._replace(float16=bool(halves), half_types=" ".join(halves))
    except Exception as error:  # reports any error as the package's problem
        return {"problem": f"it cannot be used: {format_first_line(error)}"}
    return {"devices": (device,), "problem": ""}


def _find_problem(target: Target) -> str:
    """Runs y = relu(x w), with numbers that every type can hold; returns the problem, or ""."""
    x, y = np.arange(-8, 8, dtype=np.float32).reshape(4, 4), np.zeros((4, 4), np.float32)
    options = EngineOptions(1, weights=Weights.PRIVATE)
    compile_with_openvino(CompileRequest(make_small_model(False), options), target).run(Bound({"x": x}, {"y": y}))
    expected = np.maximum(x * 2, 0)
    return "" if np.array_equal(y, expected) else f"it computed {y.tolist()}, not {expected.tolist()}"
