"""Processes: one of our own for code that may crash, what a fork must leave alone, and pools of threads by process.

A module that runs in a Python process of its own answers with one line of JSON. A driver that crashes there ends that
process, and not the caller's.
"""

from __future__ import annotations

import errno
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Protocol

from .messages import Facts

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class ChildProcess:
    """A module that has been started.

    Args:
        module: its full name; it writes a line of JSON, an object, to standard output.
        arguments: what it finds on its command line.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        import subprocess

        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",  # a driver may write bytes that are no text
            env=environment(),
        )

    def answer(self, seconds: float) -> Facts | str:
        """Waits for the process to end, so many seconds at most.

        Returns:
            The object of its last line; or, as text, how it ended without one.
        """
        import json
        import subprocess

        process = self._process
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return f"it did not answer within {seconds:.0f} s"
        try:
            facts: Facts = json.loads(out.strip().splitlines()[-1])
        except (ValueError, IndexError):
            said = errors.strip().splitlines()[-1:] or ["it said nothing"]
            return f"it ended with {ending(process.returncode)}: {said[0][:300]}"
        return facts


def read_stderr(run: Callable[[], object]) -> str:
    """What libraries write to the standard error of this process while something runs: for a process of our own.

    Raises:
        Exception: what it raises.
    """
    import tempfile

    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            run()
        finally:
            os.dup2(before, 2)
            os.close(before)
        file.seek(0)
        return file.read().decode(errors="replace")


def is_available() -> bool:
    """Whether there is a Python to start: a frozen application has none."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def environment() -> dict[str, str]:
    """Of a child that imports from where this process does, and from nowhere else: not from its working directory."""
    folders = [os.fsdecode(entry) for entry in sys.path if entry and isinstance(entry, (str, bytes))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders), "PYTHONSAFEPATH": "1"}


WINDOWS_ENDINGS = {
    0xC0000005: "access violation",
    0xC000001D: "illegal instruction",
    0xC0000094: "integer division by zero",
    0xC00000FD: "stack overflow",
    0xC0000135: "a DLL was not found",
    0xC000013A: "Ctrl-C",
    0xC0000374: "heap corruption",
    0xC0000409: "abort",
}
"""What Windows means by the status of a process that it ended. Elsewhere the status is a signal."""


def ending(status: int) -> str:
    """How a process ended: "SIGSEGV"; on Windows "status 0xC0000005 (access violation)"; or "status 1"."""
    import signal

    if status < 0:
        with suppress(ValueError):  # real-time signals have no names
            return signal.Signals(-status).name
        return f"signal {-status}"
    if status < 1 << 31:
        return f"status {status}"
    return f"status 0x{status:08X}" + (f" ({WINDOWS_ENDINGS[status]})" if status in WINDOWS_ENDINGS else "")


def is_broken_pipe(error: BaseException) -> bool:
    """Whether an error means that the process at the other end of a pipe has ended; Windows says EINVAL for it."""
    is_invalid = isinstance(error, OSError) and error.errno == errno.EINVAL
    return isinstance(error, BrokenPipeError) or (sys.platform == "win32" and is_invalid)


# Forks: the child is told what of its parent's it cannot use. Threads, and the locks that they hold, stay behind.


class Inherited(Protocol):
    """What is of no use, or must begin anew, in a forked process."""

    def in_child(self) -> None:
        """Called in the child, before anything else runs there. Waits for no lock: nobody might release it."""


_watched: weakref.WeakSet[Inherited] = weakref.WeakSet()


def watch_forks(thing: Inherited) -> None:
    """Has a thing told of every fork as long as it lives. Costs nothing where it is used."""
    _register()
    _watched.add(thing)


def keep_forever(thing: object) -> None:
    """Keeps a thing until the process is gone, also through the interpreter's end, where modules are emptied."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


@cache
def _register() -> None:
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=_notify_watched)


def _notify_watched() -> None:
    for thing in list(_watched):
        thing.in_child()


# Thread pools that the whole process shares.


def shared_pool(name: str, workers: int) -> ThreadPoolExecutor:
    """The pool of a name, made when it is first asked for.

    A forked process gets pools of its own: the threads of its parent's are not there, and work would wait forever.

    Args:
        name: of its threads, in debuggers.
        workers: threads, at most.
    """
    return _pool(os.getpid(), name, workers)


@cache
def _pool(process: int, name: str, workers: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(workers, name)
