"""Arrays of other libraries in the host's memory: torch's tensors, and whatever else exports its memory by DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InvalidBindingError, WinMLError
from .type_names import type_name

_HOST = (1, 3, 11, 13)  # kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged: the host can read all of them


def exports_dlpack(value: object) -> bool:
    """Whether a value is an array that offers its memory by DLPack."""
    return hasattr(type(value), "__dlpack__")


def host_array(value: Any, error: type[WinMLError] = InvalidBindingError) -> np.ndarray[Any, Any]:
    """A numpy array over the memory of such a value, which it shares and keeps alive.

    Raises:
        InvalidBindingError: the memory is a device's, or the value does not export it; or the error that is passed.
    """
    try:
        _require_host(value)
        array: np.ndarray[Any, Any] = np.from_dlpack(value)
    except (BufferError, RuntimeError, ValueError, TypeError, AttributeError) as cause:
        reason = str(cause).rstrip(".")
        raise error(f"A {type_name(value)} does not export its memory: {reason}.", hint=_remedy(value)) from cause
    return array if array.flags.writeable else _writable(value, array)


def _require_host(value: Any) -> None:
    kind, number = value.__dlpack_device__()
    if int(kind) not in _HOST:
        raise BufferError(f"it is in the memory of a device, number {int(number)} of DLPack's kind {int(kind)}")


def _writable(value: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that can be written to, where the value gives one over the same memory.

    Before its version 1.0 DLPack did not say what may be written, and numpy makes such arrays read-only.
    """
    own = value.numpy() if hasattr(value, "numpy") else None
    if isinstance(own, np.ndarray) and own.flags.writeable and np.shares_memory(own, array):
        return own
    return array


def _remedy(value: Any) -> str:
    """What to call on the value; the names are torch's, as other libraries lack what stands in the way."""
    if getattr(value, "requires_grad", False):
        return "Bind tensor.detach(), which shares its memory."
    if getattr(value, "is_sparse", False):
        return "Bind tensor.to_dense()."
    if not getattr(value, "is_cpu", True):
        return "Bind a copy in the host's memory: tensor.cpu()."
    return "Bind an array of a type that numpy has: tensor.float(), say."
