"""A device that runs a Python function in place of a model, for tests that need no engine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from .device import LearningModelDevice
from .errors import ClosedError
from .runtime.engine import EngineBinding, EngineInput, EngineOptions, Value
from .stop import Stop

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

    def _compile(self, model: EngineInput, options: EngineOptions) -> FakeEngine:
        return FakeEngine(self._function, options)

    def _key(self) -> Hashable:
        return id(self)


class FakeEngine:
    """An engine whose runs call a function."""

    def __init__(self, function: Function, options: EngineOptions) -> None:
        self.options = options
        self._function: Function | None = function

    def bind(self) -> EngineBinding:
        """A new, empty binding."""
        return _FakeBinding(self)

    def close(self) -> None:
        """Lets go of the function."""
        self._function = None


class _FakeBinding:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._inputs: dict[str, Value] = {}
        self._outputs: dict[str, np.ndarray[Any, Any]] = {}

    def set_input(self, name: str, value: Value) -> None:
        self._inputs[name] = value

    def set_output(self, name: str, array: np.ndarray[Any, Any] | None) -> None:
        self._outputs.pop(name, None)
        if array is not None:
            self._outputs[name] = array

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        if stop is not None:
            stop.require_not_requested()
        function = self._engine._function
        if function is None:
            raise ClosedError("The fake engine has been closed.")
        fresh = dict(function(self._inputs))
        for name, array in self._outputs.items():
            array[...] = fresh.pop(name)
        return fresh
