"""A device that runs a Python function in place of a model, for tests that need no engine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from .base.cancellation import Stop
from .base.device_array import DeviceArray, MemoryLocation
from .enums import Precision
from .errors import ClosedError, InvalidDeviceError
from .runtime.engine import EngineBinding, EngineOptions, PlacedNode, Value
from .runtime.explanation import Explanation
from .runtime.request import CompileRequest
from .session.device import LearningModelDevice

Function = Callable[[Mapping[str, Value]], Mapping[str, Value]]


class FakeDevice(LearningModelDevice):
    """Stands in for the CPU: descriptors come from the model, results from a function.

    Args:
        function: takes the bound inputs by name (tensors as arrays) and gives all outputs by name.

    Example:
        >>> import numpy as np
        >>> from winml_py import LearningModel, LearningModelSession
        >>> from winml_py.testing import FakeDevice
        >>> device = FakeDevice(lambda inputs: {"probabilities": np.eye(10, dtype=np.float32)[[3]]})
        >>> session = LearningModelSession(LearningModel.load("models/digits.onnx"), device)
        >>> result = session.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
        >>> int(np.argmax(result.outputs["probabilities"]))
        3
    """

    def __init__(self, function: Function, /) -> None:
        super().__init__()
        self._function = function

    def _compile(self, request: CompileRequest, halves: frozenset[str]) -> FakeEngine:
        return FakeEngine(self._function, request.options)

    def _key(self, graph_capture: bool | None) -> Hashable:
        return id(self)


class FakeEngine:
    """An engine whose runs call a function."""

    name = "fake"
    precision = Precision.FLOAT32
    location: MemoryLocation | None = None
    explanation = Explanation(name, precision, "a function stands in for the model")

    def __init__(self, function: Function, options: EngineOptions) -> None:
        self.options = options
        self._function: Function | None = function

    def bind(self, lock: AbstractContextManager[object]) -> EngineBinding:
        """A new, empty binding."""
        return _FakeBinding(self)

    def placement(self) -> list[PlacedNode]:
        """No nodes."""
        return []

    def end_profiling(self) -> bytes:
        """Nothing is recorded."""
        return b"[]"

    def upload(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        """There is no device."""
        raise InvalidDeviceError("The fake engine has no memory of its own.")

    def close(self) -> None:
        """Lets go of the function."""
        self._function = None


class _FakeBinding:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._inputs: dict[str, Value] = {}
        self._outputs: dict[str, np.ndarray[Any, Any]] = {}

    def set_input(self, name: str, value: Value | DeviceArray) -> None:
        assert not isinstance(value, DeviceArray)
        self._inputs[name] = value

    def set_output(self, name: str, array: np.ndarray[Any, Any] | DeviceArray | None) -> None:
        assert not isinstance(array, DeviceArray)
        self._outputs.pop(name, None)
        if array is not None:
            self._outputs[name] = array

    def keep_output(self, name: str) -> None:
        raise AssertionError("only engines with a place of their own are asked to")  # pragma: no cover

    def run(self, stop: Stop | None = None) -> Mapping[str, Value | DeviceArray]:
        if stop is not None:
            stop.require_not_requested()
        function = self._engine._function
        if function is None:
            raise ClosedError("The fake engine has been closed.")
        fresh: dict[str, Value | DeviceArray] = dict(function(self._inputs))
        for name, array in self._outputs.items():
            array[...] = fresh.pop(name)
        return fresh
