"""An evaluation's kernels and the nodes of the model's file: where each node runs, and how long it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .._inputs.model import Case
from .._inputs.trial import ProcessEndedError, Running, call_foreign
from ..core.base.messages import Facts
from ..errors import CanceledError, EvaluationError, EvaluationTimeoutError
from ..perf.profile import Profile, profile

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

T = TypeVar("T")

EVALUATIONS = 10
"""The number of evaluations for the mean times; one for a slow model."""

SECONDS = 60.0
"""The time limit of the measurement."""

_FUSION = re.compile(r"(?P<node>.+)/\w*Fusion/?")
_BLOCKED = re.compile(r"(?:InsertedPrecisionFreeCast_)?(?P<value>.+)_nchwc")

_FUSED = 8
"""The most consecutive nodes in one ONNX Runtime kernel."""


def placed_nodes(case: Case, running: Running) -> Facts:
    """Evaluates a model in a separate process, and reports where its nodes ran.

    Returns:
        The profile as JSON facts. Each of `nodes` has `place`, the provider's short name; `busy_us`; `reason`, the
        runtime's reason for the processor; `covers`, the nodes of the file in this kernel, each by the name of
        its first output; and `is_optimizers`, whether it has none of their names. `unplaced` are the nodes of
        the file without a known kernel.

    Raises:
        EvaluationError: the evaluation ended its process, took too long or was stopped.
    """
    try:
        return call_apart(SECONDS, running, measure, case, EVALUATIONS)
    except EvaluationTimeoutError:
        return call_apart(SECONDS, running, measure, case, 1)


def call_apart(seconds: float, running: Running, function: Callable[..., T], *arguments: object) -> T:
    """Calls one of our functions that evaluates a model, in a separate process: an untrusted model may end it.

    Raises:
        EvaluationError: the process ended, took too long or was stopped.
    """
    stops = running.stops
    try:
        return call_foreign(seconds, function, *arguments, running=running)
    except TimeoutError as error:
        if isinstance(error, EvaluationTimeoutError):  # from the function itself
            raise
        raise EvaluationTimeoutError(
            f"It took longer than {seconds:.0f} seconds, and was stopped.",
            hint="The command line has no time limit: winml-py perf --profile.",
        ) from None
    except ProcessEndedError as error:
        if running.stops != stops:
            raise CanceledError("It was stopped.") from None
        raise EvaluationError(
            f"The model ended the process that evaluated it: {error}.", hint="Try it on another device."
        ) from error


def measure(case: Case, evaluations: int) -> Facts:
    """Like `placed_nodes`, in this process and without a time limit."""
    import onnx

    graph = onnx.load(case.model, load_external_data=False).graph
    return place(profile(case, evaluations), graph)


def place(measured: Profile, graph: GraphProto) -> Facts:
    """Matches a profile with the graph that was profiled; see `placed_nodes`."""
    known = _Names(graph)
    reasons = {node.node: node.reason for node in measured.on_cpu}
    facts = measured.to_json()
    for row, node in zip(facts["nodes"], measured.nodes, strict=True):
        row["place"] = node.provider.removesuffix("ExecutionProvider")
        row["busy_us"] = node.busy
        row["reason"] = reasons.get(node.name, "")
        row["is_optimizers"] = node.name not in known.by_name
        row["covers"] = known.covered(node.name, node.operator)
    placed = {key for row in facts["nodes"] for key in row["covers"]}
    facts["unplaced"] = [
        {"name": name, "operator": node.op_type, "key": key_of(node)}
        for name, node in known.named
        if key_of(node) not in placed
    ]
    return facts | {"caution": measured.caution}


def key_of(node: NodeProto) -> str:
    """The name of a node's first output: names of nodes may be empty, or not unique."""
    return next((name for name in node.output if name), "")


class _Names:
    """A graph's nodes by the names of their ONNX Runtime kernels."""

    def __init__(self, graph: GraphProto) -> None:
        self.named = [*_named(graph)]
        self.by_name: dict[str, NodeProto] = {}
        for name, node in self.named:
            self.by_name.setdefault(name, node)
        self._makers: Mapping[str, NodeProto] = {out: node for _, node in self.named for out in node.output if out}
        self._uses: dict[str, int] = {}
        for _, node in self.named:
            for name in node.input:
                self._uses[name] = self._uses.get(name, 0) + 1

    def covered(self, kernel: str, operator: str) -> list[str]:
        """The keys of a kernel's nodes: the one of its name, or those that were fused into it."""
        if kernel in self.by_name:
            return [key_of(self.by_name[kernel])]
        blocked, fused = _BLOCKED.fullmatch(kernel), _FUSION.fullmatch(kernel)
        if blocked is not None and blocked["value"] in self._makers:
            return [key_of(node) for node in self._chain(self._makers[blocked["value"]], operator)]
        if fused is not None and fused["node"] in self.by_name:
            return [key_of(self.by_name[fused["node"]])]
        return []

    def _chain(self, last: NodeProto, operator: str) -> Sequence[NodeProto]:
        """The nodes from that of the kernel's operator to the last; only the last one if none leads to it."""
        chain = [last]
        while chain[-1].op_type != operator and len(chain) < _FUSED:
            makers = [self._makers[name] for name in chain[-1].input if self._uses[name] == 1 and name in self._makers]
            if not makers:
                return [last]
            chain.append(next((node for node in makers if node.op_type == operator), makers[0]))
        return chain[::-1] if chain[-1].op_type == operator else [last]


def _named(graph: GraphProto) -> Iterator[tuple[str, NodeProto]]:
    """The nodes with the names of their kernels. ONNX Runtime names unnamed nodes by operator and position.

    Constants are not among its nodes.
    """
    from onnx import AttributeProto

    nodes = [node for node in graph.node if node.op_type != "Constant"]
    for place, node in enumerate(nodes):
        yield node.name or f"{node.op_type}_{place}", node
    for node in nodes:
        for attribute in node.attribute:
            bodies: list[Any] = [attribute.g] if attribute.type == AttributeProto.GRAPH else [*attribute.graphs]
            for body in bodies:
                yield from _named(body)
