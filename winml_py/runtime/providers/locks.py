"""What must be held while a device is talked to."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext

from .catalogue import provider_of
from .provider import ProviderDevice

UNLOCKED = nullcontext()

_shared: dict[ProviderDevice, threading.RLock] = {}
_lock = threading.Lock()


def session_lock(device: ProviderDevice) -> AbstractContextManager[object]:
    """A session's lock: one of its own, or the device's where the provider needs that."""
    lock = device_lock(device)
    return threading.RLock() if lock is UNLOCKED else lock


def device_lock(device: ProviderDevice | None) -> AbstractContextManager[object]:
    """What must be held while memory or a session of a device comes and goes: nothing, unless its sessions share it."""
    if device is None or not provider_of(device.provider).shares_lock:
        return UNLOCKED
    with _lock:
        return _shared.setdefault(device._replace(float16=True), threading.RLock())
