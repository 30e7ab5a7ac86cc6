"""Tries the package, in another process: see `plugins.probe`."""

from __future__ import annotations

import numpy as np

from ....enums import Weights
from ....errors import NotSupportedError
from ...base import machine
from ...base.messages import Facts
from ..engine import EngineOptions
from ..providers.openvino import OPENVINO_PACKAGE
from ..providers.probe import first_line, small_model
from ..providers.provider import ProviderDevice, Target
from ..request import CompileRequest
from ..runs import Bound
from .compile import compile_model
from .package import core

_HALF_TYPES = {"BF16": "bfloat16", "FP16": "float16"}


def main(_: str) -> Facts:
    """The facts about the CPU."""
    try:
        return _facts()
    except Exception as error:  # whatever it raises is reported as its problem
        return {"problem": f"it cannot be used: {first_line(error)}"}


def _facts() -> Facts:
    cpu = core()
    name = str(cpu.get_property("CPU", "FULL_DEVICE_NAME")).strip()
    device = ProviderDevice(
        OPENVINO_PACKAGE.name, OPENVINO_PACKAGE.package, "", 0, "cpu", name, machine.processor_vendor()
    )
    problem = _problem_of(Target(device))
    if problem:
        return {"problem": problem}
    listed = cpu.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    supported = [kind for word, kind in _HALF_TYPES.items() if word in listed]
    halves = [kind for kind in supported if _computes(Target(device, half=True, half_type=kind))]
    device = device._replace(float16=bool(halves), half_types=" ".join(halves))
    return {"devices": (device,), "problem": ""}


def _computes(target: Target) -> bool:
    try:
        return not _problem_of(target)
    except NotSupportedError:  # what OpenVINO compiles is in another type
        return False


def _problem_of(target: Target) -> str:
    """Runs y = relu(x w), with numbers that every type holds; what went wrong, or ""."""
    x, y = np.arange(-8, 8, dtype=np.float32).reshape(4, 4), np.zeros((4, 4), np.float32)
    options = EngineOptions(1, weights=Weights.PRIVATE)
    compile_model(CompileRequest(small_model(False), options), target).run(Bound({"x": x}, {"y": y}))
    expected = np.maximum(x * 2, 0)
    return "" if np.array_equal(y, expected) else f"it computed {y.tolist()}, not {expected.tolist()}"
