"""Timing of phases, also of those inside a binding."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..binding import LearningModelBinding
from .measurement import Sample


class Stopwatch:
    """The time that each phase took since `lap` was called last. For one thread."""

    def __init__(self) -> None:
        self._phases: dict[str, Sample] = {}

    @contextmanager
    def phase(self, name: str, without: str = "") -> Iterator[None]:
        """Times the block, less what the phase `without` takes in it."""
        inner = self._phases.get(without, Sample(0, 0))
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            spent = Sample(time.perf_counter() - wall, time.process_time() - cpu)
            now = self._phases.get(without, Sample(0, 0))
            before = self._phases.get(name, Sample(0, 0))
            self._phases[name] = Sample(
                before.wall + spent.wall - (now.wall - inner.wall), before.cpu + spent.cpu - (now.cpu - inner.cpu)
            )

    def lap(self) -> dict[str, Sample]:
        """What the phases took, and starts anew."""
        phases, self._phases = self._phases, {}
        return phases

    def watch(self, binding: LearningModelBinding) -> None:
        """Makes a binding tell when it tensorizes, and when its engine runs."""
        for owner in (binding._tensorizer, binding._device_tensorizer):
            if owner is not None:
                self._wrap(owner, "write", "tensorize")
        self._wrap(binding._native, "run", "evaluate")

    def _wrap(self, owner: Any, method: str, phase: str) -> None:
        original: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            with self.phase(phase):
                return original(*arguments, **named)

        setattr(owner, method, timed)
