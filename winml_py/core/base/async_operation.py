"""AsyncOperation: work in a thread that can be awaited, waited for, or cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ...enums import AsyncStatus
from ...errors import CanceledError, IllegalCallError
from .cancellation import Stop
from .child_process import get_shared_pool
from .messages import find_caller, line_of_work

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

THREADS = 16
"""Threads for all operations. They mostly wait in native code, so there may be more of them than cores. Operations on
one binding take turns, and hold a thread each while they wait: use a binding for each."""


class AsyncOperation(Coroutine[Any, Any, T]):
    """Work that has been started in a thread: WinRT's `IAsyncOperation`, and a Python coroutine.

    `await operation` gives the result, as often as you like; so do `asyncio.create_task(operation)`, a `TaskGroup` and
    `asyncio.run(operation)`. Cancelling the task that awaits it stops the work, an evaluation at the next node
    boundary. `get()` waits without asyncio.

    Example:
        >>> from winml_py import LearningModel
        >>> LearningModel.load_async("models/digits.onnx").get().name
        'digits'
    """

    def __init__(self, work: Callable[[Stop], T]) -> None:
        """Starts the work, and passes it the `Stop` that tells it to stop."""
        self._stop = Stop()
        self._caller = find_caller()
        self._completed: Callable[[AsyncOperation[T], AsyncStatus], object] | None = None
        self._future: Future[T] = _make_future()
        # Starting a thread waits until it runs, some milliseconds on a busy machine: an event loop must not wait.
        get_shared_pool("winml-py starts", 1).submit(self._start, work)

    def _start(self, work: Callable[[Stop], T]) -> None:
        try:
            get_shared_pool("winml-py", THREADS).submit(self._run, work)
        except RuntimeError as error:  # the interpreter is shutting down
            self._future.set_exception(error)

    def _run(self, work: Callable[[Stop], T]) -> None:
        if not self._future.set_running_or_notify_cancel():
            return
        line_of_work.set(self._caller)
        try:
            self._stop.require_not_requested()
            result = work(self._stop)
        except BaseException as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        try:
            return (yield from asyncio.wrap_future(self._future).__await__())
        except asyncio.CancelledError as error:
            self.throw(error)
            raise  # for type checkers: `throw` has raised

    def send(self, _: Any, /) -> Any:
        """How a task begins to wait, and how it gets the result; a coroutine has this method."""
        # Nothing is kept between the two calls, so several tasks can wait for one operation.
        if self._future.done():
            raise StopIteration(self.get())
        return next(self.__await__())

    def throw(self, *error: Any) -> Any:
        """How a task hands on that it was cancelled, or the error of the work; a coroutine has this method."""
        import asyncio

        try:
            return super().throw(*error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._stop.requested and not (task and task.cancelling()):
                raise CanceledError("The operation was cancelled.") from None  # the same error as if the work had begun
            self.cancel()
            raise

    def get(self, timeout: float | None = None) -> T:
        """Waits for the result, `timeout` seconds at most.

        Raises:
            CanceledError: the operation was cancelled.
            TimeoutError: it is not done yet; it continues.
            WinMLError: the error of the work.
        """
        from concurrent.futures import CancelledError

        try:
            return self._future.result(timeout)
        except CancelledError:
            raise CanceledError("The operation was cancelled.") from None

    def wait(self, timeout: float | None = None, /) -> AsyncStatus:
        """Waits until the operation is done, `timeout` seconds at most, and returns the status."""
        from concurrent.futures import CancelledError

        # Not `concurrent.futures.wait`, for which work that was cancelled in the queue is done when its turn comes.
        with suppress(CancelledError, TimeoutError):
            self._future.exception(timeout)
        return self.status

    def get_results(self) -> T:
        """The result of an operation that is done.

        Raises:
            IllegalCallError: it is not done; await it, or use `get`.
        """
        if not self._future.done():
            raise IllegalCallError("The operation has not completed.", hint="Await it, or call get().")
        return self.get()

    def cancel(self) -> None:
        """Stops the work: at once if it has not begun, else as soon as possible."""
        # Cancel the future first: work that has not begun then never begins.
        self._future.cancel()
        self._stop.request()

    @property
    def status(self) -> AsyncStatus:
        """Started, completed, canceled or error."""
        if not self._future.done():
            return AsyncStatus.STARTED
        if self._future.cancelled():
            return AsyncStatus.CANCELED
        error = self._future.exception()
        if error is None:
            return AsyncStatus.COMPLETED
        return AsyncStatus.CANCELED if isinstance(error, CanceledError) else AsyncStatus.ERROR

    @property
    def error_code(self) -> int:
        """The HRESULT of the error, signed as in pywinrt, or 0."""
        if self.status not in (AsyncStatus.ERROR, AsyncStatus.CANCELED) or self._future.cancelled():
            return 0
        return getattr(self._future.exception(), "winerror", None) or -2147467259  # Windows' E_FAIL

    def add_done_callback(self, callback: Callable[[AsyncOperation[T]], object]) -> None:
        """Calls the callback with the operation when it is done, in its thread, or at once if it is already done."""
        self._future.add_done_callback(lambda _: callback(self))

    @property
    def completed(self) -> Callable[[AsyncOperation[T], AsyncStatus], object] | None:
        """WinRT's callback: set once, and called with the operation and its status when the operation is done."""
        return self._completed

    @completed.setter
    def completed(self, handler: Callable[[AsyncOperation[T], AsyncStatus], object] | None) -> None:
        if handler is None:
            return
        if self._completed is not None:
            raise IllegalCallError("The operation already has a callback.", hint="To add more, use add_done_callback.")
        self._completed = handler

        def call(operation: AsyncOperation[T]) -> None:
            # In a separate thread: a callback that waits for another operation would block the pool.
            threading.Thread(target=handler, args=(operation, operation.status), daemon=True).start()

        self.add_done_callback(call)

    @property
    def id(self) -> int:
        """A number that is unique among live operations."""
        return id(self)

    def close(self) -> None:
        """Does nothing; WinRT and coroutines have this method."""

    if not TYPE_CHECKING:  # type checkers report these mistakes themselves

        def __getattr__(self, name: str) -> None:
            message = (
                f"An AsyncOperation has no {name!r}. To get the result, write `await operation` or operation.get()."
            )
            raise AttributeError(message, name=name, obj=self)

        def __getitem__(self, _: object) -> None:
            raise TypeError(
                "An AsyncOperation cannot be indexed. To get its result, write `await operation` or operation.get()."
            )

    def __repr__(self) -> str:
        return f"<AsyncOperation {self.status.name.lower()}>"


def _make_future() -> Future[Any]:
    from concurrent.futures import Future  # slow to import, and few programs need it

    return Future()
