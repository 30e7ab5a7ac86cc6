"""A compiled model of ONNX Runtime as an engine, and its bindings of the host's memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import IllegalCallError, NotSupportedError
from ...base.arrays import Array
from ...base.cancellation import Stop, hold
from ..engine import AssignedNode, EngineOptions, Explanation, LocalEngine
from ..providers.provider import Target
from ..runs import UNLOCKED, Bound, InputAddresses, NativeModel, Value, call, fill, require_open, trim_heap
from .errors import translate_run
from .session_options import make_run_options

if TYPE_CHECKING:
    import tempfile
    from contextlib import AbstractContextManager

    import onnxruntime


class HostIoBinding:
    """The native I/O binding of a `Bound` whose values are tensors of numbers in the host's memory."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        native = session.io_binding()
        # The native binding must be freed before its session, and a tuple drops its last item first.
        self._native: tuple[onnxruntime.InferenceSession, onnxruntime.IOBinding] | None = (session, native)
        self._inputs = InputAddresses()
        self._version = -1
        for output in session.get_outputs():
            native.bind_output(output.name, "cpu")  # in graph order, the order of the results
        self._indices = {output.name: index for index, output in enumerate(session.get_outputs())}
        self._allocated = dict(self._indices)
        self._outputs: dict[str, Array] = {}

    def run(self, bound: Bound, run_options: onnxruntime.RunOptions | None) -> dict[str, Value]:
        """Runs the model; returns the outputs that the runtime allocated, in its memory."""
        session, native = require_open(self._native)
        inputs = self._inputs  # close() may drop its copies at any moment
        if bound.version != self._version:
            self._renew(native, bound)
        if inputs.copies:
            inputs.refresh()
        # A new RunOptions per call nearly doubles the time of a model of 30 microseconds. So it is made only for runs
        # that can be stopped or are configured.
        session.run_with_iobinding(native, run_options)
        if not self._allocated:
            return {}
        values = native.get_outputs()
        fresh = {name: values[index].numpy() for name, index in self._allocated.items()}
        for name in fresh:  # the runtime reuses its memory: the next run would overwrite the caller's
            native.bind_output(name, "cpu")
        return fresh

    def _renew(self, native: onnxruntime.IOBinding, bound: Bound) -> None:
        for name, index in self._indices.items():
            memory: Any = bound.outputs.get(name)
            if memory is self._outputs.get(name):
                continue
            if memory is None:
                native.bind_output(name, "cpu")
                del self._outputs[name]
                self._allocated[name] = index
            else:
                native.bind_output(name, "cpu", 0, memory.dtype, memory.shape, memory.ctypes.data)
                self._outputs[name] = memory
                self._allocated.pop(name, None)

        self._inputs.renew(bound.inputs, self._outputs.values(), partial(_bind_input, native))
        self._version = bound.version

    def close(self) -> None:
        """Releases the native session and binding, and the bound memory."""
        self._native = None
        self._inputs, self._outputs = InputAddresses(), {}


def _bind_input(native: onnxruntime.IOBinding, name: str, array: Array) -> None:
    native.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)


def are_numeric(session: onnxruntime.InferenceSession) -> bool:
    """Whether all inputs and outputs of a session are tensors of numbers."""
    kinds = [end.type for end in (*session.get_inputs(), *session.get_outputs())]
    return all(kind.startswith("tensor(") and kind != "tensor(string)" for kind in kinds)


class OrtEngine(NativeModel, LocalEngine):
    """A compiled model whose inputs and outputs are in the host's memory."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        options: EngineOptions,
        target: Target,
        trace: tempfile.TemporaryDirectory[str] | None = None,
        device_lock: AbstractContextManager[object] = UNLOCKED,
    ) -> None:
        super().__init__(session, device_lock)
        self.options = options
        self._config = options.run_config
        self.explanation = Explanation(target.engine, target.precision, "as requested")
        self._profile: bytes | None = None
        self._trace = trace  # the folder of the runtime's profile, removed with it
        # A device with memory of its own gets a copy of an input when it is bound, and would not see what is written
        # to the input later.
        self._binds_addresses = target.device is None and are_numeric(session)
        self._outputs = [output.name for output in session.get_outputs()]
        # numpy has no float8, and the runtime gives one kind of it as bytes; for other such types it raises.
        self._unreadable = [end for end in session.get_outputs() if end.type.startswith("tensor(float8")]
        self._passed_through = {end.name for end in session.get_inputs()} & set(self._outputs)

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Any]:
        """Runs the model; see `Engine`."""
        try:
            return self._run(bound, stop)
        finally:
            if self._native is None:  # the engine was closed during this run, which was the last
                trim_heap()

    def _run(self, bound: Bound, stop: Stop | None) -> Mapping[str, Any]:
        if bound.lock is UNLOCKED and stop is None and not self._config:
            return call(self._run_on_host, translate_run, bound, None)
        with make_run_options(stop or Stop(), self._config) as run_options, hold(bound.lock, stop):
            return call(self._run_on_host, translate_run, bound, run_options)

    def _run_on_host(self, bound: Bound, run_options: onnxruntime.RunOptions | None) -> dict[str, Any]:
        session = require_open(self._native)
        if self._unreadable:
            name, kind = self._unreadable[0].name, self._unreadable[0].type
            raise NotSupportedError(
                f"The output {name} has an element type that numpy does not support: {kind}.",
                hint="In the model, add a Cast to float32 after that output.",
            )
        # Strings, maps and sequences have no address to bind. Feeding numbers costs less than binding them, but outputs
        # in the caller's memory would be copied.
        if bound.outputs and self._binds_addresses:
            binding: HostIoBinding | None = bound.natives.get(self)
            if binding is None:
                binding = bound.natives[self] = HostIoBinding(session)
                self._close_with_this(binding)
            fresh = binding.run(bound, run_options)
        else:
            bound.natives.pop(self, None)  # would keep memory that is bound no more
            values = session.run(self._outputs, bound.inputs, run_options)
            fresh = dict(zip(self._outputs, values, strict=True))
            if bound.outputs:
                fresh = fill(bound.outputs, fresh)
        for name in self._passed_through:  # such an output is in the input's memory, which is the caller's
            if isinstance(fresh.get(name), np.ndarray):
                fresh[name] = fresh[name].copy()
        return fresh

    def list_assigned_nodes(self) -> list[AssignedNode]:
        """Which provider runs which node of the optimised graph."""
        return [
            AssignedNode(node.name, node.op_type, part.ep_name)
            for part in require_open(self._native).get_provider_graph_assignment_info()
            for node in part.get_nodes()
        ]

    def end_profiling(self) -> bytes:
        """The profile up to the first call, which ends it."""
        session = require_open(self._native)
        with self._lock, self._device_lock:
            if self._profile is None:
                if self._trace is None:
                    raise IllegalCallError("No profile was recorded.", hint="Set options.profiling = True first.")
                with open(session.end_profiling(), "rb") as file:
                    self._profile = file.read()
                self._trace.cleanup()
            return self._profile

    def close(self) -> None:
        """Also removes the runtime's profile; see `NativeModel`."""
        super().close()
        if self._trace is not None:
            self._trace.cleanup()  # the runtime may still write to the open file; that output is not needed
