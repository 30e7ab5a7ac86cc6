"""The known providers, queries about them, and their locks. A new provider needs a `Provider` here, in `PROVIDERS`."""

from __future__ import annotations

import platform
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

from ....enums import Precision
from ....errors import InvalidArgumentError
from ...base.messages import did_you_mean
from ..engine import EngineOptions
from ..runs import UNLOCKED
from . import nvidia
from .openvino import OPENVINO, OPENVINO_PACKAGE
from .provider import BUILT_IN, CPU_NAME, Provider, ProviderDevice, Target, shorten

CPU = Provider(CPU_NAME, option_keys="", built_in_devices=list)
AZURE = Provider("AzureExecutionProvider", built_in_devices=list)
"""Calls models over the network; it has no local device."""


def _make_device_option(target: Target, options: EngineOptions) -> Mapping[str, str]:
    """The option that selects the device of a provider in the runtime's package."""
    return {"device_id": str(target.device.number)} if target.device and not target.device.library else {}


def _make_cuda_options(target: Target, options: EngineOptions) -> Mapping[str, str]:
    """Disables TF32, which has ten bits of mantissa, if float32 is requested explicitly."""
    float32 = {"use_tf32": "0"} if options.precision is Precision.FLOAT32 else {}
    return {**float32, **_make_device_option(target, options)}


# In the package onnxruntime-gpu. They refuse unknown options themselves.

CUDA = Provider(
    "CUDAExecutionProvider",
    rank=0,
    options=_make_cuda_options,
    memory="cuda",
    has_addresses=True,
    capture_option="enable_cuda_graph",
    worth_trying=(
        # Users report factors of 48, either way. One of the values is the default, depending on the version.
        *(("cudnn_conv_algo_search", search) for search in ("EXHAUSTIVE", "HEURISTIC", "DEFAULT")),
        *(("cudnn_conv_use_max_workspace", is_max) for is_max in ("0", "1")),
        ("prefer_nhwc", "1"),
    ),
    built_in_devices=partial(nvidia.list_devices, "CUDAExecutionProvider"),
    prepare=nvidia.preload,
)

TENSORRT = Provider(
    "TensorrtExecutionProvider",
    options=_make_device_option,
    built_in_devices=partial(nvidia.list_devices, "TensorrtExecutionProvider"),
    prepare=nvidia.preload,
)
"""It compiles for minutes, so it is used only if named."""

TENSORRT_RTX = Provider(
    "NvTensorRTRTXExecutionProvider",
    rank=1,
    # Without enable_cuda_graph: a graph replays fixed addresses, and nobody has tried on a card whether the plugin
    # captures it again when inputs move.
    option_keys="""device_id has_user_compute_stream user_compute_stream user_aux_stream_array nv_max_workspace_size
        nv_max_shared_mem_size nv_length_aux_stream_array nv_dump_subgraphs nv_detailed_build_log nv_profile_min_shapes
        nv_profile_max_shapes nv_profile_opt_shapes nv_multi_profile_enable nv_use_external_data_initializer
        nv_runtime_cache_path nv_weight_streaming_budget nv_op_types_to_exclude nv_enable_profiling
        nv_profiling_output_file nv_use_sync_gpu_allocator nv_persistent_context_memory
        nv_multi_rotary_cache_concat_offset nv_weight_stripped_engine_enable_experimental nv_target_sm""",
)
"""A plugin: NVIDIA's RTX cards of compute capability 8.6, 8.9, and 12.0 on. It compiles in seconds."""

DIRECTML = Provider(
    "DmlExecutionProvider",
    rank=1,
    option_keys="device_id performance_preference device_filter disable_metacommands",
    options=_make_device_option,
    is_sequential=True,
    takes_one_thread=True,
)
"""In the package onnxruntime-directml: any GPU with a Direct3D 12 driver. Its memory cannot be bound. The runtime lists
its devices with the numbers of DXGI's adapters, which the option `device_id` takes."""

WEBGPU = Provider(
    "WebGpuExecutionProvider",
    rank=2,
    # Without enableGraphCapture: version 0.4 leaves copies between buffers out of a captured graph, and the outputs
    # then keep their old contents.
    option_keys="""preferredLayout dawnBackendType deviceId storageBufferCacheMode uniformBufferCacheMode
        queryResolveBufferCacheMode defaultBufferCacheMode validationMode forceCpuNodeNames preserveDevice
        powerPreference""",
    memory="webgpu",
    worth_trying=(("preferredLayout", "NCHW"), ("preferredLayout", "NHWC")),
    # The plugin encodes the commands, copies and allocations of all its sessions with one encoder; two threads in it
    # cause wrong results.
    shares_lock=True,
    is_sequential=True,
    is_software_on_cpu=True,
)
"""A plugin: any GPU with a Vulkan, Metal or Direct3D 12 driver."""


def _make_coreml_options(target: Target, options: EngineOptions) -> Mapping[str, str]:
    """Selects ML programs, which have more operators than the older format, and real float32."""
    units = {"gpu": "CPUAndGPU", "npu": "CPUAndNeuralEngine"}.get(target.device.hardware if target.device else "")
    return {"ModelFormat": "MLProgram"} | ({"MLComputeUnits": units} if units else {})


def _list_coreml_devices() -> Sequence[ProviderDevice]:
    """The GPU and the Neural Engine; Intel's Macs lack the latter, and Core ML would use the CPU instead."""
    gpu = ProviderDevice(COREML.name, BUILT_IN, "", 0, "gpu", "Apple's GPU, by Core ML", "Apple", float16=True)
    if platform.machine() != "arm64":
        return (gpu,)
    return gpu, gpu._replace(number=1, hardware="npu", name="Apple's Neural Engine, by Core ML")


COREML = Provider(
    "CoreMLExecutionProvider",
    options=_make_coreml_options,
    cache_option="ModelCacheDirectory",
    built_in_devices=_list_coreml_devices,
)
"""In the package onnxruntime on macOS. Its memory cannot be bound. It refuses unknown options itself."""

PROVIDERS = {
    provider.name: provider
    for provider in (CPU, AZURE, OPENVINO_PACKAGE, CUDA, TENSORRT, TENSORRT_RTX, OPENVINO, WEBGPU, DIRECTML, COREML)
}

_device_locks: dict[ProviderDevice, threading.RLock] = {}
_lock = threading.Lock()


def find_provider(name: str) -> Provider:
    """The provider of that full name; one with the defaults if it is not listed here."""
    return PROVIDERS.get(name) or Provider(name)


def find_full_name(name: str) -> str:
    """A provider's name in full: `cuda` is `CUDAExecutionProvider`; `OpenVINO` is `openvino`, the package."""
    if name in PROVIDERS:
        return name
    return next((provider for provider in PROVIDERS if shorten(provider) == shorten(name)), name)


def rank_device(device: ProviderDevice, prefers_shared: bool = False) -> tuple[object, ...]:
    """A key that sorts the better GPU first; ONNX Runtime's policies take any plugin.

    Emulated GPUs come last. Discrete GPUs come first, or with `prefers_shared` integrated ones; then the better
    provider; then the larger memory.
    """
    rank = find_provider(device.provider).rank
    return device.is_software, device.is_discrete is prefers_shared, rank, -(device.memory or 0)


def make_native_options(target: Target, options: EngineOptions, captures: bool) -> dict[str, str]:
    """The options for the provider; `captures` is whether it captures a graph.

    Raises:
        InvalidArgumentError: a key that the provider does not know, and would silently ignore.
    """
    provider = find_provider(target.provider)
    caller_options = dict(options.provider_options)
    require_option_keys(provider.name, caller_options)
    native = dict(provider.options(target, options))
    if captures:
        native[provider.capture_option] = "1"
    return native | caller_options


def require_option_keys(provider: str, options: dict[str, str]) -> None:
    """Refuses keys that a provider would silently ignore.

    Raises:
        InvalidArgumentError: an unknown key.
    """
    keys = find_provider(provider).option_keys
    if keys is None:
        return
    names = keys.split()
    for key in options:
        if key not in names:
            hint = did_you_mean(key, names) if names else f"The provider has no options. Use the engine that has {key}."
            raise InvalidArgumentError(f"{provider} has no option {key!r}.", hint=hint)


def get_session_lock(device: ProviderDevice) -> AbstractContextManager[object]:
    """A session's lock: a separate one, or the device's if the provider needs that."""
    lock = get_device_lock(device)
    return threading.RLock() if lock is UNLOCKED else lock


def get_device_lock(device: ProviderDevice | None) -> AbstractContextManager[object]:
    """The lock for creating and freeing a device's memory and sessions: none, unless the sessions share a lock."""
    if device is None or not find_provider(device.provider).shares_lock:
        return UNLOCKED
    with _lock:
        return _device_locks.setdefault(device._replace(float16=True), threading.RLock())
