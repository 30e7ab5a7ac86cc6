"""An engine in a process of its own, as sessions see it: tensors go there and back through shared memory."""

from __future__ import annotations

import mmap
import pickle
import struct
import threading
import weakref
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ....errors import EngineWarning, EvaluationError, WinMLError
from ...base import child_process
from ...base.arrays import Array
from ...base.cancellation import Stop, call_while_held
from ...base.messages import logger, warn_caller
from ..engine import (
    Engine,
    EngineBinding,
    EngineOptions,
    HeldValues,
    HostEngine,
    Isolation,
    PlacedNode,
    Value,
)
from ..providers.catalogue import UNLOCKED
from ..request import Compiler, CompileRequest
from ..runs import ended_by, require_open
from . import system, wire
from .process import END_SECONDS, EngineProcess, sharing_key, take_process
from .wire import Layout

GRACE_SECONDS = 0.5
"""For so long a run that is to stop may go on to the end of its node; then the process is killed."""

MOST_PLANS = 8
"""Shapes of inputs that a lane keeps in mind, the latest ones."""

UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What is raised where an answer is not what the process should send."""

LEAST_MEMORY = 1 << 20
"""Bytes of shared memory of a lane. Nothing of it is taken before it is written."""


class IsolatedCompiler:
    """Compiles in a process of its own what another compiler compiles for a device.

    Args:
        compiler: of the device; it is pickled.
        isolation: what the process may use, and who shares it.
    """

    def __init__(self, compiler: Compiler, isolation: Isolation) -> None:
        self._compiler, self._isolation = compiler, isolation

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model, in the process.

        Raises:
            EngineLostError: the process ended, or cannot be started.
            NotSupportedError: this system has no such process.
            WinMLError: what the other compiler raises.
        """
        process = take_process(self._isolation, request.options.is_profiled)
        if request.options.log_severity != EngineOptions(1).log_severity:
            process.tells_words = True
        try:
            return IsolatedEngine(process, request, self._compiler)
        except BaseException:
            process.give_back()
            raise

    def key(self, options: EngineOptions) -> Hashable:
        """Sessions share an engine where they share the process that lives now."""
        return self._compiler.key(options), sharing_key(self._isolation)

    def session_lock(self) -> AbstractContextManager[object]:
        """None: the lock of a device is held in the process."""
        return UNLOCKED


class IsolatedEngine(HostEngine):
    """A compiled model in another process. Threads may run it at the same time, each in a lane of its own.

    Args:
        process: where it is to live; given back when the engine is closed.
        request: what to compile.
        compiler: compiles it there.

    Raises:
        EngineLostError: the process ended.
        WinMLError: what the compiler raises.
    """

    def __init__(self, process: EngineProcess, request: CompileRequest, compiler: Compiler) -> None:
        self.options = request.options
        self._process: EngineProcess | None = process
        self._home = process
        self._free: deque[_Lane] = deque()
        # Reentrant: the garbage collector may close an engine inside a locked region.
        self._lock = threading.RLock()
        # All that live: an exception out of nowhere, such as Ctrl-C, may lose one that is in use.
        self._lanes: weakref.WeakSet[_Lane] = weakref.WeakSet()
        self._is_closing = False
        there = replace(request, options=request.options._replace(isolation=None), stop=None)
        lane = self._take_lane()
        try:
            facts = lane.call("compile", there, compiler, stop=request.stop, doing="compiled the model")
        except BaseException:
            lane.close()
            raise
        self._number: int = facts["engine"]
        self._explain(facts["explanation"])
        self._free.append(lane)
        child_process.watch_forks(self)

    @property
    def is_lost(self) -> bool:
        """Whether the process has ended."""
        return self._home.is_ended

    @property
    def process_number(self) -> int:
        """The number that the system has for the process."""
        return self._home.number

    def bind(self, lock: AbstractContextManager[object]) -> EngineBinding:
        """A new, empty binding."""
        require_open(self._process)
        return _IsolatedBinding(self)

    @property
    def run_once(self) -> Any:
        """Runs the model on inputs that are not bound first; see `Engine`."""
        return self._run_once

    def _run_once(self, inputs: Mapping[str, Value], lock: AbstractContextManager[object]) -> dict[str, Any]:
        return self.run(inputs, {}, None)

    def run(self, inputs: Mapping[str, Value], outputs: Mapping[str, Array], stop: Stop | None) -> dict[str, Any]:
        """Runs the model.

        Args:
            inputs: by name.
            outputs: memory that outputs are written to, by name.
            stop: lets another thread end the run.

        Returns:
            The other outputs, each in memory of its own.

        Raises:
            ClosedError: the engine has been closed.
            EngineLostError: the process ended.
            WinMLError: what the engine there raises.
        """
        lane = self._take_lane()
        try:
            fresh, told = lane.run(self._number, inputs, outputs, stop)
        finally:
            self._give_lane_back(lane)
        if told is not None:
            self._tell(told)
        return fresh

    def _tell(self, facts: Mapping[str, Any]) -> None:
        """Explains, logs and warns as the engine did in its process."""
        if facts["explanation"]:
            self._explain(facts["explanation"])
        for kind, text, level in facts["told"]:
            if kind == "log":
                logger.log(int(level), "%s", text)
            else:
                warn_caller(EngineWarning(str(text)))

    def _explain(self, facts: list[Any]) -> None:
        explanation = wire.explanation_from_json(facts)
        self.explanation = explanation._replace(reason=f"{explanation.reason}; in a process of its own")

    def _call(self, function: str, *arguments: object) -> Any:
        lane = self._take_lane()
        try:
            return lane.call(function, self._number, *arguments)
        finally:
            self._give_lane_back(lane)

    def _take_lane(self) -> _Lane:
        """A lane for one request."""
        require_open(self._process)
        try:
            return self._free.pop()
        except IndexError:  # all are in use
            pass
        with self._lock:
            lane = _Lane(require_open(self._process), self.options.intra_op_thread_spinning)
            self._lanes.add(lane)
            return lane

    def _give_lane_back(self, lane: _Lane) -> None:
        """After a request. A lane where an exception ended the wait for the answer is of no use any more."""
        if lane.is_in_step:
            self._free.append(lane)
        else:
            lane.close()
            with self._lock:
                self._lanes.discard(lane)
        if self._is_closing:
            self._end_if_idle()

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node."""
        return [PlacedNode(*map(str, node)) for node in self._call("placement")]

    def end_profiling(self) -> bytes:
        """The trace since the engine was made."""
        return str(self._call("end_profiling")).encode("latin-1")

    def close(self) -> None:
        """Frees the engine as soon as the last run in flight returns; the process ends with its last engine."""
        self._is_closing = True
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        with self._lock:
            if self._process is None or len(self._free) < len(self._lanes):
                return
            process, self._process = self._process, None
        try:
            if process.is_shared:
                # A lane of its own: where the garbage collector closes an engine, it may have closed the others before.
                with suppress(WinMLError):  # the process may have ended, and the engine with it
                    _Lane(process, False).close_engine(self._number)
        finally:
            process.give_back()
            while self._free:
                self._free.pop().close()

    def in_child(self) -> None:
        """After a fork: the lanes are the parent's."""
        self._process = None
        self._free.clear()


class _IsolatedBinding(HeldValues):
    """Values, which each run sends to the process."""

    def __init__(self, engine: IsolatedEngine) -> None:
        super().__init__()
        self._engine = engine

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `EngineBinding`."""
        outputs = {name: array for name, array in self.outputs.items() if array is not None}
        return self._engine.run(self.inputs, outputs, stop)


class _Plan(NamedTuple):
    """How a lane sends inputs of certain shapes.

    Attributes:
        number: what the other side calls it.
        message: what has it run.
        inputs: the places of inputs, by name.
        values: the names of inputs that have no place: strings, sequences, maps.
        outputs: the places of outputs that are written to the caller's memory, by name.
        fresh: the places where the last run left the other outputs, by name.
    """

    number: int
    message: bytes
    inputs: list[tuple[str, Array]]
    values: list[str]
    outputs: dict[str, Array]
    fresh: dict[str, Array]


class _Lane:
    """A socket to a thread of the process, and memory that both sides see. For one request at a time.

    Args:
        process: where it leads.
        spins: whether both sides spin while they wait for each other.
    """

    def __init__(self, process: EngineProcess, spins: bool) -> None:
        self._process, self._spins = process, spins
        self._socket = process.open_lane()
        self._memory: mmap.mmap | None = None
        self._plans: dict[Hashable, _Plan] = {}
        self._next = 0
        self.is_in_step = True

    def close(self) -> None:
        """Closes the socket; the memory goes with the last array over it."""
        self._memory = None
        self._plans.clear()
        self._process.close_lane(self._socket)

    def close_engine(self, engine: int) -> None:
        """Has an engine freed in a process that goes on, and closes the lane; one that does not answer keeps it."""
        self._socket.settimeout(END_SECONDS)
        self._process.resume()
        try:
            with suppress(OSError):  # it does not answer in time
                self.call("close", engine)
        finally:
            self.close()

    def run(
        self, engine: int, inputs: Mapping[str, Value], outputs: Mapping[str, Array], stop: Stop | None
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Runs an engine; gives what `IsolatedEngine.run` gives, and what else the process has to tell."""
        key = tuple(
            [
                (name, value.dtype.char, value.shape) if type(value) is np.ndarray else name
                for values in (inputs, outputs)
                for name, value in values.items()
            ]
        )
        if stop is None:
            plan = self._plans.get(key) or self._prepare(key, engine, inputs, outputs)
            told = self._ask(plan, inputs, 0)
        else:
            with self._stoppable(stop) as number:
                plan = self._plans.get(key) or self._prepare(key, engine, inputs, outputs)
                told = self._ask(plan, inputs, number)
        for name, array in outputs.items():
            np.copyto(array, plan.outputs[name])
        fresh: dict[str, Any] = {name: place.copy() for name, place in plan.fresh.items()}
        if told is not None:
            fresh |= {name: wire.from_json(value) for name, value in told["values"].items()}
        return fresh, told

    def _ask(self, plan: _Plan, inputs: Mapping[str, Value], stop: int) -> dict[str, Any] | None:
        """Has a plan run, and finds its outputs; gives what else there is to tell."""
        for name, place in plan.inputs:
            place[...] = inputs[name]
        message = plan.message
        if stop or plan.values:
            values = {name: inputs[name] for name in plan.values}
            message = wire.HEAD.pack(wire.RUN_WITH_VALUES, plan.number, stop)
            message += pickle.dumps(values, pickle.HIGHEST_PROTOCOL)
        self.is_in_step = False
        head = b""
        # What nearly every run does comes first, and as it is: it is the cost of an isolated session.
        try:
            self._socket.sendall(message)
            head = wire.receive_head(self._socket, self._spins)
        except ConnectionError:
            raise self._process.lost("before it was asked") from None
        if head == wire.DONE_MESSAGE:
            self.is_in_step = True
            return None
        with self._in_step("evaluated the model"):
            facts: dict[str, Any] = self._answer(head)
            plan.fresh.clear()
            for name, kind, shape, start in facts["places"]:
                assert self._memory is not None  # the plan has inputs there
                plan.fresh[name] = wire.view(self._memory, kind, tuple(shape), start)
        return facts

    def call(self, function: str, *arguments: object, stop: Stop | None = None, doing: str = "was asked") -> Any:
        """Calls a function of the lane at the other end."""
        with self._stoppable(stop) as number:
            self.is_in_step = False
            try:
                wire.send_pickle(self._socket, wire.CALL, 0, number, (function, arguments))
            except ConnectionError:
                raise self._process.lost("before it was asked") from None
            with self._in_step(doing):
                return self._answer(wire.receive(self._socket, wire.HEAD.size))["value"]

    @contextmanager
    def _in_step(self, doing: str) -> Iterator[None]:
        """Within the block the answer to a request comes. Until it is there, the lane is out of step."""
        self.is_in_step = False
        try:
            yield
        except WinMLError:  # the answer was an error
            raise
        except EOFError:
            when = f"while it {doing}"
        except ConnectionError:
            when = "before it was asked"
        except UNREADABLE as error:
            # Of a process whose memory has been spoilt, anything may come.
            when = "as it answered"
            self._process.kill(f"since it sent an answer that nobody can read ({error})")
        else:
            self.is_in_step = True
            return
        raise self._process.lost(when)

    def _answer(self, head: bytes) -> Any:
        """The answer whose head has come."""
        while True:
            if not head:
                raise EOFError
            what, size, _ = wire.HEAD.unpack(head)
            if what == wire.ANSWER:
                return wire.receive_json(self._socket, size)
            if what == wire.FAILURE:
                error = wire.error_from_json(wire.receive_json(self._socket, size))
                self.is_in_step = True
                raise error
            if what != wire.NEEDS:
                raise ValueError(f"a message of kind {what}")
            self._make_memory(size)
            head = wire.receive(self._socket, wire.HEAD.size)

    @contextmanager
    def _stoppable(self, stop: Stop | None) -> Iterator[int]:
        """Within the block `stop` ends what is asked for: gives the number to ask with, or 0 where there is no stop."""
        if stop is None:
            yield 0
            return
        number, is_running = self._process.new_stop(), threading.Lock()
        kill = partial(self._process.kill, "since an evaluation in it was to stop")

        def terminate() -> None:
            self._process.stop(number)
            call_while_held(is_running, GRACE_SECONDS, kill)

        with is_running, ended_by(stop, terminate):
            yield number

    def _prepare(self, key: Hashable, engine: int, inputs: Mapping[str, Value], outputs: Mapping[str, Array]) -> _Plan:
        """Makes a plan on both sides."""
        end, places = 0, []
        for values in (inputs, outputs):
            placed: list[Layout] = []
            for name, value in values.items():
                if isinstance(value, np.ndarray) and not value.dtype.hasobject:
                    start, end = wire.place(end, value.nbytes)
                    placed.append(Layout(name, value.dtype.str, value.shape, start))
            places.append(placed)
        memory = self._memory
        if memory is None or end > len(memory):
            with self._in_step("got shared memory"):
                memory = self._make_memory(end)
        if len(self._plans) >= MOST_PLANS:
            self.call("forget", self._plans.pop(next(iter(self._plans))).number)
        self._next += 1
        self.call("prepare", self._next, engine, *places)
        views = [[(place.name, wire.view(memory, *place[1:])) for place in placed] for placed in places]
        plan = _Plan(
            self._next,
            wire.HEAD.pack(wire.RUN, self._next, int(self._spins)),
            views[0],
            [name for name in inputs if name not in dict(views[0])],
            dict(views[1]),
            {},
        )
        self._plans[key] = plan
        return plan

    def _make_memory(self, size: int) -> mmap.mmap:
        """Takes shared memory of so many bytes, and as much again, for what else comes. Old plans are void."""
        size = max(LEAST_MEMORY, 2 * size)
        try:
            with system.make_memory(size) as file:
                memory = mmap.mmap(file.fileno(), size)
                wire.send_file(self._socket, wire.MEMORY, file.fileno(), size)
        except BrokenPipeError:
            raise EOFError from None
        except (OSError, OverflowError) as error:
            raise EvaluationError(
                f"There is no shared memory of {size:,} bytes for the tensors of an isolated session: {error}.",
                hint="Evaluate smaller inputs, or without options.isolation.",
            ) from error
        self._memory = memory
        self._plans.clear()
        return memory
