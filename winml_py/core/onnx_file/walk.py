"""Walking over an ONNX file in place: the nodes and tensors in every graph, subgraph and function."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from .protobuf import Buffer, Field, corrupt, fields, tag_of

MAX_NESTING = 16
"""Subgraphs in subgraphs; types in types."""

LOCATION = "location"
"""The key under which a tensor names the file that holds its elements."""

_CHILDREN: dict[str, dict[int, str]] = {
    kind: {tag_of(number): child for number, child in children.items()}
    for kind, children in (
        ("model", {7: "graph", 25: "function"}),
        ("function", {7: "node"}),
        ("graph", {1: "node", 5: "tensor", 15: "sparse tensor"}),
        ("node", {5: "attribute"}),
        ("attribute", {5: "tensor", 10: "tensor", 6: "graph", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"}),
        ("sparse tensor", {1: "tensor", 2: "tensor"}),  # its values, and where they are
    )
}
"""The fields of each message that nodes and tensors can be in, by their tags; the numbers are those of onnx.proto."""

_LARGE_ATTRIBUTE = 1 << 10  # bytes
_LONG_LIST = 64  # fields


def found(buffer: Buffer, wanted: str, kind: str, start: int, end: int, nesting: int = 0) -> Iterator[Field]:
    """Yields the nodes, or the tensors, in the message that stands in `buffer[start:end]`.

    Args:
        buffer: a ModelProto.
        wanted: "node" or "tensor". Of the tensors in long lists, those in this file may be left out.
        kind: what the message is: "model", "graph" or "function", say.
        start: where the message starts.
        end: where it ends.
        nesting: how many subgraphs the message is in.

    Raises:
        CorruptModelError: subgraphs nested too deep to be meant.
    """
    if nesting > MAX_NESTING:
        raise corrupt(f"subgraphs are nested more than {MAX_NESTING} deep")
    children = _CHILDREN[kind]
    for item in fields(buffer, start, end, children):
        child = children.get(tag_of(item.number, item.wire_type))
        if child == wanted:
            yield item
        if child is not None and child in _CHILDREN and not (child == "attribute" and _is_list_of_values(buffer, item)):
            yield from found(buffer, wanted, child, item.value, item.end, nesting + (kind == "attribute"))


def _is_list_of_values(buffer: Buffer, attribute: Field) -> bool:
    """Whether an attribute is a long list, and names no file.

    A decision tree has lists of millions of numbers. To search them for a word takes a hundredth of the time of walking
    from number to number.
    """
    if attribute.end - attribute.value < _LARGE_ATTRIBUTE:
        return False
    is_long = next(islice(fields(buffer, attribute.value, attribute.end), _LONG_LIST, None), None) is not None
    return is_long and buffer.find(LOCATION.encode(), attribute.value, attribute.end) < 0
