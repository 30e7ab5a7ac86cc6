"""What we know of each provider: its names, its memory, its options, and which is the better one."""

from __future__ import annotations

from typing import NamedTuple

from ...enums import Precision
from ...errors import InvalidArgumentError
from ..engine import EngineOptions
from .plugins import ProviderDevice

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
TENSORRT_RTX = "NvTensorRTRTXExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
WEBGPU = "WebGpuExecutionProvider"

_RANK = {CUDA: 0, TENSORRT_RTX: 1, OPENVINO: 2, WEBGPU: 3, TENSORRT: 4}
"""For one and the same GPU, the better provider first. TensorRT compiles for minutes: only whoever names it gets it."""

_ALIASES = {
    "cuda": CUDA,
    "tensorrt": TENSORRT,
    "nvtensorrtrtx": TENSORRT_RTX,
    "openvino": OPENVINO,
    "webgpu": WEBGPU,
    "cpu": CPU,
}

MEMORY = {WEBGPU: "webgpu", CUDA: "cuda", TENSORRT: "cuda"}
"""What the runtime calls the memory of the providers whose memory can be bound; the others take the host's."""

GRAPH_CAPTURE = {WEBGPU: "enableGraphCapture", CUDA: "enable_cuda_graph", TENSORRT: "trt_cuda_graph_enable"}
"""The option that makes a provider record its work."""

# The keys of the runtime's documentation of each provider, and of its source where that has more.
_OPTIONS = {
    CUDA: """device_id gpu_mem_limit arena_extend_strategy cudnn_conv_algo_search do_copy_in_default_stream
        cudnn_conv_use_max_workspace cudnn_conv1d_pad_to_nc1d enable_cuda_graph enable_skip_layer_norm_strict_mode
        use_tf32 prefer_nhwc use_ep_level_unified_stream tunable_op_enable tunable_op_tuning_enable
        tunable_op_max_tuning_duration_ms sdpa_kernel fuse_conv_bias user_compute_stream""",
    TENSORRT: """device_id trt_max_workspace_size trt_max_partition_iterations trt_min_subgraph_size trt_fp16_enable
        trt_bf16_enable trt_int8_enable trt_dla_enable trt_dla_core trt_dump_subgraphs trt_engine_cache_enable
        trt_engine_cache_path trt_engine_cache_prefix trt_timing_cache_enable trt_timing_cache_path
        trt_force_timing_cache trt_layer_norm_fp32_fallback trt_detailed_build_log trt_build_heuristics_enable
        trt_sparsity_enable trt_builder_optimization_level trt_auxiliary_streams trt_tactic_sources
        trt_context_memory_sharing_enable trt_profile_min_shapes trt_profile_max_shapes trt_profile_opt_shapes
        trt_cuda_graph_enable trt_dump_ep_context_model trt_ep_context_file_path trt_engine_hw_compatible
        trt_op_types_to_exclude user_compute_stream""",
    OPENVINO: """device_type device_id device_luid num_of_threads num_streams cache_dir context enable_qdq_optimizer
        disable_dynamic_shapes load_config layout reshape_input""",
    WEBGPU: """preferredLayout enableGraphCapture dawnBackendType deviceId storageBufferCacheMode
        uniformBufferCacheMode queryResolveBufferCacheMode defaultBufferCacheMode validationMode forceCpuNodeNames
        preserveDevice powerPreference""",
    TENSORRT_RTX: """device_id nv_max_workspace_size nv_max_shared_mem_size nv_dump_subgraphs nv_detailed_build_log
        nv_profile_min_shapes nv_profile_max_shapes nv_profile_opt_shapes nv_multi_profile_enable
        enable_cuda_graph nv_runtime_cache_path user_compute_stream""",
    CPU: "",
}


class Target(NamedTuple):
    """What to compile for: a provider's device (None is the runtime's own CPU provider), and in what arithmetic."""

    device: ProviderDevice | None = None
    half: bool = False

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self.device.provider if self.device else CPU


def full_name(name: str) -> str:
    """A provider's name in full: `openvino` is `OpenVINOExecutionProvider`."""
    short = name.lower().removesuffix("executionprovider")
    return _ALIASES.get(short, name)


def rank(device: ProviderDevice) -> tuple[bool, int]:
    """A key that sorts the better provider first."""
    return device.is_software, _RANK.get(device.provider, len(_RANK))


def native_options(target: Target, options: EngineOptions, capture: bool) -> dict[str, str]:
    """The options to give to the provider.

    Raises:
        InvalidArgumentError: a key that the provider does not know; it would accept it without a word.
    """
    import json

    given = dict(options.provider_options)
    provider = target.provider
    require_known(provider, given)
    if capture and provider in GRAPH_CAPTURE:
        given.setdefault(GRAPH_CAPTURE[provider], "1")
    if target.device is not None and not target.device.library:
        given.setdefault("device_id", str(target.device.number))
    if provider == OPENVINO and target.device is not None and target.device.hardware == "cpu":
        given.setdefault("load_config", json.dumps({"CPU": _openvino_on_cpu(target, options)}))
    elif provider == OPENVINO and target.device is not None and target.device.hardware == "gpu":
        hint = {"INFERENCE_PRECISION_HINT": "f16" if target.half else "f32"}  # left alone it takes f16
        given.setdefault("load_config", json.dumps({"GPU": hint}))
    if provider == CUDA and options.precision is Precision.FLOAT32:
        given.setdefault("use_tf32", "0")
    return given


def _openvino_on_cpu(target: Target, options: EngineOptions) -> dict[str, str | int]:
    """Told the precision, or it would take bfloat16 by itself where the processor has it."""
    return {
        "INFERENCE_PRECISION_HINT": "f16" if target.half else "f32",
        "INFERENCE_NUM_THREADS": options.intra_op_num_threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
    }


def require_known(provider: str, given: dict[str, str]) -> None:
    """Refuses keys that a provider does not have. Of one we do not know, all are let through.

    Raises:
        InvalidArgumentError: a key nobody documents.
    """
    if provider not in _OPTIONS:
        return
    known = _OPTIONS[provider].split()
    for key in given:
        if key not in known:
            import difflib

            close = difflib.get_close_matches(key, known, 1)
            hint = f"Did you mean {close[0]}?" if close else f"It knows {', '.join(known) or 'none'}."
            raise InvalidArgumentError(f"{provider} has no option {key!r}.", hint=hint)
