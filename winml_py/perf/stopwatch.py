"""Timing of phases, also of those inside a binding."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..core.evaluation.binding import LearningModelBinding, evaluation_of
from .measurement import Sample

_NOTHING = Sample(0, 0)


class Stopwatch:
    """The time that each phase took since `lap` was called last. For one thread.

    A phase inside another is left out of the outer one's time. The stopwatch is its own context manager: a generator
    would cost microseconds more, inside what is timed.
    """

    def __init__(self) -> None:
        self._phases: dict[str, Sample] = {}
        self._running: list[str] = []
        self._since = _NOTHING

    def phase(self, name: str) -> Stopwatch:
        """Times a block: `with watch.phase("load"):`."""
        self._switch()
        self._running.append(name)
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._switch()
        self._running.pop()

    def _switch(self) -> None:
        """Adds the time since the last switch to the innermost phase."""
        now = Sample(time.perf_counter(), time.process_time())
        if self._running:
            name, since = self._running[-1], self._since
            before = self._phases.get(name, _NOTHING)
            self._phases[name] = Sample(before.wall + now.wall - since.wall, before.cpu + now.cpu - since.cpu)
        self._since = now

    def lap(self) -> dict[str, Sample]:
        """What the phases took, and starts anew."""
        phases, self._phases = self._phases, {}
        return phases

    def watch(self, binding: LearningModelBinding) -> None:
        """Times the phases inside a binding: "tensorize" where it writes pictures, "evaluate" where its engine runs.

        The methods are replaced on the objects of this one binding, so that others pay nothing for being measured.
        """
        # A binding has no public hooks for its phases, which would cost time in every evaluation.
        evaluation = evaluation_of(binding)
        for tensorizer in filter(None, (evaluation.pictures.tensorizer, evaluation.pictures.device_tensorizer)):
            self._wrap(tensorizer, "write", "tensorize")
        self._wrap(evaluation.engine_binding, "run", "evaluate")

    def _wrap(self, owner: Any, method: str, phase: str) -> None:
        original: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            with self.phase(phase):
                return original(*arguments, **named)

        setattr(owner, method, timed)
