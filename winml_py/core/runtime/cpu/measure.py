"""Compiles a model for the engines of the CPU, and compares their results and times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import truediv
from typing import Any

from ....errors import CanceledError, WinMLError
from ...base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, compare_outputs
from ...base.timing import take_turns, time_block
from ..engine import Candidate, Engine
from ..ort import compile as ort
from ..ort import saved_graph
from ..providers.catalogue import provider_of
from ..providers.provider import Target
from ..request import CompileRequest, Inputs
from ..runs import Bound

TIE = 0.01
"""The share by which another engine must be faster; otherwise ONNX Runtime is taken."""

ROUNDS = (5, 60)
ROUND_SECONDS = 8.0
"""The time limit for all rounds together; the minimum number of rounds is always run."""

LEAD = 6
"""The lead in rounds, won or lost, after which more rounds would change little: if the better engine wins 7 rounds in
10, the decision is wrong in 1 of 100 cases."""


def compile_cached(request: CompileRequest, target: Target) -> Engine:
    """Compiles a model, or opens the saved model of an earlier session.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if target.device is None:
        return saved_graph.compile_cached(request)
    if not provider_of(target.provider).package:
        return ort.compile_model(request, target)  # plugins save no models that we could open
    from ..openvino.compile import compile_cached  # the only engine with a package; slow to import

    return compile_cached(request, target)


def compile_model(request: CompileRequest, target: Target) -> Engine:
    """Compiles a model in memory.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if not provider_of(target.provider).package:
        return ort.compile_model(request, target)
    from ..openvino.compile import compile_model  # slow to import

    return compile_model(request, target)


class EngineRival:
    """A target, its engine, and the facts about it.

    Attributes:
        target: the target that the model is compiled for.
        engine: the compiled model; None once it is dropped.
        candidate: the facts, for an explanation.
        is_wrong: whether its results differ from the reference's.
    """

    def __init__(self, target: Target, engine: Engine | None = None) -> None:
        self.target, self.engine = target, engine
        self.candidate = Candidate(*target.spelling, number_type=target.half_type)
        self.is_wrong = False
        self._is_ours = engine is None

    def note(self, **facts: Any) -> None:
        """Sets fields of the candidate."""
        self.candidate = self.candidate._replace(**facts)

    def drop(self, problem: str) -> None:
        """Notes why it was not chosen, and frees its engine, if it was compiled for the comparison."""
        self.note(problem=problem)
        engine, self.engine = self.engine, None
        if engine is not None and self._is_ours:
            engine.close()


def compare(request: CompileRequest, reference: Engine, targets: Sequence[Target], inputs: Inputs) -> list[EngineRival]:
    """Compiles the model for every target but the first, compares the results, and times the engines that agree.

    The results of the reference count as right. Rivals that fail, disagree or are slower get a problem in their
    candidate, and lose their engine; the fastest keeps its engine.

    Args:
        request: the model.
        reference: the first target's engine, which the caller keeps and closes.
        targets: the reference's, and its rivals.
        inputs: the inputs to evaluate; only read.

    Raises:
        CanceledError: the request's stop was requested.
        WinMLError: the reference refuses the inputs. Rivals are not tried on these, because their kernels check less
            than ONNX Runtime's, and may overwrite other memory.
    """
    first = EngineRival(targets[0], reference)
    bound = Bound(inputs)  # shared: it holds separate native objects for each engine
    runs = {first: partial(reference.run, bound)}
    expected = reference.run(bound, request.stop)
    rivals = [first, *map(EngineRival, targets[1:])]
    try:
        for rival in rivals[1:]:
            request.require_not_stopped()
            try:
                rival.engine = compile_model(request, rival.target)
                agreement = compare_outputs(
                    expected,
                    rival.engine.run(bound, request.stop),
                    HALF_TOLERANCE if rival.target.half else FLOAT_TOLERANCE,
                )
                rival.note(error=agreement.error)
                if not agreement.is_good:
                    rival.is_wrong = True
                    rival.drop(str(agreement))
            except CanceledError:
                raise
            except WinMLError as error:
                rival.drop(str(error))
            if rival.engine is not None:
                runs[rival] = partial(rival.engine.run, bound)
        if len(runs) > 1:
            _settle(_times(runs, request.require_not_stopped))
    except BaseException:
        for rival in rivals:
            rival.drop("the comparison was canceled")
        raise
    return rivals


def _times(
    runs: Mapping[EngineRival, Callable[[], object]], require_not_stopped: Callable[[], None]
) -> dict[EngineRival, float]:
    """Milliseconds: the first's median, and for the others that median times their median ratio to the first's rounds.

    Runs until it is clear which of them are faster than the first.
    """
    rivals, started = list(runs), time.perf_counter()

    def block(rival: EngineRival) -> float:
        require_not_stopped()
        return time_block(runs[rival])

    def is_enough(seconds: Sequence[Sequence[float]]) -> bool:
        first, *others = seconds
        is_late = len(first) >= ROUNDS[0] and time.perf_counter() - started > ROUND_SECONDS
        wins = [sum(share < 1 - TIE for share in map(truediv, rival_seconds, first)) for rival_seconds in others]
        return is_late or all(abs(2 * count - len(first)) >= LEAD for count in wins)

    first, *others = take_turns([partial(block, rival) for rival in rivals], ROUNDS[1], is_enough)
    base = statistics.median(first) * 1e3
    shares = [statistics.median(map(truediv, rival_seconds, first)) for rival_seconds in others]
    return {rivals[0]: base} | {rival: base * share for rival, share in zip(rivals[1:], shares, strict=True)}


def _settle(milliseconds: Mapping[EngineRival, float]) -> None:
    """Keeps the fastest; the first stays unless another is clearly faster."""
    best = next(iter(milliseconds))
    for rival, time_taken in milliseconds.items():
        rival.note(milliseconds=time_taken)
        if time_taken < milliseconds[best] * (1 - TIE):
            best = rival
    for rival in milliseconds:
        if rival is not best:
            rival.drop("it is slower")
