"""I/O binding on a device: inputs go up, work is submitted, outputs come back or stay."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.cancellation import Stop
from ...base.device_array import DeviceArray, MemoryLocation
from ...errors import IllegalCallError, NotSupportedError, SizeMismatchError
from ..engine import Value
from . import heap
from .errors import translate, wrong_output_shape
from .run import closed, stoppable, translated

if TYPE_CHECKING:
    import onnxruntime

DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int8)": np.int8,
    "tensor(int16)": np.int16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(uint8)": np.uint8,
    "tensor(uint16)": np.uint16,
    "tensor(uint32)": np.uint32,
    "tensor(uint64)": np.uint64,
    "tensor(bool)": np.bool_,
}

_graph_ids = itertools.count(1)
"""A number for each recording that the runtime is to keep."""

_NO_RECORDING = -1
"""The runtime's number for a run that is neither recorded nor repeated."""


leaked: list[Any] = []
"""What a forked process got from its parent: to let go of it would wait for the driver's threads, which are there."""


class Capture(Enum):
    """Whether work is recorded: never, where it goes, or because the options demand it."""

    NONE = 0
    POSSIBLE = 1
    DEMANDED = 2


class DeviceBinding:
    """Inputs and outputs in the memory of a GPU.

    The host's arrays are copied up by each run, since they are bound by reference. Outputs of a fixed shape get memory
    that every run writes again; they, and the inputs, keep their addresses, as recorded work demands.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        location: MemoryLocation,
        lock: AbstractContextManager[object],
        capture: Capture,
    ) -> None:
        self._location, self._lock, self._capture = location, lock, capture
        self._process = os.getpid()
        self._uploads: dict[str, tuple[np.ndarray[Any, Any], Any]] = {}
        self._given: dict[str, DeviceArray] = {}
        self._order = [output.name for output in session.get_outputs()]
        self._targets: dict[str, np.ndarray[Any, Any] | DeviceArray | None] = dict.fromkeys(self._order)
        self._kept: set[str] = set()
        self._kept_arrays: dict[str, DeviceArray] = {}
        self._graph_id = _NO_RECORDING
        self._runs = 0
        self._on_host = host_inputs(session)
        self._host_arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._host_copies: dict[str, DeviceArray] = {}
        self._fixed: dict[str, Any] = {}
        self._native: tuple[onnxruntime.InferenceSession, onnxruntime.IOBinding] | None = None
        with lock:
            native = session.io_binding()
            self._native = (session, native)
            self._fixed = _fixed_outputs(session, location)
            for name in self._order:
                self._bind_output(native, name)

    def set_input(self, name: str, value: Value | DeviceArray) -> None:
        """Binds an input: an array of the host, which goes up at each run, or one on the device.

        What the session reads on the host (sizes, and inputs of nodes that run there) stays on the host.
        """
        require_process(self._process)
        _, native = self._open()
        with self._lock, translated():
            if name in self._on_host:
                self._set_host_input(native, name, value)
                return
            if isinstance(value, DeviceArray):
                self._moved(name, value)
                self._uploads.pop(name, None)
                self._given[name] = value
                if value.handle is not None:
                    native.bind_ortvalue_input(name, value.handle)
                else:
                    location = value.location
                    native.bind_input(name, location.kind, location.number, value.dtype, value.shape, value.pointer)
                return
            assert isinstance(value, np.ndarray)
            self._given.pop(name, None)
            held = self._uploads.get(name)
            if held is not None and held[0].shape == value.shape:
                self._uploads[name] = (value, held[1])
                return
            self._forget()
            memory = _upload(value, self._location)
            self._uploads[name] = (value, memory)
            native.bind_ortvalue_input(name, memory)

    def _set_host_input(self, native: onnxruntime.IOBinding, name: str, value: Value | DeviceArray) -> None:
        self._host_copies.pop(name, None)
        if isinstance(value, DeviceArray):
            self._host_copies[name] = value
            value = value.to_numpy()
        assert isinstance(value, np.ndarray)
        native.bind_input(name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)
        self._host_arrays[name] = value  # the native binding does not keep it alive

    def _moved(self, name: str, value: DeviceArray) -> None:
        """What was recorded reads from the old address: it is recorded anew, or where it was asked for, an error."""
        before = self._given.get(name)
        if self._graph_id == _NO_RECORDING or before is value:
            return
        if before is not None and before.pointer is not None and before.pointer == value.pointer:
            return
        if self._capture is Capture.DEMANDED and before is not None:
            raise NotSupportedError(
                f"The input {name} was bound to other memory of the device, and the session's work is recorded for "
                "that address (constraint fixed-addresses).",
                hint="Write the new numbers into the array that is bound, use a binding for each array, or switch "
                "graph_capture off.",
            )
        self._forget()

    def _forget(self) -> None:
        """Lets go of what was recorded; the runtime would keep it, and this binding, for the session's life."""
        if self._graph_id != _NO_RECORDING and self._native is not None:
            self._native[0].release_captured_graph(self._graph_id)
        self._graph_id = _NO_RECORDING
        self._runs = 0

    def set_output(self, name: str, array: np.ndarray[Any, Any] | DeviceArray | None) -> None:
        """Binds an output to the host's memory, to the device's, or to none."""
        require_process(self._process)
        with self._lock, translated():
            self._set_output(name, array)

    def _set_output(self, name: str, array: np.ndarray[Any, Any] | DeviceArray | None) -> None:
        _, native = self._open()
        self._kept.discard(name)
        if isinstance(array, DeviceArray) or isinstance(self._targets[name], DeviceArray):
            self._forget()
        if isinstance(array, DeviceArray):
            self._targets[name] = array
            if array.handle is not None:
                native.bind_ortvalue_output(name, array.handle)
            else:
                location = array.location
                native.bind_output(name, location.kind, location.number, array.dtype, array.shape, array.pointer)
            return
        if isinstance(self._targets[name], DeviceArray):
            self._bind_output(native, name)
        fixed = self._fixed[name]
        if array is not None and fixed is not None and tuple(fixed.shape()) != array.shape:
            raise wrong_output_shape(name, array.shape, tuple(fixed.shape()))
        self._targets[name] = array

    def keep_output(self, name: str) -> None:
        """Leaves an output in the device's memory: in new memory, where what it had was given away before."""
        require_process(self._process)
        with self._lock, translated():
            if name in self._kept_arrays:
                self._forget()
                del self._kept_arrays[name]
                session, native = self._open()
                self._fixed[name] = _memory(session.get_outputs()[self._order.index(name)], self._location)
                self._bind_output(native, name)
            self._set_output(name, None)
            self._kept.add(name)

    def run(self, stop: Stop | None = None) -> Mapping[str, Value | DeviceArray]:
        """Runs the model, under the session's lock but where the provider lets others submit while it is waited for."""
        require_process(self._process)
        session, native = self._open()
        try:
            with stoppable(stop or Stop()) as run_options:
                if self._capture is not Capture.NONE:
                    self._record_from_second_run()
                    run_options.add_run_config_entry("gpu_graph_id", str(self._graph_id))
                if self._location.kind == "cuda":  # it is waited for below, where other threads may use the session
                    run_options.add_run_config_entry("disable_synchronize_execution_providers", "1")
                with self._lock:
                    for name, kept in self._host_copies.copy().items():
                        self._set_host_input(native, name, kept)
                    for array, memory in self._uploads.values():
                        memory.update_inplace(array)
                    session.run_with_iobinding(native, run_options)
                if self._location.kind == "cuda":
                    native.synchronize_outputs()
            with self._lock:
                return self._received(session, native)
        except Exception as error:  # the runtime raises classes that have no common base
            failure = translate(error)
        finally:
            with self._lock:
                del session, native
            if self._native is None:
                heap.trim()
        raise failure

    def _record_from_second_run(self) -> None:
        """A binding that is evaluated once, as by `evaluate_features`, is not worth a recording."""
        self._runs += 1
        if self._graph_id == _NO_RECORDING and self._runs > 1:
            self._graph_id = next(_graph_ids)

    def _received(
        self, session: onnxruntime.InferenceSession, native: onnxruntime.IOBinding
    ) -> dict[str, Value | DeviceArray]:
        values = native.get_outputs()
        fresh: dict[str, Value | DeviceArray] = {}
        for name, value in zip(self._order, values, strict=True):
            target = self._targets[name]
            if isinstance(target, DeviceArray):
                continue
            if name in self._kept:
                fresh[name] = self._device_array(name, value, session)
            elif target is None:
                fresh[name] = np.array(value.numpy())
            elif target.shape != tuple(value.shape()):
                raise wrong_output_shape(name, target.shape, tuple(value.shape()))
            else:
                np.copyto(target, value.numpy())
            # Or the next run would write over what the caller now owns; of a closed binding there is none.
            if self._fixed[name] is None and self._native is not None:
                self._bind_output(native, name)
        return fresh

    def _device_array(self, name: str, value: Any, session: onnxruntime.InferenceSession) -> DeviceArray:
        """One object for memory that every run writes again."""
        if self._fixed[name] is not None and name in self._kept_arrays:
            return self._kept_arrays[name]
        pointer = value.data_ptr() if self._location.kind == "cuda" else None
        array = self._kept_arrays[name] = DeviceArray(
            self._location,
            tuple(value.shape()),
            np.dtype(DTYPES[value.data_type()]),
            value.numpy,
            handle=value,
            pointer=pointer,
            owner=session,
            lock=self._lock,
        )
        if self._fixed[name] is None:
            del self._kept_arrays[name]
        return array

    def _bind_output(self, native: onnxruntime.IOBinding, name: str) -> None:
        memory = self._fixed[name]
        if memory is None:
            native.bind_output(name, self._location.kind, self._location.number)
        else:
            native.bind_ortvalue_output(name, memory)

    def close(self) -> None:
        """Lets go of the native session, the bound memory and the native binding."""
        if os.getpid() != self._process:
            leaked.append((self._native, self._uploads, self._given, self._fixed, self._kept_arrays, self._host_copies))
            return
        with self._lock:
            self._forget()
            self._native = None
            self._kept_arrays = {}
            self._uploads, self._given, self._fixed = {}, {}, dict.fromkeys(self._order)
            self._targets = dict.fromkeys(self._order)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():
            self.close()

    def _open(self) -> tuple[onnxruntime.InferenceSession, onnxruntime.IOBinding]:
        native = self._native
        if native is None:
            raise closed()
        return native


def require_process(number: int) -> None:
    """Refuses to go on in a forked process.

    Raises:
        IllegalCallError: this is another process than the one of that number.
    """
    if os.getpid() != number:
        raise IllegalCallError(
            "A GPU session does not survive a fork: the driver's threads are not in this process.",
            hint='Start processes with multiprocessing.get_context("spawn"), and make the session there.',
        )


def upload(
    array: np.ndarray[Any, Any],
    location: MemoryLocation,
    session: onnxruntime.InferenceSession,
    lock: AbstractContextManager[object],
) -> DeviceArray:
    """A copy of an array in the device's memory; the caller holds the lock."""
    with translated():
        memory = _upload(array, location)
    pointer = memory.data_ptr() if location.kind == "cuda" else None
    return DeviceArray(
        location, array.shape, array.dtype, memory.numpy, handle=memory, pointer=pointer, owner=session, lock=lock
    )


def _upload(array: np.ndarray[Any, Any], location: MemoryLocation) -> Any:
    """The array in the device's memory; never called before a session lives there, which would end the process."""
    import onnxruntime

    if 0 in array.shape:
        raise SizeMismatchError(
            f"An array of shape {array.shape} has no elements, and cannot be bound on a GPU.", hint="Use the CPU."
        )
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, location.kind, location.number)


def host_inputs(session: onnxruntime.InferenceSession) -> frozenset[str]:
    """The inputs that a session on a device reads in the host's memory."""
    places = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    return frozenset(given.name for given, memory in places if memory.name == "Cpu")


def is_recordable(session: onnxruntime.InferenceSession) -> bool:
    """Whether every input and output of a session can keep an address on the device."""
    ends = (*session.get_inputs(), *session.get_outputs())
    return not host_inputs(session) and all(_is_fixed(end) for end in ends)


def _fixed_outputs(session: onnxruntime.InferenceSession, location: MemoryLocation) -> dict[str, Any]:
    """Memory for each output whose shape nothing can change, and None for the others."""
    are_fixed = all(map(_is_fixed, session.get_inputs()))
    return {
        output.name: _memory(output, location) if are_fixed and _is_fixed(output) else None
        for output in session.get_outputs()
    }


def _is_fixed(end: Any) -> bool:
    is_known = end.shape is not None and all(isinstance(size, int) and size > 0 for size in end.shape)
    return is_known and end.type in DTYPES


def _memory(output: Any, location: MemoryLocation) -> Any:
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(
        list(output.shape), DTYPES[output.type], location.kind, location.number
    )
