"""The time of an evaluation, node by node, as recorded by ONNX Runtime."""

from __future__ import annotations

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from .._inputs import trial
from .._inputs.examples import ExampleShape
from .._inputs.model import Case, to_json
from ..core.base.child_process import read_stderr
from ..core.base.messages import Facts
from ..core.session.session import LearningModelSession
from ..errors import IllegalCallError, InvalidArgumentError
from .measure import Prepared

OUTSIDE = "outside the nodes"
_KERNEL = "_kernel_time"


_SUBMITTING = frozenset(f"{name}ExecutionProvider" for name in ["CUDA", "Tensorrt", "WebGpu", "Dml"])
"""Providers whose nodes end when their work is submitted to the device, rather than when it is done."""


class Node(NamedTuple):
    """A node of the optimised graph, and its times in microseconds per evaluation.

    Attributes:
        name: its name.
        operator: its operator.
        provider: the provider that runs it.
        time: on the processor, without the nodes inside it; for a GPU's node, the time to submit its work.
        device_time: the GPU's computing time; None if the provider does not record it.
    """

    name: str
    operator: str
    provider: str
    time: float
    device_time: float | None = None

    @property
    def busy(self) -> float:
        """The time that the node takes on its device if known, else on the processor."""
        return self.time if self.device_time is None else self.device_time


class NodeOnCpu(NamedTuple):
    """A node that the processor runs, and the runtime's reason; "" if it gives none."""

    node: str
    operator: str
    reason: str


@dataclass(frozen=True)
class Profile:
    """The mean evaluation, in microseconds.

    Attributes:
        model: the model's path.
        device: the device's name.
        engine: the engine that ran it.
        evaluations: how many evaluations this is the mean of, without the first.
        total: the time of a whole evaluation.
        nodes: slowest first.
        trace: the recording, in Chrome's trace format.
        sizes: the shapes of the inputs, by name.
        on_cpu: the nodes that a GPU leaves to the processor.
    """

    model: str
    device: str
    engine: str
    evaluations: int
    total: float
    nodes: tuple[Node, ...]
    trace: bytes = field(repr=False, default=b"")
    sizes: dict[str, ExampleShape] = field(default_factory=dict)
    on_cpu: tuple[NodeOnCpu, ...] = ()

    @property
    def caution(self) -> str:
        """The meaning of the times, if they are not those of the processor."""
        if any(node.device_time is not None for node in self.nodes):
            return "The times of nodes on the GPU are those of its kernels, as the provider recorded them."
        silent = sorted({node.provider for node in self.nodes if node.provider in _SUBMITTING})
        if not silent:
            return ""
        return (
            f"The times of {', '.join(silent)} are those to submit the work: the device's computing time is not "
            f"recorded; the wait for it is in MemcpyToHost, or in {OUTSIDE!r}."
        )

    @property
    def outside(self) -> float:
        """The time between the nodes. It is below 0 if nodes ran concurrently."""
        return self.total - sum(node.busy for node in self.nodes)

    def sums(self, of: Callable[[Node], str]) -> dict[str, float]:
        """The sums of the nodes' times by operator, provider, or another result of `of`; largest first."""
        totals: dict[str, float] = defaultdict(float)
        for node in self.nodes:
            totals[of(node)] += node.busy
        return dict(sorted(totals.items(), key=lambda pair: -pair[1]))

    def rows(self, count: int) -> list[tuple[tuple[str, str, str], float]]:
        """Name, operator, provider and time: of the slowest nodes, of all others together, and outside the nodes."""
        rows = [
            ((node.name, node.operator, node.provider.removesuffix("ExecutionProvider")), node.busy)
            for node in self.nodes
        ]
        others = [((f"{len(rows) - count} more nodes", "", ""), sum(time for _, time in rows[count:]))]
        return rows[:count] + others * (len(rows) > count) + [((OUTSIDE, "", ""), self.outside)]

    def to_json(self) -> Facts:
        """The figures, in microseconds."""
        names = ("model", "device", "engine", "evaluations")
        return {name: getattr(self, name) for name in names} | {
            "sizes": to_json(self.sizes),
            "total_us": self.total,
            "outside_us": self.outside,
            "operators_us": self.sums(lambda node: node.operator),
            "providers_us": self.sums(lambda node: node.provider),
            "nodes": [node._asdict() for node in self.nodes],
            "on_cpu": [node._asdict() for node in self.on_cpu],
        }


def profile(case: Case, evaluations: int = 20) -> Profile:
    """Records this many evaluations, after a first one that does not count.

    Raises:
        WinMLError: the model, the device or an input cannot be used, or an evaluation failed.
    """
    prepared = Prepared(case, profiling=True)
    with prepared.session as session, tempfile.TemporaryDirectory(prefix="winml-py-") as folder:
        sizes = prepared.run(evaluations).sizes
        path = Path(folder, "trace.json")
        session.end_profiling(path)
        on_cpu = nodes_on_cpu(case) if session.device.hardware != "cpu" else ()
        profiled = read(path.read_bytes(), case.model, session.device.name, session.engine)
        return replace(profiled, sizes=sizes, on_cpu=on_cpu)


def read(trace: bytes, model: str = "", device: str = "", engine: str = "") -> Profile:
    """The profile in a trace from ONNX Runtime. Its first evaluation does not count.

    Raises:
        InvalidArgumentError: the file is not a trace of ONNX Runtime.
        IllegalCallError: fewer than two evaluations were recorded.
    """
    try:
        return _read(json.loads(trace), trace, model, device, engine)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f"{model or 'The file'} is not an ONNX Runtime trace.",
            hint="Pass a file from `winml-py perf --trace FILE` or from ONNX Runtime's profiling.",
        ) from error


def _read(events: list[Facts], trace: bytes, model: str, device: str, engine: str) -> Profile:
    runs = sorted((event for event in events if event["name"] == "model_run"), key=lambda event: event["ts"])[1:]
    if not runs:
        raise IllegalCallError("Fewer than two evaluations were recorded.")
    start = runs[0]["ts"]
    nodes_run = (event for event in events if event["cat"] == "Node" and event["ts"] >= start)
    kernels = [event for event in nodes_run if str(event["name"]).endswith(_KERNEL)]
    times: dict[tuple[str, str, str], float] = defaultdict(float)
    for event, own_time in _own_times(kernels):
        operator, provider = (str(event["args"].get(key, "")) for key in ("op_name", "provider"))
        times[event["name"].removesuffix(_KERNEL), operator, provider] += own_time
    count = len(runs)
    on_device = _device_times(events, start)
    nodes = (
        Node(*key, time / count, on_device[key[0]] / count if key[0] in on_device else None)
        for key, time in times.items()
    )
    total = sum(run["dur"] for run in runs) / count
    return Profile(model, device, engine, count, total, tuple(sorted(nodes, key=lambda node: -node.busy)), trace)


def _device_times(events: list[Facts], start: float) -> dict[str, float]:
    """The device's computing time for each node, by name: CUDA's kernels name the event that they belong to.

    ONNX Runtime loses some of these names; then the node's time is too small, and the trace does not show it.
    """
    times: dict[str, float] = defaultdict(float)
    for event in events:
        if event["cat"] == "Kernel" and event["ts"] >= start:
            times[str(event["args"].get("parent_name", "")).removesuffix(_KERNEL)] += event["dur"]
    return times


def _own_times(events: Iterable[Facts]) -> list[list[Any]]:
    """Pairs of an event and its own time, without the events inside it: a loop's event contains those of its body.

    On each thread, the unfinished events form a stack: an event is inside the one on top of it.
    """
    timed: list[list[Any]] = []
    stacks: dict[Any, list[list[Any]]] = defaultdict(list)
    # Of events that begin at the same time, the longest one contains the others.
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        outer = stacks[event["tid"]]
        while outer and event["ts"] >= _end(outer[-1][0]):
            outer.pop()
        if outer and _end(event) <= _end(outer[-1][0]):
            outer[-1][1] -= event["dur"]
        timed.append([event, event["dur"]])
        outer.append(timed[-1])
    return timed


def _end(event: Facts) -> float:
    return float(event["ts"] + event["dur"])


# Which nodes a GPU leaves to the processor, and why: from ONNX Runtime's log of making a session.


def nodes_on_cpu(case: Case) -> tuple[NodeOnCpu, ...]:
    """The nodes that run on the processor, although the session is for another device.

    Another process makes the session again, with a verbose log.

    Raises:
        ProcessEndedError: that process ended.
        WinMLError: the session cannot be made.
    """
    return read_log(trial.call(_log_of, case))


def _log_of(case: Case) -> str:
    model = case.load()
    options = case.options(model)
    options.log_severity, options.isolation = "verbose", None
    return read_stderr(lambda: LearningModelSession(model, case.find_device(), options).close())


_REASON = re.compile(
    r"\] (?P<words>[^\]]+?) for (?:Op type: \S+ node name|node): (?P<node>.*?)(?: because (?P<why>.+))?$"
)


def read_log(log: str) -> tuple[NodeOnCpu, ...]:
    """The nodes that a log places on the processor, in its order; empty if all are on one provider."""
    reasons: dict[str, str] = {}
    for line in log.splitlines():
        found = _REASON.search(line)
        if found:
            reasons.setdefault(found["node"], found["why"] or found["words"])
    *_, placements = log.split("Node placements")
    nodes, is_cpu = [], False
    for line in placements.splitlines():
        _, _, words = line.partition("] ")
        if placed := re.match(r" ?Node\(s\) placed on \[(\w+)\]", words):
            is_cpu = placed[1] == "CPUExecutionProvider"
        elif (node := re.match(r" {2}(\w+) \((.*)\)$", words)) and is_cpu:
            nodes.append(NodeOnCpu(node[2], node[1], reasons.get(node[2], "")))
    return tuple(nodes)
