"""The engine protocol, and the pool that lets sessions share engines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..source import Skeleton
from ..stop import Stop

Value = np.ndarray[Any, Any] | list[Any] | dict[Any, Any]
"""A tensor (strings as an array of objects), a sequence or a map, as it goes into and comes out of an engine."""


class EngineOptions(NamedTuple):
    """What an engine is compiled with. Equal options mean engines that can be shared.

    Attributes:
        intra_op_num_threads: threads that work on one operator; at least 1.
        intra_op_thread_spinning: whether those threads spin while they wait for work.
        batch_size: replaces every dimension denoted `DATA_BATCH`; None leaves them as they are.
        dimensions: replaces named dimensions: pairs of name and size.
    """

    intra_op_num_threads: int
    intra_op_thread_spinning: bool = True
    batch_size: int | None = None
    dimensions: tuple[tuple[str, int], ...] = ()


class EngineBinding(Protocol):
    """One set of bound inputs and outputs. Not safe to share between threads while it runs."""

    def set_input(self, name: str, value: Value) -> None:
        """Binds an input. Arrays are C-contiguous and bound by reference: the binding keeps them alive."""

    def set_output(self, name: str, array: np.ndarray[Any, Any] | None) -> None:
        """Binds an output to memory, or with None to whatever the engine allocates anew in each run."""

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model on what is bound.

        Args:
            stop: lets another thread end the run; to be able to costs some microseconds.

        Returns:
            The outputs that are not bound to memory, fresh in each run; the caller owns them.

        Raises:
            ClosedError: the engine has been closed.
            CanceledError: the run was stopped.
            WinMLError: the run failed.
        """


class Engine(Protocol):
    """A compiled model."""

    options: EngineOptions

    def bind(self) -> EngineBinding:
        """A new, empty binding; every output is bound to engine-allocated memory."""

    def close(self) -> None:
        """Frees the compiled model as soon as the last run in flight returns. Twice is harmless."""


EngineInput = str | bytes | Skeleton
Compile = Callable[[EngineInput, EngineOptions], Engine]
"""Makes an engine of a model (a path, bytes, or a skeleton); raises one of our errors and nothing else."""


class _Shared:
    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.users = 0
        self.compiling = threading.Lock()


class Lease:
    """One session's use of a shared engine; the last one to be released closes it."""

    __slots__ = ("_key", "_pool", "engine")

    def __init__(self, pool: EnginePool, key: Hashable, engine: Engine) -> None:
        self._pool: EnginePool | None = pool
        self._key = key
        self.engine = engine

    def release(self) -> None:
        """Gives the engine back. Twice is harmless."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool._release(self._key)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the interpreter's end everything goes anyway, and half of what release needs has gone before.
        if not is_finalizing():
            self.release()


class EnginePool:
    """The engines of one model: sessions with equal device and options share one."""

    def __init__(self) -> None:
        # Reentrant: a lease may be released by the garbage collector inside a locked region.
        self._lock = threading.RLock()
        self._shared: dict[Hashable, _Shared] = {}

    def lease(self, key: Hashable, create: Callable[[], Engine]) -> Lease:
        """Gives the engine under `key`, which `create` makes if nobody uses one.

        Threads that ask for the same engine at once wait for one of them to compile it;
        different engines are compiled at the same time.
        """
        with self._lock:
            shared = self._shared.setdefault(key, _Shared())
            shared.users += 1
        try:
            with shared.compiling:
                if shared.engine is None:
                    shared.engine = create()
                return Lease(self, key, shared.engine)
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
            shared.engine.close()
