"""The known providers, queries about them, and their locks. A new provider needs a file, and an entry here."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from ....errors import InvalidArgumentError
from ...base.messages import did_you_mean
from ..engine import EngineOptions
from ..runs import UNLOCKED
from .coreml import COREML
from .cuda import CUDA
from .directml import DIRECTML
from .openvino import OPENVINO, OPENVINO_PACKAGE
from .provider import CPU_NAME, Provider, ProviderDevice, Target, shorten
from .tensorrt import TENSORRT
from .webgpu import WEBGPU

CPU = Provider(CPU_NAME, option_keys="", built_in_devices=list)
AZURE = Provider("AzureExecutionProvider", built_in_devices=list)
"""Calls models over the network; it has no local device."""

PROVIDERS = {
    provider.name: provider
    for provider in (CPU, AZURE, OPENVINO_PACKAGE, CUDA, TENSORRT, OPENVINO, WEBGPU, DIRECTML, COREML)
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
            hint = did_you_mean(key, names) if names else f"It has none: name the engine that has {key}."
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
