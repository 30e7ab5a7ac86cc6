"""The providers that are known: what is asked about them, and their locks. A new one has a file, and a line here."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext

from ....errors import InvalidArgumentError
from ...base.messages import did_you_mean
from ..engine import EngineOptions
from .amd import MIGRAPHX, ROCM
from .coreml import COREML
from .cpu_kernels import DNNL, XNNPACK
from .cuda import CUDA
from .directml import DIRECTML
from .openvino import OPENVINO, OPENVINO_PACKAGE
from .provider import CPU_NAME, Provider, ProviderDevice, Target, short
from .qnn import QNN
from .tensorrt import TENSORRT
from .tensorrt_rtx import TENSORRT_RTX
from .webgpu import WEBGPU

CPU = Provider(CPU_NAME, option_keys="", built_in_devices=tuple)
AZURE = Provider("AzureExecutionProvider", built_in_devices=tuple)
"""It calls models of others over the network, and computes nothing here."""

PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        *(CPU, AZURE, CUDA, TENSORRT, TENSORRT_RTX, OPENVINO_PACKAGE, OPENVINO, WEBGPU),
        *(DIRECTML, COREML, MIGRAPHX, ROCM, QNN, XNNPACK, DNNL),
    )
}

UNLOCKED = nullcontext()
"""The lock of a device that needs none."""

_device_locks: dict[ProviderDevice, threading.RLock] = {}
_lock = threading.Lock()


def provider_of(name: str) -> Provider:
    """The provider of that full name; one with the defaults where it is not listed here."""
    return PROVIDERS.get(name) or Provider(name)


def full_name(name: str) -> str:
    """A provider's name in full: `cuda` is `CUDAExecutionProvider`; `OpenVINO` is `openvino`, the package."""
    return (
        name
        if name in PROVIDERS
        else next((provider for provider in PROVIDERS if short(provider) == short(name)), name)
    )


def device_rank(device: ProviderDevice, prefers_shared: bool = False) -> tuple[object, ...]:
    """A key that sorts the better GPU first. The order is ours: ONNX Runtime's own policies take any plugin.

    Emulated GPUs come last. Then those with memory of their own come first, or with `prefers_shared` those that share
    the processor's; then the better provider; then the larger memory.
    """
    provider = provider_of(device.provider).rank
    return device.is_software, device.is_discrete is prefers_shared, provider, -(device.memory or 0)


def native_options(target: Target, options: EngineOptions, is_recorded: bool) -> dict[str, str]:
    """The options to give to the provider.

    Raises:
        InvalidArgumentError: a key that the provider does not know, and would ignore silently.
    """
    provider, program_options = provider_of(target.provider), dict(options.provider_options)
    require_option_keys(provider.name, program_options)
    if provider.helpers and provider.option_keys is not None:  # the others are for the providers that help it
        own = provider.option_keys.split()
        program_options = {key: value for key, value in program_options.items() if key in own}
    recording = {provider.recording_option: "1"} if is_recorded and provider.recording_option else {}
    return recording | provider.merge(provider.options(target, options), program_options)


def require_option_keys(provider: str, options: dict[str, str]) -> None:
    """Refuses keys that neither a provider has, nor those that take the nodes it does not.

    Raises:
        InvalidArgumentError: a key that is not among its options.
    """
    keys = [provider_of(name).option_keys for name in (provider, *provider_of(provider).helpers)]
    names = [*options] if None in keys else [name for each in keys if each for name in each.split()]
    for key in options:
        if key not in names:
            hint = did_you_mean(key, names) if names else f"It takes none: name the engine that {key} is an option of."
            raise InvalidArgumentError(f"{provider} has no option {key!r}.", hint=hint)


def session_lock(device: ProviderDevice) -> AbstractContextManager[object]:
    """A session's lock: one of its own, or the device's where the provider needs that."""
    lock = device_lock(device)
    return threading.RLock() if lock is UNLOCKED else lock


def device_lock(device: ProviderDevice | None) -> AbstractContextManager[object]:
    """What must be held while memory or a session of a device comes and goes: nothing, unless its sessions share it."""
    if device is None or not provider_of(device.provider).shares_lock:
        return UNLOCKED
    with _lock:
        return _device_locks.setdefault(device._replace(float16=True), threading.RLock())
