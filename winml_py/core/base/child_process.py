"""Child processes for code that may crash, the handling of forks, and thread pools for each process."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import FileIO
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...errors import NotSupportedError
from .messages import Facts

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from multiprocessing import connection as connections
    from subprocess import Popen

    if sys.platform == "win32":
        Connection = connections.PipeConnection
    else:
        Connection = connections.Connection

T = TypeVar("T")

END_SECONDS = 5.0
"""Seconds that a process may take to end once it was killed, or its connection was closed."""

LAST_WORDS_BYTES = 1 << 12
"""How much of what a process wrote to its standard error is kept."""

IDLE_SECONDS = 10.0
"""Seconds that a process waits for another call. Starting one takes a third of a second."""

SERVE = "WINML_PY_SERVE"
"""The environment variable that makes a process a child: the module and the name of the function to call there."""


class ProcessEndedError(Exception):
    """The process ended before it answered; the text says how, such as "SIGSEGV"."""


class ChildProcess:
    """A Python process, and the connection to it. It ends with this object, and when this process ends or crashes.

    It imports from the same places as this process, but not from the working directory. Ctrl-C at a terminal
    reaches only this process. gevent and eventlet may have patched the standard library.

    Args:
        serve: a module's function, called in the child with its end of the connection; the child ends when it returns.
            By default the child answers calls.
        shows_stderr: whether it writes to the standard error of this process; otherwise its last line there is kept.
        variables: environment variables, in addition to those of this process.

    Attributes:
        connection: for bytes or pickles. Never unpickle messages from a process that runs untrusted code.

    Raises:
        NotSupportedError: see `make_command`.
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

        serve, command = serve or answer_calls, make_command()
        environment = make_environment() | (variables or {}) | {SERVE: f"{serve.__module__}:{serve.__name__}"}
        self._process: Popen[bytes] | None = None
        self._ends = self.connection, theirs = make_pipe()
        watch_forks(self)
        try:
            with theirs, _as_file(theirs) as stdin:
                process = self._process = subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=None if shows_stderr else subprocess.PIPE,
                    env=environment,
                )
        except BaseException:
            self.connection.close()
            raise
        self._words = deque[bytes](maxlen=1)
        is_reading = get_native_threads().allocate_lock()
        self._finalizer = weakref.finalize(self, _end, process, self.connection, is_reading)
        if process.stderr is not None:
            with process.stderr:  # gevent would read it only while this thread waits for gevent
                stream = FileIO(os.dup(process.stderr.fileno()))
            _wait_for_bytes(stream)
            is_reading.acquire()
            get_native_threads().start_new_thread(_keep_last_words, (stream, self._words, is_reading))

    def send(self, function: Callable[..., object], *arguments: object) -> None:
        """Calls a module's function in the child, with pickled arguments. `receive` returns the outcome.

        Raises:
            ProcessEndedError: the process has ended.
        """
        request = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
        try:
            self.connection.send_bytes(request)
        except OSError as error:
            raise ProcessEndedError(self.describe_end()) from error

    def receive(self, seconds: float | None = None) -> tuple[bool, Any]:
        """Waits for the function: whether it returned, and its result, or the error that it raised.

        Args:
            seconds: how long it may take before the process is killed.

        Raises:
            ProcessEndedError: the process ended.
            TimeoutError: it did not answer in time.
        """
        try:
            if self.connection.poll(seconds):
                answer: tuple[bool, Any] = self.connection.recv()
                return answer
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise ProcessEndedError(self.describe_end()) from error
        self.close()
        raise TimeoutError(f"it did not answer within {seconds:.0f} s")

    @property
    def number(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def last_words(self) -> str:
        """The last line that it wrote to its standard error, or ""."""
        lines = decode_output(self._words[0]).split("\n") if self._words else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def describe_end(self) -> str:
        """How it ended, as "SIGSEGV"; waits for a process that is about to end, and kills one that does not."""
        import subprocess

        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self.close()
        return describe_status(self._process.returncode or 0)

    def kill(self) -> None:
        """Ends the process. In another thread, a wait for its answer ends with an error."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Kills the process, waits for its end, and closes the connection. Calling it twice is harmless."""
        self._finalizer()

    def handle_fork(self) -> None:
        """After a fork the process belongs to the parent: the child closes its copies of the connection."""
        for end in self._ends:
            end.close()
        if self._process is not None:
            self._process.returncode = 0  # not a child of this process, which cannot wait for it
            self._finalizer.detach()


def start_main(module: str, *arguments: str) -> ChildProcess:
    """Starts a process that calls `main` of a module, without importing it here: see `wait_for_main`."""
    child = ChildProcess()
    with suppress(ProcessEndedError):  # whoever waits for the answer gets this error
        child.send(_call_main, module, *arguments)
    return child


def _call_main(module: str, *arguments: str) -> Facts:
    from importlib import import_module

    facts: Facts = import_module(module).main(*arguments)
    return facts


def wait_for_main(child: ChildProcess, seconds: float) -> Facts | str:
    """The result of `main` if it returned within some seconds, else the reason as text. Ends the process."""
    try:
        is_good, value = child.receive(seconds)
    except TimeoutError as error:
        return str(error)
    except ProcessEndedError as error:
        return f"it ended with {error}: {child.last_words[:300] or 'it wrote nothing to stderr'}"
    finally:
        child.close()
    facts: Facts | str = value if is_good else f"{type(value).__name__}: {value}".splitlines()[0][:300]
    return facts


def _end(process: Popen[bytes], connection: Connection, is_reading: threading.Lock) -> None:
    import subprocess

    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    connection.close()
    if is_reading.acquire(timeout=1):
        is_reading.release()


def _keep_last_words(stream: FileIO, words: deque[bytes], is_reading: threading.Lock) -> None:
    kept = b""
    with stream:
        while piece := stream.read(LAST_WORDS_BYTES):
            kept = (kept + piece)[-LAST_WORDS_BYTES:]
            words.append(kept)
    is_reading.release()


def make_pipe() -> tuple[Connection, Connection]:
    """Two connected ends, which wait for messages: the sockets of gevent and eventlet would not."""
    from multiprocessing.connection import Pipe

    ends = Pipe()
    for end in ends:
        _wait_for_bytes(end)
    return ends


def _wait_for_bytes(file: Connection | FileIO) -> None:
    if sys.platform != "win32":
        os.set_blocking(file.fileno(), True)


@contextmanager
def _as_file(end: Connection) -> Iterator[int]:
    """A file descriptor for the end of a pipe, to start a process with."""
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


# The child's side.


_is_own_child = False
"""Whether the program of this process has called `freeze_support`, so that it can be its own child process."""


def freeze_support() -> None:
    """Makes a frozen program its own child process, which finds devices and isolates engines. Call it first.

    Programs from PyInstaller or Nuitka contain no Python to start: they start themselves again. In a child process,
    the call serves the program that started it, and does not return. What the program does before runs there, too.
    Elsewhere, the call has no effect.

    Example:
        >>> import winml_py
        >>> winml_py.freeze_support()
    """
    global _is_own_child
    _is_own_child = True
    module, _, name = os.environ.pop(SERVE, "").partition(":")  # not for the processes that this one starts
    if not module:
        return
    import signal
    from importlib import import_module

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the parent
    file = os.dup(0)  # the standard input is the connection
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if sys.platform == "win32":
        import msvcrt

        file = msvcrt.get_osfhandle(file)
    getattr(import_module(module), name)(open_connection(file))
    os._exit(0)  # without finalizers, so that libraries cannot crash at exit


def open_connection(handle: int) -> Connection:
    """The connection of a handle, which is a file descriptor except on Windows."""
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        return PipeConnection(handle)
    from multiprocessing.connection import Connection

    return Connection(handle)


def answer_calls(connection: Connection) -> None:
    """Calls one function after the other, until no request has come for a while."""
    from queue import Empty, SimpleQueue

    requests = SimpleQueue[bytes]()
    threading.Thread(target=receive_all, args=(connection, requests.put), daemon=True).start()
    with suppress(Empty):
        while request := requests.get(timeout=IDLE_SECONDS):
            try:
                function, arguments = pickle.loads(request)
                answer = True, function(*arguments)
            except Exception as error:  # it is sent to the parent, which raises it
                answer = False, error
            connection.send(answer)


def receive_all(connection: Connection, take: Callable[[bytes], object]) -> None:
    """Takes all messages of the parent. When the parent ends, this process ends at once, even during a call."""
    with suppress(EOFError, OSError):
        while True:
            take(connection.recv_bytes())
    os._exit(0)


def decode_output(output: bytes) -> str:
    """The text that Python and libraries wrote to a standard file, with Unix line ends.

    On Windows, ONNX Runtime writes its lines in UTF-16, and Python those of its own in the system's code page.
    """
    import locale
    import re

    # A line in UTF-16 begins with an ASCII character, such as a digit of its date. Where the output was cut inside one,
    # the second byte of a line end may be left.
    lines = []
    for wide, narrow in re.findall(rb"(?s)(?=[^\0]\0)((?:(?!\n\0)..)+)(?:\n\0)?|([^\n]*\n?)\0?", output):
        try:
            lines.append(wide.decode("utf-16-le", "replace") + "\n" if wide else narrow.decode())
        except UnicodeDecodeError:
            lines.append(narrow.decode(locale.getencoding(), "replace"))
    return "".join(lines).replace("\r\n", "\n")


def is_available() -> bool:
    """Whether a child process can be started: see `make_command`."""
    with suppress(NotSupportedError):
        return bool(make_command())
    return False


def make_command() -> list[str]:
    """The command that starts a child process: Python, or a frozen program itself.

    Raises:
        NotSupportedError: there is no Python, and the program does not call `freeze_support`.
    """
    from multiprocessing import spawn  # when it is imported, Nuitka corrects sys.executable

    path, is_frozen = os.fsdecode(spawn.get_executable() or ""), getattr(sys, "frozen", False)
    is_named_python = os.path.basename(path).lower().startswith(("python", "pypy"))
    if is_frozen or not is_named_python or not os.path.exists(path):
        is_frozen = is_frozen or "__compiled__" in globals()  # by Nuitka
        if is_frozen and _is_own_child:
            return [path]
        if is_frozen or path == (sys.executable or ""):  # that of uWSGI, say; otherwise the program has set another one
            name = "python.exe" if sys.platform == "win32" else f"python{sys.version_info[0]}.{sys.version_info[1]}"
            places = [os.path.join(sys.prefix, folder, name) for folder in ("bin", "Scripts", "")]
            path = next(filter(os.path.isfile, places), "")
    if not path:
        raise NotSupportedError(
            "Finding devices and isolating engines requires child processes, but this program has no Python for them.",
            hint="In a frozen program, call winml_py.freeze_support() first. Otherwise, pass the path to a Python that "
            "has these packages to multiprocessing.set_executable().",
        )
    return [path, "-c", f"from {__name__} import freeze_support; freeze_support()"]


def make_environment() -> dict[str, str]:
    """The environment of a child that imports from the same places as this process, not from its working directory."""
    folders = [os.fsdecode(entry) for entry in sys.path if entry and isinstance(entry, (str, bytes))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders), "PYTHONSAFEPATH": "1"}


def describe_status(status: int) -> str:
    """How a process ended: "SIGSEGV"; on Windows "status 0xC0000005", an access violation; or "status 1"."""
    import signal

    if status < 0:
        with suppress(ValueError):  # real-time signals have no names
            return signal.Signals(-status).name
        return f"signal {-status}"
    return f"status {status}" if status < 1 << 31 else f"status 0x{status:08X}"


# Forks: objects that the child cannot use are notified. Threads stay behind, and the locks that they hold stay locked.


class Inherited(Protocol):
    """An object that is unusable, or must start again, in a forked process."""

    def handle_fork(self) -> None:
        """Called in the child, before anything else runs there. Must not wait for a lock: none may ever be released."""


_watched: weakref.WeakSet[Inherited] = weakref.WeakSet()
_processes: set[int] = set()  # that have been notified, or began to watch
_noticing = threading.Lock()


def watch_forks(thing: Inherited) -> None:
    """Notifies an object of every fork as long as it lives. Using the object costs nothing more."""
    _register()
    _watched.add(thing)


def notice_fork() -> None:
    """Notifies what is watched of a fork that Python did not see, if there was one."""
    if os.getpid() not in _processes:  # else without the lock, which a fork might take along
        with _noticing:
            if os.getpid() not in _processes:
                _notify_watched()


def keep_forever(thing: object) -> None:
    """Keeps an object until the process is gone, even while the interpreter shuts down and empties modules."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


@cache
def _register() -> None:
    import atexit

    _processes.add(os.getpid())
    atexit.register(notice_fork)  # else a worker of uWSGI that did nothing would wait for its parent's threads
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=_notify_watched)


def _notify_watched() -> None:
    for thing in list(_watched):
        thing.handle_fork()
    _processes.add(os.getpid())


# Threads.


@cache
def get_native_threads() -> ModuleType:
    """The module `_thread` without the patches of gevent and eventlet, whose threads wait for each other."""
    from importlib.machinery import BuiltinImporter
    from importlib.util import module_from_spec

    spec = BuiltinImporter.find_spec("_thread")
    assert spec is not None
    module = module_from_spec(spec)
    BuiltinImporter.exec_module(module)
    return module


def get_shared_pool(name: str, workers: int) -> ThreadPoolExecutor:
    """The pool with a name, made on first use.

    A forked process gets new pools: the threads of its parent's do not exist there, and work would wait forever.

    Args:
        name: the name of its threads, for debuggers.
        workers: the maximum number of threads.
    """
    return _make_pool(os.getpid(), name, workers)


@cache
def _make_pool(process: int, name: str, workers: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(workers, name)


# Calls of our functions in another process: compiling a model may end the process that does it. A graph that works in
# float32 may crash a runtime in float16, or once it is rewritten: a tool that tries new graphs tries them there.


_idle = deque[tuple[ChildProcess, float]](maxlen=1)
"""The process that waits for another call, if any, and since when."""


def call_in_child(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function in another process, and returns its result.

    The call adds nothing to the cache folder. Where no process can be started (see `make_command`), the function is
    called in this one.

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
