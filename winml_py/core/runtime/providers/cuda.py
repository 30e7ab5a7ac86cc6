"""CUDA, in the package onnxruntime-gpu. It refuses unknown options itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ....enums import Precision
from ..engine import EngineOptions
from . import nvidia
from .provider import Provider, Target, make_device_option

_NAME = "CUDAExecutionProvider"


def _make_options(target: Target, options: EngineOptions) -> Mapping[str, str]:
    """Disables TF32, which has ten bits of mantissa, if float32 is requested explicitly."""
    float32 = {"use_tf32": "0"} if options.precision is Precision.FLOAT32 else {}
    return {**float32, **make_device_option(target, options)}


CUDA = Provider(
    _NAME,
    rank=0,
    options=_make_options,
    memory="cuda",
    has_addresses=True,
    capture_option="enable_cuda_graph",
    worth_trying=(
        # Users report factors of 48, either way. One of the values is the default, depending on the version.
        *(("cudnn_conv_algo_search", search) for search in ("EXHAUSTIVE", "HEURISTIC", "DEFAULT")),
        *(("cudnn_conv_use_max_workspace", is_max) for is_max in ("0", "1")),
        ("prefer_nhwc", "1"),
    ),
    built_in_devices=partial(nvidia.list_devices, _NAME),
    prepare=nvidia.preload,
    process_memory=nvidia.read_process_memory,
)


def read_built_versions() -> str:
    """The versions of CUDA and cuDNN that the installed ONNX Runtime was built for; "" if none."""
    from onnxruntime.capi import build_and_package_info as build

    names = (("CUDA", "cuda_version"), ("cuDNN", "cudnn_version"))
    return " and ".join(f"{what} {value}" for what, name in names if (value := getattr(build, name, "")))
