"""Loading, binding and evaluating with a stopwatch."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..core.base.messages import Progress
from ..core.base.winrt_object import inside
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.runtime.providers import nvidia
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError
from ..inputs.examples import ExampleShape
from ..inputs.files import generated, jobs, read
from ..inputs.model import EXAMPLE, Case, input_sizes
from .measurement import Measurement, Sample

Work = Callable[[int], dict[str, Sample]]


class Prepared:
    """A case whose session is made."""

    def __init__(self, case: Case, profiling: bool = False) -> None:
        """Loads and compiles the model.

        Args:
            case: what is measured.
            profiling: whether ONNX Runtime records what it does.

        Raises:
            WinMLError: the model or the device cannot be used.
        """
        self.case, watch = case, Stopwatch()
        memory = {"before": resident()}
        with watch.phase("load"):
            model = case.load()
        memory["load"] = resident()
        device, options = case.find_device(), case.options(model)
        options.profiling = profiling
        if profiling and options.graph_capture is None:
            options.graph_capture = False  # repeated work has no nodes
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
        """Evaluates once, and then a number of times or for a time. Every thread has a binding of its own.

        Args:
            iterations: how many evaluations; 100 where neither they nor seconds are given.
            seconds: how long to evaluate, instead of iterations.
            threads: how many evaluate at once.
            progress: see `Progress`.

        Raises:
            WinMLError: an evaluation failed.
        """
        measured = self.measured
        workers = [self._worker() for _ in range(threads)]
        measured.first |= workers[0](0)
        measured.memory["first evaluation"] = resident()
        for worker in workers[1:]:
            worker(0)  # a binding's first evaluation takes longer than the rest, also on the other threads
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
                    turns.close()  # the other threads need not go on
                raise

        started = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            laps = sorted(lap for part in pool.map(spend, workers) for lap in part)
        measured.elapsed = time.perf_counter() - started
        measured.items = [self._item(index)[0] for index, _ in laps]
        measured.laps = [phases for _, phases in laps]
        measured.memory["end"] = resident()
        if any(name in self.session.engine.lower() for name in ("cuda", "tensorrt")):  # other drivers do not say
            measured.device_memory = nvidia.process_memory()
        measured.engine, measured.precision = self.session.engine, self.session.precision.name.lower()
        measured.inputs, measured.threads = [label for label, _ in self.items], threads
        measured.sizes = self._sizes()
        return measured

    def _sizes(self) -> dict[str, ExampleShape]:
        """The shapes of the inputs of the first item."""
        model, (_, files) = self.session.model, self.items[0]
        file_values = {} if files is None else read(model, files)
        return input_sizes(self.case.sizes.applied(model.input_features), file_values)

    def _item(self, index: int) -> tuple[str, Mapping[str, str] | None]:
        return self.items[index % len(self.items)]

    def _worker(self) -> Work:
        binding, watch = LearningModelBinding(self.session), Stopwatch()
        watch.watch(binding)

        def work(index: int) -> dict[str, Sample]:
            _, files = self._item(index)
            values = self.generated
            if files is not None:
                with watch.phase("decode"):
                    values = read(self.session.model, files)
            with watch.phase("bind"):
                for name, value in values.items():
                    binding.bind(name, value)
            with watch.phase("detensorize"):  # the watch times tensorizing and evaluating inside: this is what is left
                self.session.evaluate(binding)
            return watch.lap()

        return work


def _turns(iterations: int | None, seconds: float | None, progress: Progress) -> Generator[int]:
    """The numbers of the evaluations, from 1, until the iterations or the seconds are spent."""
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
        case: the model, where it runs, and on which inputs.
        iterations: how many evaluations follow the first; 100 where neither they nor seconds are given.
        seconds: how long to evaluate, instead of iterations.
        threads: how many evaluate at once, each with a binding of its own.

    Raises:
        InvalidArgumentError: both iterations and seconds are given, or one of the three is not positive.
        WinMLError: the model, the device or an input cannot be used, or an evaluation failed.
    """
    if iterations is not None and seconds is not None:
        raise InvalidArgumentError("Both iterations and seconds are given.", hint="Give one of them.")
    if (iterations is not None and iterations < 1) or (seconds is not None and seconds <= 0) or threads < 1:
        raise InvalidArgumentError("Nothing is to be measured.", hint="Iterations, seconds and threads are positive.")
    return Prepared(case).run(iterations, seconds, threads)


def resident() -> int:
    """The bytes of memory that the process has now."""
    import psutil

    return int(psutil.Process().memory_info().rss)


# Timing of phases, also of those inside a binding.


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
        evaluation = inside(binding)
        for tensorizer in filter(None, (evaluation.pictures.tensorizer, evaluation.pictures.device_tensorizer)):
            self._wrap(tensorizer, "write", "tensorize")
        self._wrap(evaluation.engine_binding, "run", "evaluate")

    def _wrap(self, owner: object, method: str, phase: str) -> None:
        original: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: object, **named: object) -> Any:
            with self.phase(phase):
                return original(*arguments, **named)

        setattr(owner, method, timed)
