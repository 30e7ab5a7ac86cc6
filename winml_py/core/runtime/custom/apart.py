"""A graph without the nodes that call functions, for what changes the rest of it; and with them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .operator import CustomOperator, declared_types
from .split import constant_names, key_of, sorted_nodes

if TYPE_CHECKING:
    import onnx


def declared_outputs(model: onnx.ModelProto, operators: Sequence[CustomOperator]) -> dict[str, onnx.TypeProto]:
    """The types of what functions give in a graph, by the names of the values."""
    functions = {operator.key: operator for operator in operators}
    calls = [node for node in model.graph.node if key_of(node) in functions]
    return {name: kind for node in calls for name, kind in declared_types(functions[key_of(node)], node.output).items()}


def take_out(model: onnx.ModelProto, operators: Sequence[CustomOperator]) -> list[onnx.NodeProto]:
    """Takes the nodes that call functions out of a graph.

    What they take are outputs of the graph then, without a type, and what they give are inputs.

    Args:
        model: changed in place.
        operators: the functions.

    Returns:
        The nodes, for `put_back`.
    """
    from onnx import helper

    graph = model.graph
    types = declared_outputs(model, operators)
    keys = {operator.key for operator in operators}
    calls = [node for node in graph.node if key_of(node) in keys]
    if not calls:
        return []
    rest = [node for node in graph.node if key_of(node) not in keys]
    ends = [end for end in graph.output if end.name not in types]
    needed = {name for node in calls for name in node.input} & {name for node in rest for name in node.output}
    needed -= {"", *(end.name for end in ends)}
    graph.input.extend(helper.make_value_info(name, kind) for name, kind in types.items())
    graph.ClearField("node")
    graph.ClearField("output")
    graph.node.extend(rest)
    graph.output.extend([*ends, *map(helper.make_empty_tensor_value_info, sorted(needed))])
    return calls


def put_back(model: onnx.ModelProto, calls: Sequence[onnx.NodeProto], original: onnx.ModelProto) -> None:
    """Puts nodes into a graph again, with the weights and operator sets that they need.

    Args:
        model: whose graph is changed in place, but for its inputs and outputs.
        calls: what `take_out` gave.
        original: the model before that.
    """
    graph = model.graph
    nodes = [member.node for member in sorted_nodes([*graph.node, *calls])]
    graph.ClearField("node")
    graph.node.extend(nodes)
    wanted = {name for node in calls for name in node.input} | {end.name for end in original.graph.output}
    missing = wanted - constant_names(graph)
    graph.initializer.extend(weight for weight in original.graph.initializer if weight.name in missing)
    imported = {item.domain for item in model.opset_import}
    domains = {node.domain for node in calls} - imported
    model.opset_import.extend(item for item in original.opset_import if item.domain in domains)
