"""Splits a graph at the nodes that are custom operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from graphlib import CycleError
from typing import TYPE_CHECKING, Any, NamedTuple

from ....errors import CorruptModelError, InvalidArgumentError, NotSupportedError
from ...onnx_file.nodes import sort_places, walk_messages
from .operator import CustomOperator

if TYPE_CHECKING:
    import onnx


OperatorsByKey = Mapping[tuple[str, str], CustomOperator]


class GraphPart(NamedTuple):
    """Nodes that the runtime runs as one model.

    Attributes:
        nodes: the nodes.
        consumed: the names of all values and weights that they use.
        inputs: the names of the values from earlier steps.
        outputs: the names of the values for later steps, or of the model's outputs.
    """

    nodes: list[onnx.NodeProto]
    consumed: set[str]
    inputs: list[str]
    outputs: list[str]


class CustomNode(NamedTuple):
    """A node that calls a function.

    Attributes:
        operator: the operator with the function.
        name: the node's name, or that of its first output if it has none.
        inputs: the names of values; "" for an omitted one.
        outputs: the names of values; "" for an omitted one.
        attributes: by name, as Python values and arrays.
    """

    operator: CustomOperator
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]


Step = GraphPart | CustomNode


def split_model(model: onnx.ModelProto, operators: OperatorsByKey) -> list[Step]:
    """Returns the steps to run, in order.

    A node belongs to a stage: the number of functions that must have run before it. The nodes of a stage are one part,
    and the functions that need no later part follow it. This makes as few parts as possible.

    Raises:
        NotSupportedError: a node in a subgraph or in a function of the model is a custom operator.
        InvalidArgumentError: a node has more outputs than its operator declares.
        CorruptModelError: nodes need each other's outputs in a circle.
    """
    _require_in_main_graph(model, operators)
    groups: dict[_Group, list[GraphNode]] = defaultdict(list)
    readers: dict[str, set[_Group]] = defaultdict(set)
    stages: dict[str, int] = {}
    for member in sort_nodes(model.graph.node):
        stage = max((stages.get(name, 0) for name in member.needs), default=0)
        group = _Group(stage, get_operator_key(member.node) in operators)
        groups[group].append(member)
        stages |= dict.fromkeys(member.node.output, stage + group.is_function)
        for name in member.needs:
            readers[name].add(group)
    values = {value.name for value in model.graph.input} | stages.keys()
    values -= get_constant_names(model.graph)
    results = {output.name for output in model.graph.output}
    steps: list[Step] = []
    for group in sorted(groups):
        if group.is_function:
            steps += [
                _make_custom_node(member.node, operators[get_operator_key(member.node)]) for member in groups[group]
            ]
        else:
            needed_later = results | {name for name, reader_groups in readers.items() if reader_groups - {group}}
            steps.append(_make_part(groups[group], values, needed_later))
    # The runtime refuses parts without outputs.
    return [step for step in steps if isinstance(step, CustomNode) or step.outputs]


class _Group(NamedTuple):
    """A part, or the functions that follow it."""

    stage: int
    is_function: bool


class GraphNode(NamedTuple):
    """A node, and the names of the values that it uses."""

    node: onnx.NodeProto
    needs: set[str]


def _find_needs(node: onnx.NodeProto) -> set[str]:
    from onnx import NodeProto

    names = set(node.input)
    for graph in _find_subgraphs(node):
        # An output of a subgraph may be a value of the outer graph.
        names |= {output.name for output in graph.output}
        names |= {name for inner in walk_messages(graph) if isinstance(inner, NodeProto) for name in inner.input}
    return names - {""}


def _find_subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    from onnx import GraphProto

    direct = [graph for item in node.attribute for graph in ([item.g] if item.HasField("g") else item.graphs)]
    return [inner for graph in direct for inner in walk_messages(graph) if isinstance(inner, GraphProto)]


def get_operator_key(node: onnx.NodeProto) -> tuple[str, str]:
    """The domain and the name of a node's operator."""
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def sort_nodes(nodes: Iterable[onnx.NodeProto]) -> list[GraphNode]:
    """Nodes in topological order: each after those that make its inputs.

    Raises:
        CorruptModelError: they need each other's outputs in a circle.
    """
    members = [GraphNode(node, _find_needs(node)) for node in nodes]
    try:
        places = sort_places([member.node for member in members], [member.needs for member in members])
        return [members[place] for place in places]
    except CycleError as error:
        raise CorruptModelError(
            "The model has a cycle of nodes that need each other's outputs.", hint="Export the model again."
        ) from error


def _require_in_main_graph(model: onnx.ModelProto, operators: OperatorsByKey) -> None:
    for node in model.graph.node:
        for graph in _find_subgraphs(node):
            _require_none(graph.node, operators, f"inside the {node.op_type} node {_get_name(node)!r}")
    for function in model.functions:
        _require_none(function.node, operators, f"inside the function {function.name!r} of the model")


def _require_none(nodes: Iterable[onnx.NodeProto], operators: OperatorsByKey, where: str) -> None:
    from onnx import NodeProto

    for message in (message for node in nodes for message in walk_messages(node)):
        if isinstance(message, NodeProto) and get_operator_key(message) in operators:
            raise NotSupportedError(
                f"The operator {operators[get_operator_key(message)]} of the node {_get_name(message)!r} is {where}, "
                "but Python functions are supported only in the main graph.",
                hint="Export the model with the node in the main graph, or pass the operator as a shared library.",
            )


def _get_name(node: onnx.NodeProto) -> str:
    return node.name or next(filter(None, node.output), "")


def _make_part(members: Sequence[GraphNode], values: Set[str], needed_later: Set[str]) -> GraphPart:
    produced = {name for member in members for name in member.node.output if name}
    consumed = {name for member in members for name in member.needs}
    nodes = [member.node for member in members]
    return GraphPart(nodes, consumed, sorted((consumed & values) - produced), sorted(produced & needed_later))


def get_constant_names(graph: onnx.GraphProto) -> set[str]:
    """The names of the weights of a graph."""
    return {weight.name for weight in graph.initializer} | {weight.values.name for weight in graph.sparse_initializer}


def _make_custom_node(node: onnx.NodeProto, operator: CustomOperator) -> CustomNode:
    from onnx import helper

    if len(node.output) > len(operator.outputs):
        raise InvalidArgumentError(
            f"The node {_get_name(node)!r} has {len(node.output)} outputs, but the operator {operator} declares "
            f"{len(operator.outputs)}.",
            hint="Declare the type and the rank of each output.",
        )
    attributes = {item.name: _convert_attribute(helper.get_attribute_value(item)) for item in node.attribute}
    return CustomNode(operator, _get_name(node), list(node.input), list(node.output), attributes)


def _convert_attribute(value: object) -> Any:
    """Converts ONNX's bytes and tensors to str and arrays."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (str, int, float)) or not isinstance(value, Sequence):
        return value
    return [_convert_attribute(item) for item in value]
