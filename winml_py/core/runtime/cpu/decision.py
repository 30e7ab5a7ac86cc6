"""Decides between the engines that a model may run on, and caches the decisions.

The fastest engine is cached for a model and the shapes of its inputs. A wrong answer of an engine is cached for the
model. Right answers count only for one session: the next may have other inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ....enums import Precision
from ....errors import CanceledError, WinMLError
from ...base import machine
from ...base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, compare_outputs
from ...base.cancellation import Stop
from ...base.machine import free_memory
from ...base.messages import Facts
from ...cache import answers
from ..engine import Candidate, Engine, Explanation, in_megabytes
from ..providers import plugins
from ..providers.catalogue import provider_of
from ..providers.provider import Target, short
from ..request import CompileRequest, Inputs
from .measure import compare, compile_cached


class Decision(NamedTuple):
    """The result of a decision for a model on some inputs.

    Attributes:
        rival: the chosen engine; None for the reference.
        explanation: why.
    """

    rival: Engine | None
    explanation: Explanation


class CpuChoice:
    """Chooses among a model's targets for a `ChosenEngine`, and caches the results of its checks.

    Args:
        request: the model.
        targets: the reference, and its rivals.

    Attributes:
        is_guarded: whether inputs with NaN or infinity go to the reference: other engines lose these in Relu, MaxPool
            and Softmax, without an error.
    """

    def __init__(self, request: CompileRequest, targets: list[Target]) -> None:
        self._request, self._targets = request, targets
        self._is_compiled = False
        # A named engine gets every input; its float32 is the reference for its half precision.
        self.is_guarded = targets[0].device is None

    def compile_reference(self) -> Engine:
        """Compiles the reference, whose answers count as right. Refuses a file changed since the session was made."""
        request = self._reopened_request(None) if self._is_compiled else self._request
        self._is_compiled = True
        return compile_cached(request, self._targets[0])

    def _reopened_request(self, stop: Stop | None) -> CompileRequest:
        model = self._request.model if self._request.origin.reopen is None else self._request.origin.reopen()
        return replace(self._request, model=model, stop=stop)

    def decide(self, reference: Engine, inputs: Inputs, stop: Stop | None) -> Decision:
        """Takes the engine that was the fastest on such inputs before; otherwise times the engines.

        Raises:
            CanceledError: the stop was requested.
            WinMLError: the reference refuses the inputs.
        """
        request = self._reopened_request(stop)
        shapes = {name: (str(array.dtype), array.shape) for name, array in inputs.items()}
        # Profiling does not change which engine is the fastest, and the key names the compared engines.
        options = list(request.options._replace(is_profiled=False, engine=None))
        key = _question(request, "fastest", options, [_name(target) for target in self._targets], shapes)
        decision = self._recall(request, key)
        if decision is None:
            with answers.locked(key, request.require_not_stopped):
                # Another process may have decided while this one waited.
                decision = self._recall(request, key) or self._measure(request, key, reference, inputs)
        return decision

    def _recall(self, request: CompileRequest, key: str) -> Decision | None:
        facts = answers.read(key)
        if facts is None:
            return None
        try:
            explanation = _from_facts(facts)
            target = self._target_of(explanation)
            if target is self._targets[0]:
                return Decision(None, explanation)
            if refusal(request, target):
                return None
            return self._decide(request, target, compile_cached(request, target), explanation)
        except CanceledError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError, StopIteration, WinMLError):
            return None  # damaged, or no longer true

    def _measure(self, request: CompileRequest, key: str, reference: Engine, inputs: Inputs) -> Decision:
        refused = {target: refusal(request, target) for target in self._targets[1:]}
        targets = [self._targets[0], *(target for target in self._targets[1:] if not refused[target])]
        if len(targets) == 1:  # refused by another session, after this one was made
            return Decision(None, Explanation(*targets[0].spelling, next(iter(refused.values()))))
        # A profile contains the evaluations, but not the measurements.
        unprofiled = replace(request, options=request.options._replace(is_profiled=False))
        is_profiled = request.options.is_profiled
        measured = compile_cached(unprofiled, self._targets[0]) if is_profiled else reference
        try:
            rivals = compare(unprofiled, measured, targets, inputs)
        finally:
            if is_profiled:
                measured.close()
        for rival in rivals:
            if rival.is_wrong:
                _remember_refusal(request, rival.target, rival.candidate.problem)
        best = next(rival for rival in rivals if rival.engine)
        reason = f"{best.target.half_type or 'half precision'} is right and faster"
        if not best.target.half:
            reason = "it agrees and is faster"
        if best is rivals[0]:
            reason = "no other engine is right and faster"
        explanation = Explanation(
            *best.target.spelling,
            reason,
            tuple(rival.candidate for rival in rivals),
            number_type=best.target.half_type,
        )
        answers.write(key, _to_facts(explanation))
        if best.target is self._targets[0] or best.engine is None:
            return Decision(None, explanation)
        if is_profiled:
            best.engine.close()
            return self._decide(request, best.target, compile_cached(request, best.target), explanation)
        return self._decide(request, best.target, best.engine, explanation)

    def _decide(self, request: CompileRequest, target: Target, rival: Engine, explanation: Explanation) -> Decision:
        memory = memory_of(request, target) + memory_of_reference(request, self._targets[0])
        explanation = explanation._replace(memory=memory, threads=rival.explanation.threads)
        return Decision(rival, explanation)

    def _target_of(self, explanation: Explanation) -> Target:
        spelling = (*explanation[:2], explanation.number_type)
        return next(target for target in self._targets if (*target.spelling, target.half_type) == spelling)

    def without_reference(self, explanation: Explanation) -> Explanation:
        """The explanation after the reference is closed, without its memory."""
        return explanation._replace(memory=memory_of(self._request, self._target_of(explanation)))

    def problem_of(self, explanation: Explanation, expected: Mapping[str, object], actual: Mapping[str, object]) -> str:
        """How an engine's answer differs from the reference's; "" if they agree."""
        tolerance = HALF_TOLERANCE if explanation.precision is Precision.HALF else FLOAT_TOLERANCE
        agreement = compare_outputs(expected, actual, tolerance)
        return "" if agreement.is_good else str(agreement)

    def refuse(self, explanation: Explanation, problem: str) -> Explanation:
        """Records for the model that the answers differ; explains why the reference runs it."""
        target, (reference, *_) = self._target_of(explanation), self._targets
        _remember_refusal(self._request, target, problem)
        words = f"{_describe_target(target)} gave another answer on an input of the program: {problem}"
        candidates = tuple(
            candidate._replace(problem=words) if candidate[:2] == target.spelling else candidate
            for candidate in explanation.candidates
        )
        return Explanation(*reference.spelling, words, candidates, number_type=reference.half_type)


def refusal(request: CompileRequest, target: Target) -> str:
    """Why an engine is not tried on a model again, because of an earlier wrong answer; or ""."""
    facts = answers.read(_refusal_key(request, target))
    return str(facts.get("reason", "")) if facts else ""


def _remember_refusal(request: CompileRequest, target: Target, problem: str) -> None:
    """Records it for the model, for all shapes of its inputs."""
    reason = f"{_describe_target(target)} gave another answer in an earlier session: {problem}"
    answers.write(_refusal_key(request, target), {"reason": reason})


def _question(request: CompileRequest, *parts: object) -> str:
    """The key of a question about a model on this machine, with the versions of the installed packages."""
    return answers.key_of(request.digest(), parts, plugins.versions(), machine.processor_fingerprint())


def _refusal_key(request: CompileRequest, target: Target) -> str:
    return _question(request, "refused", _name(target), request.options.provider_options)


def _name(target: Target) -> tuple[str, bool, str]:
    return target.provider, target.half, target.half_type


def _describe_target(target: Target) -> str:
    engine, precision = target.spelling
    return f"{engine} in {target.half_type or precision.name.lower()}"


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
    candidates = (Candidate(**one | {"precision": Precision(one["precision"])}) for one in facts["candidates"])
    precision = Precision[facts["precision"]]
    return Explanation(facts["engine"], precision, facts["reason"], tuple(candidates), True, facts["number_type"])


# The memory that other engines take for a model, and whether it is available.


def memory_of(request: CompileRequest, target: Target) -> int:
    """About how many bytes an engine takes for a model at most; 0 if unknown.

    Float16 counts twice, because such weights are also held in float32.
    """
    factor = provider_of(target.provider).memory_factors[request.features.has_fixed_shapes]
    return int(factor * request.origin.total_size * (2 if request.features.has_float16 else 1))


def memory_of_reference(request: CompileRequest, target: Target) -> int:
    """The same for a reference, which stays open beside the rival; ONNX Runtime's holds the weights once."""
    return memory_of(request, target) or request.origin.total_size * (2 if request.features.has_float16 else 1)


def shortage(request: CompileRequest, targets: Sequence[Target]) -> str:
    """Why the memory does not suffice to compare engines with ONNX Runtime; or "".

    All are compiled before the fastest is known, and ONNX Runtime stays open until the last check.
    """
    needed = sum(memory_of(request, target) for target in targets)
    needed += memory_of_reference(request, Target()) if needed else 0
    free = free_memory() if needed else 0
    if needed <= free:
        return ""
    names = ", ".join(dict.fromkeys(short(target.provider) for target in targets))
    return f"{names} would take up to about {in_megabytes(needed)}, but {in_megabytes(free)} of memory are free"
