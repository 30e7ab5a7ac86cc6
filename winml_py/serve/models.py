"""The models of a service: sessions that are made when they are asked for, and let go when nobody asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from starlette.responses import Response

from .._inputs.examples import NOTHING_STATED, StatedSizes
from .._inputs.interpretation import Classes, score_outputs
from ..core.base.cancellation import Stop
from ..core.base.machine import usable_cores
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession, evaluate_until
from ..errors import EngineLostError, NotBoundError
from .monitoring import Exchange


def forget(task: asyncio.Task[Any]) -> None:
    """Takes the error of a task that nobody may wait for, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()


class Work(Protocol):
    """A request for one evaluation. The methods are called in a thread."""

    def bind(self, session: LearningModelSession) -> LearningModelBinding:
        """Decodes and binds the values."""

    def answer(self, result: LearningModelEvaluationResult) -> Response:
        """Makes the answer."""


@dataclass(eq=False)
class ServedModel:
    """A model, and its session while there is one. All methods belong to the event loop's thread.

    Attributes:
        name: its name in addresses.
        model: the model.
        device: where it runs.
        options: of its sessions.
        idle: the seconds after its last use in which its session is closed; 0 for never.
        labels: the names of the classes; empty for the model's own.
        sizes: the stated sizes of its inputs.
        was_loaded: whether it has been compiled.
    """

    name: str
    model: LearningModel
    device: LearningModelDevice | None
    options: LearningModelSessionOptions
    idle: float = 0
    labels: Sequence[str] = ()
    sizes: StatedSizes = NOTHING_STATED
    session: LearningModelSession | None = None
    was_loaded: bool = False
    _users: int = 0
    _making: asyncio.Task[None] | None = None
    _timer: asyncio.TimerHandle | None = None

    @cached_property
    def classes(self) -> Classes:
        """How outputs are shown; finding out reads the graph."""
        return Classes(None, self.labels or self.model.labels, score_outputs(self.model))

    @property
    def is_ready(self) -> bool:
        """Whether it has been compiled, and is not being compiled again."""
        return self.was_loaded and self._making is None

    def start(self) -> None:
        """Begins to make the session, unless there is one whose process, if any, has not ended."""
        if self.session is not None and self.session.is_lost:
            self.unload()
        if self.session is None and self._making is None:
            self._making = asyncio.create_task(self._make())
            self._making.add_done_callback(forget)

    async def _make(self) -> None:
        try:
            self.session = await LearningModelSession.create_async(self.model, self.device, self.options)
            self.was_loaded = True
        finally:
            self._making = None
            self._await_idle()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[LearningModelSession]:
        """The session, which stays at least until the block ends. WinMLError if it cannot be made."""
        self._users += 1
        try:
            self.start()
            if self.session is None and self._making is not None:
                await asyncio.shield(self._making)  # a caller that gives up leaves the work to the others
            assert self.session is not None
            yield self.session
        finally:
            self._users -= 1
            self._await_idle()

    def _await_idle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.idle:
            self._timer = asyncio.get_running_loop().call_later(self.idle, self.unload)

    def unload(self) -> None:
        """Closes the session, and with it the engine and its memory, unless it is in use."""
        if self.session is not None and (self._users == 0 or self.session.is_lost):
            self.session.close()
            self.session = None


class Models:
    """What a service serves, and the threads that evaluate: one for each core.

    A picture is decoded, prepared and evaluated in one of them. More at once would take no less time, and hold a
    picture each; and one thread waits for no other.
    """

    def __init__(self, models: Iterable[ServedModel]) -> None:
        self.by_name = {model.name: model for model in models}
        self._threads = ThreadPoolExecutor(usable_cores(), "winml-py serve")

    def find(self, name: str) -> ServedModel:
        """The model of this name; NotBoundError if there is none."""
        if name not in self.by_name:
            raise NotBoundError(f"There is no model {name!r}.", hint=f"Models: {', '.join(self.by_name)}.")
        return self.by_name[name]

    async def evaluate(self, served: ServedModel, asked: Work, exchange: Exchange) -> Response:
        """Evaluates a request when its turn has come. Cancelling it stops the evaluation at the next node.

        Raises:
            EngineLostError: the process of the engine ended in this evaluation.
            WinMLError: as the request's methods and the evaluation do.
        """

        def work(session: LearningModelSession, stop: Stop) -> Response:
            exchange.begin("preparing")
            binding = asked.bind(session)
            stop.require_not_requested()
            if session.is_lost:
                raise EngineLostError("The process of the engine ended in another evaluation.")
            exchange.begin("evaluating")
            return asked.answer(evaluate_until(session, binding, stop))

        while True:
            exchange.begin("waiting")
            async with served.use() as session:
                stop = Stop()
                try:
                    return await asyncio.get_running_loop().run_in_executor(self._threads, work, session, stop)
                except asyncio.CancelledError:
                    stop.request()
                    raise
                except EngineLostError:
                    if exchange.phase == "evaluating":
                        raise
                    # It ended in another request's evaluation, while this one waited, or was prepared: try again.

    async def load(self) -> None:
        """Compiles all models, one after the other. WinMLError if one cannot be compiled."""
        for served in self.by_name.values():
            async with served.use():
                pass

    def close(self) -> None:
        """Closes all sessions, and ends the threads."""
        for served in self.by_name.values():
            served.unload()
        self._threads.shutdown(wait=False, cancel_futures=True)
