"""Which nodes a GPU leaves to the processor, and why: what ONNX Runtime logs while it makes a session."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..core.base.child_process import read_stderr
from ..core.session.session import LearningModelSession
from ..inputs import trial
from ..inputs.model import Case


class NodeOnCpu(NamedTuple):
    """A node that the processor runs, and the runtime's words on that; "" where it has none."""

    node: str
    operator: str
    reason: str


def nodes_on_cpu(case: Case) -> tuple[NodeOnCpu, ...]:
    """The nodes that run on the processor, though the session is for another device.

    Another process makes the session once more, with a verbose log.

    Raises:
        ProcessEndedError: that process ended.
        WinMLError: the session cannot be made.
    """
    return read_log(trial.call(_log_of, case))


def _log_of(case: Case) -> str:
    model = case.load()
    options = case.options(model)
    options.log_severity, options.isolation = "verbose", None
    if options.graph_capture is None:
        options.graph_capture = False  # or the session is made twice, where work cannot be recorded
    return read_stderr(lambda: LearningModelSession(model, case.find_device(), options).close())


_REASON = re.compile(
    r"\] (?P<words>[^\]]+?) for (?:Op type: \S+ node name|node): (?P<node>.*?)(?: because (?P<why>.+))?$"
)


def read_log(log: str) -> tuple[NodeOnCpu, ...]:
    """The nodes that a log places on the processor, in its order; none where all are on one provider."""
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
