"""A model's own functions: how many nodes it has once each call has become the nodes of the function it calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from ...errors import NotSupportedError
from .protobuf import BYTES, Buffer, Field, fields
from .walk import found

MAX_NODES = 1 << 17
"""Nodes that functions may become. The runtime writes them all out, and takes minutes for so many."""

MAX_CALLS = 100
"""Functions that may call each other in a row. The runtime ends the process at some thousands."""


class _Name(NamedTuple):
    """What a node calls, and a function is called: operators have such names, too."""

    domain: str
    operator: str
    overload: str


_GRAPH, _FUNCTION = 7, 25  # the numbers in ModelProto

# The numbers of a name's parts in NodeProto and in FunctionProto.
_NODE_NAME, _FUNCTION_NAME = (7, 4, 8), (10, 1, 13)


class _Size(NamedTuple):
    """What a call becomes: how many nodes, and how many functions call each other in a row."""

    nodes: int
    calls: int


def require_bounded(buffer: Buffer) -> None:
    """Refuses functions that call each other so often, or so deep, that the runtime would not come to an end.

    Raises:
        NotSupportedError: they do.
        CorruptModelError: subgraphs nested too deep to be meant.
    """
    parts = [item for item in fields(buffer, 0, len(buffer)) if item.wire_type == BYTES]
    bodies: dict[_Name, Counter[_Name]] = defaultdict(Counter)
    for function in parts:
        if function.number == _FUNCTION:
            bodies[_name(buffer, function, _FUNCTION_NAME)] += _called(buffer, "function", function)
    if not bodies:
        return
    sizes: dict[_Name, _Size] = {}
    for graph in parts:
        if graph.number == _GRAPH:
            nodes = _size(_called(buffer, "graph", graph), bodies, sizes, 0).nodes
            if nodes > MAX_NODES:
                raise _endless(f"so often that they become {nodes:.1e} nodes, and {MAX_NODES:,} are allowed")


def _called(buffer: Buffer, kind: str, message: Field) -> Counter[_Name]:
    nodes = found(buffer, "node", kind, message.value, message.end)
    return Counter(_name(buffer, node, _NODE_NAME) for node in nodes)


def _size(called: Counter[_Name], bodies: dict[_Name, Counter[_Name]], sizes: dict[_Name, _Size], calls: int) -> _Size:
    """What the nodes of a graph or function become that is so many calls deep; `sizes` remembers those of functions."""
    nodes = deepest = 0
    for name, times in called.items():
        if name in bodies and name not in sizes:
            if calls >= MAX_CALLS:
                raise _too_deep()
            sizes[name] = _size(bodies[name], bodies, sizes, calls + 1)
        inner = sizes.get(name, _Size(1, -1))
        nodes, deepest = nodes + times * inner.nodes, max(deepest, inner.calls + 1)
    if calls + deepest > MAX_CALLS:
        raise _too_deep()
    return _Size(nodes, deepest)


def _name(buffer: Buffer, message: Field, numbers: tuple[int, int, int]) -> _Name:
    texts = {
        item.number: item.text(buffer) for item in fields(buffer, message.value, message.end) if item.number in numbers
    }
    domain, operator, overload = (texts.get(number, "") for number in numbers)
    return _Name("" if domain == "ai.onnx" else domain, operator, overload)


def _too_deep() -> NotSupportedError:
    return _endless(f"in rows of more than {MAX_CALLS}, or in a circle")


def _endless(how: str) -> NotSupportedError:
    return NotSupportedError(
        f"The model's functions call each other {how}.",
        hint="If that is meant, export the model with fewer functions, or with their nodes in their place.",
    )
