"""Calls of our functions in another process: compiling a model may end the process that does it.

Runtimes have faults: a graph that works in float32 crashes in float16, or once it is rewritten. A tool that tries new
graphs tries them in another process, and reports if that process ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from .child_process import IDLE_SECONDS, ChildProcess, ProcessEndedError, is_available

__all__ = ["ProcessEndedError", "call_in_child"]

T = TypeVar("T")

_idle = deque[tuple[ChildProcess, float]](maxlen=1)
"""The process that waits for another call, if any, and since when."""


def call_in_child(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function in another process, and returns its result.

    The call adds nothing to the cache folder. A frozen application has no Python to start: it calls the function in
    this process.

    Args:
        function: a named function of one of our modules; its arguments and result are pickled.
        arguments: its arguments.

    Raises:
        ProcessEndedError: the process ended.
        Exception: any exception of the function.
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


def _start() -> ChildProcess:
    # Most of what is tried is thrown away, and would push programs' entries out of the cache.
    return ChildProcess(variables={"WINML_PY_CACHE": ""})


def _take_idle() -> ChildProcess | None:
    with suppress(IndexError):
        child, since = _idle.pop()
        if child.is_alive and time.monotonic() - since < IDLE_SECONDS - 1:  # it ends soon otherwise
            return child
    return None
