"""The search for session options that are faster on a model than the default, and give the same."""

from __future__ import annotations

import copy
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, outputs_error
from ...base.cpu_cores import usable_cores
from ...cache import answers
from ...errors import CanceledError, EvaluationError, WinMLError
from ...features.descriptors import ImageFeatureDescriptor, TensorFeatureDescriptor
from ...runtime.providers import plugins
from ...session.binding import LearningModelBinding
from ...session.model import LearningModel
from ...session.options import LearningModelSessionOptions
from ...session.session import LearningModelSession
from ..input_files import generated, jobs, read
from .measure import plain

LATENCY, THROUGHPUT = "latency", "throughput"

GAIN = 1.03
"""What is less than this much faster is not told from noise."""

ROUNDS = 7
BLOCK_SECONDS = 0.05
REST_SECONDS = 0.02  # for the threads of one session to fall asleep before the other is timed
BATCHES = (4, 16)

Settings = dict[str, Any]


class Trial(NamedTuple):
    """What was tried.

    Attributes:
        change: what was changed, in words.
        milliseconds: an evaluation (of one item) with it; None where it does not work.
        gain: how many times as fast as what was best until then; None where it does not work.
        kept: whether it was taken.
        problem: why it was not.
    """

    change: str
    milliseconds: float | None = None
    gain: float | None = None
    kept: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes:
        options: the fastest that gave right results; the default where nothing helped.
        batch: how many items to give to one evaluation: `evaluate_many(batch=)`.
        gain: how many times as fast as the default, measured against it at the end.
        trials: what was tried, in order.
        default_ms: an evaluation (of one item) by default.
        tuned_ms: and with these options.
    """

    options: LearningModelSessionOptions
    batch: int
    gain: float
    trials: tuple[Trial, ...]
    default_ms: float
    tuned_ms: float


class _Change(NamedTuple):
    words: str
    values: Settings
    batch: int = 1


def tune(
    model: str,
    inputs: Sequence[str] = (),
    goal: str = LATENCY,
    progress: Callable[[float, str], None] = lambda done, what: None,
) -> Tuned:
    """Changes one setting after the other, and keeps what is faster and right.

    Every candidate takes turns with the best so far on the same inputs; it has to win twice, and its outputs must agree
    with the default's to 1e-3, or 2e-2 in half precision. At the end the best takes turns with the default; unless it
    still wins, the default is the result.

    Args:
        model: the path of an .onnx file.
        inputs: files, as `winml-py run` takes them, of which the first is used; none for made-up values.
        goal: "latency", the time of one evaluation alone; or "throughput", evaluations in a stream
            (`evaluate_many`).
        progress: is told how much is done, from 0 to 1, and what is being tried.

    Raises:
        WinMLError: the model or an input cannot be used, or it cannot be evaluated by default.
    """
    with answers.apart():  # or candidates that lose would fill the cache, and push out what is used
        return _Search(model, inputs, goal, progress).run()


class _Contender:
    """A session with its settings, ready to be timed."""

    def __init__(self, search: _Search, values: Settings, batch: int) -> None:
        self.values, self.batch, self._features, self._goal = values, batch, search.features, search.goal
        self.session = LearningModelSession(search.model, None, LearningModelSessionOptions.from_dict(values))
        self._binding = LearningModelBinding(self.session)
        for name, value in search.features.items():
            self._binding.bind(name, value)
        self.outputs = self._arrays()
        started = time.perf_counter()
        self.evaluate(1)
        self._count = max(1, int(BLOCK_SECONDS / max(time.perf_counter() - started, 1e-6)))

    def _arrays(self) -> dict[str, Any]:
        if self._goal == THROUGHPUT:
            stream = self.session.evaluate_many([self._features] * self.batch, batch=self.batch)
            outputs = list(stream)[-1].outputs
        else:
            outputs = self.session.evaluate(self._binding).outputs
        return {name: _plain(value) for name, value in outputs.items()}

    def evaluate(self, count: int) -> None:
        if self._goal == LATENCY:
            for _ in range(count):
                self.session.evaluate(self._binding)
            return
        items = [self._features] * (count * self.batch * usable_cores())
        for result in self.session.evaluate_many(items, batch=self.batch):
            if result.error is not None:
                raise result.error

    def seconds(self) -> float:
        """An item's share of a block of evaluations."""
        time.sleep(REST_SECONDS)
        self.evaluate(1)
        started = time.perf_counter()
        self.evaluate(self._count)
        items = self._count if self._goal == LATENCY else self._count * self.batch * usable_cores()
        return (time.perf_counter() - started) / items

    def close(self) -> None:
        self.session.close()


class _Search:
    def __init__(self, model: str, inputs: Sequence[str], goal: str, progress: Callable[[float, str], None]) -> None:
        self.model, self.goal, self._progress = LearningModel.load(model), goal, progress
        self.features: Mapping[str, Any] = self._values(inputs)
        self.trials: list[Trial] = []

    def _values(self, inputs: Sequence[str]) -> Mapping[str, Any]:
        if not inputs:
            return generated(self.model)
        _, files = next(iter(jobs(self.model, inputs)))
        return read(self.model, files)

    def run(self) -> Tuned:
        options = LearningModelSessionOptions()
        options.batch_size_override = 0
        default = _Contender(self, options.to_dict(), 1)
        expected, best = default.outputs, default
        changes = list(self._changes())
        for index, change in enumerate(changes):
            self._progress(index / (len(changes) + 1), change.words)
            if self._is_set(best, change):
                continue
            best = self._tried(best, default, change, expected)
        self._progress(len(changes) / (len(changes) + 1), "the best against the default")
        gain, default_ms, tuned_ms = _compared(default, best, 2 * ROUNDS) if best is not default else (1.0, 0.0, 0.0)
        if gain < GAIN:
            if best is not default:
                best.close()
                self.trials.append(Trial("all of it against the default", tuned_ms, gain, problem="no gain is left"))
            best, gain = default, 1.0
        if best is default:
            default_ms = tuned_ms = 1e3 * statistics.median(default.seconds() for _ in range(ROUNDS))
        best.close()
        default.close()
        return Tuned(
            LearningModelSessionOptions.from_dict(best.values),
            best.batch,
            gain,
            tuple(self.trials),
            default_ms,
            tuned_ms,
        )

    def _is_set(self, best: _Contender, change: _Change) -> bool:
        return change.batch == best.batch and _merged(best.values, change.values) == best.values

    def _tried(self, best: _Contender, default: _Contender, change: _Change, expected: Mapping[str, Any]) -> _Contender:
        """What is best now."""
        contender = None
        try:
            contender = _Contender(self, _merged(best.values, change.values), max(change.batch, best.batch))
            error = outputs_error(expected, contender.outputs)
            half = contender.session.precision.name == "HALF"
            if error > (HALF_TOLERANCE if half else FLOAT_TOLERANCE):
                raise EvaluationError(f"its results differ by {error:.1e}")
            gain, _, milliseconds = _compared(best, contender, ROUNDS)
            if gain >= GAIN:
                again, _, milliseconds = _compared(best, contender, ROUNDS)
                gain = min(gain, again)
        except CanceledError:
            raise
        except WinMLError as error_:
            self.trials.append(Trial(change.words, problem=str(error_)))
            if contender is not None:
                contender.close()
            return best
        kept = gain >= GAIN
        self.trials.append(Trial(change.words, milliseconds, gain, kept, "" if kept else "no faster"))
        loser = best if kept else contender
        if loser is not default:
            loser.close()
        return contender if kept else best

    def _changes(self) -> Iterator[_Change]:
        devices = plugins.devices("cpu") if plugins.installed() else []
        for device in devices:
            name = device.provider.removesuffix("ExecutionProvider").lower()
            yield _Change(f"engine {name}", {"engine": name})
        if any(device.float16 for device in devices):
            yield _Change("half precision", {"precision": "half"})
        cores = usable_cores()
        for threads in sorted({1, max(1, cores // 2), cores}):
            yield _Change(f"{threads} intra-op thread{'s' * (threads > 1)}", {"intra_op_num_threads": threads})
        yield _Change("no spinning", {"intra_op_thread_spinning": False})
        parallel = {"execution_mode": "parallel", "inter_op_num_threads": min(cores, 4)}
        yield _Change("parallel execution", {"tuning": parallel})
        for level in ("extended", "basic"):
            yield _Change(f"graph optimisation {level}", {"tuning": {"graph_optimization": level}})
        yield _Change("no memory arena", {"tuning": {"memory_arena": False}})
        yield _Change("no memory pattern", {"tuning": {"memory_pattern": False}})
        yield _Change("dynamic block base 4", {"tuning": {"dynamic_block_base": 4}})
        yield _Change("denormals as zero", {"tuning": {"denormals_as_zero": True}})
        if self.goal == THROUGHPUT and self._has_free_batch():
            yield from (_Change(f"batches of {size}", {}, size) for size in BATCHES)

    def _has_free_batch(self) -> bool:
        for feature in itertools.chain(self.model.input_features, self.model.output_features):
            if not isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
                return False
            if not feature.shape or feature.shape[0] != -1:
                return False
        return True


def _plain(value: Any) -> Any:
    """An output as an array of its own; a map or a sequence as it is, with arrays in it."""
    if isinstance(value, list):
        return [_plain(element) for element in value]
    array = plain(value)
    return value if array is None else array.copy()


def _merged(values: Settings, change: Settings) -> Settings:
    merged = copy.deepcopy(values)
    for key, value in change.items():
        merged[key] = merged[key] | value if isinstance(value, dict) else value
    return merged


def _compared(one: _Contender, other: _Contender, rounds: int) -> tuple[float, float, float]:
    """How many times as fast the other is: the median of ratios of turns; and what both took, in milliseconds."""
    pairs = []
    for index in range(rounds):
        if index % 2:
            second = other.seconds()
            pairs.append((one.seconds(), second))
        else:
            pairs.append((one.seconds(), other.seconds()))
    ratio = statistics.median(first / second for first, second in pairs)
    firsts, seconds = zip(*pairs, strict=True)
    return ratio, 1e3 * statistics.median(firsts), 1e3 * statistics.median(seconds)
