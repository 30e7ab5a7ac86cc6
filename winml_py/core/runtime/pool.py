"""Sessions of a model share engines: each leases one, and the last lease to be released closes it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable
from functools import partial

from ..base import child_process
from ..base.cancellation import Stop, held
from .engine import Engine


class _Shared:
    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.users = 0
        self.compiling = threading.Lock()


class Lease:
    """One session's use of a shared engine.

    Args:
        engine: the engine.
        release: gives it back to the pool; called once.
    """

    __slots__ = ("_release", "engine")

    def __init__(self, engine: Engine, release: Callable[[], None]) -> None:
        self.engine = engine
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """Gives the engine back. Twice is harmless."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def forget(self) -> None:
        """The engine is another process's, which gives it back."""
        self._release = None

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the interpreter's end everything goes anyway, and half of what release needs has gone before.
        if not is_finalizing():
            self.release()


class EnginePool:
    """The engines of one model: sessions with equal device and options share one.

    Users are counted, so that memory goes when the last session is closed: neither a finalizer nor the garbage
    collector decides when that is.
    """

    def __init__(self) -> None:
        self._clear()
        child_process.watch_forks(self)

    def _clear(self) -> None:
        # Reentrant: a lease may be released by the garbage collector inside a locked region.
        self._lock = threading.RLock()
        self._shared: dict[Hashable, _Shared] = {}

    in_child = _clear  # a forked process makes engines of its own

    def lease(self, key: Hashable, create: Callable[[], Engine], stop: Stop | None = None) -> Lease:
        """Gives the engine under `key`, which `create` makes if nobody uses one.

        Threads that ask for the same engine at once wait for one of them to compile it;
        different engines are compiled at the same time.

        Raises:
            CanceledError: `stop` was requested while another thread compiled the engine.
            WinMLError: what `create` raises.
        """
        with self._lock:
            shared = self._shared.setdefault(key, _Shared())
            # Counted before the engine is there: a session that closes meanwhile must not take it for unused.
            shared.users += 1
        try:
            with held(shared.compiling, stop):
                if shared.engine is None:
                    shared.engine = create()
                return Lease(shared.engine, partial(self._release, key))
        except BaseException:
            self._release(key)
            raise

    def _release(self, key: Hashable) -> None:
        with self._lock:
            shared = self._shared[key]
            shared.users -= 1
            if shared.users:
                return
            del self._shared[key]
        if shared.engine is not None:
            # Without the lock: to free a large model takes a while, and other sessions must not wait for that.
            shared.engine.close()
