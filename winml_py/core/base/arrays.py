"""Arrays in a device's memory, and arrays of other libraries by DLPack."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...errors import EvaluationError, IllegalCallError, InvalidArgumentError, InvalidBindingError, WinMLError
from .messages import logger, type_name

Array = np.ndarray[Any, Any]
"""A numpy array of any type and shape."""

Pixels = Array

Size = tuple[int, int]
"""Height and width, in pixels."""
Sides = tuple[int | None, int | None]
"""Height and width; None for a side that nothing fixes."""

DType = np.dtype[Any]
"""The type of an array's elements."""

ScalarType = type[np.generic]
"""Numpy's class of one element, such as `np.float32`."""

_leaked: list[Any] = []
_DLPACK_CUDA = 2  # DLPack's kDLCUDA: memory of an NVIDIA GPU


class MemoryLocation(NamedTuple):
    """Where memory is: its kind as ONNX Runtime names it ("cuda", "webgpu"), and the device's number. Arrays of equal
    locations can be bound without a copy.
    """

    kind: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}"


@dataclass(slots=True, eq=False, repr=False)
class DeviceArray:
    """An array in a device's memory.

    Attributes:
        location: the memory that holds it.
        shape: its sizes.
        dtype: the type of its elements.
        read: copies it to the host's memory.
        handle: the engine's object for the memory, which this array keeps alive; None for another library's memory.
        pointer: the address on the device, if memory there has addresses.
        owner: the object that must live as long as the memory is used.
        exchange: waits for the work of the library that owns the memory, if it offers only DLPack.
        lock: held while the memory is read or freed.
    """

    location: MemoryLocation
    shape: tuple[int, ...]
    dtype: DType
    read: Callable[[], Array]
    handle: Any = None
    pointer: int | None = None
    owner: Any = None
    exchange: Callable[[], object] | None = None
    lock: AbstractContextManager[object] = field(default_factory=nullcontext)
    process: int = field(default_factory=os.getpid, init=False)

    def to_numpy(self) -> Array:
        """A copy in the host's memory, read-only, so that nobody mistakes it for the array itself."""
        if self.handle is not None and os.getpid() != self.process:
            raise IllegalCallError(
                "A forked process cannot read GPU memory.",
                hint='Start processes with multiprocessing.get_context("spawn"), and pass tensor.to_numpy().',
            )
        with self.lock:
            copy = np.array(self.read())
        copy.flags.writeable = False
        return copy

    def write(self, array: Array) -> None:
        """Overwrites the memory with an array of this shape and dtype.

        Raises:
            IllegalCallError: the memory is another library's, or the process was forked.
        """
        if self.handle is None or os.getpid() != self.process:
            raise IllegalCallError(
                "The memory belongs to another library or another process.",
                hint="Write it with the library that owns it, in the process that created it.",
            )
        with self.lock:
            self.handle.update_inplace(array)

    def wait(self) -> None:
        """Waits for work that another library has queued in a stream: it may still write this memory, or read it.

        Raises:
            IllegalCallError: no library that can wait for a stream is installed.
            EvaluationError: the wait failed, because the device is lost, say.
        """
        if isinstance(self.owner, DeviceArray):
            self.owner.wait()
        elif self.handle is None and self.owner is not None:
            try:
                if self.exchange is not None:
                    self.exchange()
                _synchronize(self.owner, self.location.number)
            except WinMLError:
                raise
            except Exception as error:  # each library raises its own classes
                raise EvaluationError(
                    f"Cannot wait for {type(self.owner).__module__.partition('.')[0]} to finish on the device: "
                    f"{type(error).__name__}: {error}."
                ) from error

    def fill(self, number: float) -> None:
        """Sets every element of an array of CuPy, torch, numba or another library, on the device."""
        try:
            self.owner[...] = number
        except Exception as error:  # each library raises its own classes, mostly on a lost device
            logger.warning("An array in the memory of %s cannot be filled: %s", self.location, error)

    def reshape(self, shape: tuple[int, ...]) -> DeviceArray:
        """The same memory with other sizes; only for memory that has an address."""
        return DeviceArray(
            self.location, shape, self.dtype, lambda: self.read().reshape(shape), pointer=self.pointer, owner=self
        )

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.handle is None or is_finalizing():
            return
        if os.getpid() != self.process:
            _leaked.append((self.handle, self.read, self.owner))  # freeing would wait for threads of the parent
        else:
            with self.lock:  # some devices need it to allocate and free memory
                del self.handle, self.read, self.owner

    @property
    def host_copy(self) -> str:
        """The call that copies it to the host, for the hints of errors."""
        method = _copy_method(self.owner) if self.handle is None else None
        return f"array.{method}()" if method else "tensor.to_numpy()"

    @property
    def cuda_interface(self) -> dict[str, Any]:
        """The dictionary of `__cuda_array_interface__`, version 3; AttributeError where the memory is not CUDA's."""
        if self.location.kind != "cuda" or self.pointer is None:
            raise AttributeError("__cuda_array_interface__")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
        }


def is_cuda_array(value: object) -> bool:
    """Whether a value is another library's array in CUDA memory."""
    if value is None or isinstance(value, np.ndarray) or type(value).__module__.startswith("winml_py."):
        return False
    try:
        if hasattr(type(value), "__cuda_array_interface__"):
            # The class has it for all arrays; an instance in the host's memory raises AttributeError.
            return hasattr(value, "__cuda_array_interface__")
        ask = getattr(type(value), "__dlpack_device__", None)
        return ask is not None and int(ask(value)[0]) == _DLPACK_CUDA
    except (RuntimeError, ValueError):  # torch raises them for a tensor without memory, or with gradients
        return False


def _copy_method(value: object) -> str | None:
    """The method that copies an array to the host: CuPy's, numba's or torch's; None if it has none of them."""
    return next((name for name in ("get", "copy_to_host", "cpu") if hasattr(value, name)), None)


def as_device_array(value: object) -> DeviceArray:
    """The memory of such an array, shared and kept alive.

    Raises:
        InvalidBindingError: it is not C-contiguous; or it offers only DLPack, and CuPy is not installed.
    """
    return _from_interface(value) if hasattr(value, "__cuda_array_interface__") else _from_dlpack(value)


def _from_interface(value: Any) -> DeviceArray:
    facts = value.__cuda_array_interface__
    shape, dtype = tuple(facts["shape"]), np.dtype(facts["typestr"])
    # No memory is read: numpy computes the flag.
    view = np.lib.stride_tricks.as_strided(np.empty(0, dtype), shape, facts.get("strides"))
    if not view.flags.c_contiguous:
        raise InvalidBindingError(
            f"The array in CUDA memory, of shape {shape}, is not C-contiguous.",
            hint=f"Bind {'tensor.contiguous()' if hasattr(value, 'contiguous') else 'cupy.ascontiguousarray(array)'}.",
        )

    def read() -> Any:
        method = _copy_method(value)
        if method is None:
            raise IllegalCallError(
                f"{type_name(value)} has no method that copies it to the host.", hint="Call cupy.asnumpy(value)."
            )
        with translate_library_errors(type_name(value), EvaluationError):
            return np.asarray(getattr(value, method)())

    device = getattr(value, "device", 0)
    index = getattr(device, "id", getattr(device, "index", device))
    location = MemoryLocation("cuda", index if isinstance(index, int) else 0)
    return DeviceArray(location, shape, dtype, read, pointer=int(facts["data"][0]), owner=value)


@contextmanager
def translate_library_errors(name: str, kind: type[WinMLError]) -> Iterator[None]:
    """Within the block, the errors of a library of device arrays become errors of a kind."""
    try:
        yield
    except (WinMLError, BufferError):  # DLPack has BufferError for memory that cannot be exported
        raise
    except Exception as error:  # each library raises its own classes
        raise kind(
            f"{name} failed: {type(error).__name__}: {str(error).rstrip('.')}.",
            hint="To check CUDA and CuPy, run `winml-py doctor`. To read the tensor without CuPy, use to_numpy().",
        ) from error


def import_cupy(kind: type[WinMLError], what: str = "CuPy") -> Any:
    """CuPy, or an error that begins with words for what cannot be imported."""
    try:
        import cupy
    except ImportError as error:
        raise kind(f"{what} cannot be imported: {error}.", hint="Run pip install 'winml-py[cupy]'.") from error
    return cupy


def _from_dlpack(value: object) -> DeviceArray:
    cupy = import_cupy(InvalidBindingError, f"A {type_name(value)} in CUDA memory requires CuPy, which")
    # CuPy requests the memory for its current stream, and the library makes that stream wait. Each run repeats this:
    # the memory is the same, but may have been written since.
    with translate_library_errors("CuPy", InvalidBindingError):
        array = _from_interface(cupy.from_dlpack(value))
    array.exchange = lambda: cupy.from_dlpack(value)
    return array


def _synchronize(owner: Any, number: int) -> None:
    """Waits for the stream in which a library works on an array, with that library or with CuPy."""
    library = type(owner).__module__.partition(".")[0]
    facts = getattr(owner, "__cuda_array_interface__", {})
    stream = facts.get("stream")
    if library == "torch":
        cuda = sys.modules["torch"].cuda
        (cuda.current_stream(owner.device) if stream is None else cuda.ExternalStream(stream)).synchronize()
        return
    if stream is None and facts.get("version", 2) >= 3:
        return
    try:
        import cupy
    except ImportError as error:
        if stream is None:  # nothing says that the library still works on the array
            return
        raise IllegalCallError(
            f"CUDA stream {stream} may still write to a {type_name(owner)}, and waiting for the stream requires CuPy.",
            hint="Run pip install 'winml-py[cupy]'.",
        ) from error
    with cupy.cuda.Device(number):  # the default streams are those of the current device
        cupy.cuda.ExternalStream(1 if stream is None else stream).synchronize()


# Arrays of other libraries in the host's memory: torch's tensors, and others that export their memory by DLPack.


_HOST = (1, 3, 11, 13)  # kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged: the host can read all of them


def as_unmasked_array(value: Any) -> Array:
    """`np.asarray`; InvalidArgumentError for a masked array, whose mask it drops, and for rows of unequal length."""
    if isinstance(value, np.ndarray) and hasattr(value, "mask"):
        raise InvalidArgumentError("Expected an array without a mask.", hint="Pass array.filled(value).")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InvalidArgumentError(f"Expected an array: {error}", hint="Give all rows the same length.") from error


def can_export_dlpack(value: object) -> bool:
    """Whether a value exports its memory by DLPack."""
    return hasattr(type(value), "__dlpack__")


def as_host_array(value: Any, error: type[WinMLError] = InvalidBindingError) -> Array:
    """A numpy array that shares the memory of such a value. Raises the error for a device's memory, or if the value
    does not export its memory.
    """
    try:
        kind, number = value.__dlpack_device__()
        if int(kind) not in _HOST:
            raise BufferError(f"it is in the memory of device {int(number)} of the DLPack device type {int(kind)}")
        array: Array = np.from_dlpack(value)
    except (BufferError, RuntimeError, ValueError, TypeError, AttributeError) as cause:
        reason = str(cause).rstrip(".")
        raise error(
            f"A {type_name(value)} does not export its memory: {reason}.",
            hint="Bind a copy, for example tensor.detach().to_dense().float().cpu().",
        ) from cause
    # With DLPack before version 1.0, numpy makes such arrays read-only.
    shared = value.numpy() if not array.flags.writeable and hasattr(value, "numpy") else None
    if isinstance(shared, np.ndarray) and shared.flags.writeable and np.shares_memory(shared, array):
        return shared
    return array
