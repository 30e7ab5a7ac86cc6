"""Runners: they evaluate the values of one item of a stream, by the bindings of a session that no other thread uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from ..base.collections import NameMap
from ..evaluation.binding import LearningModelBinding, evaluation_of
from ..evaluation.result import LearningModelEvaluationResult

Features = Mapping[str, Any]
"""Values by the names of features."""

Properties = Mapping[str, Mapping[str, Any]]
"""The properties of binds, by the names of inputs."""


class Runner(Protocol):
    """Evaluates values; several threads call it at once."""

    def run(self, features: Features) -> LearningModelEvaluationResult:
        """Evaluates the values of one item; raises as `bind` and `evaluate` do."""

    def clear(self) -> None:
        """Lets go of the memory that it keeps for the next item."""


class SessionRunner:
    """Evaluates by one session.

    Args:
        new_binding: makes a binding of the session.
        evaluate: evaluates one.
        properties: of binds, by the names of inputs.
    """

    def __init__(
        self,
        new_binding: Callable[[], LearningModelBinding],
        evaluate: Callable[[LearningModelBinding], LearningModelEvaluationResult],
        properties: Properties,
    ) -> None:
        self._new_binding, self._evaluate, self._properties = new_binding, evaluate, NameMap(properties)
        self._bindings: SimpleQueue[LearningModelBinding] = SimpleQueue()

    def run(self, features: Features) -> LearningModelEvaluationResult:
        """Evaluates the values of one item; raises as `bind` and `evaluate` do."""
        try:
            binding = self._bindings.get_nowait()
        except Empty:
            binding = self._new_binding()
        evaluation_of(binding).forget()  # or an item would be given what an earlier one bound
        for name, value in features.items():
            binding.bind(name, value, self._properties.get(name) if self._properties else None)
        result = self._evaluate(binding)
        self._bindings.put(binding)  # not where it failed: it may be half bound
        return result

    def clear(self) -> None:
        """Lets go of the bindings."""
        while True:
            try:
                self._bindings.get_nowait()
            except Empty:
                return
