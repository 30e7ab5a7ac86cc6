"""A device's memory: uploads, arrays over it, and their bindings."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....errors import SizeMismatchError
from ...base.arrays import Array, DeviceArray, DType, MemoryLocation
from ..providers.provider import Provider

if TYPE_CHECKING:
    import onnxruntime


_SAME_NAMES = "float16 double int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"

DTYPES: dict[str, DType] = {f"tensor({name})": np.dtype(name) for name in _SAME_NAMES.split()}
"""The types of tensors in ONNX Runtime's spelling, and numpy's; `float` is numpy's float32."""
DTYPES["tensor(float)"] = np.dtype(np.float32)


def is_fixed(end: Any) -> bool:
    """Whether an input or output is a tensor of numbers of fixed shape."""
    is_known = end.shape is not None and all(isinstance(size, int) and size > 0 for size in end.shape)
    return is_known and end.type in DTYPES


def find_host_inputs(session: Any) -> frozenset[str]:
    """The inputs that a session on a device reads in the host's memory: sizes, and inputs of nodes that run there."""
    ends = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    return frozenset(end.name for end, memory in ends if memory.name == "Cpu")


def require_elements(array: Array) -> None:
    """Refuses an array without elements, for which devices allocate no memory.

    Raises:
        SizeMismatchError: the array has no elements.
    """
    if 0 in array.shape:
        raise SizeMismatchError(
            f"An array of shape {array.shape} has no elements and cannot be bound on a GPU.", hint="Use the CPU."
        )


class DeviceMemory(NamedTuple):
    """The location of a session's memory. Allocating there before a session exists would crash the process.

    Attributes:
        provider: the provider of the memory.
        number: the device's index.
    """

    provider: Provider
    number: int

    @property
    def location(self) -> MemoryLocation:
        """The runtime's name for it, and the device's index."""
        return MemoryLocation(self.provider.memory, self.number)

    def upload(self, array: Array) -> onnxruntime.OrtValue:
        """Copies a C-contiguous array of the host to the device.

        Raises:
            SizeMismatchError: the array has no elements.
        """
        import onnxruntime

        require_elements(array)
        return onnxruntime.OrtValue.ortvalue_from_numpy(array, *self.location)

    def allocate(self, output: Any) -> onnxruntime.OrtValue:
        """Allocates memory for an output of fixed shape."""
        import onnxruntime

        dtype = DTYPES[output.type].type
        return onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(output.shape), dtype, *self.location)

    def make_array(
        self, value: onnxruntime.OrtValue, session: onnxruntime.InferenceSession, lock: AbstractContextManager[object]
    ) -> DeviceArray:
        """An array over a value, which keeps the value and its session alive.

        Args:
            value: in this memory.
            session: the session.
            lock: held while the array is read or freed.
        """
        return DeviceArray(
            self.location,
            tuple(value.shape()),
            DTYPES[value.data_type()],
            value.numpy,
            handle=value,
            pointer=value.data_ptr() if self.provider.has_addresses else None,
            owner=session,
            lock=lock,
        )


def bind_device_input(native: onnxruntime.IOBinding, name: str, array: DeviceArray) -> None:
    """Binds an input to memory of the device, the runtime's or another library's."""
    if array.handle is not None:
        native.bind_ortvalue_input(name, array.handle)
    else:
        native.bind_input(name, *array.location, array.dtype, array.shape, array.pointer)


def bind_device_output(native: onnxruntime.IOBinding, name: str, array: DeviceArray) -> None:
    """Binds an output to memory of the device; see `bind_device_input`."""
    if array.handle is not None:
        native.bind_ortvalue_output(name, array.handle)
    else:
        native.bind_output(name, *array.location, array.dtype, array.shape, array.pointer)


def get_outputs(native: onnxruntime.IOBinding) -> list[onnxruntime.OrtValue]:
    """The outputs of a binding's last run, independent of later runs."""
    import onnxruntime

    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 30):
        return list(native.get_outputs())
    # The binding's list would also reflect later bindings, so it is copied. (Newer versions refuse such a copy, because
    # it would not keep alive the session whose memory on a device it shows.)
    shown = native.get_outputs_as_ortvaluevector()
    copied = type(shown)()
    for value in shown:
        copied.push_back(value)
    return [onnxruntime.OrtValue(value) for value in copied]
