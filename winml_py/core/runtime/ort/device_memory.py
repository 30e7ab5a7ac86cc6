"""A device's memory: the one way from the host into it, how it is shown and bound, and how work on it is recorded."""

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
"""The types of tensors as ONNX Runtime spells them, and numpy's; `float` is numpy's float32."""
DTYPES["tensor(float)"] = np.dtype(np.float32)


def is_fixed(end: Any) -> bool:
    """Whether an input or output is a tensor of numbers whose shape nothing can change."""
    is_known = end.shape is not None and all(isinstance(size, int) and size > 0 for size in end.shape)
    return is_known and end.type in DTYPES


def host_inputs(session: Any) -> frozenset[str]:
    """The inputs that a session on a device reads in the host's memory: sizes, and inputs of nodes that run there."""
    ends = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    return frozenset(end.name for end, memory in ends if memory.name == "Cpu")


def require_elements(array: Array) -> None:
    """Refuses an array that no device has memory for.

    Raises:
        SizeMismatchError: if the array has no elements.
    """
    if 0 in array.shape:
        raise SizeMismatchError(
            f"An array of shape {array.shape} has no elements, and cannot be bound on a GPU.", hint="Use the CPU."
        )


class DeviceMemory(NamedTuple):
    """Where a session's memory is. Nothing is allocated there before a session lives, which would end the process.

    Attributes:
        provider: whose memory it is.
        number: of the device.
    """

    provider: Provider
    number: int

    @property
    def location(self) -> MemoryLocation:
        """The runtime's name of it, and the device's number."""
        return MemoryLocation(self.provider.memory, self.number)

    def upload(self, array: Array) -> onnxruntime.OrtValue:
        """A copy of a C-contiguous array of the host.

        Raises:
            SizeMismatchError: if the array has no elements.
        """
        import onnxruntime

        require_elements(array)
        return onnxruntime.OrtValue.ortvalue_from_numpy(array, *self.location)

    def allocate(self, output: Any) -> onnxruntime.OrtValue:
        """Memory for an output of fixed shape."""
        import onnxruntime

        dtype = DTYPES[output.type].type
        return onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(output.shape), dtype, *self.location)

    def array(
        self,
        value: onnxruntime.OrtValue,
        session: onnxruntime.InferenceSession,
        lock: AbstractContextManager[object],
    ) -> DeviceArray:
        """A value as it is shown outside, which keeps it, and the session it lives by, alive.

        Args:
            value: lies in this memory.
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
    """Binds an input to memory of the device, the runtime's own or another library's."""
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
    """What the last run of a binding gave, for good."""
    import onnxruntime

    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 30):
        return list(native.get_outputs())
    # The binding's own list shows what is bound next, too: it is copied. (Newer versions refuse such a copy, because it
    # would not keep alive the session whose memory on a device it shows.)
    shown = native.get_outputs_as_ortvaluevector()
    copied = type(shown)()
    for value in shown:
        copied.push_back(value)
    return [onnxruntime.OrtValue(value) for value in copied]


# Recording a device's work: the graph that one binding had recorded, and replays.


_graph_ids = itertools.count(1)
"""A number for each graph that the runtime is to keep."""

NO_GRAPH = -1
"""The runtime's number for a run that is neither recorded nor replayed."""


def new_graph_id() -> int:
    """A number for a graph that no other one of this process has."""
    return next(_graph_ids)


class Recording(Enum):
    """Whether work is recorded: never, where that is possible, or because the options demand it."""

    NONE = 0
    POSSIBLE = 1
    DEMANDED = 2


class RecordedGraph:
    """What a binding had recorded. The runtime keeps it under a number; it reads and writes at fixed addresses.

    A binding that is evaluated once is not worth a recording: the second run makes it.

    Args:
        recording: whether work is recorded.
        is_possible: whether it can be of this binding: not where a size is free, and memory is allocated by each run.
    """

    def __init__(self, recording: Recording, is_possible: bool = True) -> None:
        self._recording, self._is_possible = recording, is_possible
        self._id, self._runs = NO_GRAPH, 0

    def prepare(self, run_options: onnxruntime.RunOptions, is_right: Callable[[], bool] = lambda: True) -> None:
        """Says in the options of a run what is to be recorded or replayed.

        Args:
            run_options: of the run.
            is_right: asked before a recording is made: whether it will give what the work itself gives.
        """
        if self._recording is Recording.NONE:
            return
        self._runs += 1
        if self._id == NO_GRAPH and self._runs > 1 and self._is_possible:
            self._is_possible = is_right()
            self._id = new_graph_id() if self._is_possible else NO_GRAPH
        run_options.add_run_config_entry("gpu_graph_id", str(self._id))

    def input_moves(self, session: onnxruntime.InferenceSession, name: str, before: object, after: DeviceArray) -> None:
        """Forgets the graph where it reads an input from another address than the one that is bound now.

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
                    f"The input {name} was bound to other memory of the device, and the session's work is recorded for "
                    "that address (constraint fixed-addresses).",
                    hint="Write the new numbers into the array that is bound, use a binding for each array, or switch "
                    "graph_capture off.",
                )
        self.forget(session)

    def forget(self, session: onnxruntime.InferenceSession) -> None:
        """Lets go of the graph; the runtime would keep it, and this binding's memory, for the session's life."""
        if self._id != NO_GRAPH:
            session.release_captured_graph(self._id)
        self._id, self._runs = NO_GRAPH, 0
