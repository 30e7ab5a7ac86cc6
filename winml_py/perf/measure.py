"""Timing load, bind and evaluate; the result, and its figures."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .._cases.case import EXAMPLE, Case, find_input_sizes, sizes_to_json
from .._cases.examples import ExampleShape, make_examples, tell_assumed_sizes
from .._cases.files import assign_files, read_inputs
from ..core.base.arguments import require_type, require_whole_number
from ..core.base.messages import Facts, Progress
from ..core.runtime.providers.catalogue import find_provider
from ..core.session.session import LearningModelBinding, LearningModelSession

PHASES = ("load", "session", "decode", "bind", "evaluate")
"""In order: reading the file's header; compiling the model; decoding a picture file; binding values, which turns
pictures into numbers; running the engine, and making pictures of its outputs."""

CPU_STEP = 0.016 if sys.platform == "win32" else 0.0
"""Seconds by which the system's count of processor time may grow at once."""

PHASES_ONCE = ("load", "session")
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
        samples: for each phase one sample per iteration, without the first; for load and session their only one.
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
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    sizes: dict[str, ExampleShape] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """The number of evaluations after the first."""
        return len(self.samples["evaluate"])

    @property
    def rate(self) -> float:
        """Evaluations per second, including decoding and binding."""
        return self.iterations / self.elapsed if self.elapsed else 0.0

    def to_json(self) -> Facts:
        """The figures, in milliseconds and megabytes."""
        names = ("model", "device", "engine", "precision", "inputs", "iterations")
        return {name: getattr(self, name) for name in names} | {
            "sizes": sizes_to_json(self.sizes),
            "evaluations_per_second": self.rate,
            "first_ms": {phase: self.first[phase].wall * 1e3 for phase in PHASES if phase in self.first},
            "phases": {phase: summarize_phase(self.samples[phase]) for phase in PHASES if phase in self.samples},
            "memory_mb": {step: size / 1e6 for step, size in self.memory.items()},
            "device_memory_mb": None if self.device_memory is None else self.device_memory / 1e6,
        }


def summarize_phase(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Percentiles of a phase's time, and the median of its processor time, in milliseconds.

    The latter is None if the system counts processor time in larger steps, as Windows does.
    """
    walls = [sample.wall for sample in samples]
    figures = {f"p{percent}_ms": 1e3 * float(np.percentile(walls, percent)) for percent in (50, 90, 99)}
    cpu = statistics.median(sample.cpu for sample in samples)
    return figures | {"cpu_p50_ms": 1e3 * cpu if cpu >= CPU_STEP else None}


# Measuring.


class PreparedCase:
    """A case with its model loaded and compiled; with `profiling`, ONNX Runtime records its work."""

    def __init__(self, case: Case, profiling: bool = False) -> None:
        self.case = case
        watch = Stopwatch()
        memory = {"before": read_resident_memory()}
        with watch.time_phase("load"):
            model = case.load()
        memory["load"] = read_resident_memory()
        device = case.find_device()
        options = case.options(model)
        options.profiling = profiling
        with watch.time_phase("session"):
            self.session = LearningModelSession(model, device, options)
        memory["session"] = read_resident_memory()
        self._measurement = Measurement(case.model, device.name, first=watch.samples, memory=memory)
        self._measurement.samples = {phase: [sample] for phase, sample in watch.samples.items()}
        self._items = list(assign_files(model, case.inputs)) if case.inputs else [(EXAMPLE, {})]
        self._example_values = {} if case.inputs else make_examples(model, case.sizes)

    def measure(self, iterations: int, progress: Progress = lambda done, what: None) -> Measurement:
        """Evaluates once, and then this many times, with one binding.

        Raises:
            WinMLError: an evaluation failed.
        """
        measurement, model = self._measurement, self.session.model
        binding = LearningModelBinding(self.session)
        features = self.case.sizes.apply(model.input_features)
        with tell_assumed_sizes(features, self._items[0][1]):
            measurement.first |= self._time_evaluation(binding, 0)
        measurement.memory["first evaluation"] = read_resident_memory()
        started = time.perf_counter()
        for turn in range(1, iterations + 1):
            progress((turn - 1) / iterations, "")
            for phase, sample in self._time_evaluation(binding, turn).items():
                measurement.samples.setdefault(phase, []).append(sample)
        measurement.elapsed = time.perf_counter() - started
        measurement.memory["end"] = read_resident_memory()
        measurement.device_memory = find_provider(self.session.engine).process_memory()
        measurement.engine = self.session.engine
        measurement.precision = self.session.precision.name.lower()
        measurement.inputs = [label for label, _ in self._items]
        _, first_files = self._items[0]
        file_values = read_inputs(model, first_files) if first_files else {}
        measurement.sizes = find_input_sizes(features, file_values)
        return measurement

    def _time_evaluation(self, binding: LearningModelBinding, turn: int) -> dict[str, Sample]:
        """The times of an evaluation, by phase. The items take turns."""
        watch = Stopwatch()
        _, files = self._items[turn % len(self._items)]
        values = self._example_values
        if files:
            with watch.time_phase("decode"):
                values = read_inputs(self.session.model, files)
        with watch.time_phase("bind"):
            for name, value in values.items():
                binding.bind(name, value)
        with watch.time_phase("evaluate"):
            self.session.evaluate(binding)
        return watch.samples


def measure(case: Case, *, iterations: int = 100) -> Measurement:
    """Measures a case.

    Args:
        case: the model, its device and its inputs.
        iterations: how many evaluations follow the first.

    Raises:
        InvalidArgumentError: the iterations are not positive.
        WinMLError: the model, the device or an input cannot be used, or an evaluation failed.
    """
    require_type(case, Case, 'Write Case("model.onnx").')
    return PreparedCase(case).measure(require_whole_number(iterations, "iterations", 1))


def read_resident_memory() -> int:
    """The process's current resident memory, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)


class Stopwatch:
    """The time of each phase, by its name. For one thread."""

    def __init__(self) -> None:
        self.samples: dict[str, Sample] = {}

    @contextmanager
    def time_phase(self, name: str) -> Iterator[None]:
        """Times a block: `with watch.time_phase("load"):`."""
        wall = time.perf_counter()
        cpu = time.process_time()
        yield
        self.samples[name] = Sample(time.perf_counter() - wall, time.process_time() - cpu)
