"""Calls functions of ours in a process of its own: compiling a model may end the process that does it.

Runtimes have faults: a graph that they take in float32 is a segmentation fault in float16, or once it is rewritten. A
tool that tries graphs which nobody has run before tries them there, and says so where the process ends.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from ..core.base import child_process
from ..core.base.child_process import ending, environment, is_available, is_broken_pipe

T = TypeVar("T")

PARENT_SECONDS = 0.5
"""How often a process looks whether the one that started it lives."""

IDLE_SECONDS = 10.0
"""For so long a process waits for another call; to start one takes a third of a second."""


class ProcessEndedError(Exception):
    """The process ended before the function returned; the text says how, as "SIGSEGV"."""


def call(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function in a process of its own, and gives what it returns.

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
    child = _take_idle()
    try:
        is_good, value = child.ask((function, arguments))
    except BaseException:
        child.end()
        raise
    _give_back(child)
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
        self._lock, self._children = threading.Lock(), set[_Child]()
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
    def holding(self, child: _Child) -> Iterator[None]:
        """Counts a process among them, for the while."""
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
        seconds: so long it may take; then the process is killed.
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
    child, is_late = _Child(), threading.Event()

    def stop() -> None:
        is_late.set()
        child.kill()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        with (running or Running()).holding(child):
            is_good, value = child.ask((function, arguments))
    except ProcessEndedError:
        if is_late.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
        child.end()
    if not is_good:
        raise value
    result: T = value
    return result


class _Child:
    """The process, which works for one call at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def ask(self, request: object) -> tuple[bool, Any]:
        """Sends a call, and waits for its result: whether it is one, and the result or the error."""
        try:
            pickle.dump(request, self._to, pickle.HIGHEST_PROTOCOL)
            self._to.flush()
            answer: tuple[bool, Any] = pickle.load(self._from)  # our own process wrote it
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            if isinstance(error, OSError) and not is_broken_pipe(error):
                raise  # of what is pickled
            raise ProcessEndedError(ending(self._process.wait())) from error
        return answer

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process, whatever it does: another thread that asks it sees that."""
        self._process.kill()

    def end(self) -> None:
        """Ends the process, and waits for that. Twice is harmless."""
        self.kill()
        self._process.wait()
        for pipe in (self._to, self._from):
            with suppress(OSError):  # of what was to be flushed to it
                pipe.close()


class _Idle:
    """The process that waits for another call, if one does."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.child: _Child | None = None
        self.timer: threading.Timer | None = None
        child_process.watch_forks(self)

    def in_child(self) -> None:
        """After a fork it is the parent's."""
        self.lock, self.child, self.timer = threading.Lock(), None, None


_idle = _Idle()


def _take_idle() -> _Child:
    with _idle.lock:
        child, _idle.child = _idle.child, None
        if _idle.timer is not None:
            _idle.timer.cancel()
            _idle.timer = None
    return child if child is not None and child.is_alive else _Child()


def _give_back(child: _Child) -> None:
    with _idle.lock:
        if _idle.child is None:
            _idle.child = child
            _idle.timer = threading.Timer(IDLE_SECONDS, close)
            _idle.timer.daemon = True
            _idle.timer.start()
            return
    child.end()


@atexit.register
def close() -> None:
    """Ends the process that waits for another call. Twice is harmless."""
    with _idle.lock:
        child, _idle.child = _idle.child, None
        if _idle.timer is not None:
            _idle.timer.cancel()
            _idle.timer = None
    if child is not None:
        child.end()


def _end_with(parent: int) -> None:
    """Ends this process when the one that started it has ended, also in the middle of a call."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(0)


def main() -> None:
    """The other side: calls what it is told to until its standard input ends, or its parent does."""
    if sys.platform != "win32":  # there, the parent's number says nothing: a launcher may stand between
        threading.Thread(target=_end_with, args=(int(sys.argv[1]),), name="winml-py-parent", daemon=True).start()
    # Most of what is tried is thrown away, and would push out of the cache what programs use.
    os.environ["WINML_PY_CACHE"] = ""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print must not spoil an answer
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)
        try:
            answer = True, function(*arguments)
        except Exception as error:  # it is raised on the other side
            answer = False, error
        pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    main()
