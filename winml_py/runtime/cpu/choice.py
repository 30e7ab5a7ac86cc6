"""Which engine a session on the CPU runs on: what was asked for, what was remembered, or what proves the fastest.

The options allow one target or several. With one, the model is compiled. With several, the cache is asked, or they are
measured (`measure.py`); where shapes are free, that is put off until an evaluation brings some (`deferred.py`).
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from ...base import processor
from ...cache import answers
from ...enums import Precision
from ...errors import CanceledError, EvaluationError, InvalidDeviceError, NotSupportedError, WinMLError
from ..engine import ONNXRUNTIME, Engine, EngineOptions
from ..explanation import Candidate, Explanation
from ..ort.saved_graph import compile_shared
from ..providers import plugins
from ..providers.catalogue import UNLOCKED, full_name, provider_of, require_known
from ..providers.provider import CPU_NAME, ProviderDevice, Target, short
from ..request import CompileRequest, Inputs
from .compile import compile_kept, compile_model
from .deferred import DeferredEngine
from .exact import obstacle
from .guarded import GuardedEngine
from .memory import memory_of, shortage

AUTO = "auto"


class CpuCompiler:
    """Compiles for the CPU, on whichever engine the options ask for."""

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model, on the engine and in the precision that the options ask for.

        Raises:
            InvalidDeviceError: the engine that is asked for is not there.
            WinMLError: no engine takes the model.
        """
        if request.options.graph_capture:
            raise NotSupportedError(
                "Work is recorded by GPUs alone, and the session is for the CPU.",
                hint="Set options.graph_capture = None.",
            )
        targets, reason = _targets(request)
        require_known(targets[0].provider, dict(request.options.provider_options))
        if len(targets) == 1:
            engine = compile_kept(request, targets[0])
            engine.explanation = _explained(request, targets[0], reason or _why_alone(request))
            return engine
        if request.has_fixed_shapes and request.has_examples:
            return decide(request, targets, request.examples({}))
        return DeferredEngine(request.options, lambda inputs: _decide_late(request, targets, inputs))

    def key(self, options: EngineOptions) -> Hashable:
        """There is one CPU: all sessions with equal options share an engine."""
        return "cpu"

    def session_lock(self) -> AbstractContextManager[object]:
        """None: bindings of one engine run at the same time, and each has a lock of its own against a race on it."""
        return UNLOCKED


def _explained(
    request: CompileRequest, target: Target, reason: str, looked_at: tuple[Candidate, ...] = ()
) -> Explanation:
    memory = memory_of(request, target)
    return Explanation(*target.spelling, reason, looked_at, number_type=target.half_type, memory=memory)


def _decide_late(request: CompileRequest, targets: list[Target], inputs: Inputs) -> Engine:
    """On numbers of the shapes that came, and not on those that came, which may all be 0, unless only those will do."""
    if request.reopen is not None:
        request = replace(request, model=request.reopen())
    if request.has_examples:
        inputs = request.examples({name: array.shape for name, array in inputs.items()})
    return decide(request, targets, inputs)


def _targets(request: CompileRequest) -> tuple[list[Target], str]:
    """What the options allow, the one that ties go to first; and why it is alone, where an engine is not exact."""
    wanted = request.options.engine
    is_cpu = full_name(wanted) == CPU_NAME
    if wanted not in (ONNXRUNTIME, AUTO) and not is_cpu:
        named = _named(wanted)
        return [Target(named), *(_halves(named) if _wants_half(request) and request.has_examples else [])], ""
    wants_half = _wants_half(request) and request.has_examples and not is_cpu
    wants_other = wanted == AUTO and request.has_only_numbers
    devices, reason = _exact_devices(request) if wants_half or wants_other else ([], "")
    others = [Target(device) for device in devices if wants_other]
    others += [half for device in devices if wants_half for half in _halves(device)]
    problem = shortage(request, others)
    return ([Target()], problem) if problem else ([Target(), *others], reason)


def _halves(device: ProviderDevice) -> list[Target]:
    """One for each type that the device has for half precision: which is the better one is measured."""
    kinds = device.half_types.split() or [""]
    return [Target(device, half=True, half_type=kind) for kind in kinds] if device.float16 else []


def _exact_devices(request: CompileRequest) -> tuple[list[ProviderDevice], str]:
    """The other engines that compute the model exactly, and why another is not among them."""
    devices, reason = [], ""
    for device in _preferred(_plugin_devices()):
        exact = provider_of(device.provider).exact_operators
        problem = obstacle(request.graph(), exact, request.has_fixed_shapes)
        if problem:
            reason = f"{short(device.provider)} might give other results: {problem}"
        else:
            devices.append(device)
    return devices, reason


def _wants_half(request: CompileRequest) -> bool:
    precision = request.options.precision
    return precision is Precision.HALF or (precision is Precision.AUTO and request.has_float16)


def _why_alone(request: CompileRequest) -> str:
    """Why there is one target."""
    reason = "as asked for" if request.options.engine != AUTO else "there is no other engine for such a model here"
    if not _wants_half(request):
        return reason
    if not request.has_examples:
        return f"{reason}; half precision is not tried, for inputs to check it with cannot be made up"
    return f"{reason}; no installed engine computes in half precision on this processor"


def _plugin_devices() -> list[ProviderDevice]:
    return plugins.devices("cpu") if plugins.installed() else []


def _preferred(devices: list[ProviderDevice]) -> list[ProviderDevice]:
    """Without the plugin of an engine whose own package is there."""
    own = [device for device in devices if provider_of(device.provider).package]
    names = {short(device.provider) for device in own}
    return own + [device for device in devices if short(device.provider) not in names]


def _named(name: str) -> ProviderDevice:
    devices = _plugin_devices()
    for device in [device for device in devices if device.provider == name] or _preferred(devices):
        if short(device.provider) == short(name):
            return device
    known = dict.fromkeys(device.provider for device in devices)
    raise InvalidDeviceError(
        f"There is no engine {full_name(name)} on the CPU; there are {', '.join([ONNXRUNTIME, *known])}.",
        hint=_engine_hint(full_name(name)),
    )


def _engine_hint(provider: str) -> str:
    problems = plugins.problems()
    if not provider_of(provider).exact_operators:  # it computes on no CPU
        return (
            "Leave the engine out; or name a GPU, which brings its own: --device gpu, or "
            "LearningModelDevice.find('gpu'). `winml-py devices` lists what there is."
        )
    if problems:
        return f"{problems}; `winml-py doctor` says more."
    return "pip install 'winml-py[openvino]' brings OpenVINO; `winml-py doctor` says more."


def decide(request: CompileRequest, targets: list[Target], inputs: Inputs) -> Engine:
    """Compiles for the target that an earlier process found the fastest on such inputs, or measures.

    Raises:
        WinMLError: no target takes the model.
    """
    key = _key(request, targets, inputs)
    engine = _remembered(request, targets, key)
    if engine is None:
        with answers.asking(key, request.require_not_stopped):
            engine = _remembered(request, targets, key) or _find_out(request, targets, inputs, key)
    is_named = targets[0].device is not None
    return engine if is_named or engine.explanation.engine == ONNXRUNTIME else _guarded(request, engine)


def _guarded(request: CompileRequest, engine: Engine) -> Engine:
    def compile_own() -> Engine:
        model = request.reopen() if request.reopen is not None else request.model
        return compile_shared(replace(request, model=model, stop=None))

    return GuardedEngine(engine, compile_own)


def _key(request: CompileRequest, targets: list[Target], inputs: Inputs) -> str:
    shapes = {name: (str(array.dtype), array.shape) for name, array in inputs.items()}
    rivals = [(target.provider, target.half, target.half_type) for target in targets]
    options = list(request.options._replace(is_profiled=False))
    return answers.key_of(request.digest(), options, rivals, shapes, plugins.versions(), processor.fingerprint())


def _remembered(request: CompileRequest, targets: list[Target], key: str) -> Engine | None:
    facts = answers.read(key)
    if facts is None:
        return None
    try:
        explanation = _from_facts(facts)
        taken = (*explanation[:2], explanation.number_type)
        target = next(target for target in targets if (*target.spelling, target.half_type) == taken)
        engine = compile_kept(request, target)
    except CanceledError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, StopIteration, WinMLError):
        return None  # damaged, or no longer true
    engine.explanation = explanation._replace(memory=memory_of(request, target))
    return engine


def _find_out(request: CompileRequest, targets: list[Target], inputs: Inputs, key: str) -> Engine:
    from .measure import compare

    unprofiled = replace(request, options=request.options._replace(is_profiled=False))
    contenders = compare(unprofiled, targets, inputs)
    looked_at = tuple(contender.candidate for contender in contenders)
    best = next((contender for contender in contenders if contender.engine), None)
    if best is None or best.engine is None:
        # The error of the first says more than a list of all.
        compile_model(request, targets[0])
        raise EvaluationError("No engine runs the model.", hint="; ".join(map(str, looked_at)))
    if best.target == targets[0]:
        reason = "no other is right and faster"
    elif best.target.half:
        reason = f"{best.target.half_type or 'half precision'} is right and faster"
    else:
        reason = "it agrees and is faster"
    engine = best.engine
    if request.options.is_profiled:  # a profile of the evaluations alone, and not of the measurements
        engine.close()
        engine = compile_kept(request, best.target)
    engine.explanation = _explained(request, best.target, reason, looked_at)
    answers.write(key, _to_facts(engine.explanation, request, inputs))
    return engine


def _to_facts(explanation: Explanation, request: CompileRequest, inputs: Inputs) -> dict[str, Any]:
    return {
        "engine": explanation.engine,
        "precision": explanation.precision.name,
        "number_type": explanation.number_type,
        "reason": explanation.reason,
        "candidates": [
            candidate._replace(error=candidate.error if np.isfinite(candidate.error or 0) else None)._asdict()
            for candidate in explanation.candidates
        ],
        "model": str(request.stamp[0]) if request.stamp else f"{request.size} bytes in memory",
        "shapes": {name: list(array.shape) for name, array in inputs.items()},
    }


def _from_facts(facts: dict[str, Any]) -> Explanation:
    candidates = tuple(map(_candidate, facts["candidates"]))
    precision = Precision[facts["precision"]]
    number_type = str(facts.get("number_type", ""))
    return Explanation(str(facts["engine"]), precision, str(facts["reason"]), candidates, True, number_type)


def _candidate(facts: dict[str, Any]) -> Candidate:
    milliseconds, error = _figure(facts["milliseconds"]), _figure(facts["error"])
    words = str(facts["problem"]), str(facts.get("number_type", ""))
    return Candidate(str(facts["engine"]), Precision(facts["precision"]), milliseconds, error, *words)


def _figure(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"{value} is no figure")
    return number
