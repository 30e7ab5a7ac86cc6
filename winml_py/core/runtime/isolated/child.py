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
from dataclasses import replace
from functools import partial
from multiprocessing import reduction
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ....errors import EngineWarning
from ...base.cancellation import Stop
from ...base.child_process import open_connection
from ..engine import Engine, Isolation, PlacedNode
from ..request import Compiler, CompileRequest
from ..runs import Bound, Value
from . import system, wire

if TYPE_CHECKING:
    from ...base.child_process import Connection


class Server:
    """The state that the lanes share.

    Attributes:
        engine: the compiled model.
        lock: the lock that its bindings hold.
        folder: for temporary files; removed with the process.
        warnings: the warnings to send with the next answer.
    """

    engine: Engine
    lock: AbstractContextManager[object]

    def __init__(self) -> None:
        self.folder = ""
        self.warnings: list[str] = []
        self._explained: object = None

    def explain(self) -> list[Any] | None:
        """The engine's explanation, if it has changed."""
        explanation = self.engine.explanation
        if explanation is self._explained:
            return None
        self._explained = explanation
        return list(explanation)

    def end(self) -> None:
        """Ends the process at once, without waiting for runs."""
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)


class Lane:
    """One connection's requests: one after the other, each with an answer."""

    def __init__(self, server: Server, connection: Connection, is_first: bool = False) -> None:
        self._server, self._connection, self._is_first = server, connection, is_first
        self._todo = SimpleQueue[Callable[[], object] | None]()
        self._stop = Stop()
        self._memory: mmap.mmap | bytearray = bytearray()  # empty, as on the other side
        self._bound = Bound()
        self._places: object = None  # of the bound arrays
        self._fresh: Mapping[str, Any] = {}
        self._end = 0

    def start(self) -> None:
        """Starts two threads that serve."""
        for function in (self.read, self.work):
            threading.Thread(target=function, name="winml-py-lane", daemon=True).start()

    def read(self) -> None:
        """Reads messages until the other end is closed; then stops a running request."""
        stop: Stop | None = None
        with suppress(EOFError, OSError):
            while True:
                message = self._connection.recv_bytes()
                if message == wire.STOPPABLE:
                    stop = self._stop = Stop()
                elif message == wire.STOP:
                    self._stop.request()
                elif message.startswith(wire.MEMORY):
                    self._memory = system.receive_memory(self._connection, int(message.removeprefix(wire.MEMORY)))
                    self._places = None
                elif message == wire.LANE:
                    lane = Lane(self._server, open_connection(reduction.recv_handle(self._connection)))
                    self._todo.put(lane.start)
                elif self._is_first or stop is not None:
                    self._todo.put(partial(self._answer, message, stop))
                    stop = None
                else:
                    self._answer(message, None)  # another thread would add tens of microseconds
        if self._is_first:
            self._server.end()
        self._stop.request()
        self._todo.put(None)

    def work(self) -> None:
        """Executes the requests."""
        with self._connection, suppress(OSError):  # the parent may no longer wait for the answer
            while do := self._todo.get():
                do()

    def _answer(self, message: bytes, stop: Stop | None) -> None:
        try:
            function, *arguments = pickle.loads(message)
            value = getattr(self, function)(*arguments, stop)
            facts = {"value": value, "explanation": self._server.explain()}
        except BaseException as error:  # the other side waits for any error
            facts = {"error": wire.error_to_json(error)}
        if self._server.warnings:
            facts["warnings"], self._server.warnings = self._server.warnings, []
        self._connection.send_bytes(json.dumps(facts).encode())

    # The requests that a lane serves.

    def compile(
        self, request: CompileRequest, compiler: Compiler, isolation: Isolation, folder: str, stop: Stop | None
    ) -> int:
        """Compiles the model; returns the id of this process."""
        system.set_limits(isolation.max_memory, isolation.max_cpu_seconds)
        if folder:
            self._server.folder = tempfile.tempdir = folder
        self._server.engine = compiler.compile(replace(request, stop=stop))
        self._server.lock = compiler.session_lock()
        return os.getpid()

    def run(
        self,
        inputs: list[wire.Place],
        outputs: list[wire.Place],
        end: int,
        values: Mapping[str, Value],
        stop: Stop | None,
    ) -> Any:
        """Runs the engine on inputs in shared memory, which end at `end`, and on other values; see `fetch`."""
        if self._places != (inputs, outputs):
            self._places = None
            arrays = {place[0]: wire.view(self._memory, place) for place in inputs}
            targets = {place[0]: wire.view(self._memory, place) for place in outputs}
            self._bound, self._end = Bound(arrays, targets, self._server.lock), end
            self._places = (inputs, outputs)
        for name, value in values.items():
            self._bound.set_input(name, value)
        self._fresh = self._server.engine.run(self._bound, stop)
        return self.fetch(None)

    def fetch(self, _: Stop | None) -> Any:
        """Writes the outputs without memory after the others; returns how much memory that takes, and their places.

        If the memory is too small, they are kept for another call with more memory.
        """
        arrays, values = wire.split(self._fresh)
        places, end = wire.place(arrays.items(), self._end)
        if end <= len(self._memory):
            for place in places:
                wire.view(self._memory, place)[...] = arrays[place[0]]
            self._fresh = {}
        return end, places, {name: wire.to_json(value) for name, value in values.items()}

    def placement(self, _: Stop | None) -> list[PlacedNode]:
        """Which provider runs which node."""
        return self._server.engine.placement()

    def end_profiling(self, _: Stop | None) -> str:
        """The trace; JSON has no bytes, so each byte is a character."""
        return self._server.engine.end_profiling().decode("latin-1")


def serve(connection: Connection) -> None:
    """Serves until the parent closes the connection, or ends."""
    server = Server()
    warnings.simplefilter("ignore")
    warnings.simplefilter("always", EngineWarning)
    warnings.showwarning = lambda message, *_: server.warnings.append(str(message))
    first = Lane(server, connection, is_first=True)
    threading.Thread(target=first.read, name="winml-py-parent", daemon=True).start()
    first.work()
