"""EvaluationStream: a stream of inputs in, a stream of results out, in the same order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ...enums import FramePolicy, TensorKind
from ...errors import IllegalCallError, InvalidArgumentError
from ..base.arguments import require_bool, require_type, require_whole_number
from ..base.machine import count_usable_cores
from ..base.messages import find_caller, line_of_work
from ..base.winrt_object import Closeable
from ..features.bind_properties import BindProperties
from ..imaging.contract import ImageContract
from ..model.contracts import find_fitting_inputs
from .jobs import Jobs
from .result import LearningModelEvaluationResult
from .sources import Item, Sources
from .state import SessionState

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

ItemProgress = Callable[[int, int | None], object]
"""Called with the number of results so far and in total; None where the total is not known."""

AHEAD = 2
"""Waiting jobs per thread. No thread runs out of work, and memory stays bounded."""


class EvaluationStream(Closeable):
    """Results in the order of the inputs: iterate over it, or `async for`. Closing it stops jobs that have not begun.

    Made by `LearningModelSession.evaluate_many`.
    """

    def __init__(
        self,
        session_state: SessionState,
        inputs: object,
        *,
        concurrency: int | None,
        batch: int | None,
        contract: ImageContract | None,
        fast_decode: bool,
        progress: ItemProgress | None,
        copy: bool,
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor

        threads = count_usable_cores() if concurrency is None else require_whole_number(concurrency, "concurrency", 1)
        batch_size = 1 if batch is None else require_whole_number(batch, "batch", 1)
        if progress is not None and not callable(progress):
            raise InvalidArgumentError(
                f"progress cannot be {progress!r}.", hint="Pass a function of two numbers: done and total."
            )
        properties: dict[str, BindProperties] = {}
        if contract is not None:
            require_type(contract, ImageContract, "Pass ImageContract.imagenet() or your own.")
            images = find_fitting_inputs(list(session_state.inputs.values()), contract)
            properties = {image.name: BindProperties(contract=contract) for image in images}
        # No code of the program runs between two items of a list: they all exist, each with separate memory.
        copies = require_bool(copy, "copy") and type(inputs) not in (list, tuple)
        self._jobs = Jobs(session_state, properties, batch_size, require_bool(fast_decode, "fast_decode"), copies)
        (first, *others) = session_state.inputs.values() or [None]
        takes_text = not others and getattr(first, "tensor_kind", None) is TensorKind.STRING
        self._sources = Sources(inputs, takes_text)
        self._progress = progress
        # An error of the source of inputs, raised after the results before it.
        self._failure: BaseException | None = None
        self._is_exhausted = self._is_closed = False
        self._process = os.getpid()
        self._workers = threads
        self._pool = ThreadPoolExecutor(threads, "winml-py many", line_of_work.set, (find_caller(),))
        self._pending: deque[Future[list[LearningModelEvaluationResult]]] = deque()
        self._ready: deque[LearningModelEvaluationResult] = deque()
        self._awaited: Future[LearningModelEvaluationResult | None] | None = None
        self._reader: ThreadPoolExecutor | None = None  # waits for the next result in `async for`
        self._taken: list[Item] = []  # of the job whose items are being taken

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
                "The stream was created before a fork, so its threads are only in the parent process.",
                hint="Create a session and a stream in this process.",
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
        from concurrent.futures import ThreadPoolExecutor

        while True:
            if self._awaited is None and self._is_closed:
                raise StopAsyncIteration
            if self._awaited is None:
                if self._reader is None:  # a thread for each stream: a stream may wait for the results of another
                    self._reader = ThreadPoolExecutor(1, "winml-py stream")
                self._awaited = self._reader.submit(self._next)
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
        if self._reader is not None:
            self._reader.shutdown(wait=False)  # it may be the thread that closes
        self._jobs.clear()  # only now, because the threads used the bindings until they ended
        self._sources.close()

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
        items = self._taken  # those before an interrupt of the source are not lost
        try:
            while len(items) < self._jobs.batch:
                items.append(self._jobs.detach(next(self._sources)))
        except StopIteration:
            self._is_exhausted = True
        except Exception as failure:  # any error of the caller's iterator is raised to the caller
            self._failure = failure
            self._is_exhausted = True
        self._taken = []
        return items
