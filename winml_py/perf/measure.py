"""Timing bind and evaluate; the result, and its figures."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._examples import ExampleShape, find_input_sizes, list_inputs, make_examples, sizes_to_json, tell_assumed_sizes
from .._values import open_session
from ..core.base.arguments import require_whole_number
from ..core.base.messages import Facts, Progress
from ..core.base.winrt_object import private_state
from ..core.model.model import LearningModel
from ..core.session.session import LearningModelBinding, LearningModelSession

CPU_STEP = 0.016 if sys.platform == "win32" else 0.0
"""Seconds by which the system's count of processor time may grow at once."""


class Time(NamedTuple):
    """Seconds on the clock, and total seconds of all processors."""

    wall: float
    cpu: float


@dataclass
class Measurement:
    """The times and memory of evaluations: seconds, and bytes resident in the process.

    Attributes:
        device: the device's name.
        engine: the engine that ran the model.
        precision: the arithmetic it computed in.
        first: the times of the first evaluation, by phase: "decode" if a function gives the inputs; "bind", which turns
            pictures into numbers; "evaluate", which runs the engine and makes pictures of its outputs.
        times: for each phase, the times of all evaluations but the first.
        elapsed: seconds of all evaluations but the first.
        memory: bytes resident after each step.
        sizes: the shapes of the inputs, by name; of several inputs, those of the first.
    """

    device: str = ""
    engine: str = ""
    precision: str = ""
    first: dict[str, Time] = field(default_factory=dict)
    times: dict[str, list[Time]] = field(default_factory=dict)
    elapsed: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, ExampleShape] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """The number of evaluations after the first."""
        return len(self.times["evaluate"])

    @property
    def rate(self) -> float:
        """Evaluations per second, including decoding and binding."""
        return self.iterations / self.elapsed if self.elapsed else 0.0

    def to_json(self) -> Facts:
        """The figures, in milliseconds and megabytes."""
        return {name: getattr(self, name) for name in ("device", "engine", "precision", "iterations")} | {
            "sizes": sizes_to_json(self.sizes),
            "evaluations_per_second": self.rate,
            "first_ms": {phase: first.wall * 1e3 for phase, first in self.first.items()},
            "phases": {phase: summarize_phase(times) for phase, times in self.times.items()},
            "memory_mb": {step: size / 1e6 for step, size in self.memory.items()},
        }


def summarize_phase(times: Sequence[Time]) -> dict[str, float | None]:
    """Percentiles of a phase's time, and the median of its processor time, in milliseconds.

    The latter is None if the system counts processor time in larger steps, as Windows does.
    """
    walls = [time.wall for time in times]
    figures = {f"p{percent}_ms": 1e3 * float(np.percentile(walls, percent)) for percent in (50, 90, 99)}
    cpu = statistics.median(time.cpu for time in times)
    return figures | {"cpu_p50_ms": 1e3 * cpu if cpu >= CPU_STEP else None}


Inputs = Mapping[str, Any] | Callable[[], Mapping[str, Any]]


def measure(
    session: LearningModelSession | LearningModel,
    inputs: Inputs | None = None,
    *,
    iterations: int = 100,
    progress: Progress = lambda done, what: None,
) -> Measurement:
    """Evaluates once, and then this many times, with one binding.

    Args:
        session: a session; or a model, which runs on the CPU.
        inputs: values by the names of inputs, as for `evaluate_features`; or a function that returns the values of the
            next evaluation, whose time is the phase "decode". By default, example values.
        iterations: how many evaluations follow the first.
        progress: called with the finished share.

    Raises:
        InvalidArgumentError: the iterations are not positive, or an input has no example values.
        WinMLError: a value cannot be bound, or an evaluation failed.

    Example:
        >>> from winml_py import ImageFeatureValue, LearningModel
        >>> from winml_py.perf import measure
        >>> picture = ImageFeatureValue.load("samples/pictures/seven.png")
        >>> measure(LearningModel.load("models/digits.onnx"), {"image": picture}, iterations=10).iterations
        10
    """
    require_whole_number(iterations, "iterations", 1)
    with open_session(session) as opened:
        features = list_inputs(opened)
        values = inputs or make_examples(features)
        binding = LearningModelBinding(opened)

        def evaluate_once() -> dict[str, Time]:
            watch, current = Stopwatch(), values
            if callable(current):
                with watch.time_phase("decode"):
                    current = current()
            with watch.time_phase("bind"):
                for name, value in current.items():
                    binding.bind(name, value)
            with watch.time_phase("evaluate"):
                opened.evaluate(binding)
            return watch.times

        with tell_assumed_sizes(() if inputs else features):
            first = evaluate_once()
        sizes = find_input_sizes(features, private_state(binding).bound.inputs if inputs else {})
        measurement = Measurement(opened.device.name, first=first, sizes=sizes)
        measurement.memory["first evaluation"] = read_resident_memory()
        started = time.perf_counter()
        for turn in range(iterations):
            progress(turn / iterations, "")
            for phase, seconds in evaluate_once().items():
                measurement.times.setdefault(phase, []).append(seconds)
        measurement.elapsed = time.perf_counter() - started
        measurement.memory["end"] = read_resident_memory()
        measurement.engine, measurement.precision = opened.engine, opened.precision.name.lower()
        return measurement


def read_resident_memory() -> int:
    """The process's current resident memory, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)


class Stopwatch:
    """The time of each phase, by its name. For one thread."""

    def __init__(self) -> None:
        self.times: dict[str, Time] = {}

    @contextmanager
    def time_phase(self, name: str) -> Iterator[None]:
        """Times a block: `with watch.time_phase("load"):`."""
        wall = time.perf_counter()
        cpu = time.process_time()
        yield
        self.times[name] = Time(time.perf_counter() - wall, time.process_time() - cpu)
