"""Many evaluations of one session: a stream of inputs in, a stream of results out, in the same order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...enums import FramePolicy
from ...errors import IllegalCallError
from ..base.child_process import shared_pool
from ..base.winrt_object import Closeable
from ..evaluation.result import LearningModelEvaluationResult
from .jobs import Jobs
from .sources import Item, Sources

if TYPE_CHECKING:
    from concurrent.futures import Future

ItemProgress = Callable[[int, int | None], object]
"""Called with how many results there have been, and how many there will be; None where that is not known."""

READERS = 16
"""Threads that wait for the next results of streams that are read by `async for`."""

AHEAD = 2
"""Jobs that wait for each thread. No thread runs out of work, and memory stays bounded."""


class EvaluationStream(Closeable):
    """Results in the order of the inputs: iterate over it, or `async for`. Closing it stops what has not begun.

    Made by `LearningModelSession.evaluate_many`.
    """

    def __init__(
        self, jobs: Jobs, sources: Sources, workers: int, progress: ItemProgress | None, sessions: ExitStack
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._jobs, self._sources, self._progress = jobs, sources, progress
        self._sessions = sessions  # on other devices, which were made for this stream
        self._failure: BaseException | None = None  # what the source of the inputs raised, for when its turn comes
        self._is_exhausted = self._is_closed = False
        self._process = os.getpid()
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, "winml-py many")
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
                self._ready.extend(self._pending.popleft().result())
                # A thread is free now. It gets work before the caller looks at the results, which may take long.
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
                self._awaited = shared_pool("winml-py streams", READERS).submit(self._next)
            awaited = self._awaited
            await asyncio.wait([asyncio.wrap_future(awaited)])  # if this is cancelled, the next call waits for the same
            if self._awaited is awaited:  # or another task has taken it
                self._awaited = None
                break
        result = awaited.result()
        if result is None:
            raise StopAsyncIteration
        return self._report_progress(result)

    def close(self) -> None:
        """Stops the stream: jobs that have not begun are dropped, running ones are waited for. Twice is harmless."""
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
            is_idle: whether there is nothing better to do than to wait for a camera's next frame.
        """
        while not self._is_exhausted:
            reader = self._sources.reader
            # The latest frame of a camera waits for no thread: it would get old.
            is_fresh = reader is not None and reader.policy is FramePolicy.LATEST
            if len(self._pending) >= self._workers * (1 if is_fresh else AHEAD):
                return
            if reader is not None and not reader.is_ready and (self._pending or not is_idle):
                return
            items = self._take()
            if items:
                self._pending.append(self._pool.submit(self._jobs.run, items))

    def _take(self) -> list[Item]:
        """The items of the next job; each is the stream's own before the source is asked for more."""
        loading, items = self._jobs.loading, list[Item]()
        try:
            while len(items) < self._jobs.batch:
                item = next(self._sources)
                items.append(loading.detach(item) if loading.copies else item)
        except StopIteration:
            self._is_exhausted = True
        except Exception as failure:  # whatever the caller's own iterator raises is given back to the caller
            self._failure, self._is_exhausted = failure, True
        return items
