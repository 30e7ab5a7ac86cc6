"""What `evaluate_many` puts together: sources, jobs, runners on one device or on several, and the stream over them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from queue import PriorityQueue
from typing import Any, NamedTuple

from ...errors import DeviceLostError, InvalidArgumentError
from ..base.arguments import truth, whole_number
from ..base.machine import usable_cores
from ..base.winrt_object import inside
from ..evaluation.compiled import Compiled
from ..evaluation.result import LearningModelEvaluationResult, with_placements
from ..features.pictures import BindProperties
from ..features.resolve import Pictures, resolve
from ..imaging.contract import ImageContract
from ..imaging.picture_placement import PicturePlacement
from ..runtime.device import LearningModelDevice, are_same, require_different
from .jobs import Evaluates, Features, Jobs, Loading, Properties, Runner, SessionRunner, require_fitting, spelling
from .sources import Sources
from .stream import EvaluationStream, ItemProgress

OTHER_SLOTS = 2
"""Items at once on a device that is not the CPU: one is computed while the other is sent."""


class StreamSettings(NamedTuple):
    """The arguments of `evaluate_many`, as they came."""

    concurrency: int | None
    batch: int | None
    contract: ImageContract | None
    fast_decode: bool
    progress: ItemProgress | None
    devices: Sequence[LearningModelDevice] | None
    copy: bool


def open_stream(
    inputs: object,
    settings: StreamSettings,
    session: Evaluates,
    new_session: Callable[[LearningModelDevice], Evaluates],
) -> EvaluationStream:
    """The stream of results; raises as `evaluate_many` does.

    Args:
        inputs: as for `evaluate_many`.
        settings: the rest.
        session: the `LearningModelSession` whose `evaluate_many` was called.
        new_session: makes one of the same model and options on another device.
    """
    concurrency, batch, contract, fast_decode, progress, devices, copy = settings
    threads = usable_cores() if concurrency is None else whole_number(concurrency, "concurrency", 1)
    batch_size = 1 if batch is None else whole_number(batch, "batch", 1)
    if progress is not None and not callable(progress):
        raise InvalidArgumentError(f"progress is {progress!r}.", hint="Write a function of two numbers: done, total.")
    compiled = inside(session)
    fitting = frozenset[str]() if contract is None else require_fitting(contract, compiled.inputs)
    properties = {name: {"ImageContract": contract} for name in fitting}
    # Nothing of the program's runs between two items of a list: they are all there, each in memory of its own.
    copies = truth(copy, "copy") and type(inputs) not in (list, tuple)
    loading = Loading(compiled.inputs, truth(fast_decode, "fast_decode"), copies)
    runner: Runner
    with ExitStack() as cleanup:
        sessions = [session] if devices is None else _sessions(session, devices, new_session, cleanup)
        if len(sessions) == 1:
            runner = SessionRunner(sessions[0], properties)
        else:
            slots = [threads if one.device.hardware == "cpu" else OTHER_SLOTS for one in sessions]
            runner = DevicesRunner(sessions, slots, properties)
            # A thread that waits for another device leaves the CPU to the others.
            threads += sum(one.device.hardware != "cpu" for one in sessions) * OTHER_SLOTS
        jobs = Jobs(loading, compiled, runner, batch_size)
        return EvaluationStream(jobs, Sources(inputs), threads, progress, cleanup.pop_all())


def _sessions(
    session: Evaluates,
    devices: Sequence[LearningModelDevice],
    new_session: Callable[[LearningModelDevice], Evaluates],
    cleanup: ExitStack,
) -> list[Evaluates]:
    """A session for each device; `cleanup` closes those that are new."""
    require_different(devices)
    sessions = []
    for device in devices:
        is_own = are_same(device, session.device)
        sessions.append(session if is_own else new_session(device))
        if not is_own:
            cleanup.callback(sessions[-1].close)
    return sessions


class _Slot(NamedTuple):
    """Room for an item on a device. Sorted, the device with the least to do comes first, and the CPU last."""

    number: int
    is_cpu: bool
    device: int


class DevicesRunner:
    """Evaluates on whichever of several devices is free, each of which takes so many items at once.

    The CPU turns pictures into tensors before, so that any device can take them.
    """

    def __init__(self, sessions: Sequence[Evaluates], slots: Sequence[int], properties: Properties) -> None:
        self._compiled: Compiled = inside(sessions[0])
        self._properties = {
            name: BindProperties.read(properties.get(name), self._compiled.is_silent) for name in self._compiled.inputs
        }
        self._spelling = spelling(self._compiled.inputs)
        self._runners = [SessionRunner(session, properties) for session in sessions]
        self._lost: dict[int, DeviceLostError] = {}
        self._free: PriorityQueue[_Slot] = PriorityQueue()
        for index, (session, count) in enumerate(zip(sessions, slots, strict=True)):
            for number in range(count):
                self._free.put(_Slot(number, session.device.hardware == "cpu", index))

    def run(self, features: Features) -> LearningModelEvaluationResult:
        """Evaluates the values of one item, on another device where the one it is on gets lost."""
        placements: dict[str, tuple[PicturePlacement, ...]] = {}
        values = {name: self._value(name, value, placements) for name, value in features.items()}
        while True:
            slot = self._take()
            try:
                return with_placements(self._runners[slot.device].run(values), placements)
            except DeviceLostError as loss:
                self._lost[slot.device] = copy.copy(loss)  # without its traceback, as in `Compiled.lose`
            finally:
                self._free.put(slot)

    def _take(self) -> _Slot:
        """Waits for a free device. The slots of one that is lost are dropped, unless all are lost."""
        while True:
            slot = self._free.get()
            if slot.device not in self._lost:
                return slot
            if len(self._lost) == len(self._runners):
                self._free.put(slot)  # for the other threads that wait
                raise copy.copy(self._lost[slot.device])

    def _value(self, name: str, value: object, placements: dict[str, tuple[PicturePlacement, ...]]) -> Any:
        if name not in self._spelling:  # an output's, or unknown
            return value
        feature, properties = self._compiled.inputs[self._spelling[name]], self._properties[self._spelling[name]]
        bindable = resolve(value, feature, properties)
        if not isinstance(bindable, Pictures):
            return value
        self._compiled.missing_contracts.tell(bindable, properties)
        placements[feature.name] = tuple(map(PicturePlacement, bindable.placements))
        return bindable.tensor()

    def clear(self) -> None:
        """Lets go of the memory that is kept for the next item."""
        for runner in self._runners:
            runner.clear()
