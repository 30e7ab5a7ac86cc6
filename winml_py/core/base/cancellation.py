"""Stop: one thread cancels the work of another.

A signal handler may raise between any two calls, even while a lock changes hands. So locks here are held only by a
`with` over the lock itself, or by a single call into C.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from ...errors import CanceledError, EvaluationTimeoutError
from .child_process import get_native_threads

SLICE_SECONDS = 0.02
"""How often a wait for a lock checks for a stop, in seconds."""


class Stop:
    """A request to stop one run, from another thread. The run stops at the next node, after a running kernel."""

    def __init__(self, seconds: float | None = None) -> None:
        """Makes a stop; with a number of seconds, the run is stopped when they are over: see `apply_time_limit`."""
        self.seconds = seconds
        self._is_late = False
        self._lock = threading.Lock()
        self._terminate: Callable[[], None] | None = None
        self.requested = False

    def request(self) -> None:
        """Stops the run, or prevents its start."""
        with self._lock:
            self.requested = True
            if self._terminate is not None:
                self._terminate()

    @contextmanager
    def call_on_request(self, terminate: Callable[[], None]) -> Iterator[None]:
        """Within the block, a request calls `terminate`; after an earlier request, raises CanceledError at once."""
        with self._lock:
            self.require_not_requested()
            # Both under the lock: neither would notice a request in between.
            self._terminate = terminate
        try:
            yield
        finally:
            # Under the lock, too: a request in progress finishes before the object it terminates is gone.
            with self._lock:
                self._terminate = None

    @contextmanager
    def apply_time_limit(self) -> Iterator[None]:
        """Applies the time limit within the block: when it is over, the stop is requested."""
        if self.seconds is None:
            yield
            return
        is_running = get_native_threads().allocate_lock()
        with is_running:
            call_while_held(is_running, self.seconds, self._request_late)
            yield

    def _request_late(self) -> None:
        self._is_late = True
        self.request()

    def require_not_requested(self) -> None:
        """Raises CanceledError once the stop has been requested, or EvaluationTimeoutError after the time limit."""
        if self.requested and self._is_late:
            raise EvaluationTimeoutError(
                f"The evaluation did not finish within {self.seconds:g} s and was stopped.",
                hint="Allow more time. A running kernel always finishes first. In an isolated session, the process is "
                "killed: see session.is_lost.",
            )
        if self.requested:
            raise CanceledError("The evaluation was cancelled.")


def call_while_held(lock: threading.Lock, seconds: float, function: Callable[[], object]) -> None:
    """Calls a function in a thread after some seconds, unless the lock, a native one, is released before."""

    def wait() -> None:
        if lock.acquire(timeout=seconds):
            lock.release()
        else:
            function()

    # Not threading.Thread: an exception from a signal in its start() becomes "release unlocked lock".
    get_native_threads().start_new_thread(wait, ())


@contextmanager
def hold(lock: AbstractContextManager[object], stop: Stop | None) -> Iterator[None]:
    """Holds a lock within the block. A stop ends the wait for the lock with a CanceledError."""
    acquire: Callable[..., bool] | None = getattr(lock, "acquire", None)  # on the CPU, it is `UNLOCKED`, which has none
    if stop is None or acquire is None:
        with lock:
            yield
        return
    is_held = False
    try:
        # Not `is_held = acquire(...)`: a signal could raise an error between the two, and the lock would stay held.
        for is_held in iter(partial(acquire, True, SLICE_SECONDS), None):
            stop.require_not_requested()
            if is_held:
                break
        yield
    finally:
        if is_held:
            lock.__exit__(None, None, None)
