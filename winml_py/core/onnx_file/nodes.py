"""The nodes and small constants of a model's graph, for those who ask what it computes; large weights stay unread."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

from ...errors import CorruptModelError, NotSupportedError
from .header import Header, ValueInfo, Weight
from .protobuf import BYTES, VARINT, Field, ModelBytes, fields, find_messages, tag_of, varint

if TYPE_CHECKING:
    import onnx
    from google.protobuf.message import Message


SMALL = 1024
"""Bytes up to which a constant of any type is read. Integers are read whatever their size: they are tables, or few."""


class ModelGraph(NamedTuple):
    """What a model computes.

    Attributes:
        inputs: those that a program binds.
        outputs: the names of its results.
        nodes: the main graph's, in the file's order, where each stands behind those that it needs.
        weights: the initializers, by name: integers and what is small as they are; of the others types and sizes alone.
        functions: the nodes of each function of the model's own.
    """

    inputs: list[ValueInfo]
    outputs: frozenset[str]
    nodes: list[onnx.NodeProto]
    weights: dict[str, onnx.TensorProto]
    functions: Sequence[Sequence[onnx.NodeProto]] = ()


def read_graph(buffer: ModelBytes, header: Header) -> ModelGraph:
    """Reads the nodes of the graph.

    Args:
        buffer: a ModelProto.
        header: what `read_header` found in it.

    Raises:
        CorruptModelError: a node or a constant that is not one.
    """
    import onnx
    from google.protobuf.message import DecodeError

    weights = {weight.name: weight for weight in header.weights}
    inputs = [value for value in header.inputs if value.name not in weights]
    try:
        nodes = [
            onnx.NodeProto.FromString(buffer[item.value : item.end])
            for graph in header.graphs
            for item in fields(buffer, graph.value, graph.end)
            if item.number == 1 and item.wire_type == BYTES
        ]
        constants = {name: _tensor(buffer, weight) for name, weight in weights.items()}
        functions = [
            onnx.FunctionProto.FromString(buffer[item.value : item.end]).node
            for item in fields(buffer, 0, len(buffer))
            if item.number == _FUNCTION and item.wire_type == BYTES
        ]
        return ModelGraph(inputs, frozenset(value.name for value in header.outputs), nodes, constants, functions)
    except DecodeError as error:
        raise CorruptModelError(
            f"Failed to parse the model: {error}.", hint="The file was damaged on its way; compare its size."
        ) from error


def _tensor(buffer: ModelBytes, weight: Weight) -> onnx.TensorProto:
    import onnx

    if weight.field.end - weight.field.value <= SMALL or weight.element in (
        onnx.TensorProto.INT32,
        onnx.TensorProto.INT64,
    ):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(buffer[weight.field.value : weight.field.end])
        return tensor
    return onnx.TensorProto(name=weight.name, data_type=weight.element, dims=_sizes(buffer, weight.field))


def _sizes(buffer: ModelBytes, tensor: Field) -> list[int]:
    sizes = []
    for item in fields(buffer, tensor.value, tensor.end, {tag_of(1, VARINT), tag_of(1)}):
        if item.number == 1 and item.wire_type == VARINT:
            sizes.append(item.signed())
        elif item.number == 1 and item.wire_type == BYTES:  # several in a row
            position = item.value
            while position < item.end:
                size, position = varint(buffer, position, item.end)
                sizes.append(size)
    return sizes


# A model's own functions: how many nodes it has once each call has become the nodes of the function it calls.


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


def require_bounded(buffer: ModelBytes) -> None:
    """Refuses functions that call each other so often, or so deep, that the runtime would not come to an end.

    Raises:
        NotSupportedError: if the functions call each other without end.
        CorruptModelError: subgraphs nested too deep to be meant.
    """
    parts = [item for item in fields(buffer, 0, len(buffer)) if item.wire_type == BYTES]
    bodies: dict[_Name, Counter[_Name]] = defaultdict(Counter)
    for function in parts:
        if function.number == _FUNCTION:
            bodies[_name(buffer, function, _FUNCTION_NAME)] += _call(buffer, "function", function)
    if not bodies:
        return
    sizes: dict[_Name, _Size] = {}
    for graph in parts:
        if graph.number == _GRAPH:
            nodes = _size(_call(buffer, "graph", graph), bodies, sizes, 0).nodes
            if nodes > MAX_NODES:
                raise _endless(f"so often that they become {nodes:.1e} nodes, and {MAX_NODES:,} are allowed")


def _call(buffer: ModelBytes, kind: str, message: Field) -> Counter[_Name]:
    nodes = find_messages(buffer, "node", kind, message.value, message.end)
    return Counter(_name(buffer, node, _NODE_NAME) for node in nodes)


def _size(called: Counter[_Name], bodies: dict[_Name, Counter[_Name]], sizes: dict[_Name, _Size], calls: int) -> _Size:
    """What the nodes of a graph or function become that is so many calls deep; `sizes` remembers those of functions."""
    nodes = deepest = 0
    for name, times in called.items():
        if name in bodies and name not in sizes:
            if calls >= MAX_CALLS:
                raise _too_deep()
            sizes[name] = _size(bodies[name], bodies, sizes, calls + 1)
        # What is no function is one node and no call: -1 here, and 1 below, make 0.
        inner = sizes.get(name, _Size(1, -1))
        nodes, deepest = nodes + times * inner.nodes, max(deepest, inner.calls + 1)
    if calls + deepest > MAX_CALLS:
        raise _too_deep()
    return _Size(nodes, deepest)


def _name(buffer: ModelBytes, message: Field, numbers: tuple[int, int, int]) -> _Name:
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


# Walking an ONNX model that `onnx` has parsed.


def messages(message: Message) -> Iterator[Message]:
    """A message and all that it holds: nodes, attributes, types, weights, in every graph and function."""
    from google.protobuf.message import Message
    from onnx import TensorProto

    yield message
    for field, value in () if isinstance(message, TensorProto) else message.ListFields():  # which would copy weights
        if field.message_type is not None:
            for held in [value] if isinstance(value, Message) else value:
                yield from messages(held)


# The order of nodes.


def sort_places(nodes: Sequence[onnx.NodeProto], needs: Sequence[Iterable[str]]) -> list[int]:
    """An order in which each node stands behind those that make what it needs: the places of the nodes.

    Args:
        nodes: in any order.
        needs: for each, the names of the values that it takes; names that no node makes count for nothing.

    Raises:
        CycleError: nodes need each other's outputs in a circle; the second argument has their places.
    """
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    waits_for = {place: [makers[name] for name in names if name in makers] for place, names in enumerate(needs)}
    return list(TopologicalSorter(waits_for).static_order())


def convert_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """A copy of a model with its nodes brought to a version of ONNX's own operator set, by onnx's converter.

    The converter loses denotations, functions and metadata, and what inference had found is no longer true of it: so
    its nodes and weights are taken, and the rest is the model's.

    Raises:
        ValueError: the converter cannot convert the model, or what it made does not hold together; in its own words.
    """
    import onnx
    from onnx import shape_inference, version_converter

    result = onnx.ModelProto()
    result.CopyFrom(model)
    # Before version 4 of the format all weights are inputs, too. Runtimes take models where they are not; the converter
    # does not.
    result.ir_version = max(result.ir_version, 4)
    try:
        converted = version_converter.convert_version(result, version)
        onnx.checker.check_model(converted)
        shape_inference.infer_shapes(converted, strict_mode=True)
    except Exception as error:  # of many classes, RuntimeError and IndexError among them
        raise ValueError((str(error).strip().splitlines() or ["it says nothing"])[0]) from error
    for field in ("node", "initializer"):
        result.graph.ClearField(field)
        getattr(result.graph, field).extend(getattr(converted.graph, field))
    result.graph.ClearField("value_info")
    del result.opset_import[:]
    result.opset_import.extend(converted.opset_import)
    return result
