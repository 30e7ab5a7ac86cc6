"""Stop: one thread cancels the work of another.

A signal's handler may raise between any two calls, also while a lock changes hands. So what holds a lock here is a
`with` over the lock itself, or a single call into C.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from ...errors import CanceledError, EvaluationTimeoutError

SLICE_SECONDS = 0.02
"""How often a wait for a lock looks whether it is to be stopped."""


class Stop:
    """A request to stop one run, from another thread. The run stops at the next node: a running kernel ends first."""

    def __init__(self, seconds: float | None = None) -> None:
        """With a number of seconds, the run is stopped when they are over: see `limited`."""
        self.seconds = seconds
        self._is_late = False
        self._lock = threading.Lock()
        self._terminate: Callable[[], None] | None = None
        self.requested = False

    def request(self) -> None:
        """Stops the run, or keeps it from starting."""
        with self._lock:
            self.requested = True
            if self._terminate is not None:
                self._terminate()

    @contextmanager
    def on_request(self, terminate: Callable[[], None]) -> Iterator[None]:
        """Within the block, a request calls `terminate`; one that came before raises CanceledError here."""
        with self._lock:
            self.require_not_requested()
            # Both under the lock: a request in between would be seen by neither of them.
            self._terminate = terminate
        try:
            yield
        finally:
            # Under the lock, too: a request that is calling it ends before what it ends is gone.
            with self._lock:
                self._terminate = None

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Within the block the time limit counts: when it is over, the stop is requested."""
        if self.seconds is None:
            yield
            return
        is_running = threading.Lock()
        with is_running:
            call_while_held(is_running, self.seconds, self._time_is_up)
            yield

    def _time_is_up(self) -> None:
        self._is_late = True
        self.request()

    def require_not_requested(self) -> None:
        """Raises CanceledError once the stop has been requested, or EvaluationTimeoutError where time was up."""
        if self.requested and self._is_late:
            raise EvaluationTimeoutError(
                f"The evaluation did not end within {self.seconds:g} s, and was stopped.",
                hint="Allow more time. A running kernel goes on to its end; in an isolated session it is killed with "
                "its process: see session.is_lost.",
            )
        if self.requested:
            raise CanceledError("The evaluation was cancelled.")


def call_while_held(lock: threading.Lock, seconds: float, function: Callable[[], object]) -> None:
    """Has a thread call a function after so many seconds, unless somebody lets go of the lock before."""

    def wait() -> None:
        if lock.acquire(timeout=seconds):
            lock.release()
        else:
            function()

    # Not threading.Thread: a signal's exception in its start() becomes "release unlocked lock".
    _thread.start_new_thread(wait, ())


@contextmanager
def held(lock: AbstractContextManager[object], stop: Stop | None) -> Iterator[None]:
    """Holds a lock within the block. A stop ends the wait for it with a CanceledError."""
    acquire: Callable[..., bool] | None = getattr(lock, "acquire", None)  # no lock, as on the CPU, has none
    if stop is None or acquire is None:
        with lock:
            yield
        return
    is_held = False
    try:
        for is_held in iter(partial(acquire, True, SLICE_SECONDS), None):
            stop.require_not_requested()
            if is_held:
                break
        yield
    finally:
        if is_held:
            lock.__exit__(None, None, None)
