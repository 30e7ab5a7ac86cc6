"""A device that runs a Python function in place of a model, for tests that need no engine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .core.base.cancellation import Stop
from .core.runtime.device import LearningModelDevice
from .core.runtime.engine import AssignedNode, EngineOptions, Explanation, LocalEngine
from .core.runtime.request import CompileRequest
from .core.runtime.runs import Bound, fill
from .enums import Precision
from .errors import ClosedError, EvaluationError, InvalidBindingError

__all__ = ["FakeDevice"]

Function = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class FakeDevice(LearningModelDevice):
    """Replaces the CPU: descriptors come from the model, results from a function.

    Args:
        function: takes the bound inputs by name (tensors as arrays) and returns all outputs by name.

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
        self._private_state = FakeCompiler(function)
        self._function = function

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._function,)


class FakeCompiler:
    """Makes engines that call a function, for any model. Satisfies `winml_py.core.runtime.request.Compiler`."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def compile(self, request: CompileRequest) -> FakeEngine:
        """Returns an engine that calls the function."""
        return FakeEngine(self._function, request.options)

    def make_key(self, options: EngineOptions) -> Hashable:
        """Sessions on different fake devices share no engine."""
        return id(self)

    def make_session_lock(self) -> AbstractContextManager[object]:
        """None."""
        return nullcontext()


class FakeEngine(LocalEngine):
    """An engine whose runs call a function."""

    explanation = Explanation("fake", Precision.FLOAT32, "a function replaces the model")

    def __init__(self, function: Function, options: EngineOptions) -> None:
        self.options = options
        self.function: Function | None = function

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Any]:
        """Calls the function with the inputs."""
        if stop is not None:
            stop.require_not_requested()
        function = self.function
        if function is None:
            raise ClosedError("The fake engine has been closed.")
        inputs: dict[str, Any] = {**bound.inputs}
        try:
            outputs = dict(function(inputs))
        except (ClosedError, InvalidBindingError) as error:  # from an engine, these mean that nothing was written
            raise EvaluationError(f"The function of the fake device raised {type(error).__name__}: {error}") from error
        return fill(bound.outputs, outputs)

    def list_assigned_nodes(self) -> list[AssignedNode]:
        """No nodes."""
        return []

    def end_profiling(self) -> bytes:
        """An empty profile."""
        return b"[]"

    def close(self) -> None:
        """Releases the function."""
        self.function = None
