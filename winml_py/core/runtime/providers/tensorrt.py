"""TensorRT, in the package onnxruntime-gpu. It compiles for minutes, so it is used only if named.

It refuses unknown options itself.
"""

from __future__ import annotations

from functools import partial

from . import nvidia
from .cuda import CUDA
from .provider import Provider, make_device_option

_NAME = "TensorrtExecutionProvider"

TENSORRT = Provider(
    _NAME,
    options=make_device_option,
    memory="cuda",
    has_addresses=True,
    capture_option="trt_cuda_graph_enable",
    helpers=(CUDA.name,),
    option_prefix="trt_",
    shared_options=("device_id", "user_compute_stream", "has_user_compute_stream"),
    built_in_devices=partial(nvidia.list_devices, _NAME),
    prepare=nvidia.preload,
    process_memory=nvidia.read_process_memory,
)
