"""Where the time of an evaluation goes: node by node, from ONNX Runtime's own recording."""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...errors import IllegalCallError
from ...session.session import LearningModelSession
from .case import Case
from .measure import Prepared

OUTSIDE = "outside the nodes"
_KERNEL = "_kernel_time"


class Node(NamedTuple):
    """A node of the optimised graph. Its time is microseconds an evaluation, those of nodes inside it left out."""

    name: str
    operator: str
    provider: str
    time: float


@dataclass(frozen=True)
class Profile:
    """The mean evaluation, in microseconds. `total` is the sum of all nodes and of what is outside of them.

    Attributes:
        model: the model's path.
        device: the device's name.
        engine: what ran it.
        evaluations: of how many this is the mean; the first is not among them.
        total: what the runtime says of a whole evaluation.
        nodes: the slowest first.
        trace: everything that was recorded, in Chrome's format.
    """

    model: str
    device: str
    engine: str
    evaluations: int
    total: float
    nodes: tuple[Node, ...]
    trace: bytes = field(repr=False, default=b"")

    @property
    def outside(self) -> float:
        """Time between the nodes. Below 0 where nodes ran at the same time."""
        return self.total - sum(node.time for node in self.nodes)

    def sums(self, of: Callable[[Node], str]) -> dict[str, float]:
        """Times by operator, say, or by provider; the largest first."""
        found: dict[str, float] = defaultdict(float)
        for node in self.nodes:
            found[of(node)] += node.time
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def to_json(self) -> dict[str, Any]:
        """The figures, in microseconds."""
        return {
            "schema_version": 1,
            "kind": "profile",
            "model": self.model,
            "device": self.device,
            "engine": self.engine,
            "evaluations": self.evaluations,
            "total_us": self.total,
            "outside_us": self.outside,
            "operators_us": self.sums(lambda node: node.operator),
            "providers_us": self.sums(lambda node: node.provider),
            "nodes": [node._asdict() for node in self.nodes],
        }


def profile(case: Case, evaluations: int = 20) -> Profile:
    """Records so many evaluations, after a first one that is left out.

    Raises:
        WinMLError: the model, the device or an input cannot be used, or an evaluation failed.
    """
    prepared = Prepared(case, profiling=True)
    with prepared.session as session:
        prepared.run(evaluations, None)
        trace = _recorded(session)
        return read(trace, case.model, session.device.name, session.engine)


def _recorded(session: LearningModelSession) -> bytes:
    with tempfile.TemporaryDirectory(prefix="winml-py-") as folder:
        path = os.path.join(folder, "trace.json")
        session.end_profiling(path)
        with open(path, "rb") as file:
            return file.read()


def read(trace: bytes, model: str = "", device: str = "", engine: str = "") -> Profile:
    """The profile in a trace of ONNX Runtime's, whose first evaluation is left out.

    Raises:
        IllegalCallError: fewer than two evaluations were recorded.
    """
    events = json.loads(trace)
    runs = sorted((event for event in events if event["name"] == "model_run"), key=lambda event: event["ts"])[1:]
    if not runs:
        raise IllegalCallError("Fewer than two evaluations were recorded.", hint="Evaluate more often.")
    start = runs[0]["ts"]
    kernels = [event for event in events if _is_kernel(event) and event["ts"] >= start]
    times: dict[tuple[str, str, str], float] = defaultdict(float)
    for event, own in _own_times(kernels):
        arguments = event["args"]
        name = event["name"].removesuffix(_KERNEL)
        times[name, str(arguments.get("op_name", "")), str(arguments.get("provider", ""))] += own
    count = len(runs)
    nodes = (Node(*key, time / count) for key, time in times.items())
    total = sum(run["dur"] for run in runs) / count
    return Profile(model, device, engine, count, total, tuple(sorted(nodes, key=lambda node: -node.time)), trace)


def _is_kernel(event: dict[str, Any]) -> bool:
    return event["cat"] == "Node" and str(event["name"]).endswith(_KERNEL)


def _own_times(events: Iterable[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], float]]:
    """Each event with its time, less that of the events inside it: the nodes of a loop's body are within the loop's."""
    by_thread: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        by_thread[event["tid"]].append(event)
    for group in by_thread.values():
        open_events: list[tuple[dict[str, Any], list[float]]] = []
        for event in sorted(group, key=lambda event: (event["ts"], -event["dur"])):
            while open_events and event["ts"] >= _end(open_events[-1][0]):
                outer, inner = open_events.pop()
                yield outer, outer["dur"] - sum(inner)
            if open_events and _end(event) <= _end(open_events[-1][0]):
                open_events[-1][1].append(event["dur"])
            open_events.append((event, []))
        yield from ((outer, outer["dur"] - sum(inner)) for outer, inner in reversed(open_events))


def _end(event: dict[str, Any]) -> float:
    return float(event["ts"] + event["dur"])
