"""The search for session options that are faster on a model than the default, with the same results."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .._inputs import trial
from .._inputs.examples import ExampleShape
from .._inputs.files import generated, jobs, read
from .._inputs.model import Case, input_sizes
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
from ..errors import EvaluationError, NotSupportedError, WinMLError

PAIRS = 3
"""At the end, the best and the default are made again at least this often: the place of a session's memory makes it a
few percent faster or slower for its whole life."""


class Trial(NamedTuple):
    """One trial: the default first, then one change after the other.

    Attributes:
        change: the change, in words.
        milliseconds: the time of an evaluation with it; None if it does not work.
        milliseconds_range: the time's 95 % interval.
        gain: how many times as fast as the best until then; None if it does not work, and for the default.
        gain_range: the gain's 95 % interval.
        turns: how many turns it had.
        kept: whether it was kept.
        problem: why it was not kept.
    """

    change: str
    milliseconds: float | None = None
    milliseconds_range: tuple[float, float] | None = None
    gain: float | None = None
    gain_range: tuple[float, float] | None = None
    turns: int = 0
    kept: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes:
        options: the fastest with right results; the default if nothing helped.
        gain: how many times as fast as the default, measured against it at the end.
        gain_range: the gain's 95 % interval; see `Comparison`.
        turns: how many turns the two had at the end; 0 if nothing helped.
        trials: the trials in order, after the default.
        default_ms: the time of an evaluation by default.
        tuned_ms: the same with these options.
        device: the name of the device.
        sizes: the shapes of the inputs, by name.
    """

    options: LearningModelSessionOptions
    gain: float
    gain_range: tuple[float, float]
    turns: int
    trials: tuple[Trial, ...]
    default_ms: float
    tuned_ms: float
    device: str = ""
    sizes: dict[str, ExampleShape] = field(default_factory=dict)


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
        return _Search(Loaded(case), progress).run()


class _Search:
    def __init__(self, loaded: Loaded, progress: Progress) -> None:
        self._loaded, self._progress = loaded, progress
        self._default = self._best = Rival(loaded, loaded.case.options(loaded.model).to_dict())
        self._default_seconds: list[float] = []
        self._trials: list[Trial] = []

    def run(self) -> Tuned:
        try:
            changes = list(changes_for(self._loaded.device))
            for index, change in enumerate(changes):
                self._progress(index / (len(changes) + 1), change.words)
                self._try(change)
            self._progress(len(changes) / (len(changes) + 1), "the best against the default")
            return self._confirm()
        finally:
            self._default.close()
            self._best.close()

    def _try(self, change: Change) -> None:
        """Times a change against the best so far, and makes it the best if it is faster."""
        rival = None
        try:
            rival = self._make(change)
            if rival is None:  # it would be the same
                return
            rival.require_agreement(self._default.outputs)
            seconds = timing.take_turns(
                [self._best.seconds, rival.seconds], LOOKS * ROUNDS, lambda seconds: compare(*seconds).is_over
            )
        except (WinMLError, trial.ProcessEndedError) as error:
            words = f"it ends the process ({error})" if isinstance(error, trial.ProcessEndedError) else str(error)
            self._trials.append(Trial(change.words, problem=words))
            if rival is not None:
                rival.close()
            return
        compared, words = compare(*seconds), change.words
        if self._best is self._default:
            self._default_seconds += seconds[0]
        if rival.session.precision is not self._best.session.precision:
            words = f"{words} ({rival.session.engine})"
        self._trials.append(_trial(words, compared, seconds[1], compared.is_gain, compared.problem))
        if compared.is_gain:
            rival, self._best = self._best, rival
        if rival is not self._default:  # later trials need the default
            rival.close()

    def _make(self, change: Change) -> Rival | None:
        """The best so far with a change; None if it would be the same.

        Raises:
            WinMLError: the change is not possible.
        """
        best = self._best
        options = _merge(best.options, change.options)
        is_ignored = provider_of(best.session.engine).package and any(key in change.options for key in _RUNTIMES_OWN)
        if options == best.options or is_ignored:
            return None
        trial.call(evaluate_once, best.loaded.case, options)  # its engine may end the process
        rival = Rival(best.loaded, options)
        if "precision" in change.options and not rival.is_half:
            with rival.session:
                raise NotSupportedError(f"{rival.session.engine} stays in float32")
        return rival

    def _confirm(self) -> Tuned:
        """The best, or the default if no gain remains."""
        if self._best is not self._default:
            compared, seconds = self._compare_again()
            if compared.is_gain:
                return self._tuned(self._best, compared)
            self._trials.append(_trial("all of it", compared, seconds, False, f"no gain remains: {compared.problem}"))
        elif not self._default_seconds:  # nothing else works
            self._default_seconds += [self._default.seconds() for _ in range(ROUNDS)]
        alone = 1e3 * statistics.median(self._default_seconds)
        return self._tuned(self._default, Comparison(1.0, (1.0, 1.0), (alone, alone), 0, is_over=True))

    def _compare_again(self) -> tuple[Comparison, list[float]]:
        """Compares the best with the default in several new sessions of both, which no search has selected."""
        ones: list[float] = []
        others: list[float] = []
        for pair in range(LOOKS):
            self._default.close()
            self._best.close()  # both first: equal sessions share an engine, and its memory
            self._default, self._best = (Rival(one.loaded, one.options) for one in (self._default, self._best))
            seconds = timing.take_turns([self._default.seconds, self._best.seconds], ROUNDS)
            ones, others = ones + seconds[0], others + seconds[1]
            compared = compare(ones, others)
            if pair + 1 >= PAIRS and compared.is_over:
                break
        self._default_seconds += ones
        return compared, others

    def _tuned(self, winner: Rival, compared: Comparison) -> Tuned:
        loaded = self._loaded
        times = [1e3 * seconds for seconds in self._default_seconds]
        default = Trial("the default", statistics.median(times), median_range(times), turns=len(times))
        return Tuned(
            LearningModelSessionOptions.from_dict(winner.options),
            compared.gain,
            compared.gain_range,
            compared.turns,
            (default, *self._trials),
            *compared.milliseconds,
            device=loaded.device.name,
            sizes=input_sizes(loaded.case.sizes.applied(loaded.model.input_features), loaded.given),
        )


def _trial(words: str, compared: Comparison, seconds: Sequence[float], kept: bool, problem: str) -> Trial:
    ends = median_range([1e3 * each for each in seconds])
    milliseconds, gain, turns = compared.milliseconds[1], compared.gain, compared.turns
    return Trial(words, milliseconds, ends, gain, compared.gain_range, turns, kept, problem)


def _merge(options: Facts, change: Facts) -> Facts:
    merged = copy.deepcopy(options)
    for key, value in change.items():
        merged[key] = merged[key] | value if isinstance(value, dict) else value
    return merged


# The rivals: a model with session options, ready to be timed.


class Loaded:
    """A case with its model, device and inputs loaded; of several inputs, the first is used.

    Attributes:
        given: the values of the inputs from files, by name; empty if there are none.
        features: those, or example values.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.model, self.device = case.load(), case.find_device()
        self.given = read(self.model, next(jobs(self.model, case.inputs))[1]) if case.inputs else {}
        self.features = self.given or generated(self.model, case.sizes)

    def open(self, options: Facts) -> LearningModelSession:
        """A session with these options, as in a file."""
        return LearningModelSession(self.model, self.device, LearningModelSessionOptions.from_dict(options))


def evaluate_once(case: Case, options: Facts) -> None:
    """Makes a session with these options, and evaluates it once."""
    loaded = Loaded(case)
    with loaded.open(options) as session:
        session.evaluate_features(loaded.features)


class Rival:
    """A session, ready to be timed.

    Args:
        loaded: the model and its inputs.
        options: the session's, as in a file.
    """

    def __init__(self, loaded: Loaded, options: Facts) -> None:
        self.loaded, self.options = loaded, options
        self.session = loaded.open(options)
        self._binding = LearningModelBinding(self.session)
        for name, value in loaded.features.items():
            self._binding.bind(name, value)
        outputs = self.session.evaluate(self._binding).outputs
        # copies: later evaluations may write to the same memory
        self.outputs = copy.deepcopy({name: as_numpy(value) for name, value in outputs.items()})

    @property
    def is_half(self) -> bool:
        """Whether it computes in half precision."""
        return self.session.precision is Precision.HALF

    def require_agreement(self, outputs: dict[str, Any]) -> None:
        """Raises EvaluationError if outputs differ by more than its precision explains."""
        agreement = compare_outputs(outputs, self.outputs, HALF_TOLERANCE if self.is_half else FLOAT_TOLERANCE)
        if not agreement.is_good:
            raise EvaluationError(str(agreement))

    def close(self) -> None:
        """Closes the session. Calling it twice is harmless."""
        self.session.close()

    def seconds(self) -> float:
        """The time of an evaluation, from a block of them."""
        return timing.time_block(lambda: self.session.evaluate(self._binding).outputs)


# The changes to try on a device, one session option after the other.


_RUNTIMES_OWN = ("tuning", "intra_op_thread_spinning")
"""Options that an engine from a separate package does not have."""


class Change(NamedTuple):
    """A change of the session options, as in a file."""

    words: str
    options: Facts


def changes_for(device: LearningModelDevice) -> Iterator[Change]:
    """The changes worth trying on a device.

    Omits those without effect there: threads on a GPU, where one of them submits the work.
    """
    yield from _on_cpu() if device.hardware == "cpu" else _on_gpu(device.provider)


def _on_cpu() -> Iterator[Change]:
    devices = plugins.devices("cpu")
    for engine in dict.fromkeys(device.engine for device in devices):
        yield Change(f"engine {engine}", {"engine": engine})
    if any(device.float16 for device in devices):
        yield Change("half precision", {"precision": "half"})
    cores = usable_cores()
    for threads in sorted({1, max(1, cores // 2), cores}):
        yield Change(f"{threads} intra-op thread{'s' * (threads > 1)}", {"intra_op_num_threads": threads})
    yield Change("no spinning", {"intra_op_thread_spinning": False})
    tunings = {
        "parallel execution": {"execution_mode": "parallel", "inter_op_num_threads": min(cores, 4)},
        "graph optimisation basic": {"graph_optimization": "basic"},
        "no memory arena": {"memory_arena": False},
        "no memory pattern": {"memory_pattern": False},
    }
    yield from (Change(words, {"tuning": tuning}) for words, tuning in tunings.items())


def _on_gpu(name: str) -> Iterator[Change]:
    provider = provider_of(name)
    for key, value in provider.worth_trying:
        yield Change(f"{key} {value}", {"provider_options": {key: value}})
    if provider.capture_option:
        yield Change("graph capture", {"graph_capture": True})
    if not provider.package:
        yield Change("graph optimisation basic", {"tuning": {"graph_optimization": "basic"}})


# How much faster one rival is than another in the same turns, and how certain that is.


GAIN = 1.03
"""A smaller gain does not count: it is not worth an option that others have to understand."""

ROUNDS = 7
"""After each such number of rounds, checks whether the rivals differ clearly."""

LOOKS = 5
"""The most checks; after them, the rivals count as equal."""

LOST = 4
"""A rival that is slower in each of this many first rounds is dropped: of two equal rivals, 1 in 16 is so unlucky."""

SURE = 0.95
"""The probability that an interval contains the true median."""


class Comparison(NamedTuple):
    """The comparison of two rivals.

    Attributes:
        gain: how many times as fast the other is, in the median turn.
        gain_range: the gain's 95 % interval.
        milliseconds: the times of both in the median turn.
        turns: how many turns each had.
        is_over: whether more turns would hardly change the result.
    """

    gain: float
    gain_range: tuple[float, float]
    milliseconds: tuple[float, float]
    turns: int
    is_over: bool

    @property
    def is_gain(self) -> bool:
        """Whether the other is faster, and chance is not a likely reason."""
        return self.gain >= GAIN and self.gain_range[0] > 1

    @property
    def problem(self) -> str:
        """Why there is no gain; "" if there is one."""
        low, high = self.gain_range
        if self.is_gain:
            return ""
        if low > 1:
            return "hardly faster"
        if self.gain <= 1 / GAIN and high < 1:
            return "slower"
        return "no faster" if high < GAIN else "not measurably different"


def compare(ones: Sequence[float], others: Sequence[float]) -> Comparison:
    """Compares two rivals by their seconds in the same turns."""
    ratios = [one / other for one, other in zip(ones, others, strict=True)]
    low, high = median_range(ratios)
    # The round with the median ratio: its times match the ratio, unlike the medians of each rival.
    rounds = sorted(zip(ones, others, strict=True), key=lambda pair: pair[0] / pair[1])
    before, after = rounds[(len(rounds) - 1) // 2]
    gain, turns = before / after, len(ratios)
    is_faster = turns % ROUNDS == 0 and gain >= GAIN and low > 1
    is_hopeless = turns >= ROUNDS and high < GAIN
    has_lost = turns >= LOST and max(ratios[:LOST]) < 1 / GAIN
    is_over = is_faster or is_hopeless or has_lost
    return Comparison(gain, (low, high), (1e3 * before, 1e3 * after), turns, is_over)


def median_range(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the true median, for any distribution: that of the sign test.

    Fewer than six values are never enough for that: for them it is their range.

    Example:
        >>> median_range([3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0])
        (1.0, 7.0)
    """
    ordered, count = sorted(values), len(values)
    off, throws = 0, 1  # of 2**count sequences of coin tosses, those with at most `off` heads
    while 2 * (throws + math.comb(count, off + 1)) <= (1 - SURE) * 2**count:
        off += 1
        throws += math.comb(count, off)
    return ordered[off], ordered[count - 1 - off]
