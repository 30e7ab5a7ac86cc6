"""The session's side of an engine in another process: tensors are exchanged through shared memory."""

from __future__ import annotations

import json
import mmap
import pickle
import shutil
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ....errors import EngineLostError, EvaluationError, NotSupportedError, WinMLError
from ...base.arrays import Array
from ...base.cancellation import Stop, call_while_held
from ...base.child_process import ChildProcess, get_native_threads, make_pipe, watch_forks
from ..engine import AssignedNode, Engine, EngineOptions, Isolation, LocalEngine
from ..request import Compiler, CompileRequest
from ..runs import UNLOCKED, Bound, end_on_stop, require_open
from . import child, system, wire

if TYPE_CHECKING:
    from ...base.child_process import Connection

T = TypeVar("T")

GRACE_SECONDS = 0.5
"""Seconds that a stopped run may take to finish its node before the process is killed."""

LEAST_MEMORY = 1 << 20
"""Bytes of shared memory of a lane. The system allocates them when they are written."""


class IsolatedCompiler:
    """Runs another compiler in a separate process.

    Args:
        compiler: the device's; it is pickled.
        isolation: the limits of the process.
    """

    def __init__(self, compiler: Compiler, isolation: Isolation) -> None:
        self._compiler, self._isolation = compiler, isolation

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model in the process.

        Raises:
            EngineLostError: the process ended, or cannot be started.
            NotSupportedError: there is no Python to start.
            WinMLError: the other compiler's error.
        """
        return IsolatedEngine(request, self._compiler, self._isolation)

    def make_key(self, options: EngineOptions) -> Hashable:
        """Never equal: each session has a process."""
        return object()

    def make_session_lock(self) -> AbstractContextManager[object]:
        """No lock: the process holds the device's."""
        return UNLOCKED


class IsolatedEngine(LocalEngine):
    """A compiled model in another process. Threads may run it concurrently, each in a separate lane.

    Args:
        request: the model, and how to compile it.
        compiler: compiles it in the process.
        isolation: the limits of the process.

    Attributes:
        process_number: the process id.
    """

    def __init__(self, request: CompileRequest, compiler: Compiler, isolation: Isolation) -> None:
        self.options = request.options
        # Reentrant, because the garbage collector may close an engine inside a locked region.
        self._lock = threading.RLock()
        self._free: list[_Lane] = []
        self._runs = 0
        self._is_closing = False
        self._killed_since = ""
        self._loss: EngineLostError | None = None
        is_logged = request.options.log_severity != EngineOptions(1).log_severity
        try:
            self._home = ChildProcess(child.serve, shows_stderr=is_logged)
            self._folder = tempfile.mkdtemp(prefix="winml-py-") if request.options.is_profiled else ""
        except NotSupportedError:
            raise
        except Exception as error:  # too many files or threads, or an invalid environment
            raise EngineLostError(
                f"Cannot start a process for the engine: {error}.",
                hint="Close unneeded sessions, or raise the limits of this process.",
            ) from error
        self._process: ChildProcess | None = self._home  # None after `close`
        child_request = request._replace(options=request.options._replace(isolation=None), stop=None)
        arguments = child_request, compiler, isolation, self._folder
        try:
            lane = _Lane(self._home.connection)
            self.process_number, self.explanation = self._ask(
                lane,
                "compile",
                *arguments,
                read=lambda answer: (int(answer[0]), wire.explanation_from_json(answer[1])),
                stop=request.stop,
            )
        except BaseException:
            self.close()
            raise
        watch_forks(self)

    @property
    def is_lost(self) -> bool:
        """Whether the process has ended."""
        return self._loss is not None or not self._home.is_alive

    def run(self, bound: Bound, stop: Stop | None = None) -> dict[str, Any]:
        """Runs the model; see `Engine`."""
        inputs: Any = bound.inputs  # a session without a location binds only the host's memory
        outputs: Any = bound.outputs
        arrays, values = wire.split(inputs)

        def run(lane: _Lane) -> dict[str, Any]:
            input_places, end = wire.place(arrays.items())
            output_places, end = wire.place(outputs.items(), end)
            arguments: tuple[object, ...] = ()
            if lane.places != (input_places, output_places):
                if end > len(lane.memory):
                    self._make_memory(lane, end)
                lane.places = None  # unknown until the process has bound the new values
                lane.views = [wire.view(lane.memory, place) for place in (*input_places, *output_places)]
                arguments = input_places, output_places, end, values
            views = iter(lane.views)
            for array in arrays.values():
                next(views)[...] = array
            needed, fresh = self._ask(lane, "run", *arguments, read=lane.read_outputs, stop=stop)
            for array in outputs.values():
                array[...] = next(views)
            if needed > len(lane.memory):
                self._make_memory(lane, needed)
                _, fresh = self._ask(lane, "fetch", read=lane.read_outputs)
            elif not values:  # values are sent with each run
                lane.places = input_places, output_places
            return fresh

        return self._use_lane(run)

    def list_assigned_nodes(self) -> list[AssignedNode]:
        """Which provider runs which node."""
        return self._use_lane(
            lambda lane: self._ask(
                lane, "list_assigned_nodes", read=lambda rows: [AssignedNode(*map(str, row)) for row in rows]
            )
        )

    def end_profiling(self) -> bytes:
        """The trace since the engine was made."""
        return self._use_lane(lambda lane: self._ask(lane, "end_profiling", read=partial(bytes, encoding="latin-1")))

    def close(self) -> None:
        """Ends the process as soon as the last run in flight returns."""
        with self._lock:
            self._is_closing = True
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        """Ends the process if the engine is closing and idle; the caller holds the lock."""
        if not self._is_closing or self._runs:
            return
        process, self._process = self._process, None
        while self._free:
            self._free.pop().connection.close()
        if process is not None:
            process.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def handle_fork(self) -> None:
        """After a fork, the process belongs to the parent."""
        self._process, self._lock = None, threading.RLock()
        while self._free:
            self._free.pop().connection.close()

    def _use_lane(self, use: Callable[[_Lane], T]) -> T:
        """Calls a function with a lane that no other thread uses."""
        with self._lock:
            if self._loss is not None:
                raise EngineLostError(self._loss.message, hint=self._loss.hint)
            process = require_open(None if self._is_closing else self._process)
            self._runs += 1
            lane = self._free.pop() if self._free else None
        try:
            lane = lane or self._open_lane(process)
            return use(lane)
        finally:
            with self._lock:
                self._runs -= 1
                # An exception such as Ctrl-C may have ended the wait, but the answer still comes.
                if lane is not None and lane.is_in_step and not self._is_closing:
                    self._free.append(lane)
                elif lane is not None:
                    lane.connection.close()
                self._end_if_idle()

    def _open_lane(self, process: ChildProcess) -> _Lane:
        try:
            ours, theirs = make_pipe()
        except OSError as error:
            raise EvaluationError(
                f"Cannot connect to the engine's process: {error}.",
                hint="Close files and sessions, or raise the limit of open files.",
            ) from error
        try:
            with theirs, self._lock:
                system.send_handle(process.connection, wire.LANE, theirs.fileno(), self.process_number)
        except OSError:
            ours.close()
            raise self._make_loss_error("before the request") from None
        return _Lane(ours)

    def _ask(
        self, lane: _Lane, function: str, *arguments: object, read: Callable[[Any], T], stop: Stop | None = None
    ) -> T:
        """Calls a function at the lane's other end; returns the answer, converted by `read`."""
        sent = pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL) if arguments else b""
        lane.is_in_step = False
        try:
            if sent:
                system.send(lane.connection, wire.ARGUMENTS)
                lane.connection.send_bytes(sent)
            if stop is not None:
                system.send(lane.connection, wire.STOPPABLE)
            system.send(lane.connection, function.encode())
        except OSError:
            raise self._make_loss_error("before the request") from None
        with self._end_on_stop(lane, stop) if stop else UNLOCKED:
            try:
                is_same = system.receive(lane.connection) == wire.AGAIN
                answer = b"" if is_same else lane.connection.recv_bytes(wire.MOST_JSON)
            except (EOFError, OSError):
                doing = {"compile": "compiled the model", "run": "evaluated the model"}.get(function, "answered")
                raise self._make_loss_error(f"while it {doing}") from None
        try:
            if answer:  # most runs have the answer of the run before
                lane.facts = json.loads(answer)
            facts = lane.facts
            outcome = wire.error_from_json(facts["error"]) if "error" in facts else read(facts["value"])
        except Exception as problem:  # a process with corrupt memory may send anything
            self._kill(f"since it sent an invalid answer ({problem})")
            raise self._make_loss_error("as it answered") from None
        lane.is_in_step = True
        if isinstance(outcome, WinMLError):
            if stop is not None:
                stop.require_not_requested()
            raise outcome
        return outcome

    @contextmanager
    def _end_on_stop(self, lane: _Lane, stop: Stop) -> Iterator[None]:
        """Within the block, `stop` ends the run; if that takes too long, the process."""
        is_running = get_native_threads().allocate_lock()

        def terminate() -> None:
            call_while_held(is_running, GRACE_SECONDS, partial(self._kill, "since an evaluation in it did not stop"))
            with suppress(OSError):
                system.send(lane.connection, wire.STOP)

        with is_running, end_on_stop(stop, terminate):
            yield

    def _kill(self, reason: str) -> None:
        self._killed_since = self._killed_since or reason
        self._home.kill()

    def _make_loss_error(self, when: str) -> EngineLostError:
        """The error for a process that has ended; the last run frees its resources."""
        with self._lock:
            if self._loss is None:
                ending, words = self._home.describe_end(), self._home.last_words
                ending = f"it was killed {self._killed_since}" if self._killed_since else ending
                self._loss = EngineLostError(
                    f"The session's engine process ended {when} ({ending})."
                    + (f" Its last output: {words[:300]}" if words else ""),
                    hint="Create another session from the model, because this one is unusable. If the same inputs end "
                    "the new process too, the model or its engine has a bug.",
                )
            self._is_closing = True
            self._end_if_idle()
            return EngineLostError(self._loss.message, hint=self._loss.hint)

    def _make_memory(self, lane: _Lane, size: int) -> None:
        """Makes shared memory of so many bytes, and as much again in reserve."""
        size = max(LEAST_MEMORY, 2 * size)
        lane.is_in_step, lane.places = False, None
        try:
            lane.memory = system.send_memory(lane.connection, wire.MEMORY + str(size).encode(), size)
        except ConnectionError:
            raise self._make_loss_error("before the request") from None
        except (OSError, OverflowError) as error:
            raise EvaluationError(
                f"Cannot allocate {size:,} bytes of shared memory for the tensors of an isolated session: {error}.",
                hint="Evaluate smaller inputs, or set options.isolation = None.",
            ) from error


class _Lane:
    """A connection to two threads of the process, and shared memory. For one run at a time.

    Attributes:
        is_in_step: whether all requests have been answered.
        facts: what the last answer says.
        places, views: where the bound arrays are, and the arrays there; no places if the process must bind others.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.memory: mmap.mmap | bytearray = bytearray()  # empty, until there is shared memory
        self.is_in_step = True
        self.facts: dict[str, Any] = {}
        self.places: tuple[list[wire.Place], list[wire.Place]] | None = None
        self.views: list[Array] = []

    def read_outputs(self, facts: Any) -> tuple[int, dict[str, Any]]:
        """The memory that the outputs take, and copies of them; no copies if the lane's memory is too small."""
        needed, places, values = facts
        if needed > len(self.memory):
            return int(needed), {}
        fresh = {str(place[0]): wire.view(self.memory, place).copy() for place in places}
        return int(needed), fresh | {name: wire.from_json(value) for name, value in values.items()}
