"""Many evaluations of one session: a stream of inputs in, a stream of results out, in the same order.

`open_stream` assembles what `evaluate_many` needs: sources, jobs, and runners on one device or on several.
"""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from queue import PriorityQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from ...enums import FramePolicy
from ...errors import DeviceLostError, IllegalCallError, InvalidArgumentError
from ..base.arguments import require_bool, require_type, require_whole_number
from ..base.child_process import get_shared_pool
from ..base.collections import NameMap
from ..base.machine import count_usable_cores
from ..base.messages import find_caller, line_of_work
from ..base.winrt_object import Closeable, private_state
from ..features.bind_properties import NO_PROPERTIES, BindProperties
from ..features.resolve import PlannedPictures, resolve
from ..imaging.contract import ImageContract
from ..imaging.picture_placement import PicturePlacement
from ..model.contracts import find_fitting_inputs
from ..runtime.device import LearningModelDevice, require_different
from .jobs import Features, Jobs, Properties, Runner, SessionRunner, StreamSession
from .result import LearningModelEvaluationResult, set_placements
from .session_state import SessionState
from .sources import Item, Sources

if TYPE_CHECKING:
    from concurrent.futures import Future

ItemProgress = Callable[[int, int | None], object]
"""Called with the number of results so far and in total; None where the total is not known."""

READERS = 16
"""Threads that wait for the next results of streams read by `async for`."""

AHEAD = 2
"""Waiting jobs per thread. No thread runs out of work, and memory stays bounded."""

OTHER_SLOTS = 2
"""Concurrent items on a device other than the CPU: one is computed while the other is sent."""


def open_stream(
    inputs: object,
    session: StreamSession,
    new_session: Callable[[LearningModelDevice], StreamSession],
    *,
    concurrency: int | None,
    batch: int | None,
    contract: ImageContract | None,
    fast_decode: bool,
    progress: ItemProgress | None,
    devices: Sequence[LearningModelDevice] | None,
    copy: bool,
) -> EvaluationStream:
    """The stream of results; takes the arguments of `evaluate_many`, and raises as it does.

    `session` is the one whose `evaluate_many` was called, and `new_session` makes one of the same model and options on
    another device; the stream closes those at its end.
    """
    threads = count_usable_cores() if concurrency is None else require_whole_number(concurrency, "concurrency", 1)
    batch_size = 1 if batch is None else require_whole_number(batch, "batch", 1)
    if progress is not None and not callable(progress):
        raise InvalidArgumentError(f"progress is {progress!r}.", hint="Write a function of two numbers: done, total.")
    session_state = private_state(session)
    properties: Properties = {}
    if contract is not None:
        require_type(contract, ImageContract, "Write ImageContract.imagenet(), or make one.")
        images = find_fitting_inputs(list(session_state.inputs.values()), contract)
        properties = {image.name: BindProperties(contract=contract) for image in images}
    # No code of the program runs between two items of a list: they all exist, each with separate memory.
    copies = require_bool(copy, "copy") and type(inputs) not in (list, tuple)
    is_fast = require_bool(fast_decode, "fast_decode")
    runner: Runner
    with ExitStack() as cleanup:
        sessions: list[StreamSession] = []
        if devices is not None:
            require_different(devices)
        for device in devices or [session.device]:
            if device == session.device:
                sessions.append(session)
            else:
                sessions.append(new_session(device))
                cleanup.callback(sessions[-1].close)
        if len(sessions) == 1:
            runner = SessionRunner(sessions[0], properties)
        else:
            is_cpu = [member.device.hardware == "cpu" for member in sessions]
            runner = DevicesRunner(sessions, [threads if cpu else OTHER_SLOTS for cpu in is_cpu], properties)
            # A thread that waits for another device leaves the CPU to the others.
            threads += is_cpu.count(False) * OTHER_SLOTS
        jobs = Jobs(session_state, runner, batch_size, is_fast, copies)
        return EvaluationStream(jobs, Sources(inputs), threads, progress, cleanup.pop_all())


class EvaluationStream(Closeable):
    """Results in the order of the inputs: iterate over it, or `async for`. Closing it stops jobs that have not begun.

    Made by `LearningModelSession.evaluate_many`.
    """

    def __init__(
        self, jobs: Jobs, sources: Sources, workers: int, progress: ItemProgress | None, sessions: ExitStack
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._jobs = jobs
        self._sources = sources
        self._progress = progress
        self._sessions = sessions  # sessions on other devices, made for this stream
        # An error of the source of inputs, raised after the results before it.
        self._failure: BaseException | None = None
        self._is_exhausted = self._is_closed = False
        self._process = os.getpid()
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, "winml-py many", line_of_work.set, (find_caller(),))
        self._pending: deque[Future[list[LearningModelEvaluationResult]]] = deque()
        self._ready: deque[LearningModelEvaluationResult] = deque()
        self._awaited: Future[LearningModelEvaluationResult | None] | None = None

    def __iter__(self) -> Iterator[LearningModelEvaluationResult]:
        return self

    def __next__(self) -> LearningModelEvaluationResult:
        result = self._next()
        if result is None:
            raise StopIteration
        return self._report_progress(result)

    def _next(self) -> LearningModelEvaluationResult | None:
        """The next result; None at the end."""
        if os.getpid() != self._process:
            raise IllegalCallError(
                "The stream was made before a fork, and its threads are in the parent process alone.",
                hint="Make a session and a stream in this process.",
            )
        if not self._ready:
            self._fill()
            if self._pending:
                try:
                    self._ready.extend(self._pending.popleft().result())
                except Exception:  # an error that is not an item's ends the stream
                    self.close()
                    raise
                # A thread is free now. It gets work before the caller handles the results, which may take long.
                self._fill(is_idle=False)
        if self._ready:
            return self._ready.popleft()
        self.close()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return None

    def _report_progress(self, result: LearningModelEvaluationResult) -> LearningModelEvaluationResult:
        if self._progress is not None and result.index is not None:
            self._progress(result.index + 1, self._sources.total)
        return result

    def __aiter__(self) -> EvaluationStream:
        return self

    async def __anext__(self) -> LearningModelEvaluationResult:
        import asyncio

        while True:
            if self._awaited is None and self._is_closed:
                raise StopAsyncIteration
            if self._awaited is None:
                self._awaited = get_shared_pool("winml-py streams", READERS).submit(self._next)
            awaited = self._awaited
            await asyncio.wait([asyncio.wrap_future(awaited)])  # a cancelled call leaves it to the next one
            if self._awaited is awaited:  # otherwise another task has taken the result
                self._awaited = None
                break
        result = awaited.result()
        if result is None:
            raise StopAsyncIteration
        return self._report_progress(result)

    def close(self) -> None:
        """Stops the stream: drops jobs that have not begun, and waits for running ones. A second call does nothing."""
        if os.getpid() != self._process:
            return
        self._is_exhausted = self._is_closed = True
        self._ready.clear()
        self._pending.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)
        # Only now, because the threads used the bindings and the sessions until they ended.
        self._jobs.runner.clear()
        self._sources.close()
        self._sessions.close()

    def _fill(self, is_idle: bool = True) -> None:
        """Hands jobs to the threads. Inputs are taken as late as possible, so that memory stays bounded.

        Args:
            is_idle: whether nothing is more urgent than waiting for a camera's next frame.
        """
        while not self._is_exhausted:
            reader = self._sources.reader
            # The latest frame of a camera does not wait for a thread: it would get old.
            is_fresh = reader is not None and reader.policy is FramePolicy.LATEST
            if len(self._pending) >= self._workers * (1 if is_fresh else AHEAD):
                return
            if reader is not None and not reader.is_ready and (self._pending or not is_idle):
                return
            items = self._take()
            if items:
                self._pending.append(self._pool.submit(self._jobs.run, items))

    def _take(self) -> list[Item]:
        """The items of the next job; each is detached before the source is asked for more."""
        items = list[Item]()
        try:
            while len(items) < self._jobs.batch:
                items.append(self._jobs.detach(next(self._sources)))
        except StopIteration:
            self._is_exhausted = True
        except Exception as failure:  # any error of the caller's iterator is raised to the caller
            self._failure = failure
            self._is_exhausted = True
        return items


# Several devices at once.


class _Slot(NamedTuple):
    """Room for an item on a device. Sorted, the least busy device comes first, and the CPU last."""

    number: int
    is_cpu: bool
    device: int


class DevicesRunner:
    """Evaluates on any free one of several devices, each of which takes this many items at once.

    The CPU first turns pictures into tensors, so that any device can take them.
    """

    def __init__(self, sessions: Sequence[StreamSession], slots: Sequence[int], properties: Properties) -> None:
        self._session_state: SessionState = private_state(sessions[0])
        self._properties = properties
        self._inputs = NameMap(self._session_state.inputs)
        self._runners = [SessionRunner(session, properties) for session in sessions]
        self._lost: dict[int, DeviceLostError] = {}
        self._free: PriorityQueue[_Slot] = PriorityQueue()
        for device, (session, slot_count) in enumerate(zip(sessions, slots, strict=True)):
            for number in range(slot_count):
                self._free.put(_Slot(number, session.device.hardware == "cpu", device))

    def run(self, features: Features) -> LearningModelEvaluationResult:
        """Evaluates the values of one item, on another device if its device is lost."""
        placements: dict[str, tuple[PicturePlacement, ...]] = {}
        values = {name: self._tensorize_value(name, value, placements) for name, value in features.items()}
        while True:
            slot = self._take()
            try:
                return set_placements(self._runners[slot.device].run(values), placements)
            except DeviceLostError as loss:
                self._lost[slot.device] = copy.copy(loss)  # without its traceback, as in `SessionState.lose`
            finally:
                self._free.put(slot)

    def _take(self) -> _Slot:
        """Waits for a free device. The slots of one that is lost are dropped, unless all are lost."""
        while True:
            slot = self._free.get()
            if slot.device not in self._lost:
                return slot
            if len(self._lost) == len(self._runners):
                self._free.put(slot)  # the other waiting threads must see it, too
                raise copy.copy(self._lost[slot.device])

    def _tensorize_value(self, name: str, value: object, placements: dict[str, tuple[PicturePlacement, ...]]) -> Any:
        if name not in self._inputs:  # the name of an output, or of nothing
            return value
        feature = self._inputs[name]
        properties = self._properties.get(feature.name, NO_PROPERTIES)
        resolved = resolve(value, feature, properties)
        if not isinstance(resolved, PlannedPictures):
            return value
        self._session_state.missing_contracts.warn(resolved.plan, properties)
        placements[feature.name] = tuple(map(PicturePlacement, resolved.plan.placements))
        return resolved.plan.make_tensor(resolved.value)

    def clear(self) -> None:
        """Releases the memory kept for the next item."""
        for runner in self._runners:
            runner.clear()
