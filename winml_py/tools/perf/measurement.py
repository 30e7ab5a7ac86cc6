"""What was measured, and how it is told."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

PHASES = ("load", "session", "decode", "tensorize", "bind", "evaluate", "detensorize")
"""In the order in which they happen: a file's header is read; the model is compiled; a picture file is decoded, and
turned into numbers; values are bound; the engine runs; outputs are wrapped, or turned into pictures."""


class Sample(NamedTuple):
    """Seconds on the clock, and of all processors together."""

    wall: float
    cpu: float


@dataclass
class Measurement:
    """What one case took. Times are seconds, memory is bytes resident in the process.

    Attributes:
        model: the model's path.
        device: the device's name.
        engine: what ran it.
        precision: in which arithmetic.
        inputs: what it ran on.
        threads: how many evaluated at once.
        samples: of each phase one sample an iteration, the first apart.
        first: the samples of the first iteration, and of load and session.
        elapsed: seconds that all iterations but the first took.
        memory: bytes resident before, and after each step.
        device_memory: bytes that the process has on the device; None where nobody says.
        items: the input of each iteration.
        laps: what the phases of each iteration took.
    """

    model: str
    device: str = ""
    engine: str = ""
    precision: str = ""
    inputs: Sequence[str] = ()
    threads: int = 1
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    first: dict[str, Sample] = field(default_factory=dict)
    elapsed: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)
    device_memory: int | None = None
    items: list[str] = field(default_factory=list)
    laps: list[dict[str, Sample]] = field(default_factory=list)

    @property
    def iterations(self) -> int:
        """Evaluations, the first apart."""
        return len(self.samples.get("evaluate", ()))

    @property
    def rate(self) -> float:
        """Evaluations a second, decoding and binding included."""
        return self.iterations / self.elapsed if self.elapsed else 0.0

    def to_json(self) -> dict[str, Any]:
        """The figures, in milliseconds and megabytes."""
        return {
            "model": self.model,
            "device": self.device,
            "engine": self.engine,
            "precision": self.precision,
            "inputs": list(self.inputs),
            "threads": self.threads,
            "iterations": self.iterations,
            "evaluations_per_second": self.rate,
            "first_ms": {phase: sample.wall * 1e3 for phase, sample in self.first.items()},
            "phases": {phase: self._phase(phase) for phase in PHASES if phase in self.samples},
            "memory_mb": {step: size / 1e6 for step, size in self.memory.items()},
            "device_memory_mb": None if self.device_memory is None else self.device_memory / 1e6,
        }

    def _phase(self, phase: str) -> dict[str, float | None]:
        samples = self.samples[phase]
        facts: dict[str, float | None] = dict(spread([sample.wall * 1e3 for sample in samples]))
        # The processors' time is that of the process: with several threads it is nobody's in particular.
        facts["cpu_p50_ms"] = statistics.median(sample.cpu for sample in samples) * 1e3 if self.threads == 1 else None
        return facts


def spread(milliseconds: Sequence[float]) -> Mapping[str, float]:
    """Percentiles, mean, extremes and standard deviation."""
    p50, p90, p99 = np.percentile(milliseconds, (50, 90, 99))
    return {
        "p50_ms": float(p50),
        "p90_ms": float(p90),
        "p99_ms": float(p99),
        "mean_ms": statistics.fmean(milliseconds),
        "min_ms": min(milliseconds),
        "max_ms": max(milliseconds),
        "stdev_ms": statistics.pstdev(milliseconds),
    }
