"""Sessions of a model share engines: each leases one, and the last lease to be released closes it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable
from functools import partial

from ..base import child_process
from ..base.cancellation import Stop, hold
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
        release: returns it to the pool; called once.
    """

    __slots__ = ("_release", "engine")

    def __init__(self, engine: Engine, release: Callable[[], None]) -> None:
        self.engine = engine
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """Returns the engine to the pool. Calling it twice is harmless."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def forget(self) -> None:
        """Drops the engine without returning it, because it belongs to another process."""
        self._release = None

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the interpreter's shutdown everything is freed anyway, and half of what release needs is already gone,
        # perhaps the module `sys`, too.
        if not is_finalizing():
            self.release()


class EnginePool:
    """The engines of one model: sessions with equal device and options share one.

    Users are counted, so that closing the last session frees the memory at once, without a finalizer or the garbage
    collector.
    """

    def __init__(self) -> None:
        self._clear()
        child_process.watch_forks(self)

    def _clear(self) -> None:
        # Reentrant, because the garbage collector may release a lease inside a locked region.
        self._lock = threading.RLock()
        self._shared: dict[Hashable, _Shared] = {}

    handle_fork = _clear  # a forked process cannot use its parent's engines

    def lease(self, key: Hashable, create: Callable[[], Engine], stop: Stop | None = None) -> Lease:
        """Returns the engine for `key`, which `create` makes if none is in use.

        If threads request the same engine at once, one compiles it and the others wait; different engines are compiled
        concurrently.

        Raises:
            CanceledError: `stop` was requested while another thread compiled the engine.
            WinMLError: the error of `create`.
        """
        child_process.notice_fork()
        with self._lock:
            shared = self._shared.setdefault(key, _Shared())
            # Counted before the engine exists: a session that closes meanwhile must not consider it unused.
            shared.users += 1
        try:
            with hold(shared.compiling, stop):
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
            # Without the lock: freeing a large model takes a while, and other sessions must not wait for it.
            shared.engine.close()
