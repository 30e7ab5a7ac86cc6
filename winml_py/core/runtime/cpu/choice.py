"""Decides between the engines that a model may run on, by comparing them, and caches the decisions.

A named engine is the one that runs. If the options leave a choice (`engine="auto"`, or half precision), the program's
inputs decide (`chosen_engine.py`). The table of all cases is in docs/engines.md;
`tests/core/runtime/test_engine_table.py` tests each.

A decision is cached for a model and the shapes of its inputs. That results agree counts only for one session: the next
may have other inputs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from operator import truediv
from typing import NamedTuple

import numpy as np

from ....enums import Precision
from ....errors import CanceledError, EngineWarning, InvalidDeviceError, NotSupportedError, WinMLError
from ...base import machine
from ...base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, Agreement, compare_outputs, is_empty
from ...base.cancellation import Stop
from ...base.machine import read_free_memory
from ...base.messages import Facts, warn_caller
from ...base.timing import take_turns, time_block
from ...cache import records
from ..engine import ONNXRUNTIME, ORT_ONLY, Candidate, Engine, EngineOptions, Explanation, format_megabytes
from ..ort.compile import compile_with_ort
from ..ort.saved_graph import open_or_compile_with_ort
from ..providers import plugins
from ..providers.catalogue import find_full_name, find_provider, require_option_keys
from ..providers.provider import CPU_NAME, ProviderDevice, Target, shorten
from ..request import CompileRequest, Inputs
from ..runs import Bound
from .exact import find_inexact_reason

AUTO = "auto"

TIE = 0.03
"""The share by which another engine must be faster; otherwise ONNX Runtime is taken."""

ROUNDS = (5, 15)
ROUND_SECONDS = 5.0
"""The time limit for all rounds together; the minimum number of rounds is always run."""


class Decision(NamedTuple):
    """The result of a decision for a model on some inputs.

    Attributes:
        alternative: the chosen engine; None for the reference.
        explanation: why.
    """

    alternative: Engine | None
    explanation: Explanation


class CpuChoice:
    """Chooses among a model's targets for a `ChosenEngine`, and caches the decision.

    Args:
        request: the model.
        targets: the reference, and its alternatives.
    """

    def __init__(self, request: CompileRequest, targets: list[Target]) -> None:
        self._request = request
        self._targets = targets
        self._reference = targets[0]
        self._key = ""  # the key of the cached decision

    def compile_reference(self) -> Engine:
        """Compiles the reference, whose answers count as right."""
        return open_or_compile_target(self._request, self._reference)

    def decide(self, reference: Engine, inputs: Inputs, stop: Stop | None) -> Decision:
        """Takes the engine that was the fastest on such inputs before; otherwise times the engines.

        Raises:
            CanceledError: the stop was requested.
            CorruptModelError: the model's file has changed since the session was made.
            WinMLError: the reference refuses the inputs.
        """
        request = self._request._replace(stop=stop)
        if request.origin.reopen is not None:
            request = request._replace(model=request.origin.reopen())
        shapes = {name: (str(array.dtype), array.shape) for name, array in inputs.items()}
        options = list(request.options._replace(engine=None))  # the key names the compared engines
        targets = [(target.provider, target.half, target.half_type) for target in self._targets]
        self._key = records.make_key(
            request.compute_digest(),
            "fastest",
            options,
            targets,
            shapes,
            plugins.read_versions(),
            machine.read_processor_id(),
        )
        decision = self._recall(request)
        if decision is not None:
            return decision
        with records.lock(self._key, request.require_not_stopped):
            # Another process may have decided while this one waited.
            return self._recall(request) or self._measure(request, reference, inputs)

    def _recall(self, request: CompileRequest) -> Decision | None:
        facts = records.read(self._key)
        try:
            return None if facts is None else self._open(request, _from_facts(facts))
        except CanceledError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError, WinMLError):
            return None  # damaged, or no longer true

    def _measure(self, request: CompileRequest, reference: Engine, inputs: Inputs) -> Decision:
        explanation = find_fastest(request, reference, self._targets, inputs)
        records.write(self._key, _to_facts(explanation))
        return self._open(request, explanation)

    def _open(self, request: CompileRequest, explanation: Explanation) -> Decision:
        target = self._find_target(explanation)
        if target is self._reference:
            return Decision(None, explanation)
        alternative = open_or_compile_target(request, target)
        memory = estimate_memory(request, target) + estimate_reference_memory(request, self._reference)
        return Decision(alternative, explanation._replace(memory=memory, threads=alternative.explanation.threads))

    def _find_target(self, explanation: Explanation) -> Target:
        for target in self._targets:
            if (*target.spelling, target.half_type) == _get_identity(explanation):
                return target
        raise KeyError("the cached decision names another engine")

    def describe_difference(
        self, explanation: Explanation, expected: Mapping[str, object], actual: Mapping[str, object]
    ) -> str:
        """How an engine's answer differs from the reference's; "" if they agree."""
        agreement = _compare_answers(expected, actual, explanation.precision is Precision.HALF)
        return "" if agreement.is_good else str(agreement)

    def refuse(self, explanation: Explanation, problem: str) -> Explanation:
        """Replaces the cached decision by the reference, because the answers differ; explains why."""
        arithmetic = explanation.number_type or explanation.precision.name.lower()
        reason = (
            f"{explanation.engine} in {arithmetic} gave another answer than {self._reference.spelling[0]} "
            f"on an input of the program: {problem}"
        )
        candidates = [
            candidate._replace(problem=reason) if _get_identity(candidate) == _get_identity(explanation) else candidate
            for candidate in explanation.candidates
        ]
        refused = Explanation(
            *self._reference.spelling, reason, tuple(candidates), number_type=self._reference.half_type
        )
        records.write(self._key, _to_facts(refused))
        return refused


def _get_identity(choice: Explanation | Candidate) -> tuple[str, Precision, str]:
    """What distinguishes the targets of a model."""
    return choice.engine, choice.precision, choice.number_type


def _to_facts(explanation: Explanation) -> Facts:
    return {
        "engine": explanation.engine,
        "precision": explanation.precision.name,
        "number_type": explanation.number_type,
        "reason": explanation.reason,
        "candidates": [
            # An error may be infinite, which JSON cannot express.
            candidate._replace(error=candidate.error if np.isfinite(candidate.error or 0) else None)._asdict()
            for candidate in explanation.candidates
        ],
    }


def _from_facts(facts: Facts) -> Explanation:
    candidates = [Candidate(**row | {"precision": Precision(row["precision"])}) for row in facts["candidates"]]
    return Explanation(
        facts["engine"],
        Precision[facts["precision"]],
        facts["reason"],
        tuple(candidates),
        is_remembered=True,
        number_type=facts["number_type"],
    )


# The comparison of the engines on the program's inputs.


def find_fastest(request: CompileRequest, reference: Engine, targets: Sequence[Target], inputs: Inputs) -> Explanation:
    """Compiles the model for every target but the first, compares the results, and times the engines that agree.

    The results of the reference count as right. Alternatives that fail, disagree or are slower have a problem in their
    candidate; the explanation names the fastest of the others. All alternatives are closed.

    Args:
        request: the model.
        reference: the first target's engine, which the caller closes.
        targets: the reference's, and its alternatives.
        inputs: the inputs to evaluate; only read.

    Raises:
        CanceledError: the request's stop was requested.
        WinMLError: the reference refuses the inputs. Alternatives are not tried on these, because their kernels check
            less than ONNX Runtime's, and may overwrite other memory.
    """
    bound = Bound(inputs)  # shared: it holds separate native objects for each engine
    expected = reference.run(bound, request.stop)
    runs: dict[Target, Callable[[], object]] = {targets[0]: partial(reference.run, bound)}
    candidates = {target: Candidate(*target.spelling, number_type=target.half_type) for target in targets}
    with ExitStack() as alternatives:
        for target in targets[1:]:
            request.require_not_stopped()
            try:
                engine = alternatives.enter_context(closing(compile_target(request, target)))
                agreement = _compare_answers(expected, engine.run(bound, request.stop), target.half)
            except CanceledError:
                raise
            except WinMLError as error:
                candidates[target] = candidates[target]._replace(problem=str(error))
                continue
            problem = "" if agreement.is_good else str(agreement)
            candidates[target] = candidates[target]._replace(error=agreement.error, problem=problem)
            if agreement.is_good:
                runs[target] = partial(engine.run, bound)
        milliseconds = _measure_times(runs, request.require_not_stopped) if len(runs) > 1 else {}
    best = targets[0]
    for target, time_taken in milliseconds.items():
        if time_taken < milliseconds[best] * (1 - TIE):
            best = target
    for target, time_taken in milliseconds.items():
        problem = "" if target is best else "it is not faster"
        candidates[target] = candidates[target]._replace(milliseconds=time_taken, problem=problem)
    if best is targets[0]:
        reason = "no other engine is right and faster"
    elif best.half:
        reason = f"{best.half_type or 'half precision'} is right and faster"
    else:
        reason = "it agrees and is faster"
    return Explanation(*best.spelling, reason, tuple(candidates.values()), number_type=best.half_type)


def _compare_answers(expected: Mapping[str, object], actual: Mapping[str, object], is_half: bool) -> Agreement:
    """Compares answers. Empty ones agree: until one is not, `ChosenEngine` compares the next evaluation, too."""
    tolerance = HALF_TOLERANCE if is_half else FLOAT_TOLERANCE
    told = {name: value for name, value in expected.items() if not (is_empty(value) and is_empty(actual.get(name)))}
    return compare_outputs(told, actual, tolerance) if told else Agreement(0.0, None, tolerance)


def _measure_times(
    runs: Mapping[Target, Callable[[], object]], require_not_stopped: Callable[[], None]
) -> dict[Target, float]:
    """Milliseconds: the first's median, and for the others that median times their median ratio to the first's rounds.

    Ratios of the same round, because the speed of a machine changes from round to round.
    """
    started = time.perf_counter()

    def block(run: Callable[[], object]) -> float:
        require_not_stopped()
        return time_block(run)

    def is_late(seconds: Sequence[Sequence[float]]) -> bool:
        return len(seconds[0]) >= ROUNDS[0] and time.perf_counter() - started > ROUND_SECONDS

    seconds = take_turns([partial(block, run) for run in runs.values()], ROUNDS[1], is_late)
    base = statistics.median(seconds[0]) * 1e3
    shares = [statistics.median(map(truediv, other_seconds, seconds[0])) for other_seconds in seconds]
    return {target: base * share for target, share in zip(runs, shares, strict=True)}


# The memory that other engines take for a model, and whether it is available.


def estimate_memory(request: CompileRequest, target: Target) -> int:
    """About how many bytes an engine takes for a model at most; 0 if unknown.

    Float16 counts twice, because such weights are also held in float32.
    """
    free, fixed = find_provider(target.provider).memory_factors
    factor = fixed if request.features.has_fixed_shapes else free
    return int(factor * request.origin.total_size * (2 if request.features.has_float16 else 1))


def estimate_reference_memory(request: CompileRequest, target: Target) -> int:
    """The same for a reference, which stays open beside the alternative; ONNX Runtime's holds the weights once."""
    return estimate_memory(request, target) or request.origin.total_size * (2 if request.features.has_float16 else 1)


def describe_shortage(request: CompileRequest, targets: Sequence[Target]) -> str:
    """Why the memory does not suffice to compare engines with ONNX Runtime; or "".

    All are compiled before the fastest is known, and ONNX Runtime stays open.
    """
    needed = sum(estimate_memory(request, target) for target in targets)
    if not needed:
        return ""
    needed += estimate_reference_memory(request, Target())
    free = read_free_memory()
    if needed <= free:
        return ""
    names = ", ".join(dict.fromkeys(shorten(target.provider) for target in targets))
    return f"{names} would take up to about {format_megabytes(needed)}, but {format_megabytes(free)} of memory are free"


# Compiling for one of the engines.


def open_or_compile_target(request: CompileRequest, target: Target) -> Engine:
    """Opens the saved model of an earlier session, or compiles the model.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if target.device is None:
        return open_or_compile_with_ort(request)
    if not find_provider(target.provider).package:
        return compile_with_ort(request, target)  # plugins save no models that we could open
    from ..openvino.compile import open_or_compile_with_openvino  # the only engine with a package; slow to import

    return open_or_compile_with_openvino(request, target)


def compile_target(request: CompileRequest, target: Target) -> Engine:
    """Compiles a model in memory.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if not find_provider(target.provider).package:
        return compile_with_ort(request, target)
    from ..openvino.compile import compile_with_openvino  # slow to import

    return compile_with_openvino(request, target)


# The engines that the options allow.


def find_allowed_targets(request: CompileRequest) -> tuple[list[Target], str]:
    """The reference, which wins ties, and its alternatives; and why there is no alternative, if so."""
    targets, reason = _find_targets_by_options(request)
    # Here, and not only where a provider gets them: before that, "auto" may compile two engines.
    require_option_keys(targets[0].provider, dict(request.options.provider_options))
    return targets, reason


def _find_targets_by_options(request: CompileRequest) -> tuple[list[Target], str]:
    engine_name = request.options.engine
    if engine_name is not None and engine_name != AUTO:
        return _find_targets_by_name(request, engine_name)
    half_types = _find_half_types(request)
    if engine_name is None and not half_types:
        return [Target()], "by default"
    if request.options.is_profiled:
        return [Target()], "a profiled session compares no engines"
    devices: list[ProviderDevice] = []
    reason = ""
    if request.features.has_only_numbers:
        devices, reason = _find_exact_devices(request)
    alternatives = [Target(device) for device in devices] if engine_name == AUTO else []
    for device in devices:
        alternatives += [target for target in _make_half_targets(device) if target.half_type in half_types]
    if not alternatives:
        if not reason and devices and half_types:
            reason = "no installed engine computes in half precision on this processor"
        return [Target()], reason or "no other installed engine accepts the model"
    shortage = describe_shortage(request, alternatives)
    if shortage:
        return [Target()], shortage
    return [Target(), *alternatives], ""


def _find_half_types(request: CompileRequest) -> tuple[str, ...]:
    """The types of half precision that the options allow if no engine is named; "" is a type without a name.

    bfloat16 keeps 8 bits of a number, and float16 keeps 11: float16 models were not made for bfloat16.
    """
    options = request.options
    if options.precision is Precision.HALF:
        return "bfloat16", "float16", ""
    if options.engine == AUTO and options.precision is Precision.AUTO and request.features.has_float16:
        return ("float16",)
    return ()


def _find_targets_by_name(request: CompileRequest, engine_name: str) -> tuple[list[Target], str]:
    """The engine of that name; if requested also in half precision, with its float32 as reference."""
    wants_half = request.options.precision is Precision.HALF
    if engine_name == ONNXRUNTIME or find_full_name(engine_name) == CPU_NAME:
        if wants_half:
            raise NotSupportedError(
                "ONNX Runtime computes in float32 on the CPU, but the options request half precision.",
                hint='Leave options.engine out, or set it to "auto", or to an engine that has half precision.',
            )
        return [Target()], "as asked for"
    device = _find_engine(engine_name)
    if _ignores_tuning(device, request.options):
        name = _find_changed_tuning(request.options)
        raise NotSupportedError(
            f"{device.engine} does not support the settings in {name}, which are ONNX Runtime's.",
            hint=f"Leave {name} or the engine out; set the engine's settings in provider_options.",
        )
    if not wants_half:
        return [Target(device)], "as asked for"
    half_targets = _make_half_targets(device)
    if not half_targets:
        problem = f"{device.engine} has no half precision on this processor"
        warn_caller(EngineWarning(f"{problem}: the model runs in float32, though the options request half precision."))
        return [Target(device)], f"as asked for; {problem}"
    return [Target(device), *half_targets], ""


def _make_half_targets(device: ProviderDevice) -> list[Target]:
    """One target for each type of half precision that the device has; a measurement finds the best."""
    if not device.float16:
        return []
    return [Target(device, half=True, half_type=name) for name in device.half_types.split() or [""]]


def _find_exact_devices(request: CompileRequest) -> tuple[list[ProviderDevice], str]:
    """The other engines that compute the model exactly, and why one is left out."""
    devices, reason = [], ""
    for device in _prefer_packages(plugins.find_devices("cpu")):
        problem = find_inexact_reason(request.origin.graph(), find_provider(device.provider).exact_operators)
        if _ignores_tuning(device, request.options):
            reason = f"{device.engine} does not support the settings in {_find_changed_tuning(request.options)}"
        elif problem:
            reason = f"{device.engine} might give other results: {problem}"
        else:
            devices.append(device)
    return devices, reason


def _find_changed_tuning(options: EngineOptions) -> str:
    """The first of ONNX Runtime's settings that the options change; "" if they change none."""
    defaults = EngineOptions._field_defaults
    for name, public_name in ORT_ONLY.items():
        if getattr(options, name) != defaults[name]:
            return f"options.{public_name}"
    return ""


def _ignores_tuning(device: ProviderDevice, options: EngineOptions) -> bool:
    return bool(find_provider(device.provider).package and _find_changed_tuning(options))


def _prefer_packages(devices: list[ProviderDevice]) -> list[ProviderDevice]:
    """Leaves out the plugin of an engine whose package is installed."""
    # The package runs on processors of any vendor, and caches compiled models. The plugin adds nothing on a CPU.
    packaged = [device for device in devices if find_provider(device.provider).package]
    names = {device.engine for device in packaged}
    return packaged + [device for device in devices if device.engine not in names]


def _find_engine(name: str) -> ProviderDevice:
    devices = plugins.find_devices("cpu")
    named = [device for device in devices if device.provider == name]
    for device in named or _prefer_packages(devices):
        if device.engine == shorten(name):
            return device
    provider_names = dict.fromkeys(device.provider for device in devices)
    problems = f"{plugins.describe_problems()}. " if plugins.describe_problems() else ""
    package = "pip install 'winml-py[openvino]' installs it. " if shorten(name) == "openvino" else ""
    raise InvalidDeviceError(
        f"There is no engine {find_full_name(name)} on the CPU; there are {', '.join([ONNXRUNTIME, *provider_names])}.",
        hint=f"{problems}{package}For an engine of a GPU, pass the GPU instead: LearningModelDevice.find('gpu'), or "
        "--device gpu in a command. `winml-py doctor` says more.",
    )
