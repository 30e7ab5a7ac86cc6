"""A compiled model of ONNX Runtime as an engine, and its binding of the host's memory."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ....errors import IllegalCallError, NotSupportedError
from ...base import child_process
from ...base.arrays import Array, DeviceArray
from ...base.cancellation import Stop, held
from ..engine import (
    DeviceEngine,
    DeviceEngineBinding,
    EngineBinding,
    EngineOptions,
    Explanation,
    HeldValues,
    PlacedNode,
    Value,
)
from ..providers.catalogue import UNLOCKED, device_lock, provider_of
from ..providers.provider import ProviderDevice, Target
from ..runs import BoundInputs, fill, require_open, trim_heap
from .device_binding import DeviceBinding
from .device_memory import DeviceMemory, Recording, host_inputs, is_fixed
from .errors import translate, translated
from .recorded import RecordedBinding, RecordedRuns
from .session_options import RunConfig, stoppable

if TYPE_CHECKING:
    import onnxruntime


class IoBinding:
    """Tensors of numbers, bound by address: what runs nearly every model."""

    def __init__(self, session: onnxruntime.InferenceSession, config: RunConfig) -> None:
        self._config = config
        native = session.io_binding()
        # The native binding must go before its session, and a tuple drops its last item first.
        self._native: tuple[onnxruntime.InferenceSession, onnxruntime.IOBinding] | None = (session, native)
        self._inputs = BoundInputs()
        self._in_place: dict[str, Array] = {}  # the memory of outputs
        self._may_overlap = False
        self._allocated: dict[str, int] = {}
        for index, output in enumerate(session.get_outputs()):
            native.bind_output(output.name, "cpu")  # in graph order, which is the order they come back in
            self._allocated[output.name] = index
        self._indices = dict(self._allocated)
        # An input that is an output as well comes out at the address where it went in, which is the caller's.
        self._passed_through = {end.name for end in session.get_inputs()} & set(self._indices)

    def set_input(self, name: str, value: Any) -> None:
        """Binds an input, an array; see `EngineBinding`."""
        self._inputs.set(name, value, partial(_bind_input, require_open(self._native)[1]))
        self._may_overlap = self._may_overlap or bool(self._in_place)

    def set_output(self, name: str, array: Array | None) -> None:
        """Binds an output; see `EngineBinding`."""
        native = require_open(self._native)[1]
        if array is None:
            native.bind_output(name, "cpu")
            self._in_place.pop(name, None)
            self._allocated[name] = self._indices[name]
        else:
            native.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
            self._in_place[name] = array
            self._allocated.pop(name, None)
        self._may_overlap = True

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `EngineBinding`."""
        # First of all: close() lets go of them at any moment, and the run uses their memory to its end.
        inputs, in_place = self._inputs, self._in_place
        session, native = require_open(self._native)
        if self._may_overlap:
            inputs.prevent_overlap(in_place.values(), partial(_bind_input, native))
            self._may_overlap = False
        try:
            inputs.refresh()
            # A new RunOptions for each call nearly doubles the time of a model of 30 microseconds. So it is made only
            # where a run can be stopped, or is configured.
            if stop is None and not self._config:
                session.run_with_iobinding(native)
            else:
                with stoppable(stop or Stop(), self._config) as run_options:
                    session.run_with_iobinding(native, run_options)
            if not self._allocated:
                return {}
            values = native.get_outputs()
            fresh = {name: values[index].numpy() for name, index in self._allocated.items()}
            fresh |= {name: fresh[name].copy() for name in self._passed_through}
            for name in fresh:  # the runtime reuses what it allocated: the next run would write over the caller's
                native.bind_output(name, "cpu")
            return fresh
        except Exception as error:  # the runtime raises classes that have no common base
            failure = translate(error)
        finally:
            del session, native, inputs, in_place  # an error that somebody keeps must not keep the session
            if self._native is None:  # closed meanwhile: this was the last run in flight
                trim_heap()
        raise failure  # out here, where the runtime's own error and its frames are gone

    def close(self) -> None:
        """Lets go of the native session, the bound memory and the native binding."""
        self._native = None
        self._inputs, self._in_place = BoundInputs(), {}


def _bind_input(native: onnxruntime.IOBinding, name: str, value: Array) -> None:
    native.bind_input(name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)


class LockedIoBinding(IoBinding):
    """Tensors of a device whose memory is not bound: each run copies them there and back, under the session's lock."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        config: RunConfig,
        lock: AbstractContextManager[object],
    ) -> None:
        super().__init__(session, config)
        self._lock = lock

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `EngineBinding`."""
        with held(self._lock, stop):
            return super().run(stop)


class FeedBinding(HeldValues):
    """Strings, maps and sequences, which have no address to bind: copied in and out by each run."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        config: RunConfig,
        lock: AbstractContextManager[object],
    ) -> None:
        self._config, self._lock = config, lock
        self._session: onnxruntime.InferenceSession | None = session
        self._names = [output.name for output in session.get_outputs()]
        super().__init__()

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `EngineBinding`."""
        session = require_open(self._session)
        try:
            with translated(), held(self._lock, stop), stoppable(stop or Stop(), self._config) as run_options:
                values = session.run(self._names, self.inputs, run_options)
        finally:
            del session  # see IoBinding.run
            if self._session is None:
                trim_heap()
        return fill(self.outputs, dict(zip(self._names, values, strict=True)))

    def close(self) -> None:
        """Lets go of the native session and the bound memory."""
        self._session = None
        self.inputs, self.outputs = {}, {}


B = TypeVar("B", IoBinding, FeedBinding, DeviceBinding, RecordedBinding)


def are_numeric(session: onnxruntime.InferenceSession) -> bool:
    """Whether all inputs and outputs of a session are tensors of numbers."""
    kinds = [end.type for end in (*session.get_inputs(), *session.get_outputs())]
    return all(kind.startswith("tensor(") and kind != "tensor(string)" for kind in kinds)


class OrtEngine:
    """A compiled model whose inputs and outputs are in the host's memory.

    Its bindings may run at the same time, each in its own thread. It closes them when it is closed: every one drops the
    native session, a run in flight holds the last reference, and memory goes when that run returns.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        options: EngineOptions,
        target: Target,
        config: RunConfig = (),
        trace: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.options, self._config = options, config
        self.explanation = Explanation(*target.spelling, "as asked for")
        self._session: onnxruntime.InferenceSession | None = session
        self._bindings: weakref.WeakSet[IoBinding | FeedBinding | DeviceBinding | RecordedBinding] = weakref.WeakSet()
        self._lock = threading.Lock()  # of the set alone; runs do not take it
        self._profile: bytes | None = None
        self._trace = trace  # where the runtime writes its profile, which goes with it
        self._device_lock = device_lock(target.device)
        self._are_numeric = are_numeric(session)
        self._outputs = [output.name for output in session.get_outputs()]
        self._passed_through = {end.name for end in session.get_inputs()} & set(self._outputs)
        child_process.watch_forks(self)

    @property
    def is_lost(self) -> bool:
        """False: it runs in this process."""
        return False

    @property
    def device(self) -> DeviceEngine | None:
        """None: it takes the host's memory alone."""
        return None

    def bind(self, lock: AbstractContextManager[object] = UNLOCKED) -> EngineBinding:
        """A new, empty binding."""
        session = require_open(self._session)
        if not self._are_numeric:
            return self._close_with_this(FeedBinding(session, self._config, lock))
        if lock is UNLOCKED:
            return self._close_with_this(IoBinding(session, self._config))
        return self._close_with_this(LockedIoBinding(session, self._config, lock))

    def run_once(self, inputs: Mapping[str, Value], lock: AbstractContextManager[object] = UNLOCKED) -> dict[str, Any]:
        """Runs the model on inputs that are not bound first; see `Engine`."""
        session = require_open(self._session)
        try:
            with lock:
                # As in `IoBinding.run`: options for the run are made only where they are needed.
                if not self._config:
                    values = session.run(self._outputs, inputs)
                else:
                    with stoppable(Stop(), self._config) as run_options:
                        values = session.run(self._outputs, inputs, run_options)
            fresh = dict(zip(self._outputs, values, strict=True))
            # Before 1.31, an input that is an output as well comes out in the memory where it went in.
            return fresh | {
                name: fresh[name].copy() for name in self._passed_through if isinstance(fresh[name], np.ndarray)
            }
        except Exception as error:  # see IoBinding.run, where the runtime raises this class alone, with the same words
            failure = translate(RuntimeError(str(error)))
        finally:
            del session  # an error that somebody keeps must not keep the session
            if self._session is None:
                trim_heap()
        raise failure

    def _close_with_this(self, binding: B) -> B:
        with self._lock:
            self._bindings.add(binding)
        if self._session is None:  # closed by another thread meanwhile
            binding.close()
        return binding

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node of the optimised graph."""
        return [
            PlacedNode(node.name, node.op_type, part.ep_name)
            for part in require_open(self._session).get_provider_graph_assignment_info()
            for node in part.get_nodes()
        ]

    def end_profiling(self) -> bytes:
        """The profile until this was called first; nothing is added to it from then on."""
        session = require_open(self._session)
        with self._lock, self._device_lock:
            if self._profile is None:
                if self._trace is None:
                    raise IllegalCallError("Nothing is recorded.", hint="Set options.profiling = True first.")
                with open(session.end_profiling(), "rb") as file:
                    self._profile = file.read()
                self._trace.cleanup()
            return self._profile

    def close(self) -> None:
        """Drops the native session: it is freed here, or when the last run in flight lets go of it."""
        session, self._session = self._session, None
        with self._lock:  # before the device's: in here a binding may be collected, which takes that
            bindings = list(self._bindings)
        with self._device_lock:
            for binding in bindings:
                binding.close()
            del bindings, session
        if self._trace is not None:
            self._trace.cleanup()  # the runtime still writes to the open file when the session goes; nobody reads that
        trim_heap()

    def in_child(self) -> None:
        """After a fork nothing of this is freed: that would wait for the runtime's threads, which are the parent's."""
        for thing in (self, *self._bindings):
            child_process.keep_forever(thing)


RECORDED = "its work is recorded once and repeated"
"""What `explain()` says of an engine that records."""


class OrtDeviceEngine(OrtEngine):
    """A compiled model whose inputs and outputs are tensors of numbers in the memory of a device."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        options: EngineOptions,
        target: Target,
        device: ProviderDevice,
        recording: Recording,
        config: RunConfig = (),
        trace: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        super().__init__(session, options, target, config, trace)
        self._memory = DeviceMemory(provider_of(device.provider), device.number)
        self.location = self._memory.location
        self._recording = recording
        self._recorded = RecordedRuns(self._memory, recording is Recording.DEMANDED, self._tell_unrecorded)

    @property
    def device(self) -> DeviceEngine:
        """The engine itself."""
        return self

    def bind(self, lock: AbstractContextManager[object] = UNLOCKED) -> DeviceEngineBinding:
        """A new, empty binding."""
        session = require_open(self._session)
        if self._recording is Recording.NONE:
            return self._close_with_this(self._bind_on_device(session, lock))
        make = partial(self._bind_on_device, session, lock)
        return self._close_with_this(RecordedBinding(session, self._recorded, make, lock, self._config))

    def _bind_on_device(
        self, session: onnxruntime.InferenceSession, lock: AbstractContextManager[object]
    ) -> DeviceBinding:
        ends = (*session.get_inputs(), *session.get_outputs())
        if self._recording is Recording.DEMANDED and not all(map(is_fixed, ends)):
            raise NotSupportedError(
                "A tensor on the device is bound, and the work of a model with free sizes is recorded for the host's "
                "arrays alone (constraint fixed-shapes).",
                hint="Override the free sizes in the options, or set options.graph_capture = None.",
            )
        return DeviceBinding(session, self._memory, lock, self._recording, self._config, self._recorded.require_right)

    def _tell_unrecorded(self, constraint: str) -> None:
        """Has `explain()` say that recordings were tried, and are not used."""
        reason = self.explanation.reason.replace(RECORDED, f"its work is not recorded ({constraint})")
        self.explanation = self.explanation._replace(reason=reason)

    @property
    def is_recordable(self) -> bool:
        """Whether every input can be read on the device, as a recording does."""
        return not host_inputs(require_open(self._session))

    def close(self) -> None:
        """Drops the native session, and what it has recorded; see `OrtEngine`."""
        with self._device_lock:
            self._recorded.close()  # for good: a run that waits for the lock keeps nothing in it
        super().close()

    def in_child(self) -> None:
        """See `OrtEngine`; what is recorded lives on the device, too."""
        super().in_child()
        child_process.keep_forever(self._recorded)

    def upload(self, array: Array) -> DeviceArray:
        """A copy of an array in the device's memory; the caller holds the session's lock."""
        session = require_open(self._session)
        with translated():
            memory = self._memory.upload(array)
        return self._memory.array(memory, session, self._device_lock)
