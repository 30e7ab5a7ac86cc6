"""Timing load, bind and evaluate."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from .._inputs.examples import ExampleShape
from .._inputs.files import generated, jobs, read
from .._inputs.model import EXAMPLE, Case, input_sizes
from ..core.base.messages import Progress
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.runtime.providers.catalogue import provider_of
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError
from .measurement import Measurement, Sample

Work = Callable[[int], dict[str, Sample]]


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

    def run(
        self,
        iterations: int | None,
        seconds: float | None,
        threads: int = 1,
        progress: Progress = lambda done, what: None,
    ) -> Measurement:
        """Evaluates once, and then a number of times or for a time. Each thread has a separate binding.

        Args:
            iterations: how many evaluations; 100 if neither iterations nor seconds are given.
            seconds: how long to evaluate, instead of iterations.
            threads: how many evaluate concurrently.
            progress: see `Progress`.

        Raises:
            WinMLError: an evaluation failed.
        """
        measured = self.measured
        workers = [self._worker() for _ in range(threads)]
        measured.first |= workers[0](0)
        measured.memory["first evaluation"] = resident()
        for worker in workers[1:]:
            worker(0)  # each binding's first evaluation takes longer than the rest
        default = 100 if seconds is None else None
        turns, lock = _turns(iterations or default, seconds, progress), threading.Lock()

        def take() -> int:
            with lock:
                return next(turns, 0)

        def spend(work: Work) -> list[tuple[int, dict[str, Sample]]]:
            try:
                return [(index, work(index)) for index in iter(take, 0)]
            except BaseException:
                with lock:
                    turns.close()  # stops the other threads
                raise

        started = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            laps = sorted(lap for part in pool.map(spend, workers) for lap in part)
        measured.elapsed = time.perf_counter() - started
        measured.items = [self._item(index)[0] for index, _ in laps]
        measured.laps = [phases for _, phases in laps]
        measured.memory["end"] = resident()
        measured.device_memory = provider_of(self.session.engine).process_memory()
        measured.engine, measured.precision = self.session.engine, self.session.precision.name.lower()
        measured.inputs, measured.threads = [label for label, _ in self.items], threads
        measured.sizes = self._sizes()
        return measured

    def _sizes(self) -> dict[str, ExampleShape]:
        model, (_, files) = self.session.model, self.items[0]
        file_values = {} if files is None else read(model, files)
        return input_sizes(self.case.sizes.applied(model.input_features), file_values)

    def _item(self, index: int) -> tuple[str, Mapping[str, str] | None]:
        return self.items[index % len(self.items)]

    def _worker(self) -> Work:
        binding, watch = LearningModelBinding(self.session), Stopwatch()

        def work(index: int) -> dict[str, Sample]:
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

        return work


def _turns(iterations: int | None, seconds: float | None, progress: Progress) -> Generator[int]:
    """The numbers of the evaluations, from 1, until the iterations or the seconds are used up."""
    started = time.perf_counter()
    for turn in itertools.count():
        done = turn / iterations if iterations else (time.perf_counter() - started) / (seconds or 1)
        if done >= 1 and turn:
            return
        progress(min(done, 1.0), "")
        yield turn + 1


def measure(
    case: Case, *, iterations: int | None = None, seconds: float | None = None, threads: int = 1
) -> Measurement:
    """Measures a case.

    Args:
        case: the model, its device and its inputs.
        iterations: how many evaluations follow the first; 100 if neither iterations nor seconds are given.
        seconds: how long to evaluate, instead of iterations.
        threads: how many evaluate concurrently, each with a separate binding.

    Raises:
        InvalidArgumentError: both iterations and seconds are given, or one of the three is not positive.
        WinMLError: the model, the device or an input cannot be used, or an evaluation failed.
    """
    if iterations is not None and seconds is not None:
        raise InvalidArgumentError("Expected either iterations or seconds, got both.")
    if (iterations is not None and iterations < 1) or (seconds is not None and seconds <= 0) or threads < 1:
        raise InvalidArgumentError("There is nothing to measure.")
    return Prepared(case).run(iterations, seconds, threads)


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
