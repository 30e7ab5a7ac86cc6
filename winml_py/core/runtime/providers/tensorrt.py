"""TensorRT, in the package onnxruntime-gpu. It compiles for minutes, so it ranks last: it is used only if named."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from . import nvidia
from .cuda import CUDA
from .provider import Provider, device_option

_NAME = "TensorrtExecutionProvider"


def _cache_options(folder: str) -> Mapping[str, str]:
    """Caches its engines, and the measured times of kernels.

    An engine from another version, or for another kind of GPU, makes the session fail.
    """
    return {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": folder,
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": folder,
    }


TENSORRT = Provider(
    _NAME,
    rank=4,
    option_keys="""device_id trt_max_workspace_size trt_max_partition_iterations trt_min_subgraph_size trt_fp16_enable
        trt_bf16_enable trt_int8_enable trt_dla_enable trt_dla_core trt_dump_subgraphs trt_engine_cache_enable
        trt_engine_cache_path trt_engine_cache_prefix trt_timing_cache_enable trt_timing_cache_path
        trt_force_timing_cache trt_layer_norm_fp32_fallback trt_detailed_build_log trt_build_heuristics_enable
        trt_sparsity_enable trt_builder_optimization_level trt_auxiliary_streams trt_tactic_sources
        trt_context_memory_sharing_enable trt_profile_min_shapes trt_profile_max_shapes trt_profile_opt_shapes
        trt_cuda_graph_enable trt_dump_ep_context_model trt_ep_context_file_path trt_engine_hw_compatible
        trt_op_types_to_exclude user_compute_stream""",
    options=device_option,
    cache_options=_cache_options,
    memory="cuda",
    has_arena=True,
    has_addresses=True,
    waits_unlocked=True,
    recording_option="trt_cuda_graph_enable",
    helpers=(CUDA.name,),
    built_in_devices=partial(nvidia.devices, _NAME),
    prepare=nvidia.preload,
)
