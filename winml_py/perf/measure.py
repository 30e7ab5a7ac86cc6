"""Timing load, bind and evaluate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from .._inputs.examples import ExampleShape
from .._inputs.files import generated, jobs, read
from .._inputs.model import EXAMPLE, Case, input_sizes
from ..core.base.arguments import whole_number
from ..core.base.messages import Progress
from ..core.evaluation.binding import LearningModelBinding
from ..core.runtime.providers.catalogue import provider_of
from ..core.session.session import LearningModelSession
from .measurement import Measurement, Sample


class Prepared:
    """A case with its model loaded and compiled; with `profiling`, ONNX Runtime records its work."""

    def __init__(self, case: Case, profiling: bool = False) -> None:
        self.case, watch = case, Stopwatch()
        memory = {"before": resident()}
        with watch.phase("load"):
            model = case.load()
        memory["load"] = resident()
        device, options = case.find_device(), case.options(model)
        options.profiling = profiling
        with watch.phase("session"):
            self.session = LearningModelSession(model, device, options)
        memory["session"] = resident()
        self.measured = Measurement(case.model, device.name, first=watch.lap(), memory=memory)
        self.items = list(jobs(model, case.inputs)) if case.inputs else [(EXAMPLE, None)]
        self.generated = {} if case.inputs else generated(model, case.sizes)

    def run(self, iterations: int, progress: Progress = lambda done, what: None) -> Measurement:
        """Evaluates once, and then this many times, with one binding.

        Raises:
            WinMLError: an evaluation failed.
        """
        measured, evaluate = self.measured, self._evaluator()
        measured.first |= evaluate(0)
        measured.memory["first evaluation"] = resident()
        started = time.perf_counter()
        for turn in range(1, iterations + 1):
            progress((turn - 1) / iterations, "")
            measured.laps.append(evaluate(turn))
            measured.items.append(self._item(turn)[0])
        measured.elapsed = time.perf_counter() - started
        measured.memory["end"] = resident()
        measured.device_memory = provider_of(self.session.engine).process_memory()
        measured.engine, measured.precision = self.session.engine, self.session.precision.name.lower()
        measured.inputs = [label for label, _ in self.items]
        measured.sizes = self._sizes()
        return measured

    def _sizes(self) -> dict[str, ExampleShape]:
        model, (_, files) = self.session.model, self.items[0]
        file_values = {} if files is None else read(model, files)
        return input_sizes(self.case.sizes.applied(model.input_features), file_values)

    def _item(self, index: int) -> tuple[str, Mapping[str, str] | None]:
        return self.items[index % len(self.items)]

    def _evaluator(self) -> Callable[[int], dict[str, Sample]]:
        binding, watch = LearningModelBinding(self.session), Stopwatch()

        def evaluate(index: int) -> dict[str, Sample]:
            _, files = self._item(index)
            values = self.generated
            if files is not None:
                with watch.phase("decode"):
                    values = read(self.session.model, files)
            with watch.phase("bind"):
                for name, value in values.items():
                    binding.bind(name, value)
            with watch.phase("evaluate"):
                self.session.evaluate(binding)
            return watch.lap()

        return evaluate


def measure(case: Case, *, iterations: int = 100) -> Measurement:
    """Measures a case.

    Args:
        case: the model, its device and its inputs.
        iterations: how many evaluations follow the first.

    Raises:
        InvalidArgumentError: the iterations are not positive.
        WinMLError: the model, the device or an input cannot be used, or an evaluation failed.
    """
    return Prepared(case).run(whole_number(iterations, "iterations", 1))


def resident() -> int:
    """The process's current resident memory, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)


class Stopwatch:
    """The time of each phase since the last `lap`. For one thread."""

    def __init__(self) -> None:
        self._phases: dict[str, Sample] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times a block: `with watch.phase("load"):`."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self._phases[name] = Sample(time.perf_counter() - wall, time.process_time() - cpu)

    def lap(self) -> dict[str, Sample]:
        """The times of the phases; begins the next lap."""
        phases, self._phases = self._phases, {}
        return phases
