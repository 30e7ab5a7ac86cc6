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
from ...base.cancellation import Stop, held
from ..runs import Bound, StaysOnDevice, call, require_open, wrong_output_shape
from .device_memory import DeviceMemory, bind_device_input, bind_device_output, host_inputs, is_fixed, outputs_of
from .errors import translate
from .session_options import RunConfig, stoppable

if TYPE_CHECKING:
    import onnxruntime


class _Input(NamedTuple):
    """The binding of an input.

    Attributes:
        value: the caller's array, or tensor on the device.
        copy: its copy on the other side, if it is read there; each run updates it.
    """

    value: Array | DeviceArray
    copy: Any = None


class DeviceIoBinding:
    """The native I/O binding of a `Bound` whose values are in the memory of a device, or are copied there.

    Each run uploads the host's arrays, because they are bound by reference. Inputs and outputs of fixed shape keep
    their addresses, which a captured graph requires.

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
        self._memory, self._lock, self._config = memory, lock, config
        # If runs are waited for without the lock, other threads may submit theirs meanwhile.
        self._waits_unlocked = memory.provider.waits_unlocked
        self._version = -1
        self._inputs: dict[str, _Input] = {}
        self._outputs: dict[str, DeviceOutput] = {}
        self._on_host = host_inputs(session)
        native = session.io_binding()
        self._native: tuple[onnxruntime.InferenceSession, onnxruntime.IOBinding] | None = (session, native)
        are_fixed = all(map(is_fixed, session.get_inputs()))
        self._graph = CapturedGraph() if captures else None
        for end in session.get_outputs():  # in graph order, the order of the results
            output = self._outputs[end.name] = DeviceOutput(end, memory, are_fixed and is_fixed(end))
            output.bind(native)

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Any]:
        """Runs the model; see `Engine`."""
        running = None  # None until the lock is held: a run stopped while it waits has nothing to free under the lock
        # close() may drop these at any moment after the lock is released, but the run reads and writes their memory to
        # its end. Its results must also reach the memory that was bound when it was submitted.
        used: list[object] = []
        destinations: dict[str, Destination] = {}
        try:
            with stoppable(stop or Stop(), self._config) as run_options:
                with held(self._lock, stop):
                    running = require_open(self._native)
                    call(self._submit, translate, bound, *running, run_options)
                    used.append(self._inputs)
                    destinations = {name: output.destination for name, output in self._outputs.items()}
                if self._waits_unlocked:
                    call(running[1].synchronize_outputs, translate)
            with self._lock:
                return call(self._receive, translate, *running, destinations)
        finally:
            # If the binding was closed meanwhile, this is the last reference; the memory is freed under the lock.
            if running is not None:
                with self._lock:
                    running = None
                    used.clear()
                    destinations.clear()

    def _submit(
        self,
        bound: Bound,
        session: onnxruntime.InferenceSession,
        native: onnxruntime.IOBinding,
        run_options: onnxruntime.RunOptions,
    ) -> None:
        # Several `Bound`s share the binding of a captured graph, each with its own versions.
        if self._graph is not None or bound.version != self._version:
            for name, value in bound.inputs.items():
                if name not in self._inputs or self._inputs[name].value is not value:
                    self._set_input(session, native, name, value)
            for name, output in self._outputs.items():
                output.renew_target(native, bound.outputs.get(name), partial(self._forget_graph, session))
            self._require_no_overlap()
            self._version = bound.version
        if self._graph is not None:
            self._graph.prepare(run_options)
        if self._waits_unlocked:
            # Then the call returns when the work is submitted, and `run` waits for the device without the lock.
            run_options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self._send_inputs(native)
        try:
            session.run_with_iobinding(native, run_options)
        except BaseException:
            self._forget_graph(session)  # its capture may be incomplete
            raise

    def _forget_graph(self, session: onnxruntime.InferenceSession) -> None:
        if self._graph is not None:
            self._graph.forget(session)

    def _set_input(
        self, session: onnxruntime.InferenceSession, native: onnxruntime.IOBinding, name: str, value: Any
    ) -> None:
        """Binds an input: an array on the host, or one on the device.

        Inputs that the session reads on the host (sizes, and inputs of nodes that run there) stay on the host.
        """
        before = self._inputs.get(name)
        if name in self._on_host:
            self._bind_on_host(native, name, value)
        elif isinstance(value, DeviceArray):
            pointer = before.value.pointer if before and isinstance(before.value, DeviceArray) else None
            if pointer is None or pointer != value.pointer:
                self._forget_graph(session)
            self._inputs[name] = _Input(value)
            bind_device_input(native, name, value)
        elif before is not None and before.copy is not None and before.value.shape == value.shape:
            # The copy keeps its address, which a captured graph reads. The run uploads the new numbers there.
            self._inputs[name] = _Input(value, before.copy)
        else:
            # A new copy has another address, but a captured graph would still read the old one.
            self._forget_graph(session)
            copy = self._memory.upload(value)
            self._inputs[name] = _Input(value, copy)
            native.bind_ortvalue_input(name, copy)

    def _bind_on_host(self, native: onnxruntime.IOBinding, name: str, value: Array | DeviceArray) -> None:
        array = value.to_numpy() if isinstance(value, DeviceArray) else value
        native.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        self._inputs[name] = _Input(value, array)  # the native binding does not keep the array alive

    def _require_no_overlap(self) -> None:
        """Refuses an output that would overwrite an input: the device writes before it has read everything."""
        for input_name, (value, _) in self._inputs.items():
            for name, output in self._outputs.items():
                if isinstance(value, DeviceArray) and input_name not in self._on_host and output.writes_over(value):
                    raise InvalidBindingError(
                        f"The input {input_name} and the output {name} are bound to the same memory of the device.",
                        hint="Bind two tensors, and swap them after each run.",
                    )

    def _send_inputs(self, native: onnxruntime.IOBinding) -> None:
        for name, (value, copy) in tuple(self._inputs.items()):
            if name in self._on_host:
                # The session reads this input on the host, and the tensor may have changed since the last run.
                if isinstance(value, DeviceArray):
                    self._bind_on_host(native, name, value)
            elif copy is not None:
                copy.update_inplace(value)

    def _receive(
        self,
        session: onnxruntime.InferenceSession,
        native: onnxruntime.IOBinding,
        destinations: Mapping[str, Destination],
    ) -> dict[str, Any]:
        values = outputs_of(native)
        if self._native is not None:  # before receiving, which may fail: the next run needs new memory even then
            for output in self._outputs.values():
                output.renew(native)
        fresh = {}
        for (name, output), value in zip(self._outputs.items(), values, strict=True):
            array = output.receive(value, destinations[name], session, self._lock)
            if array is not None:
                fresh[name] = array
        return fresh

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


Destination = Array | DeviceArray | StaysOnDevice | None
"""The memory bound to an output; None if unbound."""


class DeviceOutput:
    """The state of one output.

    An output of fixed shape gets memory that every run overwrites, so that its address never changes, as a captured
    graph requires. For other outputs the runtime allocates memory in each run.

    Args:
        end: the output, as the session describes it.
        memory: the device's.
        is_fixed: whether its shape and those of all inputs are known.
    """

    def __init__(self, end: Any, memory: DeviceMemory, is_fixed: bool) -> None:
        self._end, self._memory = end, memory
        self._fixed = memory.allocate(end) if is_fixed else None
        # over the fixed memory: a run returned it, and the caller may hold it
        self._fixed_array: DeviceArray | None = None
        self.destination: Destination = None

    def bind(self, native: onnxruntime.IOBinding) -> None:
        """Binds the memory that the next run writes."""
        name = self._end.name
        if isinstance(self.destination, DeviceArray):
            bind_device_output(native, name, self.destination)
        elif self._fixed is not None:
            native.bind_ortvalue_output(name, self._fixed)
        else:
            native.bind_output(name, *self._memory.location)

    def renew_target(
        self,
        native: onnxruntime.IOBinding,
        bound: Array | DeviceArray | StaysOnDevice | None,
        forget: Callable[[], None],
    ) -> None:
        """Sets the output's destination: memory of the host or of the device, or neither.

        With `StaysOnDevice` it stays in the device's memory. With None, each run returns a new copy in the host's
        memory. If the caller holds the memory of earlier runs, and another target is bound, the output gets new memory:
        otherwise the caller's tensor would change although it is no longer bound.

        Args:
            native: the runtime's binding.
            bound: the bound memory.
            forget: releases a captured graph; called before the output is bound to another address of the device,
                because the runtime refuses to rebind an output that a graph still writes.

        Raises:
            SizeMismatchError: the array has another shape than the output.
        """
        before = self.destination
        if bound is before:
            return
        if isinstance(bound, np.ndarray) and self._fixed is not None and tuple(self._fixed.shape()) != bound.shape:
            raise wrong_output_shape(self._end.name, bound.shape, tuple(self._fixed.shape()))
        is_moved = self._fixed_array is not None or isinstance(bound, DeviceArray) or isinstance(before, DeviceArray)
        if is_moved:
            forget()
        if self._fixed_array is not None and not isinstance(bound, DeviceArray):
            self._fixed_array, self._fixed = None, self._memory.allocate(self._end)
        self.destination = bound
        if is_moved:
            self.bind(native)

    def writes_over(self, array: DeviceArray) -> bool:
        """Whether the next run writes this output into an array's memory."""
        memory = self.destination if isinstance(self.destination, DeviceArray) else self._fixed_array
        if memory is None:
            return False
        is_one = memory.handle is not None and memory.handle is array.handle
        return memory is array or is_one or (memory.pointer is not None and memory.pointer == array.pointer)

    def receive(
        self,
        value: onnxruntime.OrtValue,
        destination: Destination,
        session: onnxruntime.InferenceSession,
        lock: AbstractContextManager[object],
    ) -> Array | DeviceArray | None:
        """Returns the output for the caller of a run; None if it was written to the bound memory."""
        if isinstance(destination, DeviceArray):
            return None
        if isinstance(destination, StaysOnDevice):
            array = self._fixed_array or self._memory.array(value, session, lock)
            if self._fixed is not None:
                self._fixed_array = array
            return array
        if destination is None:
            return np.array(value.numpy())
        if destination.shape != tuple(value.shape()):
            raise wrong_output_shape(self._end.name, destination.shape, tuple(value.shape()))
        np.copyto(destination, value.numpy())
        return None

    def renew(self, native: onnxruntime.IOBinding) -> None:
        """Makes the runtime allocate new memory if it is the allocator; the next run would overwrite the caller's."""
        if self._fixed is None and not isinstance(self.destination, DeviceArray):
            self.bind(native)

    def close(self) -> None:
        """Releases all memory."""
        self._fixed = self._fixed_array = None
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
        self._id, self._run_count = _NO_GRAPH, 0

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
        self._id, self._run_count = _NO_GRAPH, 0


def require_capturable(session: onnxruntime.InferenceSession) -> None:
    """Refuses a session whose graph would read or write at addresses that change.

    Raises:
        NotSupportedError: an input or output is not a tensor of numbers of fixed shape, or is read on the host.
    """
    if not all(map(is_fixed, (*session.get_inputs(), *session.get_outputs()))):
        raise not_capturable("all inputs and outputs are tensors of numbers with fixed shapes")
    if host_inputs(session):
        raise not_capturable("the provider reads every input on the device")


def not_capturable(requirement: str) -> NotSupportedError:
    """The error for a model that does not meet a requirement."""
    return NotSupportedError(
        f"The graph of this model cannot be captured: graph capture requires that {requirement}.",
        hint="Set options.graph_capture = False, or meet the requirement: free sizes can be overridden in the options.",
    )
