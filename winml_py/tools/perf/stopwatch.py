"""Timing of phases, also of those inside a binding."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ...session.binding import LearningModelBinding, evaluation_of
from .measurement import Sample

_NOTHING = Sample(0, 0)


class _Phase:
    """A block that is timed. A class: a generator would cost microseconds more, inside what is timed around it."""

    __slots__ = ("_cpu", "_inner", "_name", "_phases", "_wall", "_without")

    def __init__(self, phases: dict[str, Sample], name: str, without: str) -> None:
        self._phases, self._name, self._without = phases, name, without

    def __enter__(self) -> None:
        self._inner = self._phases.get(self._without, _NOTHING)
        self._cpu = time.process_time()
        self._wall = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        wall = time.perf_counter() - self._wall
        cpu = time.process_time() - self._cpu
        inner, now = self._inner, self._phases.get(self._without, _NOTHING)
        before = self._phases.get(self._name, _NOTHING)
        self._phases[self._name] = Sample(
            before.wall + wall - (now.wall - inner.wall), before.cpu + cpu - (now.cpu - inner.cpu)
        )


class Stopwatch:
    """The time that each phase took since `lap` was called last. For one thread."""

    def __init__(self) -> None:
        self._phases: dict[str, Sample] = {}

    def phase(self, name: str, without: str = "") -> AbstractContextManager[None]:
        """Times a block, less what the phase `without` takes in it."""
        return _Phase(self._phases, name, without)

    def lap(self) -> dict[str, Sample]:
        """What the phases took, and starts anew."""
        phases = dict(self._phases)
        self._phases.clear()
        return phases

    def watch(self, binding: LearningModelBinding) -> None:
        """Makes a binding tell when it tensorizes, and when its engine runs."""
        evaluation = evaluation_of(binding)
        for owner in (evaluation.pictures.tensorizer, evaluation.pictures.device_tensorizer):
            if owner is not None:
                self._wrap(owner, "write", "tensorize")
        self._wrap(evaluation.native, "run", "evaluate")

    def _wrap(self, owner: Any, method: str, phase: str) -> None:
        original: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            with self.phase(phase):
                return original(*arguments, **named)

        setattr(owner, method, timed)
