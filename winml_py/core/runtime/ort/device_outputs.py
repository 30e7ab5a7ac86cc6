"""One output of a device binding: where the next run writes it, and what becomes of it then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.device_array import DeviceArray
from ..engine import Array
from .device_memory import DeviceMemory, bind_device_output
from .errors import wrong_output_shape

if TYPE_CHECKING:
    import onnxruntime


class DeviceOutput:
    """The state of one output.

    An output whose shape nothing can change gets memory that every run writes again, so that its address holds, as a
    recorded graph demands. For every other output the runtime allocates memory in each run.

    Args:
        end: the output, as the session describes it.
        memory: the device's.
        is_fixed: whether its shape is known, and that of all inputs.
    """

    def __init__(self, end: Any, memory: DeviceMemory, is_fixed: bool) -> None:
        self._end, self._memory = end, memory
        self._fixed = memory.allocate(end) if is_fixed else None
        self._given: DeviceArray | None = None  # over the fixed memory: a run gave it out, and the caller may hold it
        self._target: Array | DeviceArray | None = None
        self._is_kept = False

    def bind(self, native: onnxruntime.IOBinding) -> None:
        """Tells the runtime where the next run writes."""
        name = self._end.name
        if isinstance(self._target, DeviceArray):
            bind_device_output(native, name, self._target)
        elif self._fixed is not None:
            native.bind_ortvalue_output(name, self._fixed)
        else:
            native.bind_output(name, *self._memory.location)

    def set_target(
        self, native: onnxruntime.IOBinding, array: Array | DeviceArray | None, forget: Callable[[], None]
    ) -> None:
        """Sets where the output goes: to memory of the host or of the device, or with None to neither.

        With None, each run gives a new copy in the host's memory; the device's memory stays the same where it is fixed.
        Memory that the caller was given is not written again: the output gets new memory, or the caller's tensor
        would change although it is no longer bound.

        Args:
            native: the runtime's binding.
            array: the memory.
            forget: lets go of a recorded graph; called before the output is bound to another address of the device,
                because the runtime refuses to bind anew what a graph still writes to.

        Raises:
            SizeMismatchError: the array has another shape than the output.
        """
        if isinstance(array, np.ndarray) and self._fixed is not None and tuple(self._fixed.shape()) != array.shape:
            raise wrong_output_shape(self._end.name, array.shape, tuple(self._fixed.shape()))
        is_moved = self._given is not None or isinstance(array, DeviceArray) or isinstance(self._target, DeviceArray)
        if is_moved:
            forget()
        if self._given is not None and not isinstance(array, DeviceArray):
            self._given, self._fixed = None, self._memory.allocate(self._end)
        self._target, self._is_kept = array, False
        if is_moved:
            self.bind(native)

    def keep(self, native: onnxruntime.IOBinding, forget: Callable[[], None]) -> None:
        """Leaves the output in the device's memory; see `set_target`."""
        self.set_target(native, None, forget)
        self._is_kept = True

    def writes_over(self, array: DeviceArray) -> bool:
        """Whether the next run writes this output into an array's memory."""
        memory = self._target if isinstance(self._target, DeviceArray) else self._given
        if memory is None:
            return False
        is_one = memory.handle is not None and memory.handle is array.handle
        return memory is array or is_one or (memory.pointer is not None and memory.pointer == array.pointer)

    def receive(
        self,
        value: onnxruntime.OrtValue,
        session: onnxruntime.InferenceSession,
        lock: AbstractContextManager[object],
    ) -> Array | DeviceArray | None:
        """What a run gives to its caller; None where it was written to the memory that is bound."""
        target = self._target
        if isinstance(target, DeviceArray):
            return None
        if self._is_kept:
            given = self._given or self._memory.array(value, session, lock)
            if self._fixed is not None:
                self._given = given
            return given
        if target is None:
            return np.array(value.numpy())
        if target.shape != tuple(value.shape()):
            raise wrong_output_shape(self._end.name, target.shape, tuple(value.shape()))
        np.copyto(target, value.numpy())
        return None

    def renew(self, native: onnxruntime.IOBinding) -> None:
        """Asks the runtime for new memory, where it allocates it, or the next run would write the caller's."""
        if self._fixed is None and not isinstance(self._target, DeviceArray):
            self.bind(native)

    def close(self) -> None:
        """Lets go of all memory."""
        self._fixed = self._given = self._target = None
