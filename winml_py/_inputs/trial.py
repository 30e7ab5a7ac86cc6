"""Calls functions of ours in another process: compiling a model may end the process that does it.

Runtimes have faults: a graph that they take in float32 is a segmentation fault in float16, or once it is rewritten. A
tool that tries graphs which nobody has run before tries them there, and says so where the process ends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from ..core.base.child_process import IDLE_SECONDS, ChildProcess, ProcessEndedError, is_available

__all__ = ["ProcessEndedError", "Running", "call", "call_foreign"]

T = TypeVar("T")

_idle = deque[tuple[ChildProcess, float]](maxlen=1)
"""The process that waits for another call, if one does, and since when."""


def call(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function in another process, and gives what it returns.

    Nothing is kept in the cache folder by what is called. A frozen application has no Python to start: there the
    function is called in this process.

    Args:
        function: of a module of ours, by its name; what it takes and returns is pickled.
        arguments: what it is given.

    Raises:
        ProcessEndedError: the process ended.
        Exception: what the function raises.
    """
    if not is_available():
        return function(*arguments)
    child = _take_idle() or _start()
    child.send(function, *arguments)
    is_good, value = child.receive()
    _idle.append((child, time.monotonic()))
    if not is_good:
        raise value
    result: T = value
    return result


class Running:
    """The processes of calls that another thread may stop.

    Attributes:
        stops: how often they were stopped.
    """

    def __init__(self) -> None:
        self._lock, self._children = threading.Lock(), set[ChildProcess]()
        self.stops = 0

    @property
    def count(self) -> int:
        """How many there are."""
        with self._lock:
            return len(self._children)

    def stop(self) -> None:
        """Kills them all: who called gets a ProcessEndedError."""
        with self._lock:
            self.stops += 1
            for child in self._children:
                child.kill()

    @contextmanager
    def holding(self, child: ChildProcess) -> Iterator[None]:
        """Counts a process among them within the block."""
        with self._lock:
            self._children.add(child)
        try:
            yield
        finally:
            with self._lock:
                self._children.discard(child)


def call_foreign(seconds: float, function: Callable[..., T], *arguments: object, running: Running | None = None) -> T:
    """The same for a function that runs code which is not ours: in a process that nothing else is called in.

    Args:
        seconds: how long it may take; then the process is killed.
        function: of a module of ours, by its name; what it takes and returns is pickled.
        arguments: what it is given.
        running: the calls that this one is stopped with.

    Raises:
        ProcessEndedError: the process ended.
        TimeoutError: it was not done in time.
        Exception: what the function raises.
    """
    if not is_available():
        return function(*arguments)
    child = _start()
    try:
        with (running or Running()).holding(child):
            child.send(function, *arguments)
            is_good, value = child.receive(seconds)
    finally:
        child.close()
    if not is_good:
        raise value
    result: T = value
    return result


def _start() -> ChildProcess:
    # Most of what is tried is thrown away, and would push out of the cache what programs use.
    return ChildProcess(variables={"WINML_PY_CACHE": ""})


def _take_idle() -> ChildProcess | None:
    with suppress(IndexError):
        child, since = _idle.pop()
        if child.is_alive and time.monotonic() - since < IDLE_SECONDS - 1:  # it ends soon otherwise
            return child
    return None
