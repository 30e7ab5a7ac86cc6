"""A device's memory: uploads, arrays over it and their bindings, and the recording of work on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....errors import NotSupportedError, SizeMismatchError
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


def host_inputs(session: Any) -> frozenset[str]:
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

    def array(
        self,
        value: onnxruntime.OrtValue,
        session: onnxruntime.InferenceSession,
        lock: AbstractContextManager[object],
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


def outputs_of(native: onnxruntime.IOBinding) -> list[onnxruntime.OrtValue]:
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


# Recording a device's work: the graph that one binding has recorded and replays.


_graph_ids = itertools.count(1)
"""An id for each graph that the runtime keeps."""

NO_GRAPH = -1
"""The runtime's id for a run that is neither recorded nor replayed."""


def new_graph_id() -> int:
    """An id for a graph, unique in this process."""
    return next(_graph_ids)


class Recording(Enum):
    """Whether work is recorded: never, if possible, or because the options demand it."""

    NONE = 0
    POSSIBLE = 1
    DEMANDED = 2


class RecordedGraph:
    """A binding's recording. The runtime keeps it under an id; it reads and writes at fixed addresses.

    A single evaluation is not worth a recording: the second run makes it.

    Args:
        recording: whether work is recorded.
        is_possible: whether this binding can record: not if a size is free, because each run then allocates memory.
    """

    def __init__(self, recording: Recording, is_possible: bool = True) -> None:
        self._recording, self._is_possible = recording, is_possible
        self._id, self._runs = NO_GRAPH, 0

    def prepare(self, run_options: onnxruntime.RunOptions, is_right: Callable[[], bool] = lambda: True) -> None:
        """Sets in the options of a run whether it is recorded or replayed.

        Args:
            run_options: the run's.
            is_right: called before a recording is made: whether it will have the same results as a plain run.
        """
        if self._recording is Recording.NONE:
            return
        self._runs += 1
        if self._id == NO_GRAPH and self._runs > 1 and self._is_possible:
            self._is_possible = is_right()
            self._id = new_graph_id() if self._is_possible else NO_GRAPH
        run_options.add_run_config_entry("gpu_graph_id", str(self._id))

    def input_moves(self, session: onnxruntime.InferenceSession, name: str, before: object, after: DeviceArray) -> None:
        """Forgets the graph if it reads an input from another address than the new one.

        Raises:
            NotSupportedError: the options demand the recording.
        """
        if self._id == NO_GRAPH or before is after:
            return
        if isinstance(before, DeviceArray):
            if before.pointer is not None and before.pointer == after.pointer:
                return
            if self._recording is Recording.DEMANDED:
                raise NotSupportedError(
                    f"The session's work is recorded for other memory of the device than that now bound to the input "
                    f"{name} (constraint fixed-addresses).",
                    hint="Write the new numbers into the bound array, use a binding for each array, or switch "
                    "graph_capture off.",
                )
        self.forget(session)

    def forget(self, session: onnxruntime.InferenceSession) -> None:
        """Releases the graph; the runtime would keep it, and this binding's memory, as long as the session lives."""
        if self._id != NO_GRAPH:
            session.release_captured_graph(self._id)
        self._id, self._runs = NO_GRAPH, 0
