"""Postprocessing after a model's own outputs (names of the likeliest classes, boxes after suppression), and adding
nodes to models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..core.imaging.formats import layout_of
from ..core.imaging.geometry import Placement
from ..core.onnx_file.expressions import Expression, GraphWriter
from ..core.onnx_file.nodes import messages
from ..errors import InvalidArgumentError, NotSupportedError
from .kernels import Preprocessing

if TYPE_CHECKING:
    import onnx


MOST_LABELS = 5
"""The number of classes that are named."""

MOST_BOXES, LARGEST_OVERLAP, LOWEST_SCORE = 300, 0.7, 0.25
"""The defaults of Ultralytics' predictor: the most boxes kept, the largest overlap (IoU) of two boxes of one class,
and the lowest score."""


def add_labels(model: onnx.ModelProto, labels: Sequence[str]) -> None:
    """Appends the outputs `top_labels` and `top_scores`: the likeliest classes, best first."""
    scored = [output for output in model.graph.output if _is_float(output) and _shape(output)[-1:] == [len(labels)]]
    if len(scored) != 1:
        outputs = "more than one output" if scored else "no output"
        raise InvalidArgumentError(
            f"There are {len(labels)} labels, but {outputs} of the model has as many scores: "
            f"{_describe_outputs(model)}."
        )
    shape = [*_shape(scored[0])[:-1], min(MOST_LABELS, len(labels))]
    graph = graph_for(model, f"{scored[0].name}/labels")
    scores, classes = _best(_floats(graph, scored[0]), graph.vector(min(MOST_LABELS, len(labels))))
    names = graph.constant(labels, np.str_).take(classes, 0)
    put_after(model, graph, {"top_labels": (names, shape), "top_scores": (scores, shape)})


def add_boxes(model: onnx.ModelProto, labels: Sequence[str], picture: str, placement: Placement | None) -> None:
    """Appends the outputs `boxes`, `box_scores`, `box_classes` and `box_labels`, best box first.

    The model is a detector with Ultralytics' output: 1 x (4 + classes) x candidates, where the four are a box's centre,
    width and height in pixels of the tensor.
    """
    shapes = [(output, _shape(output)) for output in model.graph.output if _is_float(output)]
    box_outputs = [
        output
        for output, shape in shapes
        if len(shape) == 3 and shape[1] == 4 + len(labels) and (shape[0] == 1 or not isinstance(shape[0], int))
    ]
    if len(box_outputs) != 1:
        raise NotSupportedError(
            f"Suppression needs one output of 1 x {4 + len(labels)} x boxes, for {len(labels)} classes; the "
            f"model has {_describe_outputs(model)}.",
            hint="Omit suppression if the model has its own, or outputs masks, points or oriented boxes.",
        )
    graph = graph_for(model, f"{box_outputs[0].name}/boxes")
    boxes, scores, classes = _suppress(_floats(graph, box_outputs[0]), len(labels))
    boxes = _in_picture(boxes, Expression(graph, picture, np.uint8), placement)
    names, count = graph.constant(labels, np.str_).take(classes, 0), "box_count"
    outputs: dict[str, tuple[Expression, Shape]] = {
        "boxes": (boxes, [count, 4]),
        "box_scores": (scores, [count]),
        "box_classes": (classes, [count]),
        "box_labels": (names, [count]),
    }
    put_after(model, graph, outputs)


def _suppress(answer: Expression, classes: int) -> tuple[Expression, Expression, Expression]:
    """Corners, scores and classes of the kept boxes."""
    graph = answer.graph
    places = answer.slice((0,), (4,), (1,)).transpose(0, 2, 1)
    scores = answer.slice((4,), (classes,), (1,))
    best, _ = _best(scores, graph.vector(1), axis=1)
    scores = scores * (scores >= best).cast(np.float32)  # a candidate has one box, of its likeliest class
    limits = [graph.constant([limit], np.float32) for limit in (LARGEST_OVERLAP, LOWEST_SCORE)]
    most = graph.vector(MOST_BOXES)
    selected = graph.node("NonMaxSuppression", places, scores, most, *limits, dtype=np.int64, center_point_box=1)
    selected_scores = graph.node("GatherND", scores, selected, dtype=np.float32)
    sorted_scores, order = _best(selected_scores, selected_scores.size(0).at_most(MOST_BOXES).reshape(1))
    _, selected_classes, at = (selected.take(order, 0).slice((column,), (1,), (1,)).reshape(-1) for column in range(3))
    chosen = places.reshape(-1, 4).take(at, 0)
    middles, halves = chosen.slice((0,), (2,), (1,)), chosen.slice((2,), (2,), (1,)) * 0.5
    corners = graph.node("Concat", middles - halves, middles + halves, dtype=np.float32, axis=1)
    return corners, sorted_scores, selected_classes


def _in_picture(boxes: Expression, pixels: Expression, placement: Placement | None) -> Expression:
    """The boxes in pixels of the picture, clipped to it: `PicturePlacement.boxes_to_picture`."""
    graph = boxes.graph
    if placement is not None:
        part, (height, width), cut, target = placement.part, placement.scaled, placement.cut, placement.target
        across, down = graph.adopt(part.width) / graph.adopt(width), graph.adopt(part.height) / graph.adopt(height)
        x = across * (graph.adopt(cut.x) - graph.adopt(target.x)) + graph.adopt(part.x)
        y = down * (graph.adopt(cut.y) - graph.adopt(target.y)) + graph.adopt(part.y)
        boxes = boxes * _row(across, down) + _row(x, y)
    return boxes.at_least(0).at_most(_row(pixels.size(1), pixels.size(0)))


def _row(x: Expression, y: Expression) -> Expression:
    """Numbers for the four sides of a box."""
    two = [value.cast(np.float32).reshape(1) for value in (x, y)]
    return x.graph.node("Concat", *two, *two, dtype=np.float32, axis=0)


def _best(scores: Expression, count: Expression, axis: int = -1) -> tuple[Expression, Expression]:
    """The largest scores and their positions, in order."""
    dtypes, outputs = (np.float32, np.int64), ("", "")
    best, positions = scores.graph.split("TopK", scores, count, dtypes=dtypes, outputs=outputs, axis=axis)
    return best, positions


def _floats(graph: GraphWriter, output: onnx.ValueInfoProto) -> Expression:
    from onnx import helper

    dtype = helper.tensor_dtype_to_np_dtype(output.type.tensor_type.elem_type).type
    return Expression(graph, output.name, dtype).cast(np.float32)


def _is_float(output: onnx.ValueInfoProto) -> bool:
    from onnx import TensorProto

    return output.type.tensor_type.elem_type in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)


def _shape(output: onnx.ValueInfoProto) -> Shape:
    dimensions = output.type.tensor_type.shape.dim
    return [each.dim_value if each.HasField("dim_value") else each.dim_param or None for each in dimensions]


def _describe_outputs(model: onnx.ModelProto) -> str:
    return ", ".join(f"{output.name} of {' x '.join(map(str, _shape(output)))}" for output in model.graph.output)


# Where nodes go in a model: before it, replacing an input, or after it, as new outputs.


Shape = list[str | int | None]


def put_before(model: onnx.ModelProto, name: str, steps: Preprocessing) -> Placement | None:
    """Turns an input into a picture; returns its placement in the tensor, None if it keeps its own size."""
    from onnx import NodeProto, TensorProto, helper

    if any(output.name == name for output in model.graph.output):
        raise NotSupportedError(
            f"The input {name} is also an output of the model, which cannot be both a picture and a tensor.",
            hint="Put an Identity node between the two.",
        )
    graph = graph_for(model, f"{name}/picture")
    tensor = graph.name_of("tensor")
    for part in messages(model.graph):  # including subgraphs
        if isinstance(part, NodeProto):
            part.input[:] = [tensor if read == name else read for read in part.input]
    placement = steps.write(graph, name, tensor)
    nodes = list(model.graph.node)
    model.graph.ClearField("node")
    model.graph.node.extend([*graph.nodes, *nodes])
    value = next(value for value in model.graph.input if value.name == name)
    model.graph.value_info.append(value)
    inner = model.graph.value_info[-1]
    inner.name, inner.type.denotation = tensor, ""
    sides = (f"{name}_height", f"{name}_width")
    shape: Shape = [*sides, layout_of(steps.source).channels]
    value.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.UINT8, shape))
    value.doc_string = f"One picture of any size: height x width x channels, {steps.source.name}."
    return placement


def put_after(model: onnx.ModelProto, graph: GraphWriter, outputs: Mapping[str, tuple[Expression, Shape]]) -> None:
    """Appends nodes, and outputs with their shapes."""
    from onnx import helper

    clashes = sorted(_names(model.graph) & outputs.keys())
    if clashes:
        raise NotSupportedError(
            f"The model already has a value {clashes[0]}.", hint="Rename it, or omit labels and suppression."
        )
    for name, (value, shape) in outputs.items():
        graph.node("Identity", value, dtype=value.dtype, output=name)
        model.graph.output.append(helper.make_tensor_value_info(name, value.onnx_type, shape))
    model.graph.node.extend(graph.nodes)


def graph_for(model: onnx.ModelProto, prefix: str) -> GraphWriter:
    """A graph whose names do not clash with the model's."""
    names = _names(model.graph)
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return GraphWriter(prefix)


def _names(graph: onnx.GraphProto) -> set[str]:
    from onnx import NodeProto

    nodes = [part for part in messages(graph) if isinstance(part, NodeProto)]
    values = {name for node in nodes for name in (node.name, *node.input, *node.output)}
    return values | {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
