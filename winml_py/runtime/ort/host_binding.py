"""Bindings in the host's memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ...base.cancellation import Stop, held
from ..engine import Array, HeldValues, Value
from .errors import translate
from .run import fill, opened, stoppable, translated, trim_heap

if TYPE_CHECKING:
    import onnxruntime


class IoBinding:
    """Tensors of numbers, bound by address: what runs nearly every model."""

    def __init__(self, session: onnxruntime.InferenceSession, shrinks: bool) -> None:
        self._shrinks = shrinks
        native = session.io_binding()
        # The native binding must go before its session, and a tuple drops its last item first.
        self._native: tuple[onnxruntime.InferenceSession, onnxruntime.IOBinding] | None = (session, native)
        self._arrays: dict[str, Array] = {}
        self._allocated: dict[str, int] = {}
        for index, output in enumerate(session.get_outputs()):
            native.bind_output(output.name, "cpu")  # in graph order, which is the order they come back in
            self._allocated[output.name] = index
        self._indices = dict(self._allocated)
        # An input that is an output as well comes out at the address where it went in, which is the caller's.
        self._passed = {given.name for given in session.get_inputs()} & set(self._indices)

    def set_input(self, name: str, value: Any) -> None:
        """Binds an input, an array; see `EngineBinding`."""
        opened(self._native)[1].bind_input(name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)
        self._arrays[name] = value

    def set_output(self, name: str, array: Array | None) -> None:
        """Binds an output; see `EngineBinding`."""
        native = opened(self._native)[1]
        if array is None:
            native.bind_output(name, "cpu")
            self._arrays.pop(name, None)
            self._allocated[name] = self._indices[name]
        else:
            native.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
            self._arrays[name] = array
            self._allocated.pop(name, None)

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `EngineBinding`."""
        session, native = opened(self._native)
        arrays = self._arrays  # close() lets go of them, and the run still writes to their addresses
        try:
            if stop is None and not self._shrinks:
                session.run_with_iobinding(native)
            else:
                with stoppable(stop or Stop(), self._shrinks) as run_options:
                    session.run_with_iobinding(native, run_options)
            if not self._allocated:
                return {}
            values = native.get_outputs()
            fresh = {name: values[index].numpy() for name, index in self._allocated.items()}
            fresh |= {name: fresh[name].copy() for name in self._passed}
            for name in fresh:  # the runtime reuses what it allocated: the next run would write over the caller's
                native.bind_output(name, "cpu")
            return fresh
        except Exception as error:  # the runtime raises classes that have no common base
            failure = translate(error)
        finally:
            del session, native, arrays  # an error that somebody keeps must not keep the session
            if self._native is None:  # closed meanwhile: this was the last run in flight
                trim_heap()
        raise failure  # out here, where the runtime's own error and its frames are gone

    def close(self) -> None:
        """Lets go of the native session, the bound memory and the native binding."""
        self._native = None
        self._arrays = {}


class LockedIoBinding(IoBinding):
    """Tensors of a device whose memory is not bound: each run copies them there and back, under the session's lock."""

    def __init__(
        self, session: onnxruntime.InferenceSession, shrinks: bool, lock: AbstractContextManager[object]
    ) -> None:
        super().__init__(session, shrinks)
        self._lock = lock

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `EngineBinding`."""
        with held(self._lock, stop):
            return super().run(stop)


class FeedBinding(HeldValues):
    """Strings, maps and sequences, which have no address to bind: copied in and out by each run."""

    def __init__(
        self, session: onnxruntime.InferenceSession, shrinks: bool, lock: AbstractContextManager[object]
    ) -> None:
        self._shrinks, self._lock = shrinks, lock
        self._session: onnxruntime.InferenceSession | None = session
        self._names = [output.name for output in session.get_outputs()]
        super().__init__()

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `EngineBinding`."""
        session = opened(self._session)
        try:
            with translated(), held(self._lock, stop), stoppable(stop or Stop(), self._shrinks) as run_options:
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
