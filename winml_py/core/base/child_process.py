"""Processes: one for code of ours that may crash, what a fork must leave alone, and pools of threads by process."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import IO, TYPE_CHECKING, Any, Protocol

from .messages import Facts

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from multiprocessing import connection as connections
    from subprocess import Popen

    if sys.platform == "win32":
        Connection = connections.PipeConnection
    else:
        Connection = connections.Connection

END_SECONDS = 5.0
"""How long a process that was killed, or whose connection has ended, may take to end."""

IDLE_SECONDS = 10.0
"""How long a process waits for another call. Starting one takes a third of a second."""


class ProcessEndedError(Exception):
    """The process ended before it answered; the text says how, as "SIGSEGV"."""


class ChildProcess:
    """A Python process, and the connection to it. It ends with this object, and with this process, however that ends.

    What it imports comes from where this process imports, and not from the working directory. Ctrl-C at a terminal
    reaches this process alone.

    Args:
        serve: a module's function, which gets the other end of the connection there; the process ends when it returns.
            By default the process answers calls.
        shows_stderr: whether it writes to the standard error of this process; otherwise its last line there is kept.
        variables: of its environment, beside those of this process.

    Attributes:
        connection: for bytes or pickles. What a process sends that runs code of strangers must not be unpickled.

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(
        self,
        serve: Callable[[Connection], None] | None = None,
        *,
        shows_stderr: bool = False,
        variables: dict[str, str] | None = None,
    ) -> None:
        import subprocess
        from multiprocessing.connection import Pipe

        serve = serve or answer_calls
        program = f"from {__name__} import run\nfrom {serve.__module__} import {serve.__name__} as serve\nrun(serve)"
        self._process: Popen[bytes] | None = None
        self._ends = self.connection, theirs = Pipe()
        watch_forks(self)
        try:
            with theirs, _as_file(theirs) as stdin:
                process = self._process = subprocess.Popen(
                    [sys.executable, "-c", program],
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=None if shows_stderr else subprocess.PIPE,
                    env=environment() | (variables or {}),
                )
        except BaseException:
            self.connection.close()
            raise
        self._words = deque[bytes](maxlen=1)
        reader = None
        if process.stderr is not None:
            reader = threading.Thread(target=_keep_last_line, args=(process.stderr, self._words), daemon=True)
        self._finalizer = weakref.finalize(self, _end, process, self.connection, reader)
        if reader is not None:
            reader.start()

    def send(self, function: Callable[..., object], *arguments: object) -> None:
        """Has a function of a module called; both are pickled. `receive` gives what comes of it.

        Raises:
            ProcessEndedError: the process ended before.
        """
        request = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
        try:
            self.connection.send_bytes(request)
        except OSError as error:
            raise ProcessEndedError(self.ending()) from error

    def receive(self, seconds: float | None = None) -> tuple[bool, Any]:
        """Waits for the function to end: whether it returned, and what it returned, or the error that it raised.

        Args:
            seconds: how long it may take; then the process is killed.

        Raises:
            ProcessEndedError: the process ended.
            TimeoutError: it did not answer in time.
        """
        try:
            if self.connection.poll(seconds):
                answer: tuple[bool, Any] = self.connection.recv()
                return answer
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise ProcessEndedError(self.ending()) from error
        self.close()
        raise TimeoutError(f"it did not answer within {seconds:.0f} s")

    @property
    def number(self) -> int:
        """The number that the system has for the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def last_words(self) -> str:
        """The last line that it wrote to its standard error, or ""."""
        return self._words[0].decode(errors="replace").strip() if self._words else ""

    def ending(self) -> str:
        """How it ended, as "SIGSEGV"; waits for a process that is about to end, and kills one that does not."""
        import subprocess

        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self.close()
        return ending(self._process.returncode or 0)

    def kill(self) -> None:
        """Ends the process. Another thread that waits for its answer sees that."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Kills the process, waits for its end, and closes the connection. Twice is harmless."""
        self._finalizer()

    def in_child(self) -> None:
        """After a fork the process is the parent's: the copies of the connection are closed here."""
        for end in self._ends:
            end.close()
        if self._process is not None:
            self._process.returncode = 0  # it is no child of this process, which cannot wait for it
            self._finalizer.detach()


def start_main(module: str, *arguments: str) -> ChildProcess:
    """Starts a process that calls `main` of a module, which this process need not import: see `answer_of_main`."""
    child = ChildProcess()
    with suppress(ProcessEndedError):  # it is told where the answer is awaited
        child.send(_call_main, module, *arguments)
    return child


def _call_main(module: str, *arguments: str) -> Facts:
    from importlib import import_module

    facts: Facts = import_module(module).main(*arguments)
    return facts


def answer_of_main(child: ChildProcess, seconds: float) -> Facts | str:
    """What `main` returned within so many seconds; or, as text, why it did not. Ends the process."""
    try:
        is_good, value = child.receive(seconds)
    except TimeoutError as error:
        return str(error)
    except ProcessEndedError as error:
        return f"it ended with {error}: {child.last_words[:300] or 'it said nothing'}"
    finally:
        child.close()
    facts: Facts | str = value if is_good else f"{type(value).__name__}: {value}".splitlines()[0][:300]
    return facts


def _end(process: Popen[bytes], connection: Connection, reader: threading.Thread | None) -> None:
    import subprocess

    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    connection.close()
    if reader is not None:
        with suppress(RuntimeError):  # the garbage collector may call this in that thread
            reader.join(1)


def _keep_last_line(stream: IO[bytes], words: deque[bytes]) -> None:
    with stream:
        while line := stream.readline(1 << 10):
            if line.strip():
                words.append(line)


@contextmanager
def _as_file(end: Connection) -> Iterator[int]:
    """The number of a file for the end of a pipe, with which a process can be started."""
    if sys.platform != "win32":
        yield end.fileno()
        return
    import msvcrt
    from multiprocessing import reduction

    file = msvcrt.open_osfhandle(reduction.duplicate(end.fileno()), os.O_RDWR)
    try:
        yield file
    finally:
        os.close(file)


# The other side.


def run(serve: Callable[[Connection], None]) -> None:
    """The program of a child process: takes the connection from its standard input, and serves."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the parent
    file = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if sys.platform == "win32":
        import msvcrt

        file = msvcrt.get_osfhandle(file)
    serve(open_connection(file))
    os._exit(0)  # without finalizers: a library that crashes at exit does no harm


def open_connection(handle: int) -> Connection:
    """The connection of a handle, which is the number of a file but on Windows."""
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        return PipeConnection(handle)
    from multiprocessing.connection import Connection

    return Connection(handle)


def answer_calls(connection: Connection) -> None:
    """Calls one function after the other, until none has come for a while."""
    from queue import Empty, SimpleQueue

    requests = SimpleQueue[bytes]()
    threading.Thread(target=receive_all, args=(connection, requests.put), daemon=True).start()
    with suppress(Empty):
        while request := requests.get(timeout=IDLE_SECONDS):
            try:
                function, arguments = pickle.loads(request)
                answer = True, function(*arguments)
            except Exception as error:  # it is raised on the other side
                answer = False, error
            connection.send(answer)


def receive_all(connection: Connection, take: Callable[[bytes], object]) -> None:
    """Takes all messages of the parent. When it has ended, this process ends at once, whatever it does."""
    with suppress(EOFError, OSError):
        while True:
            take(connection.recv_bytes())
    os._exit(0)


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


def ending(status: int) -> str:
    """How a process ended: "SIGSEGV"; on Windows "status 0xC0000005", an access violation; or "status 1"."""
    import signal

    if status < 0:
        with suppress(ValueError):  # real-time signals have no names
            return signal.Signals(-status).name
        return f"signal {-status}"
    return f"status {status}" if status < 1 << 31 else f"status 0x{status:08X}"


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
