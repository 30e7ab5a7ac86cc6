"""The search for session options that are faster on a model than the default, and give the same results."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from timeit import timeit
from typing import Any, NamedTuple

from ..core.base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, as_numpy, compare_outputs
from ..core.base.machine import usable_cores
from ..core.base.messages import Facts, Progress
from ..core.base.timing import median_turn, take_turns
from ..core.cache import answers
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.features.descriptors import ShapedDescriptor
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.runtime.engine import ONNXRUNTIME
from ..core.runtime.providers import plugins
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..enums import Precision
from ..errors import EvaluationError, WinMLError
from ..inputs import trial
from ..inputs.examples import NOTHING_STATED, ExampleShape, StatedSizes
from ..inputs.files import generated, jobs, read
from ..inputs.model import input_sizes, load_model

LATENCY, THROUGHPUT = "latency", "throughput"

GAIN = 1.03
"""A smaller gain than this may be noise."""

LOSSES = 7
"""One turn of so many may be lost: on a busy machine, a gain that is there shows in nearly every turn."""

ROUNDS = 7
BLOCK_SECONDS = 0.05
REST_SECONDS = 0.02
"""The pause before a session is timed: the threads of the other one spin a while after their work."""

BATCHES = (4, 16)

Settings = Facts


class Trial(NamedTuple):
    """One change that was tried.

    Attributes:
        change: what was changed, in words.
        milliseconds: the time of an evaluation (of one item) with it; None where it does not work.
        gain: how many times as fast as the best until then; None where it does not work.
        kept: whether it was kept.
        problem: why it was not kept.
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
        gain_range: the least and the largest of that gain in the turns, without the extreme ones.
        trials: what was tried, in order.
        default_ms: the time of an evaluation (of one item) by default.
        tuned_ms: the same with these options.
        sizes: the shapes of the inputs, by name.
        start_ms: the time that a session takes to make by default, and with these options.
    """

    options: LearningModelSessionOptions
    batch: int
    gain: float
    gain_range: tuple[float, float]
    trials: tuple[Trial, ...]
    default_ms: float
    tuned_ms: float
    sizes: dict[str, ExampleShape] = field(default_factory=dict)
    start_ms: tuple[float, float] = (0.0, 0.0)


class _Change(NamedTuple):
    words: str
    values: Settings
    batch: int = 1


def tune(
    model: str,
    inputs: Sequence[str] = (),
    goal: str = LATENCY,
    progress: Progress = lambda done, what: None,
    contract: ImageContract | None = None,
    sizes: StatedSizes = NOTHING_STATED,
) -> Tuned:
    """Changes one setting after the other, and keeps what is faster and right.

    Every candidate takes turns with the best so far on the same inputs. It has to win twice, and nearly every turn, and
    its outputs must agree with the default's to 1e-3, or 2e-2 in half precision. At the end, the best and the default
    run in turns. If the best does not win, the default is the result.

    Args:
        model: the path of an .onnx file.
        inputs: files, as `winml-py run` takes them, of which the first is used; none for example inputs.
        goal: "latency", the time of one evaluation alone; or "throughput", evaluations in a stream
            (`evaluate_many`).
        progress: is called with the part that is done, from 0 to 1, and what is being tried.
        contract: how pictures become the inputs that it fits; None for what the model states.
        sizes: what is stated of sizes that the model leaves free: the options fix them, too.

    Raises:
        WinMLError: the model or an input cannot be used, or it cannot be evaluated by default.
    """
    # Candidates that lose would fill the cache, and push out what is used.
    with answers.temporary_cache():
        search = _Search(_Subject(model, tuple(inputs), contract, sizes), goal, progress)
        return replace(search.run(), sizes=search.sizes)


class _Subject(NamedTuple):
    """What is tuned, as another process can be told."""

    path: str
    inputs: tuple[str, ...]
    contract: ImageContract | None
    sizes: StatedSizes

    def load(self) -> tuple[LearningModel, Facts]:
        """The model, and the values of the inputs that are given; nothing where they are to be made up."""
        model = load_model(self.path, self.contract)
        return model, read(model, next(jobs(model, self.inputs))[1]) if self.inputs else {}


def _evaluate_once(subject: _Subject, values: Settings) -> None:
    """Makes a session and evaluates it once; for a process of its own, which the engine may end."""
    model, features = subject.load()
    with LearningModelSession(model, None, LearningModelSessionOptions.from_dict(values)) as session:
        session.evaluate_features(features or generated(model, subject.sizes))


class _Contender:
    """A session with its settings, ready to be timed."""

    def __init__(self, search: _Search, values: Settings, batch: int) -> None:
        self.values, self.batch, self._features, self._goal = values, batch, search.features, search.goal
        started = time.perf_counter()
        self.session = LearningModelSession(search.model, None, LearningModelSessionOptions.from_dict(values))
        self.start_ms = 1e3 * (time.perf_counter() - started)
        self._binding = LearningModelBinding(self.session)
        for name, value in search.features.items():
            self._binding.bind(name, value)
        self._items = 1 if self._goal == LATENCY else self.batch * usable_cores()
        self.outputs = self._arrays()
        self._count = max(1, int(BLOCK_SECONDS / max(self._time(1), 1e-6)))

    def _arrays(self) -> Facts:
        """The outputs, copied: evaluations that follow may write to the same memory."""
        return copy.deepcopy({name: as_numpy(value) for name, value in self.evaluate(1).items()})

    def evaluate(self, count: int) -> Mapping[str, Any]:
        """Evaluates so often, or for throughput so many batches on every core; gives the last outputs."""
        if self._goal == LATENCY:
            for _ in range(count):
                result = self.session.evaluate(self._binding)
            return result.outputs
        for result in self.session.evaluate_many([self._features] * (count * self._items), batch=self.batch):
            if result.error is not None:
                raise result.error
        return result.outputs

    def seconds(self) -> float:
        """An item's share of a block of evaluations."""
        time.sleep(REST_SECONDS)
        self.evaluate(1)
        return self._time(self._count) / (self._count * self._items)

    def _time(self, count: int) -> float:
        return timeit(lambda: self.evaluate(count), number=1)


class _Search:
    def __init__(self, subject: _Subject, goal: str, progress: Progress) -> None:
        self._subject, self.goal, self._progress = subject, goal, progress
        self.model, file_values = subject.load()
        self.features = file_values or generated(self.model, subject.sizes)
        self.sizes = input_sizes(subject.sizes.applied(self.model.input_features), file_values)
        self._shapes = subject.sizes.shapes(self.model.input_features)
        self.trials: list[Trial] = []

    def run(self) -> Tuned:
        options = LearningModelSessionOptions()
        options.batch_size_override = 0
        for name, shape in self._shapes.items():
            options.override_input_shape(name, shape)
        default = best = _Contender(self, options.to_dict(), 1)
        changes = list(self._changes())
        for index, change in enumerate(changes):
            self._progress(index / (len(changes) + 1), change.words)
            if "tuning" in change.values and best.session.engine != ONNXRUNTIME:
                problem = f"a setting of ONNX Runtime, and {best.session.engine} was faster"
                self.trials.append(Trial(change.words, problem=problem))
            elif change.batch != best.batch or _merge(best.values, change.values) != best.values:
                best = self._try_change(best, default, change)
        self._progress(len(changes) / (len(changes) + 1), "the best against the default")
        with default.session, best.session:
            return self._confirm(default, best)

    def _try_change(self, best: _Contender, default: _Contender, change: _Change) -> _Contender:
        """What is best after one more trial."""
        contender, values = None, _merge(best.values, change.values)
        try:
            if values != best.values:
                trial.call(_evaluate_once, self._subject, values)
            contender = _Contender(self, values, max(change.batch, best.batch))
            _require_agreement(default, contender)
            compared = _compare_contenders(best, contender, ROUNDS)
            if compared.is_gain:
                compared = min(compared, _compare_contenders(best, contender, ROUNDS))
        except trial.ProcessEndedError as ended:
            self.trials.append(Trial(change.words, problem=f"it ends the process ({ended})"))
            return best
        except WinMLError as error:
            self.trials.append(Trial(change.words, problem=str(error)))
            if contender is not None:
                contender.session.close()
            return best
        is_gain, words = compared.is_gain, change.words
        if "precision" in change.values:
            words = f"{words} ({contender.session.engine})"
        self.trials.append(Trial(words, compared.milliseconds[1], compared.gain, is_gain, compared.problem))
        loser = best if is_gain else contender
        if loser is not default:  # it is needed at the end
            loser.session.close()
        return contender if is_gain else best

    def _confirm(self, default: _Contender, best: _Contender) -> Tuned:
        """The best, or the default where no gain is left."""
        if best is not default:
            gain, gain_range, milliseconds = compared = _compare_contenders(default, best, 2 * ROUNDS)
            if compared.is_gain:
                options, start_ms = (
                    LearningModelSessionOptions.from_dict(best.values),
                    (default.start_ms, best.start_ms),
                )
                trials = tuple(self.trials)
                return Tuned(options, best.batch, gain, gain_range, trials, *milliseconds, start_ms=start_ms)
            best.session.close()
            self.trials.append(Trial("all of it against the default", milliseconds[1], gain, problem="no gain is left"))
        alone = 1e3 * statistics.median(default.seconds() for _ in range(ROUNDS))
        options, starts = LearningModelSessionOptions.from_dict(default.values), (default.start_ms, default.start_ms)
        return Tuned(options, default.batch, 1.0, (1.0, 1.0), tuple(self.trials), alone, alone, start_ms=starts)

    def _changes(self) -> Iterator[_Change]:
        devices = plugins.devices("cpu")
        for device in devices:
            yield _Change(f"engine {device.engine}", {"engine": device.engine})
        if any(device.float16 for device in devices):
            yield _Change("half precision", {"precision": "half"})
        cores = usable_cores()
        for threads in sorted({1, max(1, cores // 2), cores}):
            yield _Change(f"{threads} intra-op thread{'s' * (threads > 1)}", {"intra_op_num_threads": threads})
        yield _Change("no spinning", {"intra_op_thread_spinning": False})
        tunings = {
            "parallel execution": {"execution_mode": "parallel", "inter_op_num_threads": min(cores, 4)},
            "graph optimisation extended": {"graph_optimization": "extended"},
            "graph optimisation basic": {"graph_optimization": "basic"},
            "no memory arena": {"memory_arena": False},
            "no memory pattern": {"memory_pattern": False},
            "dynamic block base 4": {"dynamic_block_base": 4},
            "denormals as zero": {"denormals_as_zero": True},
        }
        yield from (_Change(words, {"tuning": tuning}) for words, tuning in tunings.items())
        if self.goal == THROUGHPUT and self._has_free_batch():
            yield from (_Change(f"batches of {size}", {}, size) for size in BATCHES)

    def _has_free_batch(self) -> bool:
        return all(
            isinstance(feature, ShapedDescriptor) and feature.shape[:1] == (-1,)
            for feature in (*self.model.input_features, *self.model.output_features)
        )


def _require_agreement(default: _Contender, contender: _Contender) -> None:
    tolerance = HALF_TOLERANCE if contender.session.precision is Precision.HALF else FLOAT_TOLERANCE
    agreement = compare_outputs(default.outputs, contender.outputs, tolerance)
    if not agreement.is_good:
        raise EvaluationError(str(agreement))


def _merge(values: Settings, change: Settings) -> Settings:
    merged = copy.deepcopy(values)
    for key, value in change.items():
        merged[key] = merged[key] | value if isinstance(value, dict) else value
    return merged


class Comparison(NamedTuple):
    """How two contenders compare.

    Attributes:
        gain: how many times as fast the other is, in the median turn.
        gain_range: the least and the largest of the turns, without one of seven at either end.
        milliseconds: the times of both in the median turn.
    """

    gain: float
    gain_range: tuple[float, float]
    milliseconds: tuple[float, float]

    @property
    def is_gain(self) -> bool:
        """Whether the other is faster, and not by chance alone."""
        return self.gain >= GAIN and self.gain_range[0] >= 1

    @property
    def problem(self) -> str:
        """Why it is no gain; "" where it is one."""
        if self.gain < GAIN:
            return "no faster"
        return "" if self.is_gain else "unsteady: {:.2f} to {:.2f} times as fast".format(*self.gain_range)


def _compare_contenders(one: _Contender, other: _Contender, rounds: int) -> Comparison:
    """How they compare in so many turns."""
    ones, others = take_turns([one.seconds, other.seconds], rounds)
    seconds, others_seconds = median_turn(ones, others)
    gains, losses = sorted(one / other for one, other in zip(ones, others, strict=True)), rounds // LOSSES
    gains = gains[losses : rounds - losses]
    return Comparison(seconds / others_seconds, (gains[0], gains[-1]), (1e3 * seconds, 1e3 * others_seconds))
