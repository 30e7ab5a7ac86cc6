"""The engine's side: the process compiles one model, and runs it in several lanes concurrently.

A lane is a connection with two threads: one reads requests, so that a run can be stopped, and the other executes them
in order. In the first lane, the main thread executes them: it compiles, and opens the other lanes.
"""

from __future__ import annotations

import json
import mmap
import os
import pickle
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from multiprocessing import reduction
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ....errors import SizeMismatchError
from ...base.cancellation import Stop
from ...base.child_process import open_connection
from ..engine import AssignedNode, Engine, Explanation
from ..runs import Bound
from . import system, wire

if TYPE_CHECKING:
    from ...base.child_process import Connection


class Server:
    """The state that the lanes share.

    Attributes:
        engine: the compiled model.
        lock: the lock that its bindings hold.
        folder: for temporary files; removed with the process.
    """

    engine: Engine
    lock: AbstractContextManager[object]

    def __init__(self) -> None:
        self.folder = ""


class Lane:
    """One connection's requests: one after the other, each with an answer."""

    def __init__(self, server: Server, connection: Connection, is_first: bool = False) -> None:
        self._server = server
        self._connection = connection
        self._is_first = is_first
        self._todo = SimpleQueue[Callable[[], object] | None]()
        self._stop = Stop()
        self._memory: mmap.mmap | bytearray = bytearray()  # empty until a run needs shared memory
        self._arguments = b""
        self._bound = Bound()
        self._end = 0
        self._fresh: Mapping[str, Any] = {}
        self._answer: Any = None  # the answer to the last run
        self._in_place: list[str] | None = None  # outputs that runs write into shared memory themselves
        self._sent: object = None  # the last answer; another one may be equal, but differ in the sign of a zero

    def start(self) -> None:
        """Starts two threads that serve."""
        for function in (self.read, self.work):
            threading.Thread(target=function, name="winml-py-lane", daemon=True).start()

    def read(self) -> None:
        """Reads messages until the other end is closed; then stops a running request."""
        stop: Stop | None = None
        with suppress(EOFError, OSError):
            while message := system.receive(self._connection):
                if message == wire.STOPPABLE:
                    stop = self._stop = Stop()
                elif message == wire.STOP:
                    self._stop.request()
                elif message.startswith(wire.MEMORY):
                    self._memory = system.receive_memory(self._connection, int(message.removeprefix(wire.MEMORY)))
                elif message == wire.ARGUMENTS:
                    self._arguments = self._connection.recv_bytes()
                elif message == wire.LANE:
                    self._todo.put(Lane(self._server, open_connection(reduction.recv_handle(self._connection))).start)
                elif self._is_first or stop is not None:
                    self._todo.put(partial(self._call, message, stop))
                    stop = None
                else:
                    self._call(message, None)  # in this thread: another one would take tens of microseconds more
        if self._is_first:  # the process ends at once, without waiting for runs
            if self._server.folder:
                shutil.rmtree(self._server.folder, ignore_errors=True)
            os._exit(0)
        self._stop.request()
        self._todo.put(None)

    def work(self) -> None:
        """Executes the requests."""
        with self._connection, suppress(OSError):  # the parent may no longer wait for the answer
            while do := self._todo.get():
                do()

    def _call(self, message: bytes, stop: Stop | None) -> None:
        try:
            facts = {"value": getattr(self, message.decode())(stop)}
        except BaseException as error:  # the session's side waits for an answer, whatever the error
            facts = {"error": wire.error_to_json(error)}
        is_same = facts.get("value", facts) is self._sent
        system.send(self._connection, wire.AGAIN if is_same else wire.ANSWER)
        if not is_same:
            self._sent = facts.get("value", facts)
            self._connection.send_bytes(json.dumps(facts).encode())

    # The requests that a lane serves.

    def compile(self, stop: Stop | None) -> tuple[int, Explanation]:
        """Compiles the model; returns the id of this process, and what runs the model."""
        request, compiler, isolation, folder = pickle.loads(self._arguments)
        self._arguments = b""
        system.set_limits(isolation.max_memory, isolation.max_cpu_seconds)
        if folder:
            self._server.folder = tempfile.tempdir = folder
        self._server.engine = compiler.compile(request._replace(stop=stop))
        self._server.lock = compiler.make_session_lock()
        return os.getpid(), self._server.engine.explanation

    def run(self, stop: Stop | None) -> Any:
        """Runs the engine on the arrays in shared memory, and on other values; see `fetch`.

        From the second run on, the engine writes the outputs without memory to where the first run's were copied.
        """
        if self._arguments:
            inputs, outputs, self._end, values = pickle.loads(self._arguments)
            self._arguments = b""
            arrays = {place[0]: wire.view(self._memory, place) for place in inputs}
            targets = {place[0]: wire.view(self._memory, place) for place in outputs}
            self._bound = Bound(arrays | values, targets, self._server.lock)
            self._answer, self._in_place = None, []
        try:
            self._fresh = self._server.engine.run(self._bound, stop)
        except SizeMismatchError:
            if not self._in_place:
                raise
            for name in self._in_place:  # the sizes of outputs may depend on the inputs' values
                self._bound.set_output(name, None)
            self._in_place = None
            self._fresh = self._server.engine.run(self._bound, stop)
        return self._answer if self._answer and not self._fresh else self.fetch(None)

    def fetch(self, _: Stop | None) -> Any:
        """Writes the outputs without memory after the others; returns how much memory that takes, and their places.

        If the memory is too small, they are kept for another call with more memory.
        """
        arrays, values = wire.split(self._fresh)
        places, end = wire.place(arrays.items(), self._end)
        if end <= len(self._memory):
            for place in places:
                view = wire.view(self._memory, place)
                view[...] = arrays[place[0]]
                if self._in_place is not None and not values:
                    self._bound.set_output(place[0], view)
                    self._in_place.append(place[0])
            self._fresh = {}
        self._answer = end, places, {name: wire.to_json(value) for name, value in values.items()}
        return self._answer

    def list_assigned_nodes(self, _: Stop | None) -> list[AssignedNode]:
        """Which provider runs which node."""
        return self._server.engine.list_assigned_nodes()

    def end_profiling(self, _: Stop | None) -> str:
        """The trace; JSON has no bytes, so each byte is a character."""
        return self._server.engine.end_profiling().decode("latin-1")


def serve(connection: Connection) -> None:
    """Serves until the parent closes the connection, or ends."""
    server = Server()
    warnings.simplefilter("ignore")
    first = Lane(server, connection, is_first=True)
    threading.Thread(target=first.read, name="winml-py-parent", daemon=True).start()
    first.work()
