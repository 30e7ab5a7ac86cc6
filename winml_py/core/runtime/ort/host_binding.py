"""Bindings in the host's memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.cancellation import Stop, held
from ..engine import Array, HeldValues, Value
from .errors import translate
from .run import fill, opened, shares_memory, stoppable, translated, trim_heap

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
        self._in_place: dict[str, Array] = {}  # the memory of outputs
        self._copies: dict[
            str, tuple[Array, Array]
        ] = {}  # inputs that an output is written over, and what stands for them
        self._may_overlap = False
        self._given: dict[str, Array] = {}
        self._allocated: dict[str, int] = {}
        for index, output in enumerate(session.get_outputs()):
            native.bind_output(output.name, "cpu")  # in graph order, which is the order they come back in
            self._allocated[output.name] = index
        self._indices = dict(self._allocated)
        # An input that is an output as well comes out at the address where it went in, which is the caller's.
        self._passed = {given.name for given in session.get_inputs()} & set(self._indices)

    def set_input(self, name: str, value: Any) -> None:
        """Binds an input, an array; see `EngineBinding`."""
        _bind_input(opened(self._native)[1], name, value)
        self._arrays[name] = self._given[name] = value
        self._copies.pop(name, None)
        self._may_overlap = self._may_overlap or bool(self._in_place)

    def set_output(self, name: str, array: Array | None) -> None:
        """Binds an output; see `EngineBinding`."""
        native = opened(self._native)[1]
        if array is None:
            native.bind_output(name, "cpu")
            self._arrays.pop(name, None)
            self._in_place.pop(name, None)
            self._allocated[name] = self._indices[name]
        else:
            native.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
            self._arrays[name] = self._in_place[name] = array
            self._allocated.pop(name, None)
        self._may_overlap = True

    def _keep_apart(self, native: onnxruntime.IOBinding) -> None:
        """Binds copies of the inputs that outputs are written over: the runtime may write before it has read.

        At the run, and not at the bind, where an input and an output may just be swapping their arrays.
        """
        for name, value in self._given.items():
            if not shares_memory(value, self._in_place.values()):
                if self._copies.pop(name, None) is not None:
                    _bind_input(native, name, value)
            elif name not in self._copies:
                self._copies[name] = value, value.copy()
                _bind_input(native, name, self._copies[name][1])
        self._may_overlap = False

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `EngineBinding`."""
        session, native = opened(self._native)
        if self._may_overlap:
            self._keep_apart(native)
        arrays, copies = self._arrays, self._copies  # close() lets go of them, and the run still uses their addresses
        try:
            for value, copy in copies.values():
                np.copyto(copy, value)
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
            del session, native, arrays, copies  # an error that somebody keeps must not keep the session
            if self._native is None:  # closed meanwhile: this was the last run in flight
                trim_heap()
        raise failure  # out here, where the runtime's own error and its frames are gone

    def close(self) -> None:
        """Lets go of the native session, the bound memory and the native binding."""
        self._native = None
        self._arrays, self._in_place, self._copies, self._given = {}, {}, {}, {}


def _bind_input(native: onnxruntime.IOBinding, name: str, value: Array) -> None:
    native.bind_input(name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)


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
