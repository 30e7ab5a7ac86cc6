"""The engine protocol, and the pool that lets sessions share engines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..base.cancellation import Stop
from ..base.device_array import DeviceArray, MemoryLocation
from ..enums import Precision, Weights
from ..onnx_file.source import Skeleton
from .explanation import Explanation
from .tuning import Tuning

ONNXRUNTIME = "onnxruntime"
"""The engine by default: the runtime's own CPU provider, or the provider of the device."""

Value = np.ndarray[Any, Any] | list[Any] | dict[Any, Any]
"""A tensor (strings as an array of objects), a sequence or a map, as it goes into and comes out of an engine."""


class EngineOptions(NamedTuple):
    """What an engine is compiled with. Equal options mean engines that can be shared.

    Attributes:
        intra_op_num_threads: threads that work on one operator; at least 1.
        intra_op_thread_spinning: whether those threads spin while they wait for work.
        batch_size: replaces every dimension denoted `DATA_BATCH`; None leaves them as they are.
        dimensions: replaces named dimensions: pairs of name and size.
        engine: "onnxruntime", "auto", or a provider's name.
        precision: the arithmetic that is asked for.
        provider_options: options of the provider: pairs of key and text.
        allow_cpu_fallback: whether nodes that a provider does not take may run on the CPU.
        graph_capture: whether a GPU records its work once and repeats it; None where it can.
        tuning: the rest of what can be set.
        weights: whether they are in files that are mapped, or in memory of the engine's own.
        is_profiled: whether the time of each node is recorded.
    """

    intra_op_num_threads: int
    intra_op_thread_spinning: bool = True
    batch_size: int | None = None
    dimensions: tuple[tuple[str, int], ...] = ()
    engine: str = ONNXRUNTIME
    precision: Precision = Precision.AUTO
    provider_options: tuple[tuple[str, str], ...] = ()
    allow_cpu_fallback: bool = True
    graph_capture: bool | None = None
    tuning: Tuning = Tuning()
    weights: Weights = Weights.SHARED
    is_profiled: bool = False


class PlacedNode(NamedTuple):
    """A node of the optimised graph, and the provider that runs it."""

    node: str
    operator: str
    provider: str


class EngineBinding(Protocol):
    """One set of bound inputs and outputs. Not safe to share between threads while it runs."""

    def set_input(self, name: str, value: Value | DeviceArray) -> None:
        """Binds an input. Arrays are C-contiguous and bound by reference: the binding keeps them alive.

        Arrays on a device are only given to engines whose `location` is theirs.
        """

    def set_output(self, name: str, array: np.ndarray[Any, Any] | DeviceArray | None) -> None:
        """Binds an output to memory, or with None to whatever the engine allocates anew in each run.

        Memory on a device is only given to engines whose `location` is its own.
        """

    def keep_output(self, name: str) -> None:
        """Leaves an output in the device's memory; only engines with a `location` are asked to."""

    def run(self, stop: Stop | None = None) -> Mapping[str, Value | DeviceArray]:
        """Runs the model on what is bound.

        Args:
            stop: lets another thread end the run; to be able to costs some microseconds.

        Returns:
            The outputs that are not bound to memory, fresh in each run; the caller owns them. Those that are kept on
            the device come as `DeviceArray`, and are written again by the next run where their shape is fixed.

        Raises:
            ClosedError: the engine has been closed.
            CanceledError: the run was stopped.
            DeviceLostError: the device is gone, and the engine with it.
            WinMLError: the run failed.
        """


class Engine(Protocol):
    """A compiled model.

    Attributes:
        options: what it was compiled with.
        name: "onnxruntime", or the provider that runs it.
        precision: the arithmetic it computes in; AUTO while the first evaluation has yet to decide.
        location: where its device's memory is, or None for the host's.
        explanation: how it was chosen.
    """

    options: EngineOptions
    location: MemoryLocation | None

    @property
    def name(self) -> str:
        """See above."""

    @property
    def precision(self) -> Precision:
        """See above."""

    @property
    def explanation(self) -> Explanation:
        """See above."""

    def bind(self, lock: AbstractContextManager[object]) -> EngineBinding:
        """A new, empty binding; every output is bound to engine-allocated memory.

        Args:
            lock: the session's, which an engine on a GPU holds while it talks to the device.
        """

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node."""

    def end_profiling(self) -> bytes:
        """What was recorded since the engine was made: a trace in Chrome's format. Recording ends."""

    def upload(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        """A copy of a C-contiguous array in the device's memory; only engines with a `location` are asked to."""

    def close(self) -> None:
        """Frees the compiled model as soon as the last run in flight returns. Twice is harmless."""


EngineInput = str | bytes | Skeleton
"""What an engine is made of: a path, bytes, or a skeleton."""


class _Shared:
    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.users = 0
        self.compiling = threading.Lock()


class Lease:
    """One session's use of a shared engine; the last one to be released closes it."""

    __slots__ = ("_key", "_pool", "engine")

    def __init__(self, pool: EnginePool, key: Hashable, engine: Engine) -> None:
        self._pool: EnginePool | None = pool
        self._key = key
        self.engine = engine

    def release(self) -> None:
        """Gives the engine back. Twice is harmless."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool._release(self._key)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the interpreter's end everything goes anyway, and half of what release needs has gone before.
        if not is_finalizing():
            self.release()


class EnginePool:
    """The engines of one model: sessions with equal device and options share one."""

    def __init__(self) -> None:
        # Reentrant: a lease may be released by the garbage collector inside a locked region.
        self._lock = threading.RLock()
        self._shared: dict[Hashable, _Shared] = {}

    def lease(self, key: Hashable, create: Callable[[], Engine]) -> Lease:
        """Gives the engine under `key`, which `create` makes if nobody uses one.

        Threads that ask for the same engine at once wait for one of them to compile it;
        different engines are compiled at the same time.
        """
        with self._lock:
            shared = self._shared.setdefault(key, _Shared())
            shared.users += 1
        try:
            with shared.compiling:
                if shared.engine is None:
                    shared.engine = create()
                return Lease(self, key, shared.engine)
        except BaseException:
            self._release(key)
            raise

    def _release(self, key: Hashable) -> None:
        with self._lock:
            shared = self._shared[key]
            shared.users -= 1
            if shared.users:
                return
            del self._shared[key]
        if shared.engine is not None:
            shared.engine.close()
