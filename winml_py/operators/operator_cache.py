"""The compiled operators that calls leave behind: a bounded number, the least recently used go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from types import TracebackType

from ..core.base import forks
from .compiled_operator import CompiledOperator


class _Entry:
    """A compiled operator, how many calls use it, and whether the cache has dropped it."""

    __slots__ = ("compiling", "is_dropped", "operator", "users")

    def __init__(self) -> None:
        self.operator: CompiledOperator | None = None
        self.users = 0
        self.is_dropped = False
        self.compiling = threading.Lock()


class OperatorCache:
    """Compiled operators by key. What is dropped is disposed of when the last call that uses it returns.

    Args:
        size: how many are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._begin()
        forks.watch(self)

    def _begin(self) -> None:
        # Reentrant: the garbage collector may run a call's end inside a locked region.
        self._lock = threading.RLock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    in_child = _begin  # sessions do not survive a fork, and must not be closed in the child

    def __len__(self) -> int:
        return len(self._entries)

    def lent(self, key: Hashable, create: Callable[[], CompiledOperator]) -> Loan:
        """The operator under `key`, for the length of a `with` block; `create` makes it where there is none.

        Threads that ask for one key at once wait for one of them to compile; different keys are compiled at a time.

        Raises:
            WinMLError: what `create` raises, when the block is entered.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry()
            else:
                self._entries.move_to_end(key)
            entry.users += 1
        return Loan(self, key, entry, create)

    def release(self, key: Hashable, entry: _Entry) -> None:
        """Ends a call."""
        with self._lock:
            entry.users -= 1
            if entry.operator is None and self._entries.get(key) is entry:
                del self._entries[key]  # it could not be compiled
            dropped = [] if len(self._entries) <= self._size else [self._entries.popitem(last=False)[1]]
            for old in dropped:
                old.is_dropped = True
            closing = {each for each in (*dropped, entry) if each.is_dropped and not each.users}
        _dispose(closing)

    def clear(self) -> None:
        """Drops everything."""
        with self._lock:
            dropped = list(self._entries.values())
            self._entries.clear()
            for entry in dropped:
                entry.is_dropped = True
            closing = {entry for entry in dropped if not entry.users}
        _dispose(closing)


def _dispose(entries: set[_Entry]) -> None:
    """Without the lock: to free an engine takes time."""
    for entry in entries:
        operator, entry.operator = entry.operator, None
        if operator is not None:
            operator.dispose()


class Loan:
    """The use of a compiled operator in a `with` block."""

    __slots__ = ("_cache", "_create", "_entry", "_key")

    def __init__(self, cache: OperatorCache, key: Hashable, entry: _Entry, create: Callable[[], CompiledOperator]):
        self._cache, self._key, self._entry, self._create = cache, key, entry, create

    def __enter__(self) -> CompiledOperator:
        entry = self._entry
        if entry.operator is not None:
            return entry.operator
        try:
            with entry.compiling:
                if entry.operator is None:
                    entry.operator = self._create()
                return entry.operator
        except BaseException:
            self._cache.release(self._key, entry)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._cache.release(self._key, self._entry)
