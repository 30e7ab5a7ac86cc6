"""Tuning: what else can be set about how ONNX Runtime runs a model on the CPU."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ...errors import InvalidArgumentError
from ..base.arguments import truth, whole_number

EXECUTION_MODES = ("sequential", "parallel")
GRAPH_OPTIMIZATIONS = ("none", "basic", "extended", "layout", "all")
MAX_THREADS = 1024
"""More than any machine this runs on has cores; a mistyped number must not start a million threads."""

MAX_BLOCK_BASE = 1 << 16


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of ONNX Runtime's tuning guide. The defaults are right for most models: measure before changing one.

    Attributes:
        execution_mode: "sequential" runs one node after the other; "parallel" runs branches of the graph at once. Worth
            trying for models with many branches of small nodes; slower for chains, and for most others.
        inter_op_num_threads: threads for those branches; 0 leaves it to the runtime. No use in sequential mode.
        graph_optimization: how far the graph is rewritten: "none", "basic", "extended", "layout", "all". Less than all
            makes a session sooner and runs slower: for models that run once.
        memory_arena: whether freed memory is kept for the next run. Switch it off where memory counts more than time:
            the process gives back what a run needed, and asks for it again.
        arena_shrinkage: whether the arena is given back after every run: for inputs whose size varies much, where one
            large picture would keep its memory for good.
        memory_pattern: whether memory is planned ahead where shapes repeat. Switch it off where they hardly do.
        prepacking: whether weights are rearranged for speed when a session is made, which costs a copy of them.
        dynamic_block_base: 4, say, cuts an operator's work into blocks that shrink towards its end, so that threads
            that were disturbed do not hold up the others: steadier times on a busy machine. 0 is off.
        denormals_as_zero: whether numbers below 1e-38 count as 0, in the threads of the session's pools: for models,
            such as recurrent ones, whose values fade away and whose time goes up when they do.

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
    memory_pattern: bool = True
    prepacking: bool = True
    dynamic_block_base: int = 0
    denormals_as_zero: bool = False

    def __post_init__(self) -> None:
        for name, known in (("execution_mode", EXECUTION_MODES), ("graph_optimization", GRAPH_OPTIMIZATIONS)):
            if getattr(self, name) not in known:
                raise InvalidArgumentError(f"{name} is {getattr(self, name)!r}.", hint=f"It is {', '.join(known)}.")
        whole_number(self.inter_op_num_threads, "inter_op_num_threads", most=MAX_THREADS)
        whole_number(self.dynamic_block_base, "dynamic_block_base", most=MAX_BLOCK_BASE)
        for field in fields(self):
            if field.type == "bool":
                truth(getattr(self, field.name), field.name)
        if self.arena_shrinkage and not self.memory_arena:
            raise InvalidArgumentError("arena_shrinkage is set, and memory_arena is not.", hint="Use one of the two.")
