"""Refuses models that are known to end ONNX Runtime's process, before the runtime sees them."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from ....errors import NotSupportedError
from ...onnx_file.nodes import ModelGraph, OperatorPattern, operator_pattern
from .known_faults import KNOWN_FAULTS, Fault, Version
from .node_facts import UNKNOWN, NodeFacts, ValueFact, nodes_with_facts, shape_of

MOST_SHAPES = 4096
"""Shapes of inputs that a late check keeps in mind; others are checked each time."""


class FoundFault(NamedTuple):
    """A node of a model that ends the process, and the fault that it meets."""

    node: NodeFacts
    fault: Fault


def suspicious_operators() -> Sequence[OperatorPattern]:
    """What finds the operators that have faults in the installed runtime among a model's bytes."""
    return _patterns(installed_version())


def find_fault(graph: ModelGraph, version: Version | None = None) -> FoundFault | None:
    """The first node that is known to end the process of the runtime.

    Args:
        graph: the model's.
        version: of the runtime; None for the installed one.
    """
    for node in nodes_with_facts(graph):
        for fault in faults_of(node, version):
            if fault.is_met(node):
                return FoundFault(node, fault)
    return None


def faults_of(node: NodeFacts, version: Version | None = None) -> Sequence[Fault]:
    """The faults that a node's operator has in a version of the runtime, or in the installed one."""
    domain = "" if node.node.domain == "ai.onnx" else node.node.domain
    return _faults(version or installed_version()).get((domain, node.node.op_type), ())


def require_harmless(graph: ModelGraph) -> None:
    """Refuses a model that is known to end the process.

    Raises:
        NotSupportedError: it is one; the message says which node does it.
    """
    found = find_fault(graph)
    if found is not None:
        raise _refusal(found)


class LateCheck:
    """Refuses inputs whose sizes, which the model does not state, end the process.

    Args:
        nodes: those that take such inputs, and have an operator with a fault.
    """

    def __init__(self, nodes: list[NodeFacts]) -> None:
        self._nodes = nodes
        self._checked: set[object] = set()

    def require_harmless(self, inputs: Mapping[str, object]) -> None:
        """Refuses inputs, by name, with which a node ends the process; costs little where their shapes came before.

        Raises:
            NotSupportedError: they do; the message says which node.
        """
        facts = {name: fact_of(value) for name, value in inputs.items()}
        key = tuple(facts.items())
        if key in self._checked:
            return
        found = self.find_fault(facts)
        if found is not None:
            raise _refusal(found)
        if len(self._checked) < MOST_SHAPES:
            self._checked.add(key)

    def find_fault(self, facts: Mapping[str, ValueFact]) -> FoundFault | None:
        """The first node that ends the process with such inputs."""
        nodes = (node.with_facts(facts) for node in self._nodes)
        return next(
            (FoundFault(node, fault) for node in nodes for fault in faults_of(node) if fault.is_met(node)), None
        )


def fact_of(value: object) -> ValueFact:
    """What a check asks of an input's value."""
    if isinstance(value, np.ndarray):
        return ValueFact(value.shape)
    if isinstance(value, list):
        return ValueFact(elements=tuple(element.shape for element in value if isinstance(element, np.ndarray)))
    return UNKNOWN


def late_check(graph: ModelGraph) -> LateCheck | None:
    """The check for a model's evaluations; None where its graph tells all that can be known beforehand."""
    free = {value.name for value in graph.inputs if None in (shape_of(value) or (None,))}
    nodes = [node for node in nodes_with_facts(graph) if node.takes(free) and faults_of(node)]
    return LateCheck([node.with_facts({}) for node in nodes]) if nodes else None


def _refusal(found: FoundFault) -> NotSupportedError:
    node, version = found.node.node, ".".join(map(str, installed_version()))
    name = f"{node.name} ({node.op_type})" if node.name else node.op_type
    return NotSupportedError(
        f"The node {name} ends the process with ONNX Runtime {version} {found.fault.stage}: {found.fault.words}.",
        hint='Change the model; or run it in a process that may end: options.isolation = "process".',
    )


@cache
def installed_version() -> Version:
    """The version of the installed runtime."""
    import onnxruntime

    return tuple(map(int, re.findall(r"\d+", onnxruntime.__version__)[:3]))


@cache
def _faults(version: Version) -> dict[tuple[str, str], list[Fault]]:
    found: dict[tuple[str, str], list[Fault]] = defaultdict(list)
    for fault in KNOWN_FAULTS:
        for operator in fault.operators if fault.is_in(version, sys.platform == "linux") else ():
            found[fault.domain, operator].append(fault)
    return found


@cache
def _patterns(version: Version) -> Sequence[OperatorPattern]:
    names = defaultdict(set)
    for domain, operator in _faults(version):
        names[domain].add(operator)
    return [operator_pattern(operators, domain) for domain, operators in names.items()]
