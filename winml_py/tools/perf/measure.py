"""Loading, binding and evaluating with a stopwatch."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...errors import InvalidArgumentError
from ...session.binding import LearningModelBinding
from ...session.model import LearningModel
from ...session.result import LearningModelEvaluationResult
from ...session.session import LearningModelSession
from ..input_files import generated, jobs, read
from .case import Case
from .measurement import Measurement, Sample
from .stopwatch import Stopwatch

GENERATED = "made-up values"

Progress = Callable[[float], None]
Receiver = Callable[[int, LearningModelEvaluationResult], None]


class Prepared:
    """A case whose session is made."""

    def __init__(self, case: Case, profiling: bool = False) -> None:
        """Loads and compiles, so that the runtime records what it does where that is asked for.

        Raises:
            WinMLError: the model or the device cannot be used.
        """
        self.case, watch = case, Stopwatch()
        memory = {"before": resident()}
        with watch.phase("load"):
            model = LearningModel.load(case.model)
        memory["load"] = resident()
        device, options = case.target(), case.options()
        options.profiling = profiling
        with watch.phase("session"):
            self.session = LearningModelSession(model, device, options)
        memory["session"] = resident()
        self.measured = Measurement(case.model, device.name, first=watch.lap(), memory=memory)
        self.measured.samples = {phase: [sample] for phase, sample in self.measured.first.items()}
        self.items = list(jobs(model, case.inputs)) if case.inputs else [(GENERATED, None)]
        self.generated = {} if case.inputs else generated(model)

    def run(
        self,
        iterations: int | None,
        seconds: float | None,
        threads: int = 1,
        progress: Progress | None = None,
        receive: Receiver | None = None,
    ) -> Measurement:
        """Evaluates so often, or for so long; the first evaluation apart. Every thread has a binding of its own.

        Raises:
            WinMLError: an evaluation failed.
        """
        measured = self.measured
        first = self._worker(receive)
        measured.first |= first(0)
        measured.memory["first evaluation"] = resident()
        workers = [first, *(self._worker(receive) for _ in range(threads - 1))]
        for other in workers[1:]:
            other(0)  # their first evaluations are no more like the rest than the first of all
        budget = _Budget(iterations, seconds, progress)
        started = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            laps = [lap for part in pool.map(budget.spend, workers) for lap in part]
        measured.elapsed = time.perf_counter() - started
        for index, phases in sorted(laps, key=lambda lap: lap[0]):
            measured.items.append(self._item(index)[0])
            measured.laps.append(phases)
            for phase, sample in phases.items():
                measured.samples.setdefault(phase, []).append(sample)
        measured.memory["end"] = resident()
        measured.device_memory = device_memory(self.session)
        measured.engine, measured.precision = self.session.engine, self.session.precision.name.lower()
        measured.inputs, measured.threads = [label for label, _ in self.items], threads
        return measured

    def _item(self, index: int) -> tuple[str, Mapping[str, str] | None]:
        return self.items[index % len(self.items)]

    def _worker(self, receive: Receiver | None) -> Callable[[int], dict[str, Sample]]:
        binding, watch = LearningModelBinding(self.session), Stopwatch()
        watch.watch(binding)

        def work(index: int) -> dict[str, Sample]:
            _, files = self._item(index)
            values = self.generated
            if files is not None:
                with watch.phase("decode"):
                    values = read(self.session.model, files)
            with watch.phase("bind", without="tensorize"):
                for name, value in values.items():
                    binding.bind(name, value)
            with watch.phase("detensorize", without="evaluate"):
                result = self.session.evaluate(binding)
            if receive is not None:
                receive(index, result)
            return watch.lap()

        return work


class _Budget:
    """Iterations or seconds, shared by all threads."""

    def __init__(self, iterations: int | None, seconds: float | None, progress: Progress | None) -> None:
        self._iterations, self._seconds, self._progress = iterations, seconds, progress
        self._taken, self._lock, self._started = 0, threading.Lock(), time.perf_counter()
        self._is_over = False

    def spend(self, work: Callable[[int], dict[str, Sample]]) -> list[tuple[int, dict[str, Sample]]]:
        laps = []
        try:
            while (index := self._take()) is not None:
                laps.append((index, work(index)))
        except BaseException:
            self._is_over = True  # the other threads need not go on
            raise
        return laps

    def _take(self) -> int | None:
        with self._lock:
            spent = time.perf_counter() - self._started
            done = self._taken / self._iterations if self._iterations else spent / (self._seconds or 1)
            if self._is_over or (done >= 1 and self._taken):
                return None
            self._taken += 1
            if self._progress is not None:
                self._progress(min(done, 1.0))
            return self._taken


def measure(
    case: Case, *, iterations: int | None = None, seconds: float | None = None, threads: int = 1
) -> Measurement:
    """Measures a case.

    Args:
        case: what, where, and on what.
        iterations: how many evaluations, the first apart; 100 where neither they nor seconds are given.
        seconds: how long, instead.
        threads: how many evaluate at once, each with a binding of its own.

    Raises:
        InvalidArgumentError: both iterations and seconds, or one below 1.
        WinMLError: the model, the device or an input cannot be used, or an evaluation failed.
    """
    if iterations is not None and seconds is not None:
        raise InvalidArgumentError("Both iterations and seconds are given.", hint="Give one of them.")
    if (iterations is not None and iterations < 1) or (seconds is not None and seconds <= 0) or threads < 1:
        raise InvalidArgumentError("Nothing is to be measured.", hint="Iterations, seconds and threads are positive.")
    count = 100 if iterations is None and seconds is None else iterations
    return Prepared(case).run(count, seconds, threads)


def prepare_together(cases: Sequence[Case], threads: int, interval: float) -> list[Prepared]:
    """Loads and compiles on so many threads at once, which start `interval` seconds after each other."""

    def work(pair: tuple[int, Case]) -> Prepared:
        time.sleep(interval * (pair[0] % threads))
        return Prepared(pair[1])

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, enumerate(cases)))


def resident() -> int:
    """Bytes of memory that are the process's now."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def device_memory(session: LearningModelSession) -> int | None:
    """Bytes that the process has on its NVIDIA card; other drivers tell nobody."""
    if session.device.hardware != "gpu" or not any(name in session.engine for name in ("CUDA", "Tensorrt", "TensorRT")):
        return None
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [line.split(",") for line in told.splitlines() if line.count(",") == 1]
    used = [int(memory) << 20 for pid, memory in rows if pid.strip() == str(os.getpid()) and memory.strip().isdigit()]
    return sum(used) if used else None


def plain(value: Any) -> Any:
    """An output as an array, or None for what is none."""
    to_numpy = getattr(value, "to_numpy", None)
    return None if to_numpy is None else to_numpy()
