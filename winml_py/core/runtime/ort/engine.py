"""A compiled model of ONNX Runtime as an engine."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ....errors import IllegalCallError
from ...base import forks
from ...base.cancellation import Stop
from ...base.device_array import DeviceArray
from ..engine import Array, DeviceEngineBinding, EngineBinding, EngineOptions, PlacedNode, Value
from ..explanation import Explanation
from ..providers.catalogue import UNLOCKED, device_lock, provider_of
from ..providers.provider import ProviderDevice, Target
from .device_binding import DeviceBinding
from .device_memory import DeviceMemory, host_inputs, is_fixed
from .device_recording import Recording
from .errors import translate
from .host_binding import FeedBinding, IoBinding, LockedIoBinding
from .run import opened, stoppable, translated, trim_heap

if TYPE_CHECKING:
    import onnxruntime

B = TypeVar("B", IoBinding, FeedBinding, DeviceBinding)


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
        trace: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.options = options
        self.explanation = Explanation(*target.spelling, "as asked for")
        self._session: onnxruntime.InferenceSession | None = session
        self._bindings: weakref.WeakSet[IoBinding | FeedBinding | DeviceBinding] = weakref.WeakSet()
        self._lock = threading.Lock()  # of the set alone; runs do not take it
        self._profile: bytes | None = None
        self._trace = trace  # where the runtime writes its profile, which goes with it
        self._device_lock = device_lock(target.device)
        self._are_numeric = are_numeric(session)
        self._outputs = [output.name for output in session.get_outputs()]
        self._passed = {given.name for given in session.get_inputs()} & set(self._outputs)
        forks.watch(self)

    def bind(self, lock: AbstractContextManager[object] = UNLOCKED) -> EngineBinding:
        """A new, empty binding."""
        session = opened(self._session)
        shrinks = self.options.tuning.arena_shrinkage
        if not self._are_numeric:
            return self._closed_with_this(FeedBinding(session, shrinks, lock))
        if lock is UNLOCKED:
            return self._closed_with_this(IoBinding(session, shrinks))
        return self._closed_with_this(LockedIoBinding(session, shrinks, lock))

    def run_once(self, inputs: Mapping[str, Value], lock: AbstractContextManager[object] = UNLOCKED) -> dict[str, Any]:
        """Runs the model on inputs that are not bound first; see `StatelessEngine`."""
        session = opened(self._session)
        try:
            with lock:
                if not self.options.tuning.arena_shrinkage:
                    values = session.run(self._outputs, inputs)
                else:
                    with stoppable(Stop(), shrinks=True) as run_options:
                        values = session.run(self._outputs, inputs, run_options)
            fresh = dict(zip(self._outputs, values, strict=True))
            # Before 1.31, an input that is an output as well comes out in the memory where it went in.
            return fresh | {name: fresh[name].copy() for name in self._passed if isinstance(fresh[name], np.ndarray)}
        except Exception as error:  # see IoBinding.run, where the runtime raises this class alone, with the same words
            failure = translate(RuntimeError(str(error)))
        finally:
            del session  # an error that somebody keeps must not keep the session
            if self._session is None:
                trim_heap()
        raise failure

    def _closed_with_this(self, binding: B) -> B:
        with self._lock:
            self._bindings.add(binding)
        if self._session is None:  # closed by another thread meanwhile
            binding.close()
        return binding

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node of the optimised graph."""
        return [
            PlacedNode(node.name, node.op_type, part.ep_name)
            for part in opened(self._session).get_provider_graph_assignment_info()
            for node in part.get_nodes()
        ]

    def end_profiling(self) -> bytes:
        """The profile until this was called first; nothing is added to it from then on."""
        session = opened(self._session)
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
            forks.keep_forever(thing)


class OrtDeviceEngine(OrtEngine):
    """A compiled model whose inputs and outputs are tensors of numbers in the memory of a device."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        options: EngineOptions,
        target: Target,
        device: ProviderDevice,
        recording: Recording,
        trace: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        super().__init__(session, options, target, trace)
        self._memory = DeviceMemory(provider_of(device.provider), device.number)
        self.location = self._memory.location
        self._recording = recording

    def bind(self, lock: AbstractContextManager[object] = UNLOCKED) -> DeviceEngineBinding:
        """A new, empty binding."""
        session = opened(self._session)
        return self._closed_with_this(DeviceBinding(session, self._memory, lock, self._recording))

    @property
    def is_recordable(self) -> bool:
        """Whether every input and output can keep an address on the device."""
        session = opened(self._session)
        return not host_inputs(session) and all(map(is_fixed, (*session.get_inputs(), *session.get_outputs())))

    def upload(self, array: Array) -> DeviceArray:
        """A copy of an array in the device's memory; the caller holds the session's lock."""
        session = opened(self._session)
        with translated():
            memory = self._memory.upload(array)
        return self._memory.array(memory, session, self._device_lock)
