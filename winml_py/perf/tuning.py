"""The search for session options that are faster on a model than the default, with the same results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from .._examples import make_examples
from .._values import evaluate_to_arrays, make_free_options, match_inputs
from ..core.base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, compare_outputs, is_empty, is_same
from ..core.base.arguments import require_type
from ..core.base.machine import count_usable_cores
from ..core.base.messages import Facts, Progress
from ..core.base.winrt_object import private_state
from ..core.cache import use_temporary_cache
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.providers import plugins
from ..core.runtime.providers.catalogue import find_provider
from ..core.runtime.providers.provider import ProviderDevice
from ..core.session.compile import describe_measured
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelBinding, LearningModelSession
from ..enums import Precision
from ..errors import EvaluationError, NotSupportedError, WinMLError
from .exact import find_inexact_reason

Values = Mapping[str, Any]
"""The values of one evaluation, by the names of inputs."""

MIN_GAIN = 1.03
"""A smaller gain does not count: it is not worth an option that others have to understand."""

ROUNDS = 11
"""The rounds of a comparison. If two candidates are equal, the second wins 10 or more of 11 in 0.6 % of the cases."""

BLOCK_SECONDS = 0.03
REST_SECONDS = 0.02

TIMED = 8
"""How many of the given inputs are timed, the first ones; all are compared."""


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
    """

    options: LearningModelSessionOptions
    gain: Gain | None
    trials: tuple[Trial, ...]
    device: str

    def to_json(self) -> Facts:
        """The result, ready for JSON."""
        return {
            "options": self.options.to_dict(),
            "gain": self.gain and asdict(self.gain),
            "trials": [asdict(trial) | {"kept": trial.kept} for trial in self.trials],
            "device": self.device,
        }


def tune(
    model: LearningModel,
    inputs: Values | Iterable[Values] = (),
    device: LearningModelDevice | None = None,
    options: LearningModelSessionOptions | None = None,
) -> LearningModelSessionOptions:
    """Finds the session options that are the fastest on a model, with the results of the default options.

    Takes some minutes, and needs a quiet machine. docs/engines.md says what another engine must keep to.

    Args:
        model: the model.
        inputs: the values of one evaluation by the names of inputs, as `LearningModelBinding.bind` takes them; better a
            list of such mappings, with every shape that the program uses, and with NaN, infinity and other rare numbers
            if there are any. Without inputs, examples are timed, and the engine and the number type stay as they are.
        device: where to run; the CPU by default.
        options: the options to improve. An engine or a number type that they name stays. By default, those of a session
            without options.

    Returns:
        The options for sessions of the same model. See `LearningModelSessionOptions.tuned_for` and `save`.

    Raises:
        InvalidArgumentError: a name is no input's.
        WinMLError: the model cannot be evaluated on an input with the options to improve.

    Example:
        >>> import numpy as np
        >>> from winml_py import LearningModel, LearningModelSession
        >>> from winml_py.perf import tune
        >>> model = LearningModel.load("models/digits.onnx")
        >>> options = tune(model, {"image": np.zeros((1, 1, 28, 28), np.float32)})  # doctest: +SKIP
        >>> options.save("digits.json")  # doctest: +SKIP
        >>> session = LearningModelSession(model, None, options)  # doctest: +SKIP
    """
    require_type(model, LearningModel, 'Load the model first with LearningModel.load("model.onnx").')
    items = [match_inputs(model, values) for values in ([inputs] if isinstance(inputs, Mapping) else inputs)]
    return search(model, items, make_examples(model.input_features) if not items else {}, device, options).options


def search(
    model: LearningModel,
    inputs: Sequence[Values],
    examples: Values,
    device: LearningModelDevice | None = None,
    options: LearningModelSessionOptions | None = None,
    progress: Progress = lambda done, what: None,
) -> Tuned:
    """Changes one setting after the other, and keeps the changes that are faster and right.

    Every candidate runs in turns with the best so far. It is kept if it is faster by 3 % in the median round and faster
    in all rounds but one, and if its outputs match the default's on all inputs to 1e-3, or 2e-2 in a 16-bit type. At
    the end, the best runs in turns with the default. If it is not faster by the same rule, the default is the result.

    Args:
        model: as for `tune`, like the device and the options.
        inputs: the values of each evaluation.
        examples: values that are timed if there are no inputs.
        device: see `tune`.
        options: see `tune`.
        progress: called with the finished share, from 0 to 1, and the current trial.

    Raises:
        WinMLError: as `tune` does.
    """
    device = LearningModelDevice() if device is None else device
    options = make_free_options() if options is None else options
    default = options.to_dict() | {"tuned_for": {}}
    best = default
    trials = []
    with use_temporary_cache():  # losing candidates would fill the cache, and push out used entries
        comparison = OptionsComparison(model, device, inputs, examples, default)
        changes = list_changes(device)
        for index, (words, change) in enumerate(changes):
            progress(index / (len(changes) + 1), words)
            changed = _merge(best, change)
            if changed == best or any(default[name] not in (None, "auto") for name in change if name in ENGINE_KEYS):
                continue
            try:
                gain = comparison.compare(best, changed)
            except WinMLError as error:
                trials.append(Trial(words, None, error.message))
                continue
            trials.append(Trial(words, gain, "" if gain.is_clear else "not clearly faster"))
            if gain.is_clear:
                best = changed
        # The search prefers changes that were lucky when they were measured, so the best is measured once more.
        progress(len(changes) / (len(changes) + 1), "comparing the best with the default")
        total = None
        if best != default:
            try:
                total = comparison.compare(default, best)
            except WinMLError as error:  # the results differ from one time to the next, say
                trials.append(Trial("all of these", None, error.message))
    if total is None or not total.is_clear:
        best, total = default, None
    found = LearningModelSessionOptions.from_dict(best | {"tuned_for": describe_measured(model, device)})
    return Tuned(found, total, tuple(trials), device.name)


def _merge(options: Facts, change: Facts) -> Facts:
    return options | {key: options[key] | value if isinstance(value, dict) else value for key, value in change.items()}


class OptionsComparison:
    """Compares options on inputs: the results with those of the default options, and the times.

    Args:
        model: the model.
        device: where it runs.
        inputs: the given inputs.
        examples: what is timed if there are none.
        default: the default options, as in a file.

    Raises:
        WinMLError: the model cannot be evaluated by default. No other engine is tried on such inputs: its kernels may
            check less than ONNX Runtime's, and write over other memory.
    """

    def __init__(
        self,
        model: LearningModel,
        device: LearningModelDevice,
        inputs: Sequence[Values],
        examples: Values,
        default: Facts,
    ) -> None:
        self._model, self._device, self._default = model, device, default
        self._is_given, self._inputs = bool(inputs), inputs or [examples]
        with closing(self.open(default)) as candidate:
            self._expected = [candidate.evaluate(values) for values in self._inputs]

    def open(self, options: Facts) -> Candidate:
        """A session with these options."""
        made = LearningModelSession(self._model, self._device, LearningModelSessionOptions.from_dict(options))
        return Candidate(made, options, self._inputs[:TIMED])

    def compare(self, before: Facts, after: Facts) -> Gain:
        """Times two sets of options in turns, in new sessions of both.

        Raises:
            NotSupportedError: the options name an engine that may not run the model.
            EvaluationError: with the options `after`, the outputs are not the expected ones.
            WinMLError: the model cannot be evaluated with these options.
        """
        with closing(self.open(before)) as old:
            if any(after[key] != self._default[key] for key in ENGINE_KEYS):
                self._require_safe(after["engine"])
            with closing(self.open(after)) as new:
                tolerance = HALF_TOLERANCE if new.session.precision.is_half else FLOAT_TOLERANCE
                for values, expected in zip(self._inputs, self._expected, strict=True):
                    if problem := describe_difference(expected, new.evaluate(values), tolerance):
                        raise EvaluationError(problem)
                seconds: dict[Candidate, list[float]] = {old: [], new: []}
                for turn in range(ROUNDS):  # in turns, so that disturbances affect both alike
                    for candidate in (new, old) if turn % 2 else (old, new):
                        seconds[candidate].append(candidate.measure_seconds())
                return compute_gain(*seconds.values())

    def _require_safe(self, engine: str) -> None:
        """Refuses an engine that may compute other results than ONNX Runtime on inputs that nobody compares."""
        provider = find_provider(list_engines()[engine].provider)
        content = private_state(self._model)
        if not self._is_given:
            problem = "it is only tried with inputs that you pass"
        elif any(_has_no_numbers(value) for values in self._inputs for value in values.values()):
            problem = "an empty input can crash this engine"
        elif all(is_empty(value) for outputs in self._expected for value in outputs.values()):
            problem = "the outputs are empty for all inputs that you pass, so nothing can be compared"
        elif reason := find_inexact_reason(content.open().read_graph(content.header), provider.exact_operators):
            problem = f"its results might differ: {reason}"
        else:
            return
        raise NotSupportedError(f"{engine}: {problem}")


def _has_no_numbers(value: Any) -> bool:
    return 0 in value.shape if hasattr(value, "shape") else is_empty(value)


def describe_difference(expected: Facts, actual: Facts, tolerance: float) -> str:
    """How results differ from the expected ones; "" if they agree. Outputs that are both empty, or equal, agree: there
    may be nothing but NaN in them.
    """
    told = {name: value for name, value in expected.items() if not is_same(value, actual.get(name))}
    if not told:
        return ""
    agreement = compare_outputs(told, actual, tolerance)
    return "" if agreement.is_good else str(agreement)


def compute_gain(before: Sequence[float], after: Sequence[float]) -> Gain:
    """The gain of one candidate over another, from their seconds in the same rounds."""
    rounds = sorted(zip(before, after, strict=True), key=lambda pair: pair[0] / pair[1])
    old, new = rounds[len(rounds) // 2]
    return Gain(old / new, (1e3 * old, 1e3 * new), sum(old <= new for old, new in rounds))


class Candidate:
    """A session with these options, and with bound inputs."""

    def __init__(self, session: LearningModelSession, options: Facts, timed: Sequence[Values]) -> None:
        self.session, self.options = session, options
        self._bindings = []
        for values in timed:
            binding = LearningModelBinding(session)
            for name, value in values.items():
                binding.bind(name, value)
            self._bindings.append(binding)

    def evaluate(self, values: Values) -> dict[str, Any]:
        """The outputs, in new arrays."""
        return evaluate_to_arrays(self.session, values)

    def measure_seconds(self) -> float:
        """The time of an evaluation of all bindings: the mean of a block of evaluations."""

        def evaluate_all() -> None:
            for binding in self._bindings:
                self.session.evaluate(binding).outputs  # noqa: B018 - reading them is a part of an evaluation

        time.sleep(REST_SECONDS)  # the threads of the previous engine spin for a while after their work
        evaluate_all()  # wakes the threads of this engine
        count, started = 0, time.perf_counter()
        while count == 0 or time.perf_counter() - started < BLOCK_SECONDS:
            evaluate_all()
            count += 1
        return (time.perf_counter() - started) / count

    def close(self) -> None:
        """Closes the session."""
        self.session.close()


ENGINE_KEYS = ("engine", "precision")
"""The options that are not changed if the caller has set them."""


def list_engines() -> dict[str, ProviderDevice]:
    """The engines of the CPU, by the names that the options have; packages take the place of plugins."""
    devices = sorted(plugins.find_devices("cpu"), key=lambda device: bool(find_provider(device.provider).package))
    return {device.engine: device for device in devices}


def list_changes(device: LearningModelDevice) -> list[tuple[str, Facts]]:
    """The changes of session options worth trying on a device: in words, and as in a file of options."""
    if device.hardware == "cpu":
        changes: list[tuple[str, Facts]] = []
        for name, engine in list_engines().items():
            changes.append((f"engine {name}", {"engine": name}))
            for kind in (Precision.FLOAT16, Precision.BFLOAT16):
                if engine.computes_in(kind):
                    word = kind.name.lower()
                    changes.append((f"engine {name} in {word}", {"engine": name, "precision": word}))
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
