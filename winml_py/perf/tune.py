"""The search for session options that are faster on a model than the default, with the same results."""

from __future__ import annotations

import copy
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from .._inputs import trial
from .._inputs.examples import NOTHING_STATED, ExampleShape, StatedSizes
from .._inputs.files import given_values
from .._inputs.model import input_sizes
from ..core.base.atomic_files import written_to, written_whole
from ..core.base.machine import usable_cores
from ..core.base.messages import Facts, Progress
from ..core.base.timing import take_turns
from ..core.cache import answers
from ..core.features.descriptors import ShapedDescriptor
from ..core.imaging.contract import ImageContract
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.providers import plugins
from ..core.runtime.providers.catalogue import provider_of
from ..core.session.options import LearningModelSessionOptions
from ..errors import InvalidArgumentError, WinMLError
from .interleaved import LOOKS, ROUNDS, Comparison, OtherPrograms, compare, is_enough, median_range
from .rival import LATENCY, THROUGHPUT, Loaded, Rival, Subject, evaluate_apart

PAIRS = 3
"""At the end, the best and the default are made again at least this often: the place of a session's memory makes it a
few percent faster or slower for its whole life."""


class ModelStep(NamedTuple):
    """A way to make a new model from a model, with the same inputs and outputs.

    Attributes:
        words: its name.
        make: takes the path of the old model, the path to write to, and values of the inputs as arrays, by name.
            Raises a `WinMLError` if that is impossible.
        is_half: whether the new model computes in float16.
    """

    words: str
    make: Callable[[str, str, Mapping[str, object]], object]
    is_half: bool = False


class Trial(NamedTuple):
    """One trial: the default first, then one change after the other.

    Attributes:
        change: the change, in words.
        milliseconds: the time of an evaluation (per item) with it; None if it does not work.
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
        batch: how many items to give to one evaluation: `evaluate_many(batch=)`.
        gain: how many times as fast as the default, measured against it at the end.
        gain_range: the gain's 95 % interval; see `Comparison`.
        turns: how many turns the two had at the end; 0 if nothing helped.
        trials: the trials in order, after the default.
        default_ms: the time of an evaluation (per item) by default.
        tuned_ms: the same with these options.
        device: the name of the device.
        model_steps: the changes of the model, if it was written.
        sizes: the shapes of the inputs, by name.
        start_ms: the time to make a session by default, and with these options.
        other_cores: how many cores other programs used during the search.
    """

    options: LearningModelSessionOptions
    batch: int
    gain: float
    gain_range: tuple[float, float]
    turns: int
    trials: tuple[Trial, ...]
    default_ms: float
    tuned_ms: float
    device: str = ""
    model_steps: tuple[str, ...] = ()
    sizes: dict[str, ExampleShape] = field(default_factory=dict)
    start_ms: tuple[float, float] = (0.0, 0.0)
    other_cores: float = 0.0


def tune(
    model: str,
    inputs: Sequence[str] = (),
    goal: str = LATENCY,
    progress: Progress = lambda done, what: None,
    contract: ImageContract | None = None,
    sizes: StatedSizes = NOTHING_STATED,
    device: str = "cpu",
    steps: Sequence[ModelStep] = (),
    output_model: str = "",
) -> Tuned:
    """Changes one setting after the other, and keeps the changes that are faster and right.

    Every candidate runs in turns with the default and the best so far, until they differ clearly or count as equal. It
    must be faster than both by 3 % in the median turn, its 95 % interval must be above 1, and its outputs must match
    the default's to 1e-3, or 2e-2 in half precision. At the end, the best and the default are made again, and run in
    turns. Processor time of other programs counts against a gain.

    Args:
        model: the path of an .onnx file.
        inputs: files, as for `Case`, of which the first is used; none for example inputs.
        goal: "latency", the time of a single evaluation; or "throughput", evaluations in a stream
            (`evaluate_many`).
        progress: called with the finished share, from 0 to 1, and the current trial.
        contract: as for `Case`.
        sizes: as for `Case`; the options also fix them.
        device: as for `Case`.
        steps: ways to change the model itself, which are tried first.
        output_model: the path of the new model; it is written if one of the steps is kept.

    Raises:
        WinMLError: the model, the device or an input cannot be used, it cannot be evaluated by default, or the new
            model cannot be written.
    """
    if bool(steps) != bool(output_model):
        raise InvalidArgumentError("steps and output_model require each other.", hint="Pass both.")
    # Losing candidates would fill the cache, and push out used entries.
    # Windows cannot remove a file that a session still maps: the folder then stays, and the search has not failed.
    with (
        answers.temporary_cache(),
        tempfile.TemporaryDirectory(prefix="winml-py-", ignore_cleanup_errors=True) as folder,
    ):
        loaded = Loaded(Subject(model, tuple(inputs), contract, sizes, device, goal))
        return _Search(loaded, steps, folder, output_model, progress).run()


class _Candidate(NamedTuple):
    """The next trial. `make` returns the rival, or the reason for none: "" if it would be the same."""

    words: str
    make: Callable[[], Rival | str]
    is_step: bool = False


class _Search:
    def __init__(
        self, loaded: Loaded, steps: Sequence[ModelStep], folder: str, output_model: str, progress: Progress
    ) -> None:
        self._loaded, self._steps, self._folder, self._output_model = loaded, steps, folder, output_model
        self._progress = progress
        self._default = self._best = Rival(loaded, self._default_values(), 1)
        self._threads = usable_cores() if loaded.device.hardware == "cpu" else 1
        self._other_cores: list[float] = []
        self._default_seconds: list[float] = []
        self._trials: list[Trial] = []
        self._kept_steps: list[str] = []

    def run(self) -> Tuned:
        try:
            candidates = [*self._step_candidates(), *self._change_candidates()]
            for index, candidate in enumerate(candidates):
                self._progress(index / (len(candidates) + 1), candidate.words)
                self._try(candidate)
            self._progress(len(candidates) / (len(candidates) + 1), "the best against the default")
            return self._confirm()
        finally:
            self._default.close()
            self._best.close()

    def _default_values(self) -> Facts:
        options = LearningModelSessionOptions()
        options.batch_size_override = 0
        loaded = self._loaded
        for name, shape in loaded.subject.sizes.shapes(loaded.model.input_features).items():
            options.override_input_shape(name, shape)
        return options.to_dict()

    # The trials

    def _step_candidates(self) -> Iterator[_Candidate]:
        for index, step in enumerate(self._steps):
            yield _Candidate(step.words, partial(self._take_step, index, step), is_step=True)

    def _take_step(self, index: int, step: ModelStep) -> Rival | str:
        first, before = self._loaded, self._best.loaded
        if step.is_half and not first.device.supports_float16:
            return f"{first.device.name} has no half precision"
        folder = os.path.join(self._folder, str(index))
        os.mkdir(folder)
        # Weights above 2 GB go to a file beside the model, which contains that file's name.
        path = os.path.join(folder, os.path.basename(self._output_model))
        arrays = given_values(first.model, first.subject.inputs) if first.subject.inputs else first.features
        step.make(before.subject.path, path, arrays)
        subject = before.subject._replace(path=path)
        evaluate_apart(subject, self._best.values)
        loaded = Loaded(subject, first.features, before.is_half or step.is_half)
        return Rival(loaded, self._best.values, self._best.batch)

    def _change_candidates(self) -> Iterator[_Candidate]:
        tries_batches = self._loaded.subject.goal == THROUGHPUT and self._has_free_batch()
        for change in changes_for(self._loaded.device, tries_batches):
            yield _Candidate(change.words, partial(self._make_change, change))

    def _make_change(self, change: Change) -> Rival | str:
        best, engine = self._best, self._best.session.engine
        if not change.has_effect_on(engine):
            return ""
        values, batch = _merge(best.values, change.values), max(change.batch, best.batch)
        if values == best.values and batch == best.batch:
            return ""
        if values != best.values:
            evaluate_apart(best.loaded.subject, values)
        rival = Rival(best.loaded, values, batch)
        if "precision" in change.values and not rival.is_half:
            engine = rival.session.engine
            rival.close()
            return f"{engine} stays in float32"
        return rival

    def _has_free_batch(self) -> bool:
        model = self._loaded.model
        return all(
            isinstance(feature, ShapedDescriptor) and feature.shape[:1] == (-1,)
            for feature in (*model.input_features, *model.output_features)
        )

    # The comparisons

    def _try(self, candidate: _Candidate) -> None:
        """Times a candidate against the default and the best, and makes it the best if it is faster than both."""
        rival = self._made(candidate)
        if rival is None:
            return
        try:
            rival.require_agreement(self._default.outputs)
            comparisons, seconds = self._compare(rival)
        except WinMLError as error:
            self._trials.append(Trial(candidate.words, problem=str(error)))
            rival.close()
            return
        over_default, over_best = comparisons[0], comparisons[-1]
        is_gain = over_default.is_gain and over_best.is_gain
        problem = over_best.problem or (f"against the default: {over_default.problem}" if not is_gain else "")
        words = candidate.words
        if rival.session.precision is not self._best.session.precision and not candidate.is_step:
            words = f"{words} ({rival.session.engine})"
        self._trials.append(_trial(words, over_best, seconds, is_gain, problem))
        if is_gain:
            self._kept_steps += [words] if candidate.is_step else []
            rival, self._best = self._best, rival
        if rival is not self._default:  # later trials need the default
            rival.close()

    def _made(self, candidate: _Candidate) -> Rival | None:
        """The rival; None, with a row that gives the reason, if there is none."""
        try:
            made = candidate.make()
        except trial.ProcessEndedError as ended:
            made = f"it ends the process ({ended})"
        except WinMLError as error:
            made = str(error)
        if isinstance(made, Rival):
            return made
        if made:
            self._trials.append(Trial(candidate.words, problem=made))
        return None

    def _compare(self, rival: Rival) -> tuple[list[Comparison], list[float]]:
        """Compares it with the default, and with the best if that differs; returns its seconds, too."""
        entrants = [self._default, *([self._best] if self._best is not self._default else []), rival]
        others = OtherPrograms(self._threads)

        def compare_all(seconds: Sequence[Sequence[float]]) -> list[Comparison]:
            return [compare(each, seconds[-1], others.cores()) for each in seconds[:-1]]

        seconds = take_turns(
            [entrant.seconds for entrant in entrants],
            LOOKS * ROUNDS,
            lambda seconds: is_enough(compare_all(seconds)),
        )
        comparisons = compare_all(seconds)
        self._other_cores.append(comparisons[0].other_cores)
        self._default_seconds += seconds[0]
        return comparisons, seconds[-1]

    def _confirm(self) -> Tuned:
        """The best, or the default if no gain remains."""
        starts = self._default.start_ms, self._best.start_ms
        if self._best is not self._default:
            compared, seconds = self._compare_again()
            if compared.is_gain:
                if self._kept_steps:
                    write_model(self._best.loaded.subject.path, self._output_model)
                return self._tuned(self._best, compared, starts, tuple(self._kept_steps))
            self._trials.append(_trial("all of it", compared, seconds, False, f"no gain remains: {compared.problem}"))
        elif not self._default_seconds:  # nothing else works
            self._default_seconds += [self._default.seconds() for _ in range(ROUNDS)]
        alone = 1e3 * statistics.median(self._default_seconds)
        none = Comparison(1.0, (1.0, 1.0), (alone, alone), 0, is_over=True)
        return self._tuned(self._default, none, (starts[0], starts[0]))

    def _compare_again(self) -> tuple[Comparison, list[float]]:
        """Compares the best with the default in several new sessions of both, which no search has selected."""
        ones: list[float] = []
        others: list[float] = []
        programs = OtherPrograms(self._threads)
        for pair in range(LOOKS):
            self._default.close()
            self._best.close()  # both first: equal sessions share an engine, and its memory
            self._default, self._best = self._default.remake(), self._best.remake()
            seconds = take_turns([self._default.seconds, self._best.seconds], ROUNDS)
            ones, others = ones + seconds[0], others + seconds[1]
            compared = compare(ones, others, programs.cores())
            if pair + 1 >= PAIRS and compared.is_over:
                break
        self._other_cores.append(compared.other_cores)
        self._default_seconds += ones
        return compared, others

    def _tuned(
        self,
        winner: Rival,
        compared: Comparison,
        start_ms: tuple[float, float],
        steps: tuple[str, ...] = (),
    ) -> Tuned:
        loaded = self._loaded
        times = [1e3 * seconds for seconds in self._default_seconds]
        default = Trial("the default", statistics.median(times), median_range(times), turns=len(times))
        return Tuned(
            LearningModelSessionOptions.from_dict(winner.values),
            winner.batch,
            compared.gain,
            compared.gain_range,
            compared.turns,
            (default, *self._trials),
            *compared.milliseconds,
            device=loaded.device.name,
            model_steps=steps,
            sizes=input_sizes(loaded.subject.sizes.applied(loaded.model.input_features), loaded.given),
            start_ms=start_ms,
            other_cores=statistics.fmean(self._other_cores or [0.0]),
        )


def _trial(words: str, compared: Comparison, seconds: Sequence[float], kept: bool, problem: str) -> Trial:
    ends = median_range([1e3 * each for each in seconds])
    milliseconds, gain, turns = compared.milliseconds[1], compared.gain, compared.turns
    return Trial(words, milliseconds, ends, gain, compared.gain_range, turns, kept, problem)


def _merge(values: Facts, change: Facts) -> Facts:
    merged = copy.deepcopy(values)
    for key, value in change.items():
        merged[key] = merged[key] | value if isinstance(value, dict) else value
    return merged


def write_model(source: str, destination: str) -> None:
    """Copies a model and the weights beside it, if any; each file complete or not at all.

    Raises:
        StorageAccessError: a file cannot be written.
    """
    for ending in (".data", ""):  # the weights first: other programs could see a model without them
        if os.path.exists(source + ending):
            with (
                written_to(destination),
                open(source + ending, "rb") as old,
                written_whole(destination + ending) as new,
            ):
                shutil.copyfileobj(old, new)


# The changes to try on a device, one session option after the other.


BATCHES = (4, 16)

_RUNTIMES_OWN = ("tuning", "intra_op_thread_spinning")
"""Options that an engine from a separate package does not have."""


class Change(NamedTuple):
    """A change of the session options, as in a file, and of the number of items per evaluation."""

    words: str
    values: Facts
    batch: int = 1

    def has_effect_on(self, engine: str) -> bool:
        """Whether the engine has the changed options."""
        return not (provider_of(engine).package and any(key in self.values for key in _RUNTIMES_OWN))


def changes_for(device: LearningModelDevice, tries_batches: bool) -> Iterator[Change]:
    """The changes worth trying on a device.

    Omits those without effect there: threads on a GPU, where one of them submits the work.
    """
    yield from _on_cpu() if device.hardware == "cpu" else _on_gpu(device.provider)
    if tries_batches:
        yield from (Change(f"batches of {size}", {}, size) for size in BATCHES)


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
        "graph optimisation layout": {"graph_optimization": "layout"},
        "graph optimisation extended": {"graph_optimization": "extended"},
        "graph optimisation basic": {"graph_optimization": "basic"},
        "no prepacked weights": {"prepacking": False},
        "no memory arena": {"memory_arena": False},
        "arena shrinkage": {"memory_arena": True, "arena_shrinkage": True},
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
