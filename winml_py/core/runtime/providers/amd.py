"""MIGraphX and ROCm, in builds of ONNX Runtime for AMD's GPUs. Their memory is not bound.

They refuse options that they do not know by themselves.
"""

from __future__ import annotations

from functools import partial

from .provider import Provider, device_option, one_device

_MIGRAPHX, _ROCM = "MIGraphXExecutionProvider", "ROCMExecutionProvider"

MIGRAPHX = Provider(
    _MIGRAPHX,
    rank=1,
    options=device_option,
    cache_options=lambda folder: {"migraphx_model_cache_dir": folder},
    built_in_devices=partial(one_device, _MIGRAPHX, "gpu", "AMD's GPU, by MIGraphX", "AMD"),
)
ROCM = Provider(
    _ROCM,
    rank=2,
    options=device_option,
    built_in_devices=partial(one_device, _ROCM, "gpu", "AMD's GPU, by ROCm", "AMD"),
)
