"""The search for session options that are faster on a model than the default, with the same results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from .._cases.case import Case, evaluate_to_arrays, find_input_sizes, sizes_to_json
from .._cases.examples import ExampleShape, make_examples, tell_assumed_sizes
from .._cases.files import assign_files, read_inputs
from ..core.base import timing
from ..core.base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, compare_outputs
from ..core.base.machine import count_usable_cores
from ..core.base.messages import Facts, Progress
from ..core.cache import records
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.providers import plugins
from ..core.runtime.providers.catalogue import find_provider
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelBinding, LearningModelSession
from ..enums import Precision
from ..errors import EvaluationError, WinMLError

MIN_GAIN = 1.03
"""A smaller gain does not count: it is not worth an option that others have to understand."""

ROUNDS = 11
"""The rounds of a comparison. If two candidates are equal, the second wins 10 or more of 11 in 0.6 % of the cases."""


@dataclass(frozen=True)
class Gain:
    """How much faster some options are than others.

    Attributes:
        ratio: how many times as fast, in the median round.
        milliseconds: the times of an evaluation before and after, in that round.
        slower_rounds: how many rounds were not faster.
    """

    ratio: float
    milliseconds: tuple[float, float]
    slower_rounds: int

    @property
    def is_clear(self) -> bool:
        """Whether it is worth an option, and chance is not a likely reason."""
        return self.ratio >= MIN_GAIN and self.slower_rounds <= 1


@dataclass(frozen=True)
class Trial:
    """One change, compared with the best until then.

    Attributes:
        change: the change, in words.
        gain: over the best until then; None if the change does not work.
        problem: why it was not kept; "" if it was.
    """

    change: str
    gain: Gain | None
    problem: str

    @property
    def kept(self) -> bool:
        """Whether the change is part of the best since then."""
        return not self.problem


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes:
        options: the fastest with the right results.
        gain: over the default, measured against it at the end; None if nothing helped, and the options are the default.
        trials: the trials in order.
        device: the name of the device.
        sizes: the shapes of the inputs, by name.
    """

    options: LearningModelSessionOptions
    gain: Gain | None
    trials: tuple[Trial, ...]
    device: str
    sizes: dict[str, ExampleShape]

    def to_json(self) -> Facts:
        """The result, ready for JSON."""
        return {
            "options": self.options.to_dict(),
            "gain": self.gain and asdict(self.gain),
            "trials": [asdict(trial) | {"kept": trial.kept} for trial in self.trials],
            "device": self.device,
            "sizes": sizes_to_json(self.sizes),
        }


def tune(case: Case, progress: Progress = lambda done, what: None) -> Tuned:
    """Changes one setting after the other, and keeps the changes that are faster and right.

    Every candidate runs in turns with the best so far. It is kept if it is faster by 3 % in the median round and faster
    in all rounds but one, and if its outputs match the default's to 1e-3, or 2e-2 in half precision. At the end, the
    best runs in turns with the default. If it is not faster by the same rule, the default is the result.

    Args:
        case: the model, its device and its inputs, of which the first is used. The options also fix its sizes.
        progress: called with the finished share, from 0 to 1, and the current trial.

    Raises:
        WinMLError: the model, the device or an input cannot be used, or it cannot be evaluated by default.
    """
    with records.use_temporary_cache():  # losing candidates would fill the cache, and push out used entries
        default = best = case.options(case.load()).to_dict()
        with closing(Candidate(case, default)) as candidate:
            expected, sizes, device = candidate.evaluate(), candidate.sizes, candidate.session.device
        changes = list_changes(device)
        trials = []
        for index, (words, change) in enumerate(changes):
            progress(index / (len(changes) + 1), words)
            options = _merge(best, change)
            if options == best:
                continue
            try:
                gain = compare_options(case, best, options, expected)
            except WinMLError as error:
                trials.append(Trial(words, None, error.message))
                continue
            trials.append(Trial(words, gain, "" if gain.is_clear else "not clearly faster"))
            if gain.is_clear:
                best = options
        # The search prefers changes that were lucky when they were measured, so the best is measured once more.
        progress(len(changes) / (len(changes) + 1), "the best against the default")
        total = compare_options(case, default, best, expected) if best != default else None
    if total is None or not total.is_clear:
        best, total = default, None
    return Tuned(LearningModelSessionOptions.from_dict(best), total, tuple(trials), device.name, sizes)


def _merge(options: Facts, change: Facts) -> Facts:
    return options | {key: options[key] | value if isinstance(value, dict) else value for key, value in change.items()}


def compare_options(case: Case, before: Facts, after: Facts, expected: dict[str, Any]) -> Gain:
    """Times two sets of options in turns, in new sessions of both.

    Raises:
        WinMLError: the case cannot be evaluated with these options.
        EvaluationError: with the options `after`, the outputs are not the expected ones.
    """
    with closing(Candidate(case, before)) as old, closing(Candidate(case, after)) as new:
        outputs = new.evaluate()
        is_half = new.session.precision is Precision.HALF  # an engine that is chosen has one only after it has run
        agreement = compare_outputs(expected, outputs, HALF_TOLERANCE if is_half else FLOAT_TOLERANCE)
        if not agreement.is_good:
            raise EvaluationError(str(agreement))
        return compute_gain(*timing.take_turns([old.measure_seconds, new.measure_seconds], ROUNDS))


def compute_gain(before: Sequence[float], after: Sequence[float]) -> Gain:
    """The gain of one candidate over another, from their seconds in the same rounds."""
    rounds = sorted(zip(before, after, strict=True), key=lambda pair: pair[0] / pair[1])
    old, new = rounds[len(rounds) // 2]
    return Gain(old / new, (1e3 * old, 1e3 * new), sum(old <= new for old, new in rounds))


class Candidate:
    """A session with these options, and with bound inputs."""

    def __init__(self, case: Case, options: Facts) -> None:
        model = case.load()
        values_from_files = read_inputs(model, next(assign_files(model, case.inputs))[1]) if case.inputs else {}
        self._features = case.sizes.apply(model.input_features)
        self.sizes = find_input_sizes(self._features, values_from_files)
        self.options = options
        session_options = LearningModelSessionOptions.from_dict(options)
        self.session = LearningModelSession(model, case.find_device(), session_options)
        self._given = set(values_from_files)
        self._values = values_from_files or make_examples(model, case.sizes)
        self._binding = LearningModelBinding(self.session)
        for name, value in self._values.items():
            self._binding.bind(name, value)

    def evaluate(self) -> dict[str, Any]:
        """The outputs, in new arrays."""
        with tell_assumed_sizes(self._features, self._given):
            return evaluate_to_arrays(self.session, self._values)

    def measure_seconds(self) -> float:
        """The time of an evaluation, from a block of them."""
        return timing.time_block(lambda: self.session.evaluate(self._binding).outputs)

    def close(self) -> None:
        """Closes the session."""
        self.session.close()


def list_changes(device: LearningModelDevice) -> list[tuple[str, Facts]]:
    """The changes of session options worth trying on a device: in words, and as in a file of options."""
    if device.hardware == "cpu":
        engines = plugins.find_devices("cpu")
        changes: list[tuple[str, Facts]] = [
            (f"engine {name}", {"engine": name}) for name in dict.fromkeys(engine.engine for engine in engines)
        ]
        if any(engine.float16 for engine in engines):
            changes.append(("half precision", {"precision": "half"}))
        cores = count_usable_cores()
        for threads in sorted({1, max(1, cores // 2), cores}):
            changes.append((f"{threads} intra-op thread{'s' * (threads > 1)}", {"intra_op_num_threads": threads}))
        parallel = {"execution_mode": "parallel", "inter_op_num_threads": min(cores, 4)}
        changes += [
            ("no spinning", {"intra_op_thread_spinning": False}),
            ("parallel execution", {"tuning": parallel}),
            ("no memory arena", {"tuning": {"memory_arena": False}}),
            ("no memory pattern", {"tuning": {"memory_pattern": False}}),
        ]
    else:
        provider = find_provider(device.provider)
        changes = [(f"{key} {value}", {"provider_options": {key: value}}) for key, value in provider.worth_trying]
        if provider.capture_option:
            changes.append(("graph capture", {"graph_capture": True}))
    return [*changes, ("graph optimisation basic", {"tuning": {"graph_optimization": "basic"}})]
