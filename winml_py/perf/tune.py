"""The search for session options that are faster on a model than the default, with the same results."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._inputs import trial
from .._inputs.examples import ExampleShape
from .._inputs.files import generated, jobs, read
from .._inputs.model import Case, input_sizes, to_json
from ..core.base import timing
from ..core.base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, as_numpy, compare_outputs
from ..core.base.machine import usable_cores
from ..core.base.messages import Facts, Progress
from ..core.cache import records
from ..core.evaluation.binding import LearningModelBinding
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.providers import plugins
from ..core.runtime.providers.catalogue import provider_of
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..enums import Precision
from ..errors import EvaluationError, WinMLError

MIN_GAIN = 1.03
"""A smaller gain does not count: it is not worth an option that others have to understand."""

ROUNDS = 7
"""After each such number of rounds, checks whether two candidates differ clearly; a sign test needs at least six."""

CHECKS = 5
"""The most checks; after them, the candidates count as equal."""

PAIRS = 3
"""At the end, the best and the default are made again this often: the place of a session's memory makes it a few
percent faster or slower for its whole life."""

CONFIDENCE = 0.95
"""The probability that an interval contains the true median."""


class Trial(NamedTuple):
    """One change, compared with the best until then.

    Attributes:
        change: the change, in words.
        gain: over the best until then; None if the change does not work.
        problem: why it was not kept; "" if it was.
    """

    change: str
    gain: Gain | None = None
    problem: str = ""

    @property
    def kept(self) -> bool:
        """Whether the change is part of the best since then."""
        return not self.problem


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes:
        options: the fastest with right results; the default if nothing helped.
        gain: over the default, measured against it at the end.
        trials: the trials in order.
        device: the name of the device.
        sizes: the shapes of the inputs, by name.
    """

    options: LearningModelSessionOptions
    gain: Gain
    trials: tuple[Trial, ...]
    device: str
    sizes: dict[str, ExampleShape]

    def to_json(self) -> Facts:
        """The result, ready for JSON."""
        return {
            "options": self.options.to_dict(),
            "gain": self.gain._asdict(),
            "trials": [
                {
                    "change": one.change,
                    "gain": one.gain and one.gain._asdict(),
                    "problem": one.problem,
                    "kept": one.kept,
                }
                for one in self.trials
            ],
            "device": self.device,
            "sizes": to_json(self.sizes),
        }


def tune(case: Case, progress: Progress = lambda done, what: None) -> Tuned:
    """Changes one setting after the other, and keeps the changes that are faster and right.

    Every candidate runs in turns with the best so far, until they differ clearly or count as equal. It must be faster
    by 3 % in the median turn, its 95 % interval must be above 1, and its outputs must match the default's to 1e-3, or
    2e-2 in half precision. At the end, the best and the default are made again, and run in turns.

    Args:
        case: the model, its device and its inputs, of which the first is used. The options also fix its sizes.
        progress: called with the finished share, from 0 to 1, and the current trial.

    Raises:
        WinMLError: the model, the device or an input cannot be used, or it cannot be evaluated by default.
    """
    with records.temporary_cache():  # losing candidates would fill the cache, and push out used entries
        search = _Search(case)
        try:
            changes = list(list_changes(search.device))
            for index, (words, change) in enumerate(changes):
                progress(index / (len(changes) + 1), words)
                search.try_change(words, change)
            progress(len(changes) / (len(changes) + 1), "the best against the default")
            return search.confirm()
        finally:
            search.close()


class _Search:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._default = self._best = Candidate(case, case.options(case.load()).to_dict())
        self.device = self._default.session.device
        self._trials: list[Trial] = []

    def close(self) -> None:
        self._default.close()
        self._best.close()

    def try_change(self, words: str, change: Facts) -> None:
        """Times a change against the best so far, and makes it the best if it is faster."""
        best, options = self._best, _merge(self._best.options, change)
        is_refused = "tuning" in change and provider_of(best.session.engine).package  # its settings are ONNX Runtime's
        if options == best.options or is_refused:
            return
        candidate = None
        try:
            trial.call(evaluate_once, self._case, options)  # its engine may end the process
            candidate = Candidate(self._case, options)
            candidate.require_agreement(self._default.outputs)
            seconds = timing.take_turns(
                [best.seconds, candidate.seconds], CHECKS * ROUNDS, lambda seconds: measure_gain(*seconds).is_over
            )
        except (WinMLError, trial.ProcessEndedError) as error:
            problem = error.message if isinstance(error, WinMLError) else f"it ends the process ({error})"
            self._trials.append(Trial(words, problem=problem))
            if candidate is not None:
                candidate.close()
            return
        gain = measure_gain(*seconds)
        self._trials.append(Trial(words, gain, gain.problem))
        if gain.is_clear:
            candidate, self._best = best, candidate
        if candidate is not self._default:  # later trials need the default
            candidate.close()

    def confirm(self) -> Tuned:
        """The best, compared with the default in new sessions of both; the default if no gain remains."""
        gain = self._measure_again() if self._best is not self._default else None
        if gain is not None and gain.is_clear:
            winner = self._best
        else:
            if gain is not None:
                self._trials.append(Trial("all of it", gain, f"no gain remains: {gain.problem}"))
            winner = self._default
            milliseconds = 1e3 * statistics.median(winner.seconds() for _ in range(ROUNDS))
            gain = Gain(1.0, (1.0, 1.0), (milliseconds, milliseconds), ROUNDS)
        options = LearningModelSessionOptions.from_dict(winner.options)
        return Tuned(options, gain, tuple(self._trials), self.device.name, winner.sizes)

    def _measure_again(self) -> Gain:
        """The gain of the best over the default, in several new sessions of both, which no search has selected."""
        before: list[float] = []
        after: list[float] = []
        for _ in range(PAIRS):
            self.close()  # both first: equal sessions share an engine, and its memory
            self._default = Candidate(self._case, self._default.options)
            self._best = Candidate(self._case, self._best.options)
            seconds = timing.take_turns([self._default.seconds, self._best.seconds], ROUNDS)
            before += seconds[0]
            after += seconds[1]
        return measure_gain(before, after)


def _merge(options: Facts, change: Facts) -> Facts:
    merged = copy.deepcopy(options)
    for key, value in change.items():
        merged[key] = merged[key] | value if isinstance(value, dict) else value
    return merged


def evaluate_once(case: Case, options: Facts) -> None:
    """Makes a session with these options, and evaluates it once."""
    Candidate(case, options).close()


class Candidate:
    """A session, ready to be timed.

    Args:
        case: the model, its device and its inputs, of which the first is used.
        options: the session's, as in a file.
    """

    def __init__(self, case: Case, options: Facts) -> None:
        model = case.load()
        values_from_files = read(model, next(jobs(model, case.inputs))[1]) if case.inputs else {}
        self.sizes = input_sizes(case.sizes.applied(model.input_features), values_from_files)
        self.options = options
        session_options = LearningModelSessionOptions.from_dict(options)
        self.session = LearningModelSession(model, case.find_device(), session_options)
        self._binding = LearningModelBinding(self.session)
        for name, value in (values_from_files or generated(model, case.sizes)).items():
            self._binding.bind(name, value)
        outputs = self.session.evaluate(self._binding).outputs
        # copies: later evaluations may write to the same memory
        self.outputs = copy.deepcopy({name: as_numpy(value) for name, value in outputs.items()})

    def require_agreement(self, outputs: dict[str, Any]) -> None:
        """Raises EvaluationError if outputs differ by more than its precision explains."""
        is_half = self.session.precision is Precision.HALF
        agreement = compare_outputs(outputs, self.outputs, HALF_TOLERANCE if is_half else FLOAT_TOLERANCE)
        if not agreement.is_good:
            raise EvaluationError(str(agreement))

    def close(self) -> None:
        """Closes the session. Calling it twice is harmless."""
        self.session.close()

    def seconds(self) -> float:
        """The time of an evaluation, from a block of them."""
        return timing.time_block(lambda: self.session.evaluate(self._binding).outputs)


# The changes to try on a device, one session option after the other.


Change = tuple[str, Facts]
"""A change of the session options: in words, and as in a file."""


def list_changes(device: LearningModelDevice) -> Iterator[Change]:
    """The changes worth trying on a device.

    Omits those without effect there: threads on a GPU, where one of them submits the work.
    """
    yield from _changes_on_cpu() if device.hardware == "cpu" else _changes_on_gpu(device.provider)


def _changes_on_cpu() -> Iterator[Change]:
    devices = plugins.devices("cpu")
    for engine in dict.fromkeys(device.engine for device in devices):
        yield (f"engine {engine}", {"engine": engine})
    if any(device.float16 for device in devices):
        yield ("half precision", {"precision": "half"})
    cores = usable_cores()
    for threads in sorted({1, max(1, cores // 2), cores}):
        yield (f"{threads} intra-op thread{'s' * (threads > 1)}", {"intra_op_num_threads": threads})
    yield ("no spinning", {"intra_op_thread_spinning": False})
    tunings = {
        "parallel execution": {"execution_mode": "parallel", "inter_op_num_threads": min(cores, 4)},
        "graph optimisation basic": {"graph_optimization": "basic"},
        "no memory arena": {"memory_arena": False},
        "no memory pattern": {"memory_pattern": False},
    }
    yield from ((words, {"tuning": tuning}) for words, tuning in tunings.items())


def _changes_on_gpu(name: str) -> Iterator[Change]:
    provider = provider_of(name)
    for key, value in provider.worth_trying:
        yield (f"{key} {value}", {"provider_options": {key: value}})
    if provider.capture_option:
        yield ("graph capture", {"graph_capture": True})
    if not provider.package:
        yield ("graph optimisation basic", {"tuning": {"graph_optimization": "basic"}})


# How much faster one candidate is than another in the same turns, and how certain that is.


class Gain(NamedTuple):
    """How much faster a candidate is than the one before it.

    Attributes:
        ratio: how many times as fast, in the median turn.
        interval: the ratio's 95 % interval.
        milliseconds: the times of both in the median turn.
        turns: how many turns each had.
    """

    ratio: float
    interval: tuple[float, float]
    milliseconds: tuple[float, float]
    turns: int

    @property
    def is_clear(self) -> bool:
        """Whether it is faster, and chance is not a likely reason."""
        return self.ratio >= MIN_GAIN and self.interval[0] > 1

    @property
    def is_over(self) -> bool:
        """Whether more turns would hardly change the result."""
        return self.turns % ROUNDS == 0 and (self.is_clear or self.interval[1] < MIN_GAIN)

    @property
    def problem(self) -> str:
        """Why there is no gain; "" if there is one."""
        if self.is_clear:
            return ""
        return "slower" if self.interval[1] < 1 else "not clearly faster"


def measure_gain(before: Sequence[float], after: Sequence[float]) -> Gain:
    """The gain of one candidate over another, from their seconds in the same turns."""
    # The turn with the median ratio: its times match the ratio, unlike the medians of each.
    turns = sorted(zip(before, after, strict=True), key=lambda pair: pair[0] / pair[1])
    seconds_before, seconds_after = turns[(len(turns) - 1) // 2]
    interval = find_median_range([slow / fast for slow, fast in turns])
    milliseconds = 1e3 * seconds_before, 1e3 * seconds_after
    return Gain(seconds_before / seconds_after, interval, milliseconds, len(turns))


def find_median_range(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the true median, for any distribution: that of the sign test.

    Fewer than six values are never enough for that: for them it is their range.

    Example:
        >>> find_median_range([3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0])
        (1.0, 7.0)
    """
    ordered, count = sorted(values), len(values)
    off, throws = 0, 1  # of 2**count sequences of coin tosses, those with at most `off` heads
    while 2 * (throws + math.comb(count, off + 1)) <= (1 - CONFIDENCE) * 2**count:
        off += 1
        throws += math.comb(count, off)
    return ordered[off], ordered[count - 1 - off]
