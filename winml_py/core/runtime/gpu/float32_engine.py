"""An engine that computes a float16 model in float32, behind the float16 inputs and outputs that the model declares."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np

from ....errors import NotSupportedError
from ...base.cancellation import Stop
from ...base.device_array import DeviceArray
from ..engine import Array, DeviceEngineBinding, Engine
from ..ort.run import fill


class Float32Engine:
    """Casts at the edges: what is bound stays float16. All but `bind` is the engine's own.

    Args:
        engine: compiled from the float32 model.
        names: the inputs and outputs that are float16.
    """

    def __init__(self, engine: Engine, names: frozenset[str]) -> None:
        self._engine, self._names = engine, names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def bind(self, lock: AbstractContextManager[object]) -> DeviceEngineBinding:
        """A new, empty binding; it takes tensors of the device where the engine does."""
        return _Float32Binding(cast(DeviceEngineBinding, self._engine.bind(lock)), self._names)


class _Float32Binding:
    def __init__(self, native: DeviceEngineBinding, names: frozenset[str]) -> None:
        self._native, self._names = native, names
        self._inputs: dict[str, tuple[Array | DeviceArray, Array]] = {}
        self._outputs: dict[str, Array] = {}

    def set_input(self, name: str, value: Any) -> None:
        self._inputs.pop(name, None)
        if name in self._names and getattr(value, "dtype", None) == np.float16:
            wide = _host(value).astype(np.float32)
            self._inputs[name] = value, wide
            value = wide
        self._native.set_input(name, value)

    def set_output(self, name: str, array: Array | DeviceArray | None) -> None:
        self._outputs.pop(name, None)
        if isinstance(array, DeviceArray) and array.dtype == np.float16:
            raise NotSupportedError(
                f"The output {name} is computed in float32, and cannot be written to float16 memory on the device.",
                hint="Bind a tensor without memory, or make the session with another precision.",
            )
        if isinstance(array, np.ndarray) and name in self._names:
            self._outputs[name] = array
            array = None
        self._native.set_output(name, array)

    def keep_output(self, name: str) -> None:
        if name in self._names:  # on the device it is of another type
            self.set_output(name, None)
        else:
            self._native.keep_output(name)

    def run(self, stop: Stop | None = None) -> Mapping[str, Any]:
        for value, wide in self._inputs.values():  # bound by reference: it may have changed since
            np.copyto(wide, _host(value))
        fresh = dict(self._native.run(stop))
        with np.errstate(over="ignore"):  # what leaves float16 is infinite there, as on a device that has it
            for name in self._names & fresh.keys():
                if isinstance(fresh[name], np.ndarray):
                    fresh[name] = fresh[name].astype(np.float16)
            return fill(self._outputs, fresh)


def _host(value: Array | DeviceArray) -> Array:
    return value.to_numpy() if isinstance(value, DeviceArray) else value
