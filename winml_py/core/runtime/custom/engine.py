"""An engine of several: the parts of a graph, and the functions between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ....enums import Precision
from ....errors import EvaluationError
from ...base.cancellation import Stop
from ...base.type_names import type_name
from ..engine import Array, Engine, EngineBinding, EngineOptions, HeldValues, PlacedNode, Value
from ..explanation import Explanation
from ..ort.run import fill, opened
from .operator import OperatorOutput
from .split import CustomNode, Part

CompiledStep = tuple[Part, Engine] | CustomNode


class CustomEngine:
    """Runs compiled parts and functions by turns. Threads may run bindings of it at the same time.

    Args:
        steps: what runs, in order.
        constants: weights that functions take, or that are outputs of the model.
        outputs: the names of the model's outputs.
        options: what it was compiled with.
    """

    def __init__(
        self,
        steps: Sequence[CompiledStep],
        constants: Mapping[str, Array],
        outputs: Sequence[str],
        options: EngineOptions,
    ) -> None:
        self.options = options
        self._engines = [step[1] for step in steps if not isinstance(step, CustomNode)]
        self.explanation = _explained(self._engines, steps)
        self._steps: Sequence[CompiledStep] | None = steps
        self._constants, self._outputs = constants, outputs

    def bind(self, lock: AbstractContextManager[object]) -> EngineBinding:
        """A new, empty binding, with one of each part."""
        steps = [
            _Function(step) if isinstance(step, CustomNode) else _PartRun(step[0], step[1].bind(lock))
            for step in opened(self._steps)
        ]
        return _CustomBinding(self, steps, self._constants, self._outputs)

    def require_open(self) -> None:
        """Refuses an engine that has been closed; its parts refuse that by themselves, and functions have none."""
        opened(self._steps)

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node; functions are in Python."""
        found: list[PlacedNode] = []
        for step in opened(self._steps):
            if isinstance(step, CustomNode):
                found.append(PlacedNode(step.name, step.operator.name, "Python"))
            else:
                found += step[1].placement()
        return found

    def end_profiling(self) -> bytes:
        """The traces of the parts, one after the other; functions are not in them."""
        opened(self._steps)
        return json.dumps([event for engine in self._engines for event in json.loads(engine.end_profiling())]).encode()

    def close(self) -> None:
        """Frees the parts. Twice is harmless."""
        self._steps = None
        for engine in self._engines:
            engine.close()


def _explained(engines: Sequence[Engine], steps: Sequence[CompiledStep]) -> Explanation:
    names = dict.fromkeys(str(step.operator) for step in steps if isinstance(step, CustomNode))
    reason = f"{', '.join(names)} in Python"
    if not engines:
        return Explanation("python", Precision.FLOAT32, reason)
    first = engines[0].explanation
    return first._replace(reason=f"{first.reason}; {reason}")


class _PartRun:
    """One part of a binding."""

    def __init__(self, part: Part, binding: EngineBinding) -> None:
        self._part, self._binding = part, binding

    def run(self, values: dict[str, Any], stop: Stop | None) -> None:
        """Takes its inputs from the values, and adds its outputs."""
        for name in self._part.inputs:
            self._binding.set_input(name, values[name])
        values.update(self._binding.run(stop))


class _Function:
    """The call of one function."""

    def __init__(self, node: CustomNode) -> None:
        self._node = node

    def run(self, values: dict[str, Any], stop: Stop | None) -> None:
        """Takes its inputs from the values, and adds its outputs.

        Raises:
            EvaluationError: the function raised, which is the cause; or it gave what it does not declare.
        """
        node = self._node
        inputs = [_read_only(values[name]) if name else None for name in node.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        try:
            found = node.operator.function(*inputs, **node.attributes)
        except Exception as error:
            raise EvaluationError(
                f"The operator {node.operator} of the node {node.name!r} raised {_spelled(error)}.",
                hint="The error's __cause__ is what the function raised.",
            ) from error
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(results) not in (len(node.outputs), len(node.operator.outputs)):
            raise EvaluationError(
                f"The operator {node.operator} of the node {node.name!r} gave {len(results)} outputs, and declares "
                f"{len(node.operator.outputs)}.",
                hint="Return an array, or a tuple of arrays.",
            )
        for name, result, declared in zip(node.outputs, results, node.operator.outputs, strict=False):
            if name:
                values[name] = self._checked(result, OperatorOutput(*declared), name)

    def _checked(self, result: Any, declared: OperatorOutput, name: str) -> Array:
        array = np.asarray(result, order="C")
        array = array.astype(object) if array.dtype.kind == "U" else array
        if array.dtype != declared.dtype or declared.rank not in (None, array.ndim):
            rank = "any rank" if declared.rank is None else f"rank {declared.rank}"
            raise EvaluationError(
                f"The operator {self._node.operator} gave {array.dtype} of rank {array.ndim} as {name!r}, and declares "
                f"{declared.dtype} of {rank}.",
                hint="Correct the function, or the outputs of its CustomOperator.",
            )
        return array


def _spelled(error: Exception) -> str:
    text = str(error).rstrip(".")
    return f"{type_name(error)}: {text}" if text else type_name(error)


def _read_only(value: Value) -> Value:
    """A view that cannot be written: the memory may be the caller's, and other nodes may need the numbers."""
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


class _CustomBinding(HeldValues):
    """Values, and a binding of each part."""

    def __init__(
        self,
        engine: CustomEngine,
        steps: Sequence[_PartRun | _Function],
        constants: Mapping[str, Array],
        outputs: Sequence[str],
    ) -> None:
        super().__init__()
        self._engine, self._steps, self._constants, self._outputs = engine, steps, constants, outputs

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the parts and the functions. A stop reaches parts as they run, and functions before they begin."""
        self._engine.require_open()
        values: dict[str, Any] = {**self._constants, **self.inputs}
        for step in self._steps:
            if stop is not None:
                stop.require_not_requested()
            step.run(values, stop)
        if stop is not None:
            stop.require_not_requested()
        return fill(self.outputs, {name: self._owned(name, values) for name in self._outputs})

    def _owned(self, name: str, values: Mapping[str, Any]) -> Value:
        """An output that nobody else has: a function may give its input, or the same array each time."""
        value: Value = values[name]
        return value.copy() if isinstance(value, np.ndarray) else value
