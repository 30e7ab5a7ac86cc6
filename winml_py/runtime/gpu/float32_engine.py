"""An engine that computes a float16 model in float32, behind the float16 inputs and outputs that the model declares."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ...base.cancellation import Stop
from ...base.device_array import DeviceArray
from ...errors import NotSupportedError
from ..engine import Engine, EngineBinding, PlacedNode, Value
from ..ort.errors import wrong_output_shape


class Float32Engine:
    """Casts at the edges: what is bound stays float16."""

    def __init__(self, engine: Engine, halves: frozenset[str]) -> None:
        self.options, self.name, self.location = engine.options, engine.name, engine.location
        self.precision, self.explanation = engine.precision, engine.explanation
        self._engine, self._halves = engine, halves

    def bind(self, lock: AbstractContextManager[object]) -> EngineBinding:
        """A new, empty binding."""
        return _Float32Binding(self._engine.bind(lock), self._halves)

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node."""
        return self._engine.placement()

    def end_profiling(self) -> bytes:
        """The trace of what was recorded."""
        return self._engine.end_profiling()

    def upload(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        """A copy of an array in the device's memory."""
        return self._engine.upload(array)

    def close(self) -> None:
        """Frees the engine."""
        self._engine.close()


class _Float32Binding:
    def __init__(self, native: EngineBinding, halves: frozenset[str]) -> None:
        self._native, self._halves = native, halves
        self._inputs: dict[str, tuple[np.ndarray[Any, Any] | DeviceArray, np.ndarray[Any, Any]]] = {}
        self._outputs: dict[str, np.ndarray[Any, Any]] = {}

    def set_input(self, name: str, value: Value | DeviceArray) -> None:
        self._inputs.pop(name, None)
        is_half = not isinstance(value, DeviceArray) or value.dtype == np.float16
        if name in self._halves and is_half and isinstance(value, (np.ndarray, DeviceArray)):
            wide = np.array(_host(value), np.float32)
            self._inputs[name] = value, wide
            self._native.set_input(name, wide)
        else:
            self._native.set_input(name, value)

    def set_output(self, name: str, array: np.ndarray[Any, Any] | DeviceArray | None) -> None:
        self._outputs.pop(name, None)
        if isinstance(array, DeviceArray) and array.dtype == np.float16:
            raise NotSupportedError(
                f"The output {name} is computed in float32, and cannot be written to float16 memory on the device.",
                hint="Bind a tensor without memory, or make the session with another precision.",
            )
        if isinstance(array, np.ndarray) and name in self._halves:
            self._outputs[name] = array
            array = None
        self._native.set_output(name, array)

    def keep_output(self, name: str) -> None:
        if name in self._halves:  # it is not on the device in the type it has
            self.set_output(name, None)
        else:
            self._native.keep_output(name)

    def run(self, stop: Stop | None = None) -> Mapping[str, Value | DeviceArray]:
        for value, wide in self._inputs.values():  # bound by reference: it may have changed since
            np.copyto(wide, _host(value))
        fresh = dict(self._native.run(stop))
        with np.errstate(over="ignore"):  # what leaves float16 is infinite there, as on a device that has it
            for name in self._halves & fresh.keys():
                wide_value = fresh[name]
                if isinstance(wide_value, np.ndarray):
                    fresh[name] = wide_value.astype(np.float16)
            for name, array in self._outputs.items():
                came = fresh.pop(name)
                assert isinstance(came, np.ndarray)
                if came.shape != array.shape:
                    raise wrong_output_shape(name, array.shape, came.shape)
                np.copyto(array, came)
        return fresh


def _host(value: np.ndarray[Any, Any] | DeviceArray) -> np.ndarray[Any, Any]:
    return value.to_numpy() if isinstance(value, DeviceArray) else value
