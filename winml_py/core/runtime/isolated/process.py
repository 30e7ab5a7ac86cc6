"""The process that the engines of isolated sessions live in, as the sessions see it: started, watched, ended."""

from __future__ import annotations

import codecs
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import asdict
from typing import IO

from ....errors import EngineLostError, EvaluationError, NotSupportedError
from ...base import child_process
from ...base.messages import shown
from ..engine import Isolation
from . import system, wire

MODULE = f"{__package__}.child"

LAST_WORDS = 2048
"""Bytes of what the process wrote to its standard error that are kept for the error of its end."""

END_SECONDS = 5.0
"""For so long a process may take to end that is no longer needed; then it is killed."""


class EngineProcess:
    """A process for engines. It ends with the last engine in it, and with this process, however that ends.

    Args:
        isolation: what it may use.
        writes_files: whether a profile may be written there.

    Attributes:
        tells_words: whether what it writes to its standard error is written to this process's, too.

    Raises:
        EngineLostError: it cannot be started.
        NotSupportedError: this system, or a frozen application, has no such process.
    """

    def __init__(self, isolation: Isolation, writes_files: bool) -> None:
        wire.require_system()
        if not child_process.is_available():
            raise NotSupportedError(
                "An engine in a process of its own needs a Python to start, and a frozen application has none.",
                hint="Set options.isolation = None.",
            )
        # Reentrant: the garbage collector may close an engine inside a locked region.
        self._sending, self._lock = threading.RLock(), threading.RLock()
        self._users = 1
        self._lanes: weakref.WeakSet[wire.Channel] = weakref.WeakSet()
        self._stops = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._problem: Exception | None = None
        self._words, self._ending, self._reason = b"", "", ""
        self.tells_words = False
        self._gone = threading.Event()
        started, self._folder = threading.Event(), ""
        try:
            # Its temporary files are here, and go with it.
            self._folder = tempfile.mkdtemp(prefix="winml-py-") if writes_files else ""
            self._control, theirs = wire.make_channel()
            # On Linux the process ends with the thread that started it: so this one lives as long as the process.
            watcher = threading.Thread(target=self._watch, args=(isolation, theirs, started), name="winml-py-isolation")
            watcher.daemon = True
            watcher.start()
            started.wait()
        except (OSError, RuntimeError) as error:  # no more files, no more threads
            self._problem = error
            self._remove_folder()
        if self._problem is not None:
            raise EngineLostError(
                f"A process for the engine cannot be started: {self._problem}.",
                hint="Close sessions that are not needed, or raise the limits of this process.",
            ) from self._problem
        child_process.watch_forks(self)

    def _watch(self, isolation: Isolation, theirs: socket.socket, started: threading.Event) -> None:
        """Starts the process, keeps its last words, and when it has ended wakes up all who wait for an answer."""
        with theirs:
            numbers = [theirs.fileno()]
            arguments = [str(numbers[0]), str(os.getpid()), self._folder, json.dumps(asdict(isolation))]
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", MODULE, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=child_process.environment() | ({"TMPDIR": self._folder} if self._folder else {}),
                    pass_fds=numbers,
                )
            except Exception as error:  # whatever it is, somebody waits for the start
                self._problem = error
                self._control.close()
            else:
                self._process = process
        started.set()
        if self._process is not None:
            assert self._process.stderr is not None
            with self._process.stderr:
                self._keep_words(self._process.stderr, self._process.pid)
            status = self._process.wait()
            with self._lock:
                self._ending, waiting = child_process.ending(status), list(self._lanes)
            for lane in waiting:
                with suppress(OSError):
                    lane.shutdown(socket.SHUT_RDWR)
        self._remove_folder()
        self._gone.set()

    def _remove_folder(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _keep_words(self, stderr: IO[bytes], number: int) -> None:
        """Reads what the process writes to its standard error, until it ends."""
        # A process that was forked from this one in an unlucky moment may have the other ends of pipe and sockets, too.
        # Then it is not the end of the pipe that shows the end of the process.
        ended, decode = system.open_end_of(number), codecs.getincrementaldecoder("utf-8")("replace").decode
        try:
            while True:
                ready = system.wait_until_readable([stderr.fileno()] if ended < 0 else [stderr.fileno(), ended])
                said = os.read(stderr.fileno(), 1 << 16) if stderr.fileno() in ready else b""
                self._words = (self._words + said)[-LAST_WORDS:]
                if self.tells_words and sys.stderr is not None:
                    with suppress(OSError, ValueError):  # it may be closed, or take other characters
                        sys.stderr.write(shown(decode(said)))
                if not said:
                    return
        finally:
            if ended >= 0:
                os.close(ended)

    @property
    def number(self) -> int:
        """The number that the system has for it."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_ended(self) -> bool:
        """Whether the process has ended."""
        return bool(self._ending)

    def lost(self, when: str) -> EngineLostError:
        """The error for those who need the process when it has ended.

        Args:
            when: as in "while it compiled the model".
        """
        self._gone.wait(END_SECONDS)
        lines = self._words.decode(errors="replace").strip().splitlines()
        words = f" Its last words: {lines[-1][:300]}" if lines else ""
        ending = f"it was killed {self._reason}" if self._reason else self._ending or "it closed its socket"
        return EngineLostError(
            f"The process of the session's engine ended {when} ({ending}).{words}",
            hint="The session is dead; another one of the model works. If the same inputs end that, too, the model or "
            "its engine has a fault.",
        )

    def take(self) -> bool:
        """Counts one more user; False where the process has ended, or is about to."""
        with self._lock:
            if self._ending or not self._users:
                return False
            self._users += 1
            return True

    def give_back(self) -> None:
        """Counts one user less. With the last one the process ends, and its memory is free when this returns."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
        self._control.close()
        self.resume()
        if not self._gone.wait(END_SECONDS):
            self.kill("since nobody needs it")
            self._gone.wait(END_SECONDS)

    def kill(self, reason: str) -> None:
        """Ends the process, whatever it does. Twice is harmless.

        Args:
            reason: for the error of those who wait for an answer.
        """
        self._reason = self._reason or reason
        if self._process is not None:
            self._process.kill()

    def resume(self) -> None:
        """Has a process go on that somebody has stopped: otherwise it could not end, or free an engine."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    @property
    def is_shared(self) -> bool:
        """Whether others use it, too."""
        return self._users > 1

    def open_lane(self) -> wire.Channel:
        """A socket; a thread of the process serves the other end.

        Raises:
            EngineLostError: the process has ended.
            EvaluationError: this process has no more files.
        """
        try:
            ours, theirs = wire.make_channel()
        except OSError as error:
            raise EvaluationError(
                f"The engine's process cannot be asked: {error}.",
                hint="Close files and sessions, or raise the limit of open files.",
            ) from error
        with self._lock:
            self._lanes.add(ours)
        with theirs:
            if self._ending or not self._tell(wire.send_lane, wire.LANE, theirs.fileno()):
                self.close_lane(ours)
                raise self.lost("before it was asked")
        return ours

    def close_lane(self, lane: wire.Channel) -> None:
        """Closes such a socket; the thread at the other end ends."""
        with self._lock:
            self._lanes.discard(lane)
        lane.close()

    def new_stop(self) -> int:
        """A number for a run that can be stopped."""
        return next(self._stops)

    def stop(self, number: int) -> None:
        """Asks for the run of that number to be stopped."""
        self._tell(wire.send, wire.STOP, number)

    def _tell(self, send: Callable[[socket.socket, int, int], None], what: int, number: int) -> bool:
        """Sends a message to the process itself; False where it has ended."""
        try:
            with self._sending:
                send(self._control, what, number)
        except OSError:
            return False
        return True

    def in_child(self) -> None:
        """After a fork the process is the parent's: here nothing but the copies of the sockets is closed."""
        self._ending = "it belongs to another process"
        for each in (self._control, *self._lanes):
            each.close()
        if self._process is not None:
            self._process.returncode = 0  # it is no child of this process, which cannot wait for it


class NamedProcesses:
    """The processes that sessions share, by the isolation that they have in common."""

    def __init__(self) -> None:
        self._clear()
        child_process.watch_forks(self)

    def _clear(self) -> None:
        self._lock = threading.RLock()  # as that of a process
        self._processes: dict[Isolation, EngineProcess] = {}
        # How many of a name have ended while sessions used them.
        self._generations: dict[Isolation, int] = {}

    in_child = _clear  # a forked process starts its own

    def find(self, isolation: Isolation) -> EngineProcess | None:
        """The process of that name, if there is one."""
        return self._processes.get(isolation)

    def take(self, isolation: Isolation) -> EngineProcess:
        """The process of that name, which may be a new one, with one more user."""
        with self._lock:
            self._forget_ended()
            process = self._processes.get(isolation)
            if process is None or not process.take():
                process = self._processes[isolation] = EngineProcess(isolation, writes_files=True)
            return process

    def generation(self, isolation: Isolation) -> int:
        """Equal as long as no process of that name ends before its sessions are closed."""
        with self._lock:
            self._forget_ended()
            return self._generations.get(isolation, 0)

    def _forget_ended(self) -> None:
        for isolation in [isolation for isolation, process in self._processes.items() if process.is_ended]:
            del self._processes[isolation]
            self._generations[isolation] = self._generations.get(isolation, 0) + 1


NAMED = NamedProcesses()


def take_process(isolation: Isolation, writes_files: bool) -> EngineProcess:
    """A process with one more user: the one of that name, or a new one.

    Raises:
        EngineLostError: it cannot be started.
    """
    return NAMED.take(isolation) if isolation.name else EngineProcess(isolation, writes_files)


def sharing_key(isolation: Isolation) -> Hashable:
    """Equal for sessions that may share an engine: not with those whose process has ended meanwhile."""
    return NAMED.generation(isolation) if isolation.name else object()
