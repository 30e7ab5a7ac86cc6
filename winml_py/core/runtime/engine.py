"""The interface of engines, which runtimes and their substitutes in tests implement: options, runs, explanations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ...enums import Precision, Weights
from ...errors import InvalidArgumentError
from ..base.arguments import require_bool, require_whole_number
from ..base.arrays import Array, DeviceArray, MemoryLocation
from ..base.cancellation import Stop
from ..onnx_file.source import Skeleton
from .runs import Bound

EXECUTION_MODES = ("sequential", "parallel")
GRAPH_OPTIMIZATIONS = ("none", "basic", "extended", "layout", "all")
LOG_SEVERITIES = ("verbose", "info", "warning", "error", "fatal")
"""The severities of ONNX Runtime's log, by their numbers from 0."""

MAX_THREADS = 1024
"""More than the cores of any supported machine; a mistyped number must not start a million threads."""


@dataclass(frozen=True)
class Tuning:
    """Settings of ONNX Runtime's tuning guide. The defaults are right for most models: measure before changing one.

    Other engines accept none of them: if one is set, a session that names OpenVINO's package fails.

    Attributes:
        execution_mode: "sequential" runs one node after the other; "parallel" runs branches of the graph concurrently.
            Worth trying for models with many branches of small nodes; slower for chains, and for most others.
        inter_op_num_threads: threads for those branches; 0 lets the runtime decide. Not used in sequential mode.
        graph_optimization: how far the graph is rewritten: "none", "basic", "extended", "layout", "all". Less than all
            makes sessions faster to create and slower to run: for models that run once.
        memory_arena: whether freed memory is kept for the next run. Switch it off if memory counts more than time:
            the process returns the memory after each run, and allocates it again.
        memory_pattern: whether memory is planned ahead for repeated shapes. Switch it off if shapes rarely repeat.

    Raises:
        InvalidArgumentError: an invalid word or number.

    Example:
        >>> from winml_py import LearningModelSessionOptions, Tuning
        >>> options = LearningModelSessionOptions()
        >>> options.tuning = Tuning(execution_mode="parallel", inter_op_num_threads=2)
    """

    execution_mode: str = "sequential"
    inter_op_num_threads: int = 0
    graph_optimization: str = "all"
    memory_arena: bool = True
    memory_pattern: bool = True

    def __post_init__(self) -> None:
        for name, words in (("execution_mode", EXECUTION_MODES), ("graph_optimization", GRAPH_OPTIMIZATIONS)):
            if (value := getattr(self, name)) not in words:
                raise InvalidArgumentError(f"{name} cannot be {value!r}.", hint=f"Expected {' or '.join(words)}.")
        require_whole_number(self.inter_op_num_threads, "inter_op_num_threads", most=MAX_THREADS)
        require_bool(self.memory_arena, "memory_arena")
        require_bool(self.memory_pattern, "memory_pattern")


@dataclass(frozen=True)
class Isolation:
    """A process for the engine of a session.

    If a model crashes its engine, the program survives: the evaluation raises `EngineLostError`. The process is not
    a sandbox: it has the rights of the user who started it.

    Attributes:
        max_memory: bytes that the process may allocate; 0 is no limit. Beyond it, an `EvaluationError` is raised, or
            the process ends. Shared memory with inputs and outputs, and mapped files, do not count. Linux only.
        max_cpu_seconds: CPU seconds after which the process ends; 0 is no limit. Not on Windows.

    Raises:
        InvalidArgumentError: a number below 0.

    Example:
        >>> from winml_py import Isolation, LearningModel, LearningModelSession, LearningModelSessionOptions
        >>> options = LearningModelSessionOptions()
        >>> options.isolation = Isolation(max_memory=4 << 30)
        >>> with LearningModelSession(LearningModel.load("models/digits.onnx"), options=options) as session:
        ...     session.evaluate_features({"image": "samples/pictures/seven.png"}).top_k(1)[0].index
        7
    """

    max_memory: int = 0
    max_cpu_seconds: int = 0

    def __post_init__(self) -> None:
        require_whole_number(self.max_memory, "max_memory", most=1 << 62)
        require_whole_number(self.max_cpu_seconds, "max_cpu_seconds", most=1 << 31)


ONNXRUNTIME = "onnxruntime"
"""The engine that runs a model if none is named: the runtime's CPU provider, or the provider of the device."""


class EngineOptions(NamedTuple):
    """The options that an engine is compiled with. Sessions with equal options can share an engine.

    Attributes:
        intra_op_num_threads: threads that work on one operator; at least 1.
        intra_op_thread_spinning: whether those threads spin while they wait for work.
        batch_size: replaces every dimension denoted `DATA_BATCH`; None leaves them as they are.
        dimensions: replaces named dimensions: pairs of name and size.
        shapes: replaces the free sizes of inputs, by position; pairs of the input's name and its shape.
        engine: "onnxruntime" or a provider's name; None if the program names none.
        precision: the requested number type.
        provider_options: options of the provider: pairs of key and text.
        allow_cpu_fallback: whether nodes that a provider does not support may run on the CPU.
        graph_capture: whether a GPU captures the graph of its work, and replays it.
        tuning: the settings of the tuning guide.
        session_config: entries of ONNX Runtime's session configuration: pairs of key and text.
        run_config: entries of its run configuration, likewise.
        log_severity: the least severity that ONNX Runtime logs.
        weights: whether the weights are in mapped files, or in the engine's memory.
        is_profiled: whether the time of each node is measured.
        isolation: the limits of its separate process; None runs it in this process.
    """

    intra_op_num_threads: int
    intra_op_thread_spinning: bool = True
    batch_size: int | None = None
    dimensions: tuple[tuple[str, int], ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    engine: str | None = None
    precision: Precision = Precision.AUTO
    provider_options: tuple[tuple[str, str], ...] = ()
    allow_cpu_fallback: bool = True
    graph_capture: bool = False
    tuning: Tuning = Tuning()
    session_config: tuple[tuple[str, str], ...] = ()
    run_config: tuple[tuple[str, str], ...] = ()
    log_severity: str = "fatal"
    weights: Weights = Weights.SHARED
    is_profiled: bool = False
    isolation: Isolation | None = None


ORT_ONLY = {
    "tuning": "tuning",
    "session_config": "session_config",
    "run_config": "run_config",
    "log_severity": "log_severity",
    "is_profiled": "profiling",
}
"""The options of ONNX Runtime alone, and their public names: an engine from a package of its own refuses them."""


class AssignedNode(NamedTuple):
    """A node of the optimised graph, and the provider that runs it."""

    node: str
    operator: str
    provider: str


class Engine(Protocol):
    """A compiled model.

    Attributes:
        options: what it was compiled with.
        explanation: what runs it, in which number type, and why.
    """

    options: EngineOptions
    explanation: Explanation

    @property
    def location(self) -> MemoryLocation | None:
        """The device's memory, which can be bound; None if the engine takes only the host's."""

    @property
    def is_lost(self) -> bool:
        """Whether its device or process was lost, after which no run can succeed."""

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Any]:
        """Runs the model on the bound values. Threads may run different `Bound`s concurrently.

        The first run may copy the values; later ones bind by address, if the engine can. New values are found by
        identity.

        Args:
            bound: all inputs, and memory for outputs.
            stop: lets another thread end the run, or its wait for the lock; this costs some microseconds.

        Returns:
            The outputs that are not bound to memory, by name: a `Value` each, or a `DeviceArray` for
            `StaysOnDevice`.

        Raises:
            ClosedError: the engine has been closed; nothing has been written to bound memory.
            InvalidBindingError: bound arrays overlap, which the device does not allow; nothing has been written.
            CanceledError: the run was stopped.
            DeviceLostError: the device was lost, and the engine with it.
            WinMLError: the run failed.
        """

    def upload(self, array: Array) -> DeviceArray:
        """Copies a C-contiguous array to its `location`; the caller holds the session's lock."""

    def list_assigned_nodes(self) -> list[AssignedNode]:
        """Which provider runs which node."""

    def end_profiling(self) -> bytes:
        """Ends the profile; returns the trace since the engine was made, in Chrome's format."""

    def close(self) -> None:
        """Frees the compiled model as soon as the last run in flight returns. Calling it twice is harmless."""


class LocalEngine:
    """The defaults of engines that run in this process; one with a device's memory has its own."""

    location: MemoryLocation | None = None

    @property
    def is_lost(self) -> bool:
        """False: it runs in this process."""
        return False

    def upload(self, array: Array) -> DeviceArray:
        """Not called without a `location`."""
        raise AssertionError("the engine has no device memory")


EngineInput = str | bytes | Skeleton
"""The form in which an engine gets a model: a path, bytes, or a skeleton."""


class Explanation(NamedTuple):
    """The engine of a session, and why it runs the model. As text, one line.

    Attributes:
        engine: "onnxruntime", or a provider's name.
        precision: the number type that it computes in.
        reason: the reason, as text.
        threads: how many calls run concurrently on how many threads, if compiling fixes that; else "".
    """

    engine: str
    precision: Precision
    reason: str
    threads: str = ""

    def __str__(self) -> str:
        return "; ".join(filter(None, (f"{self.engine} in {self.precision.name.lower()}: {self.reason}", self.threads)))
