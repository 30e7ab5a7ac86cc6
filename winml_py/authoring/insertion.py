"""Where nodes go in a model: before it, in place of an input, and after it, as new outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..core.imaging.formats import layout_of
from ..core.onnx_file.messages import messages
from ..errors import NotSupportedError
from .placement import GraphPlacement
from .preprocessing import Preprocessing
from .values import Graph, Value, onnx_type

if TYPE_CHECKING:
    import onnx


Shape = list[str | int | None]


def put_before(model: onnx.ModelProto, name: str, steps: Preprocessing) -> GraphPlacement | None:
    """Makes a picture of an input; the model's nodes read the tensor that is made of it.

    Returns:
        Where the picture lies in the tensor; None where it fills it in its own size.

    Raises:
        NotSupportedError: the input is an output, too.
    """
    if any(output.name == name for output in model.graph.output):
        raise NotSupportedError(
            f"The input {name} is an output of the model, too, which cannot be a picture and a tensor.",
            hint="Put an Identity node between the two.",
        )
    graph = graph_for(model, f"{name}/picture")
    tensor = graph.name_of("tensor")
    _rename(model.graph, name, tensor)
    placement = steps.write(graph, name, tensor)
    nodes = list(model.graph.node)
    model.graph.ClearField("node")
    model.graph.node.extend([*graph.nodes, *nodes])
    value = next(value for value in model.graph.input if value.name == name)
    model.graph.value_info.append(value)
    _become_tensor(model.graph.value_info[-1], tensor)
    _become_picture(value, steps)
    return placement


def put_after(model: onnx.ModelProto, graph: Graph, outputs: Mapping[str, tuple[Value, Shape]]) -> None:
    """Appends nodes, and outputs with their shapes.

    Raises:
        NotSupportedError: the model has a value of such a name.
    """
    from onnx import helper

    taken = sorted(_names(model.graph) & outputs.keys())
    if taken:
        raise NotSupportedError(
            f"The model has a value {taken[0]} already.", hint="Rename it, or leave labels and suppression out."
        )
    for name, (value, shape) in outputs.items():
        graph.node("Identity", value, dtype=value.dtype, output=name)
        model.graph.output.append(helper.make_tensor_value_info(name, onnx_type(value.dtype), shape))
    model.graph.node.extend(graph.nodes)


def graph_for(model: onnx.ModelProto, prefix: str) -> Graph:
    """A graph whose names are none of the model's."""
    names = _names(model.graph)
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return Graph(prefix)


def _names(graph: onnx.GraphProto) -> set[str]:
    from onnx import NodeProto

    nodes = [part for part in messages(graph) if isinstance(part, NodeProto)]
    values = {name for node in nodes for name in (node.name, *node.input, *node.output)}
    return values | {value.name for value in (*graph.input, *graph.output, *graph.initializer)}


def _rename(graph: onnx.GraphProto, name: str, new: str) -> None:
    """Lets all nodes read another value, those in graphs inside of nodes too."""
    from onnx import NodeProto

    for part in messages(graph):
        if isinstance(part, NodeProto):
            for index, read in enumerate(part.input):
                if read == name:
                    part.input[index] = new


def _become_tensor(value: onnx.ValueInfoProto, name: str) -> None:
    value.name, value.type.denotation = name, ""


def _become_picture(value: onnx.ValueInfoProto, steps: Preprocessing) -> None:
    from onnx import TensorProto, helper

    sides = (f"{value.name}_height", f"{value.name}_width")
    shape: list[str | int | None] = [*sides, layout_of(steps.source).channels]
    value.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.UINT8, shape))
    value.doc_string = f"One picture of any size: height x width x channels, {steps.source.name}."
