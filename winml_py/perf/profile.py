"""The time of an evaluation, node by node, as recorded by ONNX Runtime."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from .._examples import ExampleShape, sizes_to_json
from .._values import get_session_arguments
from ..core.base.messages import Facts
from ..core.model.model import LearningModel
from ..core.session.session import LearningModelSession
from .measure import Inputs, measure

OUTSIDE = "outside the nodes"
_KERNEL = "_kernel_time"

_SUBMITTING = frozenset(f"{name}ExecutionProvider" for name in ["CUDA", "Tensorrt", "WebGpu", "Dml"])
"""Providers whose nodes end when their work is submitted to the device, rather than when it is done."""


class Node(NamedTuple):
    """A node of the optimised graph, and its time in microseconds per evaluation.

    Attributes:
        name: its name.
        operator: its operator.
        provider: the provider that runs it.
        time: without the nodes inside it; for a GPU's node the time to submit its work.
    """

    name: str
    operator: str
    provider: str
    time: float


@dataclass(frozen=True)
class Profile:
    """The mean evaluation, in microseconds.

    Attributes:
        device: the device's name.
        engine: the engine that ran it.
        evaluations: how many evaluations this is the mean of, without the first.
        total: the time of a whole evaluation.
        nodes: slowest first.
        trace: the recording, in Chrome's trace format.
        sizes: the shapes of the inputs, by name.
    """

    device: str
    engine: str
    evaluations: int
    total: float
    nodes: tuple[Node, ...]
    trace: bytes = field(repr=False, default=b"")
    sizes: dict[str, ExampleShape] = field(default_factory=dict)

    @property
    def caution(self) -> str:
        """The meaning of the times, if they are not those of the processor."""
        submitting = sorted({node.provider for node in self.nodes} & _SUBMITTING)
        if not submitting:
            return ""
        return (
            f"The times of {', '.join(submitting)} cover only the submission of the work. The device's computing "
            f"time is not recorded; the wait for it is in MemcpyToHost or in {OUTSIDE!r}."
        )

    @property
    def outside(self) -> float:
        """The time between the nodes. It is below 0 if nodes ran concurrently."""
        return self.total - sum(node.time for node in self.nodes)

    def to_json(self) -> Facts:
        """The figures, in microseconds."""
        providers: dict[str, float] = defaultdict(float)
        for node in self.nodes:
            providers[node.provider] += node.time
        names = ("device", "engine", "evaluations")
        return {name: getattr(self, name) for name in names} | {
            "sizes": sizes_to_json(self.sizes),
            "total_us": self.total,
            "outside_us": self.outside,
            "providers_us": dict(providers),
            "nodes": [node._asdict() for node in self.nodes],
        }


def profile(
    session: LearningModelSession | LearningModel, inputs: Inputs | None = None, evaluations: int = 20
) -> Profile:
    """Records this many evaluations, after a first one that does not count.

    Args:
        session: a session with `options.profiling` that has not evaluated yet, whose recording ends; or a model, which
            runs on the CPU.
        inputs: as for `measure`.
        evaluations: how many to record.

    Raises:
        IllegalCallError: the session does not record.
        WinMLError: a value cannot be bound, or an evaluation failed.
    """
    model, device, options = get_session_arguments(session)
    options.profiling = True
    with ExitStack() as stack:
        if isinstance(session, LearningModel):
            session = stack.enter_context(LearningModelSession(model, device, options))
        sizes = measure(session, inputs, iterations=evaluations).sizes
        path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="winml-py-")), "trace.json")
        session.end_profiling(path)
        recorded = read_profile(path.read_bytes(), session.device.name, session.engine)
    return replace(recorded, sizes=sizes)


def read_profile(trace: bytes, device: str = "", engine: str = "") -> Profile:
    """The profile in a trace of two or more evaluations by ONNX Runtime. The first does not count."""
    events = json.loads(trace)
    all_runs = [event for event in events if event["name"] == "model_run"]
    runs = sorted(all_runs, key=lambda event: event["ts"])[1:]
    start = runs[0]["ts"]
    kernels = [
        event for event in events if event["cat"] == "Node" and event["ts"] >= start and event["name"].endswith(_KERNEL)
    ]
    times: dict[tuple[str, str, str], float] = defaultdict(float)
    for event, own_time in _compute_own_times(kernels):
        operator, provider = (event["args"].get(key, "") for key in ("op_name", "provider"))
        times[event["name"].removesuffix(_KERNEL), operator, provider] += own_time
    nodes = [Node(*key, time / len(runs)) for key, time in times.items()]
    nodes.sort(key=lambda node: -node.time)
    total = sum(run["dur"] for run in runs) / len(runs)
    return Profile(device, engine, len(runs), total, tuple(nodes), trace)


def _compute_own_times(events: Iterable[Facts]) -> Iterable[tuple[Facts, float]]:
    """Each event and its own time, without the events inside it: a loop's event contains those of its body."""
    # Of events that begin at the same time, the longest one contains the others.
    ordered = sorted(events, key=lambda event: (event["ts"], -event["dur"]))
    ends = [event["ts"] + event["dur"] for event in ordered]
    own_times = [event["dur"] for event in ordered]
    # The unfinished events of each thread, by their places. An event is inside the last of them.
    unfinished: dict[int, list[int]] = defaultdict(list)
    for place, event in enumerate(ordered):
        around = unfinished[event["tid"]]
        while around and ends[around[-1]] <= event["ts"]:
            around.pop()
        if around and ends[place] <= ends[around[-1]]:
            own_times[around[-1]] -= event["dur"]
        around.append(place)
    return zip(ordered, own_times, strict=True)
