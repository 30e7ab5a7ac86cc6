"""What must be held while a device is talked to."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext

from .catalogue import WEBGPU
from .plugins import ProviderDevice

UNLOCKED = nullcontext()

_shared: dict[ProviderDevice, threading.RLock] = {}
_lock = threading.Lock()


def session_lock(device: ProviderDevice | None) -> AbstractContextManager[object]:
    """A session's lock: none on the CPU, one of its own on a GPU.

    Sessions of WebGPU share one for each device: the plugin records the commands of all of them, their copies and their
    allocations with one encoder, and two threads in it give wrong results.
    """
    if device is None:
        return UNLOCKED
    return threading.RLock() if device.provider != WEBGPU else device_lock(device)


def device_lock(device: ProviderDevice | None) -> AbstractContextManager[object]:
    """What must be held while memory or a session of a device comes and goes."""
    if device is None or device.provider != WEBGPU:
        return UNLOCKED
    with _lock:
        return _shared.setdefault(device._replace(float16=True), threading.RLock())
