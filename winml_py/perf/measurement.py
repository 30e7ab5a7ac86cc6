"""The result of a measurement, and its figures."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .._inputs.examples import ExampleShape
from .._inputs.model import to_json
from ..core.base.messages import Facts

PHASES = ("load", "session", "decode", "bind", "evaluate")
"""In order: reading the file's header; compiling the model; decoding a picture file; binding values, which turns
pictures into numbers; running the engine, and making pictures of its outputs."""

ONCE = ("load", "session")
"""The phases that happen once, rather than with each evaluation."""


class Sample(NamedTuple):
    """Seconds on the clock, and total seconds of all processors."""

    wall: float
    cpu: float


@dataclass
class Measurement:
    """The times and memory of one case: seconds, and bytes resident in the process.

    Attributes:
        model: the model's path.
        device: the device's name.
        engine: the engine that ran it.
        precision: the arithmetic it computed in.
        inputs: the names of the inputs.
        first: the samples of the first iteration, and of load and session.
        elapsed: seconds of all iterations but the first.
        memory: bytes resident before, and after each step.
        device_memory: the process's bytes on the device; None if the driver does not report them.
        items: the input of each iteration.
        laps: the samples of each iteration, by phase.
        sizes: the shapes of the inputs, by name; for several items, those of the first.
    """

    model: str
    device: str = ""
    engine: str = ""
    precision: str = ""
    inputs: Sequence[str] = ()
    first: dict[str, Sample] = field(default_factory=dict)
    elapsed: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)
    device_memory: int | None = None
    items: list[str] = field(default_factory=list)
    laps: list[dict[str, Sample]] = field(default_factory=list)
    sizes: dict[str, ExampleShape] = field(default_factory=dict)

    @property
    def samples(self) -> dict[str, list[Sample]]:
        """For each phase one sample per iteration, without the first; for load and session their only one."""
        samples = {phase: [self.first[phase]] for phase in ONCE if phase in self.first}
        for lap in self.laps:
            for phase, sample in lap.items():
                samples.setdefault(phase, []).append(sample)
        return samples

    @property
    def iterations(self) -> int:
        """The number of evaluations after the first."""
        return len(self.laps)

    @property
    def rate(self) -> float:
        """Evaluations per second, including decoding and binding."""
        return self.iterations / self.elapsed if self.elapsed else 0.0

    def to_json(self) -> Facts:
        """The figures, in milliseconds and megabytes."""
        samples, names = self.samples, ("model", "device", "engine", "precision", "inputs", "iterations")
        return {name: getattr(self, name) for name in names} | {
            "sizes": to_json(self.sizes),
            "evaluations_per_second": self.rate,
            "first_ms": {phase: self.first[phase].wall * 1e3 for phase in PHASES if phase in self.first},
            "phases": {phase: self._phase(samples[phase]) for phase in PHASES if phase in samples},
            "memory_mb": {step: size / 1e6 for step, size in self.memory.items()},
            "device_memory_mb": None if self.device_memory is None else self.device_memory / 1e6,
        }

    def _phase(self, samples: Sequence[Sample]) -> dict[str, float]:
        cpu = statistics.median(sample.cpu for sample in samples) * 1e3
        figures = spread([sample.wall * 1e3 for sample in samples])
        return {**{f"{name}_ms": figure for name, figure in figures.items()}, "cpu_p50_ms": cpu}


def spread(figures: Sequence[float]) -> Mapping[str, float]:
    """Percentiles, mean, extremes and standard deviation."""
    return {
        **{f"p{percent}": float(np.percentile(figures, percent)) for percent in (50, 90, 99)},
        "mean": statistics.fmean(figures),
        "min": min(figures),
        "max": max(figures),
        "stdev": statistics.pstdev(figures),
    }
