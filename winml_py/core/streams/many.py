"""What `evaluate_many` puts together: sources, jobs, runners on the CPU or in the lanes of a device, and the stream
over them.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from ...errors import DeviceLostError, InvalidArgumentError
from ..base.arguments import truth, whole_number
from ..base.machine import usable_cores
from ..base.winrt_object import inside
from ..evaluation.compiled import Compiled
from ..evaluation.evaluation import LearningModelBinding
from ..evaluation.picture_inputs import PictureInputs
from ..evaluation.result import LearningModelEvaluationResult, with_placements
from ..features.bind_properties import BindProperties
from ..features.resolve import Pictures, resolve
from ..imaging.contract import ImageContract
from ..runtime.device import LearningModelDevice, are_same, require_different
from .jobs import Features, Jobs, Loading, Properties, Runner, SessionRunner, require_fitting, spelling
from .sources import Sources
from .stream import EvaluationStream, ItemProgress


class StreamSettings(NamedTuple):
    """The arguments of `evaluate_many`, as they came."""

    concurrency: int | None
    batch: int | None
    contract: ImageContract | None
    fast_decode: bool
    progress: ItemProgress | None
    devices: Sequence[LearningModelDevice] | None
    copy: bool


class Evaluates(Protocol):
    """What a stream asks of a session."""

    @property
    def _inside(self) -> Compiled: ...

    @property
    def device(self) -> LearningModelDevice:
        """Where it runs."""

    def evaluate(self, binding: LearningModelBinding, /) -> LearningModelEvaluationResult:
        """Evaluates what is bound."""

    def close(self) -> None:
        """Lets go of the engine."""


class StreamSession(NamedTuple):
    """A session as a stream uses it."""

    compiled: Compiled
    device: LearningModelDevice
    new_binding: Callable[[], LearningModelBinding]
    evaluate: Callable[[LearningModelBinding], LearningModelEvaluationResult]
    close: Callable[[], None]

    @classmethod
    def of(cls, session: Evaluates) -> StreamSession:
        """Collects what a stream needs from a session."""
        new_binding = partial(LearningModelBinding, session)
        return cls(inside(session), session.device, new_binding, session.evaluate, session.close)

    @property
    def slots(self) -> int:
        """How many items wait there while the CPU's threads do other work; 0 for the CPU."""
        return 0 if self.device.hardware == "cpu" else OTHER_SLOTS


def open_stream(
    inputs: object,
    settings: StreamSettings,
    session: Evaluates,
    new_session: Callable[[LearningModelDevice], Evaluates],
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
    batch_size = 1 if batch is None else whole_number(batch, "batch", 1)
    if progress is not None and not callable(progress):
        raise InvalidArgumentError(f"progress is {progress!r}.", hint="Write a function of two numbers: done, total.")
    stream_session = StreamSession.of(session)
    inputs_by_name = stream_session.compiled.inputs
    fitting = frozenset[str]() if contract is None else require_fitting(contract, inputs_by_name)
    properties = {name: {"ImageContract": contract} for name in fitting}
    # Nothing of the program's runs between two items of a list: they are all there, each in memory of its own.
    copies = truth(copy, "copy") and type(inputs) not in (list, tuple)
    loading = Loading(inputs_by_name, truth(fast_decode, "fast_decode"), copies)
    with ExitStack() as cleanup:
        sessions = [stream_session] if devices is None else _sessions(stream_session, devices, new_session, cleanup)
        runner = _runner(sessions, properties, threads)
        jobs = Jobs(loading, stream_session.compiled, runner, batch_size)
        waiting = sum(one.slots for one in sessions) if len(sessions) > 1 else 0
        return EvaluationStream(jobs, Sources(inputs), threads + waiting, progress, cleanup.pop_all())


def _sessions(
    stream_session: StreamSession,
    devices: Sequence[LearningModelDevice],
    new_session: Callable[[LearningModelDevice], Evaluates],
    cleanup: ExitStack,
) -> list[StreamSession]:
    """A session for each device; `cleanup` closes those that are new."""
    require_different(devices)
    sessions = []
    for device in devices:
        is_own = are_same(device, stream_session.device)
        sessions.append(stream_session if is_own else StreamSession.of(new_session(device)))
        if not is_own:
            cleanup.callback(sessions[-1].close)
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


# Several devices: the CPU prepares the values of an item, and whichever device is free evaluates them.


OTHER_SLOTS = 2
"""Items at once on a device that is not the CPU: one is computed while the other is sent."""


class Lane:
    """One device, by the runner of its session.

    Attributes:
        runner: evaluates there.
        slots: how many items it takes at once.
        is_cpu: whether it is the CPU.
        in_use: how many it has.
    """

    def __init__(self, runner: Runner, slots: int, is_cpu: bool) -> None:
        self.runner, self.slots, self.is_cpu, self.in_use = runner, slots, is_cpu, 0


class Lanes:
    """The devices that are left, and who is free."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._left = list(lanes)
        self._changed = threading.Condition()
        self._loss: DeviceLostError | None = None

    def take(self) -> Lane:
        """The device that has the least to do, of several the first; waits until one is free.

        Raises:
            DeviceLostError: all have been lost.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._left or self._free())
            if not self._left:
                assert self._loss is not None  # only a loss takes a lane away
                raise copy.copy(self._loss)
            lane = min(self._free(), key=lambda lane: lane.in_use / lane.slots)
            lane.in_use += 1
            return lane

    def _free(self) -> list[Lane]:
        return [lane for lane in self._left if lane.in_use < lane.slots]

    def give_back(self, lane: Lane) -> None:
        """The lane has room for an item again."""
        with self._changed:
            lane.in_use -= 1
            self._changed.notify_all()

    def drop(self, lane: Lane, loss: DeviceLostError) -> None:
        """The lane's device has gone."""
        with self._changed:
            self._loss = copy.copy(loss)  # without its traceback, as in `Compiled.lose`
            if lane in self._left:
                self._left.remove(lane)
            self._changed.notify_all()


class DevicesRunner:
    """Evaluates on several devices. Pictures are tensorized by the CPU, so that any device can take them.

    Args:
        lanes: the devices.
        compiled: one of the sessions; all of them have the same model.
        properties: of binds, by the names of inputs.
    """

    def __init__(self, lanes: Sequence[Lane], compiled: Compiled, properties: Properties) -> None:
        self._lanes, self._runners = Lanes(lanes), [lane.runner for lane in lanes]
        self._preparation = Preparation(compiled, properties)

    def run(self, features: Features) -> LearningModelEvaluationResult:
        """Evaluates the values of one item, on another device where the one it is on gets lost.

        Raises:
            DeviceLostError: all devices have been lost.
            WinMLError: as `bind` and `evaluate` do.
        """
        with self._preparation.prepared(features) as (values, pictures):
            while True:
                lane = self._lanes.take()
                try:
                    return with_placements(lane.runner.run(values), pictures.placements)
                except DeviceLostError as loss:
                    self._lanes.drop(lane, loss)
                finally:
                    self._lanes.give_back(lane)

    def clear(self) -> None:
        """Lets go of the memory that is kept for the next item."""
        self._preparation.clear()
        for runner in self._runners:
            runner.clear()


class Preparation:
    """Turns pictures into tensors in the host's memory, and leaves other values as they are."""

    def __init__(self, compiled: Compiled, properties: Properties) -> None:
        self._compiled = compiled
        self._properties = {
            name: BindProperties.read(properties.get(name), compiled.is_silent) for name in compiled.inputs
        }
        self._spelling = spelling(compiled.inputs)
        self._idle_pictures: SimpleQueue[PictureInputs] = SimpleQueue()

    @contextmanager
    def prepared(self, features: Features) -> Iterator[tuple[dict[str, Any], PictureInputs]]:
        """The values to bind, and where pictures lie in them; the memory is reused after the block.

        Raises:
            WinMLError: as `bind` does for a picture.
        """
        pictures = self._host_pictures()
        pictures.placements.clear()  # those of the item before
        yield {name: self._value(name, value, pictures) for name, value in features.items()}, pictures
        self._idle_pictures.put(pictures)  # not where it failed: a device that is lost may still read the memory

    def _host_pictures(self) -> PictureInputs:
        try:
            return self._idle_pictures.get_nowait()
        except Empty:
            pictures = PictureInputs(self._compiled)
            pictures.device_tensorizer = None
            return pictures

    def _value(self, name: str, value: object, pictures: PictureInputs) -> Any:
        if name not in self._spelling:  # an output's, or unknown
            return value
        feature, properties = self._compiled.inputs[self._spelling[name]], self._properties[self._spelling[name]]
        bindable = resolve(value, feature, properties)
        if not isinstance(bindable, Pictures):
            return value
        tensor = pictures.tensors[feature.name] = pictures.write(bindable)
        self._compiled.missing_contracts.tell(bindable, properties)
        return tensor

    def clear(self) -> None:
        """Lets go of the memory."""
        while True:
            try:
                self._idle_pictures.get_nowait()
            except Empty:
                return
