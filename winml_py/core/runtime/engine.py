"""What a runtime, or a substitute for one in a test, has to offer: engines, what they run on, how they are set, and why
one was taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

from ...enums import Precision, Weights
from ...errors import InvalidArgumentError
from ..base.arguments import Fields, truth, whole_number
from ..base.arrays import Array, DeviceArray, MemoryLocation
from ..base.cancellation import Stop
from ..onnx_file.source import Skeleton
from .runs import Bound

EXECUTION_MODES = ("sequential", "parallel")
GRAPH_OPTIMIZATIONS = ("none", "basic", "extended", "layout", "all")
LOG_SEVERITIES = ("verbose", "info", "warning", "error", "fatal")
"""Of ONNX Runtime's log, by its numbers from 0 on."""

MAX_THREADS = 1024
"""More than any machine this runs on has cores; a mistyped number must not start a million threads."""


@dataclass(frozen=True, slots=True)
class Tuning(Fields):
    """Settings of ONNX Runtime's tuning guide. The defaults are right for most models: measure before changing one.

    Another engine takes none of them: a session that names OpenVINO's package is refused where one is set, and
    `engine="auto"` then leaves that engine out. Its threads do not spin.

    Attributes:
        execution_mode: "sequential" runs one node after the other; "parallel" runs branches of the graph at once. Worth
            trying for models with many branches of small nodes; slower for chains, and for most others.
        inter_op_num_threads: threads for those branches; 0 leaves it to the runtime. No use in sequential mode.
        graph_optimization: how far the graph is rewritten: "none", "basic", "extended", "layout", "all". Less than all
            makes a session sooner and runs slower: for models that run once.
        memory_arena: whether freed memory is kept for the next run. Switch it off where memory counts more than time:
            the process gives back what a run needed, and asks for it again.
        arena_shrinkage: whether the arena is given back after every run, and CUDA's on its GPU, too: for inputs whose
            size varies much, where one large picture would keep its memory for good. A provider that keeps no arena on
            its GPU (WebGPU, DirectML) refuses it.
        shared_arena: whether all sessions of the process that say so keep freed memory in one arena: for many models
            that run in turns. It grows to what runs at the same time need, and is kept as long as the process lives.
        memory_pattern: whether memory is planned ahead where shapes repeat. Switch it off where they hardly do.
        prepacking: whether weights are rearranged for speed when a session is made, which costs a copy of them.

    Raises:
        InvalidArgumentError: a word or a number that means nothing.

    Example:
        >>> from winml_py import LearningModelSessionOptions, Tuning
        >>> options = LearningModelSessionOptions()
        >>> options.tuning = Tuning(execution_mode="parallel", inter_op_num_threads=2)
    """

    execution_mode: str = "sequential"
    inter_op_num_threads: int = 0
    graph_optimization: str = "all"
    memory_arena: bool = True
    arena_shrinkage: bool = False
    shared_arena: bool = False
    memory_pattern: bool = True
    prepacking: bool = True

    def __post_init__(self) -> None:
        for name, words in (("execution_mode", EXECUTION_MODES), ("graph_optimization", GRAPH_OPTIMIZATIONS)):
            if getattr(self, name) not in words:
                raise InvalidArgumentError(f"{name} is {getattr(self, name)!r}.", hint=f"It is {', '.join(words)}.")
        whole_number(self.inter_op_num_threads, "inter_op_num_threads", most=MAX_THREADS)
        for field in fields(self):
            if field.type == "bool":
                truth(getattr(self, field.name), field.name)
        for name in ("arena_shrinkage", "shared_arena"):
            if getattr(self, name) and not self.memory_arena:
                raise InvalidArgumentError(f"{name} is set, and memory_arena is not.", hint="Use one of the two.")


@dataclass(frozen=True, slots=True)
class Isolation(Fields):
    """A process for the engine of a session.

    Whatever a model does to its engine, this process lives on: the evaluation raises `EngineLostError`. It is no
    sandbox: the process has the rights of the user who started it.

    Attributes:
        max_memory: bytes that the process may allocate; 0 is no limit. What goes over it is an `EvaluationError`, or
            the end of the process. Shared memory with inputs and outputs, and files that are mapped, do not count. On
            Linux alone.
        max_cpu_seconds: seconds of a core that the process may use in its life; 0 is no limit. Then it ends. Not on
            Windows.

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
        whole_number(self.max_memory, "max_memory", most=1 << 62)
        whole_number(self.max_cpu_seconds, "max_cpu_seconds", most=1 << 31)


ONNXRUNTIME = "onnxruntime"
"""The engine that runs a model where none is named: the runtime's own CPU provider, or the provider of the device."""


class EngineOptions(NamedTuple):
    """What an engine is compiled with. Equal options mean engines that can be shared.

    Attributes:
        intra_op_num_threads: threads that work on one operator; at least 1.
        intra_op_thread_spinning: whether those threads spin while they wait for work.
        batch_size: replaces every dimension denoted `DATA_BATCH`; None leaves them as they are.
        dimensions: replaces named dimensions: pairs of name and size.
        shapes: replaces the free sizes of inputs, by position; pairs of the input's name and its shape.
        engine: "onnxruntime", "auto", or a provider's name; None where the program names none.
        precision: the arithmetic that is asked for.
        provider_options: options of the provider: pairs of key and text.
        allow_cpu_fallback: whether nodes that a provider does not take may run on the CPU.
        graph_capture: whether a GPU records its work once and replays it; None where it can.
        tuning: the rest of what can be set.
        session_config: entries of ONNX Runtime's session configuration: pairs of key and text.
        run_config: the same of its run configuration.
        log_severity: from which on ONNX Runtime writes its log.
        weights: whether they are in files that are mapped, or in the engine's own memory.
        is_profiled: whether the time of each node is measured.
        isolation: the process that it lives in; None is this one.
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
    graph_capture: bool | None = None
    tuning: Tuning = Tuning()
    session_config: tuple[tuple[str, str], ...] = ()
    run_config: tuple[tuple[str, str], ...] = ()
    log_severity: str = "fatal"
    weights: Weights = Weights.SHARED
    is_profiled: bool = False
    isolation: Isolation | None = None


class PlacedNode(NamedTuple):
    """A node of the optimised graph, and the provider that runs it."""

    node: str
    operator: str
    provider: str


class Engine(Protocol):
    """A compiled model.

    Attributes:
        options: what it was compiled with.
        explanation: what runs it, in which arithmetic, and how that was chosen; the engine is "undecided" and the
            precision AUTO while the first evaluation has yet to decide.
    """

    options: EngineOptions
    explanation: Explanation

    @property
    def location(self) -> MemoryLocation | None:
        """Where the memory of its device is, which can be bound; None where it takes the host's alone."""

    @property
    def is_lost(self) -> bool:
        """Whether what it ran in has gone, so that no run can succeed any more."""

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Any]:
        """Runs the model on what is bound. Threads may run different `Bound`s at the same time.

        The first run may copy what is bound; later ones go by address, where the engine can. What was bound anew is
        found by its identity.

        Args:
            bound: all inputs, and memory for outputs.
            stop: lets another thread end the run, the wait for the lock included; this costs some microseconds.

        Returns:
            The outputs that are not bound to memory, by name: a `Value` each, or a `DeviceArray` where `Kept` is bound.

        Raises:
            ClosedError: the engine has been closed; nothing has been written to bound memory.
            InvalidBindingError: what is bound overlaps on a device that needs it apart; nothing has been written.
            CanceledError: the run was stopped.
            DeviceLostError: the device is gone, and the engine with it.
            WinMLError: the run failed.
        """

    def upload(self, array: Array) -> DeviceArray:
        """A copy of a C-contiguous array at its `location`; the caller holds the session's lock."""

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node."""

    def end_profiling(self) -> bytes:
        """The trace since the engine was made, in Chrome's format. The profile ends here."""

    def close(self) -> None:
        """Frees the compiled model as soon as the last run in flight returns. Twice is harmless."""


class HostEngine:
    """The part of an engine that takes the host's memory alone, in this process."""

    location: MemoryLocation | None = None

    @property
    def is_lost(self) -> bool:
        """False: it runs in this process."""
        return False

    def upload(self, array: Array) -> DeviceArray:
        """Sessions ask for the `location` first."""
        raise AssertionError("there is no memory of a device")


EngineInput = str | bytes | Skeleton
"""What an engine is made of: a path, bytes, or a skeleton."""


# Why a session runs on the engine it runs on.


def in_megabytes(size: int) -> str:
    """A number of bytes in words."""
    return f"{size / 1e6:,.{0 if size > 1e7 else 1}f} MB"


class Candidate(NamedTuple):
    """An engine that was looked at.

    Attributes:
        engine: "onnxruntime", or a provider's name.
        precision: the arithmetic.
        milliseconds: the time of an evaluation, by the median of turns with the others; None where it was not timed.
        error: the largest difference from float32 arithmetic, over the largest magnitude; None where not compared.
        problem: why it was not taken, or "".
        number_type: what it computes half precision in: "float16" or "bfloat16"; "" where it does not, or does not say.
    """

    engine: str
    precision: Precision
    milliseconds: float | None = None
    error: float | None = None
    problem: str = ""
    number_type: str = ""

    def __str__(self) -> str:
        parts = [f"{self.engine} in {self.number_type or self.precision.name.lower()}"]
        if self.milliseconds is not None:
            parts.append(f"{self.milliseconds:.3f} ms")
        if self.error is not None:
            parts.append(f"error {self.error:.1e}")
        if self.problem:
            parts.append(self.problem)
        return ", ".join(parts)


class Explanation(NamedTuple):
    """What was taken, why, and what else was looked at. As text, one line each.

    Attributes:
        engine: what was taken.
        precision: its arithmetic.
        reason: in words.
        candidates: all that were looked at, with figures.
        is_remembered: whether the figures are from an earlier session's measurement.
        number_type: as that of a `Candidate`.
        memory: about how many bytes the session takes for the model at most, where its engine takes the weights several
            times, as OpenVINO does; 0 elsewhere.
        threads: how many calls run at once on how many threads, where the engine fixes that when it compiles; or "".
    """

    engine: str
    precision: Precision
    reason: str
    candidates: tuple[Candidate, ...] = ()
    is_remembered: bool = False
    number_type: str = ""
    memory: int = 0
    threads: str = ""

    def __str__(self) -> str:
        head = f"{self.engine} in {self.number_type or self.precision.name.lower()}: {self.reason}"
        if self.threads:
            head += f"; {self.threads}"
        if self.memory:
            head += f"; it takes up to about {in_megabytes(self.memory)}"
        return "\n".join([head, *(f"  {candidate}" for candidate in self.candidates)])
