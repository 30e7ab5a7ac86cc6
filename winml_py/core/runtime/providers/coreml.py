"""Core ML, in the package onnxruntime on macOS: Apple's GPU and its Neural Engine. Its memory cannot be bound.

It refuses unknown options itself.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

from ..engine import EngineOptions
from .provider import BUILT_IN, Provider, ProviderDevice, Target

_NAME = "CoreMLExecutionProvider"
_UNITS = {"gpu": "CPUAndGPU", "npu": "CPUAndNeuralEngine"}


def _make_options(target: Target, options: EngineOptions) -> Mapping[str, str]:
    """Selects ML programs, which have more operators than the older format, and real float32."""
    units = _UNITS.get(target.device.hardware, "") if target.device else ""
    return {"ModelFormat": "MLProgram"} | ({"MLComputeUnits": units} if units else {})


def _list_devices() -> Sequence[ProviderDevice]:
    """The GPU and the Neural Engine; Intel's Macs lack the latter, and Core ML would use the CPU instead."""
    gpu = ProviderDevice(_NAME, BUILT_IN, "", 0, "gpu", "Apple's GPU, by Core ML", "Apple", float16=True)
    if platform.machine() != "arm64":
        return (gpu,)
    return gpu, gpu._replace(number=1, hardware="npu", name="Apple's Neural Engine, by Core ML")


COREML = Provider(_NAME, options=_make_options, built_in_devices=_list_devices)
