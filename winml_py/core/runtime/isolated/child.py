"""The process that engines live in: `python -m winml_py.core.runtime.isolated.child`, started by `EngineProcess`.

A thread serves each lane: it takes one request after the other, and answers it. The main thread opens lanes, and stops
runs. The process ends when its parent does.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ....errors import EngineWarning, EvaluationError, SizeMismatchError
from ...base.arrays import Array
from ...base.cancellation import Stop
from ...base.messages import logger
from ..engine import Engine, EngineBinding, Value
from ..request import Compiler, CompileRequest
from . import system, wire

NO_VALUES: Mapping[str, Value] = {}

MOST_STOPS = 4096
"""Stops that are kept in mind, also those that came when their run had ended."""

PARENT_SECONDS = 0.5
"""How often a system without another way is asked whether the parent lives."""


class Compiled(NamedTuple):
    """An engine, and the lock that its bindings hold."""

    engine: Engine
    lock: AbstractContextManager[object]


class Plan:
    """One way to run an engine: with inputs of certain shapes, at their places in shared memory.

    Outputs that nobody has bound get places of their own when their shapes have been seen once. A run that gives other
    shapes is run again without those places: then the shapes depend on the inputs' numbers.
    """

    def __init__(
        self, compiled: Compiled, memory: mmap.mmap, inputs: list[wire.Layout], outputs: list[wire.Layout]
    ) -> None:
        self._memory, self._engine = memory, compiled.engine
        self._explained: object = None
        self._binding: EngineBinding = compiled.engine.bind(compiled.lock)
        self._room = 0
        for place in inputs:
            self._binding.set_input(place.name, self._view(place))
        for place in outputs:
            self._binding.set_output(place.name, self._view(place))
        self.in_place: list[wire.Layout] = []
        self._learns, self._is_proven = True, False

    def _view(self, place: wire.Layout) -> Array:
        array = wire.view(self._memory, place.kind, place.shape, place.start)
        self._room = max(self._room, place.start + array.nbytes)
        return array

    def run(self, values: Mapping[str, Value], stop: Stop | None) -> Mapping[str, Any]:
        """Runs the engine; gives the outputs that have no place."""
        for name, value in values.items():
            self._binding.set_input(name, value)
        try:
            fresh = self._binding.run(stop)
            self._is_proven = bool(self.in_place)
            return fresh
        except EvaluationError as error:  # an engine may refuse memory for numbers of a type that numpy lacks
            if not self.in_place or self._is_proven or type(error) is not EvaluationError:
                raise
        except SizeMismatchError:
            if not self.in_place:
                raise
        for place in self.in_place:
            self._binding.set_output(place.name, None)
        self.in_place, self._learns = [], False
        return self._binding.run(stop)

    def explain(self) -> list[Any] | None:
        """What the engine says of itself, where that is not what it said before."""
        explanation = self._engine.explanation
        if explanation is self._explained:
            return None
        self._explained = explanation
        return wire.explanation_to_json(explanation)

    def place(self, fresh: Mapping[str, Any]) -> tuple[list[wire.Layout], int]:
        """Places for new outputs, and where they end."""
        places, end = [], self._room
        for name, value in fresh.items():
            if wire.is_array_of_numbers(value):
                start, end = wire.place(end, value.nbytes)
                places.append(wire.Layout(name, value.dtype.str, value.shape, start))
        return places, end

    def learn(self, places: list[wire.Layout], fresh: Mapping[str, Any]) -> None:
        """From now on, these outputs are written to their places by the engine itself."""
        if not self._learns or len(places) < len(fresh) or any(0 in place.shape for place in places):
            return
        for place in places:
            self._binding.set_output(place.name, wire.view(self._memory, place.kind, place.shape, place.start))
        self.in_place = places


class Server:
    """What the lanes share: the engines, the runs that can be stopped, and what is to be told with the next answer."""

    def __init__(self) -> None:
        self.engines: dict[int, Compiled] = {}
        self.stops: dict[int, Stop] = {}
        self.told: deque[tuple[str, str, int]] = deque(maxlen=1000)
        self._next = 0
        self._lock = threading.Lock()

    def add(self, compiled: Compiled) -> int:
        """The number of a new engine."""
        with self._lock:
            self._next += 1
            self.engines[self._next] = compiled
            return self._next

    def take_told(self) -> list[tuple[str, str, int]]:
        """What is to be told, once."""
        told = []
        with suppress(IndexError):  # other threads take from it, too
            while True:
                told.append(self.told.popleft())
        return told

    def stop_of(self, number: int) -> Stop:
        """The stop of that number, which the run or the request to stop it asks for first."""
        with self._lock:
            if len(self.stops) > MOST_STOPS:
                del self.stops[next(iter(self.stops))]
            return self.stops.setdefault(number, Stop())

    def serve(self, control: socket.socket) -> None:
        """Does what the parent says, until it closes the socket."""
        while True:
            what, number, files = wire.receive_order(control)
            if what == wire.STOP:
                self.stop_of(number).request()
            for file in files:
                lane = Lane(self, socket.socket(fileno=file))
                threading.Thread(target=lane.serve, name="winml-py-lane", daemon=True).start()


class Lane:
    """One thread's requests: one after the other, each with an answer."""

    def __init__(self, server: Server, lane: socket.socket) -> None:
        self._server, self._socket = server, lane
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._plans: dict[int, Plan] = {}

    def serve(self) -> None:
        """Answers until the other end is closed."""
        spins = False
        with self._socket, suppress(EOFError, OSError):
            while head := wire.receive_head(self._socket, spins):
                what, number, stop_number = wire.HEAD.unpack(head)
                try:
                    if what == wire.RUN:
                        spins = stop_number == 1
                        self._run(self._plans[number], NO_VALUES, None)
                    elif what == wire.MEMORY:
                        self._set_memory(number)
                    else:
                        self._do(what, number, stop_number)
                except (EOFError, BrokenPipeError):
                    return
                except BaseException as error:  # whatever it is, the other side waits for it
                    wire.send_json(self._socket, wire.FAILURE, wire.error_to_json(error))

    def _do(self, what: int, number: int, stop_number: int) -> None:
        """Runs a plan with values, or calls a function; both can be stopped."""
        thing = wire.receive_pickle(self._socket)
        stop = self._server.stop_of(stop_number) if stop_number else None
        try:
            if what == wire.CALL:
                function, arguments = thing
                self._answer({"value": getattr(self, function)(*arguments, stop)})
            else:
                self._run(self._plans[number], thing, stop)
        finally:
            self._server.stops.pop(stop_number, None)

    def _set_memory(self, size: int) -> None:
        file = wire.receive_file(self._socket)
        self._plans.clear()  # they are over the memory before
        self._memory = mmap.mmap(file, size)
        os.close(file)

    def _run(self, plan: Plan, values: Mapping[str, Value], stop: Stop | None) -> None:
        fresh = plan.run(values, stop)
        explanation = plan.explain()
        if not fresh and explanation is None and not self._server.told:
            self._socket.sendall(wire.DONE_MESSAGE)  # as nearly always
            return
        in_place = plan.in_place
        places, end = plan.place(fresh)
        if end > len(self._memory):
            wire.send(self._socket, wire.NEEDS, end)
            what, size, _ = wire.HEAD.unpack(wire.receive(self._socket, wire.HEAD.size))
            if what != wire.MEMORY:
                raise EOFError
            self._set_memory(size)
        else:
            plan.learn(places, fresh)
        for place in places:
            wire.view(self._memory, place.kind, place.shape, place.start)[...] = fresh[place.name]
        placed = {place.name for place in places}
        rest = {name: wire.to_json(value) for name, value in fresh.items() if name not in placed}
        self._answer({"places": in_place + places, "values": rest, "explanation": explanation})

    def _answer(self, facts: dict[str, Any]) -> None:
        wire.send_json(self._socket, wire.ANSWER, facts | {"told": self._server.take_told()})

    # What a lane is called for.

    def compile(self, request: CompileRequest, compiler: Compiler, stop: Stop | None) -> dict[str, Any]:
        """Compiles a model; gives the number of its engine, and what it says of itself."""
        engine = compiler.compile(replace(request, stop=stop))
        number = self._server.add(Compiled(engine, compiler.session_lock()))
        return {"engine": number, "explanation": wire.explanation_to_json(engine.explanation)}

    def prepare(
        self, number: int, engine: int, inputs: list[wire.Layout], outputs: list[wire.Layout], _: Stop | None
    ) -> None:
        """Makes a plan."""
        self._plans[number] = Plan(self._server.engines[engine], self._memory, inputs, outputs)

    def forget(self, number: int, _: Stop | None) -> None:
        """Lets go of a plan."""
        self._plans.pop(number, None)

    def placement(self, engine: int, _: Stop | None) -> list[Any]:
        """Which provider runs which node."""
        return self._server.engines[engine].engine.placement()

    def end_profiling(self, engine: int, _: Stop | None) -> str:
        """The trace; JSON has no bytes, so each is a character."""
        return self._server.engines[engine].engine.end_profiling().decode("latin-1")

    def close(self, engine: int, _: Stop | None) -> None:
        """Frees an engine."""
        compiled = self._server.engines.pop(engine, None)
        if compiled is not None:
            compiled.engine.close()


class _Tell(logging.Handler):
    """Has the parent log what is logged here."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._told = server.told

    def emit(self, record: logging.LogRecord) -> None:
        self._told.append(("log", record.getMessage(), record.levelno))


def _tell_warning(server: Server, message: Warning | str, *_: Any) -> None:
    server.told.append(("warning", str(message), 0))


def _end_with(parent: int, folder: str) -> None:
    """Ends this process when its parent has ended, also where another process holds the other end of its socket."""
    if not folder:  # what must clean up must not be killed
        # The system does it, whatever this process does just then: the thread that started it lives as long as the
        # parent.
        system.end_with_starter()
    if os.getppid() != parent:  # it has ended before this was set
        _end(folder)
    threading.Thread(target=_watch_parent, args=(parent, folder), name="winml-py-parent", daemon=True).start()


def _watch_parent(parent: int, folder: str) -> None:
    ended = system.open_end_of(parent)
    if ended >= 0:
        system.wait_until_readable([ended])
    while os.getppid() == parent:  # a system without such files is asked now and then
        time.sleep(PARENT_SECONDS)
    _end(folder)


def _end(folder: str) -> None:
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # without finalizers: they would wait for runs that go on


def main() -> None:
    """Serves until the parent closes the socket, or ends."""
    file, parent, folder, isolation = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the parent
    _end_with(int(parent), folder)
    limits = json.loads(isolation)
    system.set_limits(limits["max_memory"], limits["max_cpu_seconds"])
    server = Server()
    logger.addHandler(_Tell(server))
    logger.setLevel(logging.INFO)
    warnings.simplefilter("ignore")
    warnings.simplefilter("always", EngineWarning)
    warnings.showwarning = partial(_tell_warning, server)
    with suppress(EOFError, OSError):
        server.serve(socket.socket(fileno=int(file)))
    _end(folder)


if __name__ == "__main__":
    main()
