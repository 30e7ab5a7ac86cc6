"""I/O binding on a device: uploads inputs, submits the work, downloads outputs or leaves them on the device."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....errors import InvalidBindingError, NotSupportedError
from ...base.arrays import Array, DeviceArray
from ...base.cancellation import Stop, hold
from ..runs import Bound, StaysOnDevice, call, make_output_shape_error, require_open
from .device_memory import DeviceMemory, bind_device_input, bind_device_output, find_host_inputs, get_outputs, is_fixed
from .errors import translate_run
from .session_options import RunConfig, make_run_options

if TYPE_CHECKING:
    import onnxruntime


class _Input(NamedTuple):
    """The binding of an input.

    Attributes:
        value: the caller's array, or tensor on the device.
        copy: for a captured graph, the copy of an array at a fixed address of the device; each run updates it.
    """

    value: Array | DeviceArray
    copy: Any = None


Destination = Array | DeviceArray | StaysOnDevice | None
"""The memory bound to an output; None if unbound."""


class DeviceIoBinding:
    """The native I/O binding of a `Bound` that has values in the memory of a device, or whose graph is captured.

    Each run uploads the host's arrays, because they are bound by reference. The runtime itself moves what the host
    gives and takes: the runtime's values in a device's memory (`OrtValue`) are copied while Python's lock is held, and
    WebGPU then keeps the weights of closed sessions. Only a captured graph needs such values, at fixed addresses.

    Args:
        session: the compiled model. The caller holds the lock.
        memory: the device's.
        lock: the session's, held while the device is used.
        captures: whether the second run captures the graph; only for fixed shapes.
        config: the run configuration.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        memory: DeviceMemory,
        lock: AbstractContextManager[object],
        captures: bool,
        config: RunConfig = (),
    ) -> None:
        self._memory = memory
        self._lock = lock
        self._config = config
        self._version = -1
        self._inputs: dict[str, _Input] = {}
        self._outputs: dict[str, DeviceOutput] = {}
        self._on_host = find_host_inputs(session)
        native = session.io_binding()
        self._native: tuple[onnxruntime.InferenceSession, onnxruntime.IOBinding] | None = (session, native)
        are_fixed = all(map(is_fixed, session.get_inputs()))
        self._graph = CapturedGraph() if captures else None
        for end in session.get_outputs():  # in graph order, the order of the results
            output = self._outputs[end.name] = DeviceOutput(end, memory, are_fixed and is_fixed(end), captures)
            output.bind(native)

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Any]:
        """Runs the model; see `Engine`."""
        with make_run_options(stop or Stop(), self._config) as run_options, hold(self._lock, stop):
            return call(self._run, translate_run, bound, run_options)

    def _run(self, bound: Bound, run_options: onnxruntime.RunOptions) -> dict[str, Any]:
        """Binds what is new, runs, and returns the outputs that are not bound to memory; the caller holds the lock."""
        session, native = require_open(self._native)
        # Several `Bound`s share the binding of a captured graph, each with its own versions.
        if self._graph is not None or bound.version != self._version:
            for name, value in bound.inputs.items():
                if name not in self._inputs or self._inputs[name].value is not value:
                    self._set_input(session, native, name, value)
            for name, output in self._outputs.items():
                output.set_destination(native, bound.outputs.get(name), partial(self._forget_graph, session))
            self._require_no_overlap()
            self._version = bound.version
        if self._graph is not None:
            self._graph.prepare(run_options)
        sent = self._send_inputs(native)
        try:
            session.run_with_iobinding(native, run_options)
        except BaseException:
            self._forget_graph(session)  # its capture may be incomplete
            raise
        del sent
        values = get_outputs(native)
        for output, value in zip(self._outputs.values(), values, strict=True):
            output.bind_next(native, value)  # before receiving, which may fail: the next run needs new memory even then
        fresh = {}
        for (name, output), value in zip(self._outputs.items(), values, strict=True):
            array = output.receive(value, session, self._lock)
            if array is not None:
                fresh[name] = array
        return fresh

    def _forget_graph(self, session: onnxruntime.InferenceSession) -> None:
        if self._graph is not None:
            self._graph.forget(session)

    def _set_input(
        self,
        session: onnxruntime.InferenceSession,
        native: onnxruntime.IOBinding,
        name: str,
        value: Any,
    ) -> None:
        """Notes an input, and binds it if it is on the device or a captured graph reads it; see `_send_inputs`."""
        before = self._inputs.get(name)
        if isinstance(value, DeviceArray) and name not in self._on_host:
            has_same_address = (
                before is not None
                and isinstance(before.value, DeviceArray)
                and before.value.pointer is not None
                and before.value.pointer == value.pointer
            )
            if not has_same_address:
                self._forget_graph(session)
            self._inputs[name] = _Input(value)
            bind_device_input(native, name, value)
        elif self._graph is None:
            self._inputs[name] = _Input(value)
        elif before is not None and before.copy is not None and before.value.shape == value.shape:
            # The copy keeps its address, which a captured graph reads. The run uploads the new numbers there.
            self._inputs[name] = _Input(value, before.copy)
        else:
            # A new copy has another address, but a captured graph would still read the old one.
            self._forget_graph(session)
            copy = self._memory.upload(value)
            self._inputs[name] = _Input(value, copy)
            native.bind_ortvalue_input(name, copy)

    def _require_no_overlap(self) -> None:
        """Refuses an output that would overwrite an input: the device writes before it has read everything."""
        for input_name, (value, _) in self._inputs.items():
            for name, output in self._outputs.items():
                if isinstance(value, DeviceArray) and input_name not in self._on_host and output.can_overwrite(value):
                    raise InvalidBindingError(
                        f"The input {input_name} and the output {name} are bound to the same memory on the device.",
                        hint="Bind two tensors, and swap them after each run.",
                    )

    def _send_inputs(self, native: onnxruntime.IOBinding) -> list[Array]:
        """Gives the runtime the numbers that the host's arrays have now; returns arrays to keep until the run is over.

        The runtime copies an array to the device as it is bound. Inputs that the session reads on the host (sizes, and
        inputs of nodes that run there) are read where they are; one that is bound to a tensor of the device comes back.
        """
        arrays = []
        for name, (value, copy) in self._inputs.items():
            if copy is not None:
                copy.update_inplace(value)
            elif name in self._on_host or not isinstance(value, DeviceArray):
                array = value.to_numpy() if isinstance(value, DeviceArray) else np.require(value, requirements="C")
                native.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
                arrays.append(array)
        return arrays

    def close(self) -> None:
        """Releases the native session, the bound memory and the native binding."""
        if self._native is None:
            return
        with self._lock:
            if self._native is not None:  # otherwise another thread has closed it
                self._forget_graph(self._native[0])
            self._native = None
            self._inputs = {}
            for output in self._outputs.values():
                output.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # An argument holds the function, because at the interpreter's shutdown the module's names may be gone.
        if not is_finalizing():
            self.close()


# One output of a device binding: where the next run writes it, and what is returned for it.


class DeviceOutput:
    """The state of one output.

    A captured graph writes it into memory of the device whose address never changes. Otherwise the runtime allocates
    memory in each run, on the host unless the output stays on the device. If an output of fixed shape stays there,
    later runs overwrite the same memory.

    Args:
        end: the output, as the session describes it.
        memory: the device's.
        is_fixed: whether its shape and those of all inputs are known.
        captures: whether the graph is captured.
    """

    def __init__(self, end: Any, memory: DeviceMemory, is_fixed: bool, captures: bool) -> None:
        self._end = end
        self._memory = memory
        self._is_fixed = is_fixed
        self._captures = captures
        self._fixed = memory.allocate(end) if captures else None
        # The array over the fixed memory that a run returned; the caller may hold it.
        self._fixed_array: DeviceArray | None = None
        self.destination: Destination = None

    def bind(self, native: onnxruntime.IOBinding) -> None:
        """Binds the memory that the next run writes."""
        name = self._end.name
        if isinstance(self.destination, DeviceArray):
            bind_device_output(native, name, self.destination)
        elif self._fixed is not None:
            native.bind_ortvalue_output(name, self._fixed)
        elif isinstance(self.destination, StaysOnDevice):
            native.bind_output(name, *self._memory.location)
        else:
            native.bind_output(name, "cpu")

    def set_destination(
        self, native: onnxruntime.IOBinding, destination: Destination, forget_graph: Callable[[], None]
    ) -> None:
        """Sets where the output goes: memory of the host or of the device, or neither.

        With `StaysOnDevice` it stays in the device's memory. With None, each run returns a new copy in the host's
        memory.

        Args:
            native: the runtime's binding.
            destination: the bound memory.
            forget_graph: releases a captured graph; called before the output is bound to another address of the device,
                because the runtime refuses to rebind an output that a graph still writes.

        Raises:
            SizeMismatchError: the array has another shape than the output.
        """
        if destination is self.destination:
            return
        fixed_shape = tuple(self._end.shape) if self._is_fixed else None
        if isinstance(destination, np.ndarray) and fixed_shape not in (None, destination.shape):
            raise make_output_shape_error(self._end.name, destination.shape, fixed_shape)
        was_on_device = isinstance(self.destination, DeviceArray)
        is_on_device = isinstance(destination, DeviceArray)
        has_returned_memory = self._fixed_array is not None
        is_address_new = was_on_device or is_on_device or has_returned_memory
        if is_address_new:
            forget_graph()
        if has_returned_memory and not is_on_device:
            # The caller may hold this memory, and its tensor must not change, because it is no longer bound.
            self._fixed_array = None
            self._fixed = self._memory.allocate(self._end) if self._captures else None
        self.destination = destination
        if is_address_new or self._fixed is None:
            self.bind(native)

    def can_overwrite(self, array: DeviceArray) -> bool:
        """Whether the next run writes this output into an array's memory."""
        memory = self.destination if isinstance(self.destination, DeviceArray) else self._fixed_array
        if memory is None:
            return False
        has_same_handle = memory.handle is not None and memory.handle is array.handle
        has_same_address = memory.pointer is not None and memory.pointer == array.pointer
        return memory is array or has_same_handle or has_same_address

    def bind_next(self, native: onnxruntime.IOBinding, value: onnxruntime.OrtValue) -> None:
        """Binds new memory for the next run, which would overwrite the caller's, unless it shall."""
        if self._fixed is None and not isinstance(self.destination, DeviceArray):
            if isinstance(self.destination, StaysOnDevice) and self._is_fixed:
                self._fixed = value
            self.bind(native)

    def receive(
        self,
        value: onnxruntime.OrtValue,
        session: onnxruntime.InferenceSession,
        lock: AbstractContextManager[object],
    ) -> Array | DeviceArray | None:
        """Returns the output for the caller of a run; None if it was written to the bound memory."""
        destination = self.destination
        if isinstance(destination, DeviceArray):
            return None
        if isinstance(destination, StaysOnDevice):
            array = self._fixed_array or self._memory.make_array(value, session, lock)
            if self._fixed is not None:
                self._fixed_array = array
            return array
        if destination is None:
            return np.array(value.numpy())
        if destination.shape != tuple(value.shape()):
            raise make_output_shape_error(self._end.name, destination.shape, tuple(value.shape()))
        np.copyto(destination, value.numpy())
        return None

    def close(self) -> None:
        """Releases all memory."""
        self._fixed = None
        self._fixed_array = None
        self.destination = None


# Graph capture: the device's work is captured as a graph in one run, and later runs replay the graph.


_ids = itertools.count(1)
"""An id for each graph that the runtime keeps."""

_NO_GRAPH = -1
"""The runtime's id for a run that neither captures nor replays a graph."""


class CapturedGraph:
    """The graph of one binding. The runtime keeps it under an id; it reads and writes at fixed addresses.

    A single evaluation is not worth a graph: the second run captures it.
    """

    def __init__(self) -> None:
        self._id = _NO_GRAPH
        self._run_count = 0

    def prepare(self, run_options: onnxruntime.RunOptions) -> None:
        """Sets in the options of a run whether it captures or replays the graph."""
        self._run_count += 1
        if self._run_count == 2:
            self._id = next(_ids)
        run_options.add_run_config_entry("gpu_graph_id", str(self._id))

    def forget(self, session: onnxruntime.InferenceSession) -> None:
        """Releases the graph; the runtime would keep it, and this binding's memory, as long as the session lives."""
        if self._id != _NO_GRAPH:
            session.release_captured_graph(self._id)
        self._id = _NO_GRAPH
        self._run_count = 0


def require_capturable(session: onnxruntime.InferenceSession) -> None:
    """Refuses a session whose graph would read or write at addresses that change.

    Raises:
        NotSupportedError: an input or output is not a tensor of numbers of fixed shape, or is read on the host.
    """
    if not all(map(is_fixed, (*session.get_inputs(), *session.get_outputs()))):
        raise make_not_capturable_error("all inputs and outputs are tensors of numbers with fixed shapes")
    if find_host_inputs(session):
        raise make_not_capturable_error("the provider reads every input on the device")


def make_not_capturable_error(requirement: str) -> NotSupportedError:
    """The error for a model that does not meet a requirement."""
    return NotSupportedError(
        f"The graph of this model cannot be captured: graph capture requires that {requirement}.",
        hint="Set options.graph_capture = False, or meet the requirement, for example by overriding free sizes.",
    )
