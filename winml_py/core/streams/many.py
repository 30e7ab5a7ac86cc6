"""What `evaluate_many` puts together: sources, jobs, runners, and the stream over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from ...errors import InvalidArgumentError
from ..base.arguments import truth, whole_number
from ..base.cpu_cores import usable_cores
from ..evaluation.binding import LearningModelBinding
from ..evaluation.compiled import Compiled, compiled_of
from ..evaluation.result import LearningModelEvaluationResult
from ..imaging.contract import ImageContract
from ..runtime.device import LearningModelDevice, are_same, require_different
from .device_lanes import OTHER_SLOTS, DevicesRunner, Lane
from .jobs import Jobs, Loading, require_fitting
from .runners import Properties, Runner, SessionRunner
from .sources import Sources
from .stream import EvaluationStream, Progress


class StreamSettings(NamedTuple):
    """The arguments of `evaluate_many`, as they came."""

    concurrency: int | None
    batch: int | None
    contract: ImageContract | None
    fast_decode: bool
    progress: Progress | None
    devices: Sequence[LearningModelDevice] | None
    copy: bool


class StreamSession(NamedTuple):
    """What a stream needs of a session."""

    compiled: Compiled
    device: LearningModelDevice
    new_binding: Callable[[], LearningModelBinding]
    evaluate: Callable[[LearningModelBinding], LearningModelEvaluationResult]
    close: Callable[[], None]

    @classmethod
    def of(cls, session: Any) -> StreamSession:
        """The same of a `LearningModelSession`, whose module imports this one."""
        new_binding = partial(LearningModelBinding, session)
        return cls(compiled_of(session), session.device, new_binding, session.evaluate, session.close)

    @property
    def slots(self) -> int:
        """How many items wait there while the CPU's threads do other work; 0 for the CPU."""
        return 0 if self.device.hardware == "cpu" else OTHER_SLOTS


def open_stream(
    inputs: Any, settings: StreamSettings, session: Any, new_session: Callable[[LearningModelDevice], Any]
) -> EvaluationStream:
    """The stream of results.

    Args:
        inputs: as for `evaluate_many`.
        settings: the rest.
        session: the `LearningModelSession` whose `evaluate_many` was called.
        new_session: makes one of the same model and options on another device.

    Raises:
        WinMLError: as `evaluate_many` does.
    """
    concurrency, batch, contract, fast_decode, progress, devices, copy = settings
    threads = usable_cores() if concurrency is None else whole_number(concurrency, "concurrency", 1)
    together = 1 if batch is None else whole_number(batch, "batch", 1)
    if progress is not None and not callable(progress):
        raise InvalidArgumentError(f"progress is {progress!r}.", hint="Write a function of two numbers: done, total.")
    own = StreamSession.of(session)
    inputs_by_name = own.compiled.inputs
    fitting = frozenset[str]() if contract is None else require_fitting(contract, inputs_by_name)
    properties = {name: {"ImageContract": contract} for name in fitting}
    # Nothing of the program's runs between two items of a list: they are all there, each in memory of its own.
    copies = truth(copy, "copy") and type(inputs) not in (list, tuple)
    loading = Loading(inputs_by_name, truth(fast_decode, "fast_decode"), copies)
    with ExitStack() as made:
        sessions = [own] if devices is None else _sessions(own, devices, new_session, made)
        runner = _runner(sessions, properties, threads)
        jobs = Jobs(loading, own.compiled.outputs, runner, together)
        waiting = sum(one.slots for one in sessions) if len(sessions) > 1 else 0
        return EvaluationStream(jobs, Sources(inputs), threads + waiting, progress, made.pop_all())


def _sessions(
    own: StreamSession,
    devices: Sequence[LearningModelDevice],
    new_session: Callable[[LearningModelDevice], Any],
    made: ExitStack,
) -> list[StreamSession]:
    """A session for each device; `made` closes those that are new."""
    require_different(devices)
    sessions = []
    for device in devices:
        is_own = are_same(device, own.device)
        sessions.append(own if is_own else StreamSession.of(new_session(device)))
        if not is_own:
            made.callback(sessions[-1].close)
    return sessions


def _runner(sessions: Sequence[StreamSession], properties: Properties, threads: int) -> Runner:
    runners = [SessionRunner(session.new_binding, session.evaluate, properties) for session in sessions]
    if len(runners) == 1:
        return runners[0]
    lanes = [
        Lane(one, session.slots or threads, session.device.hardware == "cpu")
        for one, session in zip(runners, sessions, strict=True)
    ]
    lanes.sort(key=lambda lane: lane.is_cpu)  # of two that have nothing to do, the CPU has other work
    return DevicesRunner(lanes, sessions[0].compiled, properties)
