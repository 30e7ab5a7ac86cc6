"""A model's answers as nodes after its own outputs (classes, boxes, masks), like `winml_py.vision`; and adding nodes to
models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._inputs.files import generated
from ..core.base.messages import did_you_mean
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.imaging.formats import find_layout
from ..core.model.model import LearningModel
from ..core.onnx_file.expressions import Expression, GraphWriter
from ..core.onnx_file.nodes import messages
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError, NotSupportedError
from ..vision.detections import LIMIT, OVERLAPS, THRESHOLDS, detections, may_be_detections, read_facts
from ..vision.layouts import PROTOTYPES, DetectionLayout, DetectorFacts, count_extra_numbers, recognise_layout
from ..vision.outputs import find_placement, read_floats
from ..vision.segmentation import OUTSIDE, is_segmentation, require_one_map
from .kernels import Preprocessing
from .known_answers import KnownInput

if TYPE_CHECKING:
    import onnx

Shape = list[str | int | None]
Outputs = dict[str, tuple[Expression, Shape]]

MOST_LABELS = 5
"""The number of classes that are named."""

AUTO, CLASSES, SOFTMAX, MASKS = "auto", "classes", "softmax", "masks"
_DETECTORS = (DetectionLayout.YOLO, DetectionLayout.YOLO_V5, DetectionLayout.DETR)
ANSWERS = (AUTO, CLASSES, SOFTMAX, *(layout.value for layout in _DETECTORS), MASKS)
"""Kinds of answers: classes, their shares after a softmax, the layouts of detectors, a class for each pixel."""


class BuiltIn(NamedTuple):
    """What `build_in` adds to a model.

    Attributes:
        answers: the kind of answers, or "".
        outputs: the names of the outputs, by what they hold.
    """

    answers: str
    outputs: Mapping[str, str]


def add_answers(
    model: onnx.ModelProto, loaded: LearningModel, kind: str, labels: Sequence[str], written: Mapping[str, Written]
) -> BuiltIn:
    """Appends the outputs of an answer.

    Args:
        model: the copy, whose inputs are pictures already.
        loaded: the model before. It is evaluated once, because often only its outputs tell their sizes.
        kind: one of `ANSWERS`.
        labels: the class names; by default the model's.
        written: what `put_before` wrote for each input.
    """
    from onnx import helper

    words = {*ANSWERS, *(layout.value for layout in DetectionLayout)}
    if kind not in words:
        raise InvalidArgumentError(f"There are no answers {kind!r}.", hint=did_you_mean(kind, words))
    (picture, (graph, place)), *further = written.items()
    if further or place is None:
        what = ", ".join(written) if further else "several"
        raise NotSupportedError(f"Answers need one picture, but the model takes {what}.")
    sample = KnownInput(shape=(256, 320), dtype="picture")
    with LearningModelSession(loaded) as session:
        result = session.evaluate_features(generated(loaded) | {picture: sample.make_value()})
    facts = read_facts(result, find_placement(result, 0, None), labels)
    kind = _recognise(result, facts) if kind == AUTO else kind
    sides: Shape = [f"{picture}_height", f"{picture}_width"]
    elements = {output.name: output.type.tensor_type.elem_type for output in model.graph.output}

    def value(name: str) -> Expression:
        """An output of the model: floats as float32, whole numbers as int64."""
        output = Expression(graph, name, helper.tensor_dtype_to_np_dtype(elements[name]).type)
        return output.cast(np.float32 if np.issubdtype(output.dtype, np.floating) else np.int64)

    if kind in (CLASSES, SOFTMAX):
        outputs = _write_top_classes(value, result, labels, kind)
    elif kind == MASKS:
        name, array = require_one_map(result, None)
        if array.dtype.kind == "f" and array.shape[1] == 1:
            raise NotSupportedError(f"The output {name} is one map of numbers, whose threshold is not known.")
        outputs = {"class_map": (_write_class_map(value(name), place), sides)}
    else:
        layout = DetectionLayout(kind)
        if layout not in _DETECTORS or facts.exporter.task == "pose":
            what = "points" if layout in _DETECTORS else f"answers in the layout {layout.name}"
            hint = f"winml_py.vision.detections reads them. Built in are {', '.join(ANSWERS[1:])}."
            raise NotSupportedError(f"The model gives {what}, which cannot be built in.", hint=hint)
        detections(result, layout=layout, labels=labels)  # refuses, in its own words, what does not fit
        values = {id(array): value(name) for name, array in facts.outputs.items()}
        outputs = _write_objects(values, facts, layout, place, sides)
    return BuiltIn(kind, _put_after(model, graph, outputs))


def _recognise(result: LearningModelEvaluationResult, facts: DetectorFacts) -> str:
    """The kind of a model's answers, in the order of `winml-py run`."""
    if is_segmentation(result, facts.labels):
        return MASKS
    if may_be_detections(result, facts.labels):
        return recognise_layout(facts).value
    if any(1 < row.size == max(row.shape, default=0) for row in read_floats(result).values()):
        return CLASSES
    raise NotSupportedError(
        "The model's answers are not recognised.", hint=f"Name them: {', '.join(ANSWERS[1:])}; or omit answers."
    )


def _write_top_classes(
    value: Callable[[str], Expression], result: LearningModelEvaluationResult, labels: Sequence[str], kind: str
) -> Outputs:
    """The likeliest classes, the best first, as `result.top_k` gives them."""
    ranked = result.top_k(1 << 30, labels)  # all; it refuses, in its own words, what does not fit
    rows = read_floats(result).items()
    (name,) = (name for name, row in rows if row.size == len(ranked) == max(row.shape, default=0))
    scores, count = value(name).reshape(1, -1), min(MOST_LABELS, len(ranked))
    best, indices = _sort_best(
        scores.apply("Softmax", axis=-1) if kind == SOFTMAX else scores, scores.graph.vector(count)
    )
    outputs: Outputs = {"top_classes": (indices, [1, count]), "top_scores": (best, [1, count])}
    names = [prediction.label for prediction in sorted(ranked, key=attrgetter("index"))]
    if any(names):
        outputs["top_labels"] = (scores.graph.constant(names, np.str_).take(indices, 0), [1, count])
    return outputs


def _sort_best(scores: Expression, count: Expression) -> tuple[Expression, Expression]:
    """The largest numbers of the last axis and their positions, in order."""
    best, positions = scores.graph.split("TopK", scores, count, dtypes=(scores.dtype, np.int64))
    return best, positions


# Objects, as `vision.detections` gives them.


def _write_objects(
    values: Mapping[int, Expression], facts: DetectorFacts, layout: DetectionLayout, place: Any, sides: Shape
) -> Outputs:
    """Boxes in pixels of the picture, the best first; their scores, classes, names and masks. Values are by array."""
    graph = next(iter(values.values())).graph
    table, prototypes, coefficients = values.get(id(facts.table)), values.get(id(facts.prototypes)), None
    if table is None:
        boxes, logits = (values[id(array)] for array in facts.queries or ())
        boxes, scores, classes = _decode_queries(boxes.reshape(-1, 4), logits)
        boxes = boxes * _repeat_for_sides(graph, *place.tensor[::-1]).cast(np.float32)
    else:
        rows = table.transpose(0, 2, 1) if layout is DetectionLayout.YOLO else table
        boxes, scores, classes, at = _suppress(rows, facts, layout)
        if prototypes is not None:
            first = rows.size(2) - PROTOTYPES
            coefficients = rows.slice((first,), (PROTOTYPES,), (2,)).reshape(-1, PROTOTYPES).take(at, 0)
    middles, halves = boxes.slice((0,), (2,), (1,)), boxes.slice((2,), (2,), (1,)) * 0.5
    corners = graph.node("Concat", middles - halves, middles + halves, dtype=np.float32, axis=1)
    # Like `PicturePlacement.boxes_to_picture`, in float64.
    pairs = (*zip(*place.to_picture, strict=True), place.picture[::-1])
    factors, summands, ends = (_repeat_for_sides(graph, x, y) for x, y in pairs)
    corners = (corners * factors + summands).at_least(0).at_most(ends)
    outputs: Outputs = {
        "boxes": (corners.cast(np.float32), ["box_count", 4]),
        "box_scores": (scores, ["box_count"]),
        "box_classes": (classes, ["box_count"]),
    }
    if facts.labels:
        outputs["box_labels"] = (graph.constant(facts.labels, np.str_).take(classes, 0), ["box_count"])
    if coefficients is not None and prototypes is not None:
        outputs["box_masks"] = (_write_masks(corners, coefficients, prototypes, place), ["box_count", *sides])
    return outputs


def _decode_queries(boxes: Expression, logits: Expression) -> tuple[Expression, ...]:
    """DETR's queries that are likely objects, the best first: centre and size, scores, classes."""
    shares = logits.apply("Softmax", axis=-1).slice((0,), (logits.size(2) - 1,), (2,))  # the last is no object
    scores, classes = (value.reshape(-1) for value in _sort_best(shares, logits.graph.vector(1)))
    scores, order = _sort_best(scores, scores.size(0).at_most(LIMIT).reshape(1))
    found = (scores > THRESHOLDS[DetectionLayout.DETR]).cast(np.int64).sum(0)
    order = order.slice((0,), (found,), (0,))
    return boxes.take(order, 0), scores.slice((0,), (found,), (0,)), classes.take(order, 0)


def _suppress(rows: Expression, facts: DetectorFacts, layout: DetectionLayout) -> tuple[Expression, ...]:
    """The kept ones of YOLO's 1 x places x columns, the best first: centre and size, scores, classes, places."""
    assert facts.table is not None
    graph, has_objectness = rows.graph, layout is DetectionLayout.YOLO_V5
    before = 5 if has_objectness else 4
    width = facts.table.shape[2 if has_objectness else 1] - before
    count = width - count_extra_numbers(facts, width)
    best, classes = _sort_best(rows.slice((before,), (count,), (2,)), graph.vector(1))
    best = best * rows.slice((4,), (1,), (2,)) if has_objectness else best
    # A place has one box, of its likeliest class.
    scores = best * classes.equals(graph.constant(range(count), np.int64)).cast(np.float32)
    scores, boxes = scores.transpose(0, 2, 1), rows.slice((0,), (4,), (2,))
    limits = [graph.constant([limit], np.float32) for limit in (OVERLAPS[layout], THRESHOLDS[layout])]
    most = graph.vector(LIMIT)
    selected = graph.node("NonMaxSuppression", boxes, scores, most, *limits, dtype=np.int64, center_point_box=1)
    # Of equal scores, of which half precision has many, the first place comes first.
    at = selected.slice((2,), (1,), (1,)).reshape(-1)
    selected = selected.take(_sort_best(-at, at.size(0).reshape(1))[1], 0)
    selected_scores = graph.node("GatherND", scores, selected, dtype=np.float32)
    sorted_scores, order = _sort_best(selected_scores, selected_scores.size(0).at_most(LIMIT).reshape(1))
    _, selected_classes, at = (selected.take(order, 0).slice((column,), (1,), (1,)).reshape(-1) for column in range(3))
    return boxes.reshape(-1, 4).take(at, 0), sorted_scores, selected_classes, at


def _repeat_for_sides(graph: GraphWriter, x: Any, y: Any) -> Expression:
    """Numbers for the four sides of a box."""
    two = [graph.as_expression(value).cast(np.float64).reshape(1) for value in (x, y)]
    return graph.node("Concat", *two, *two, dtype=np.float64, axis=0)


# Maps over the tensor, read at the picture's pixels as `vision.segmentation` reads them.


_TILE = 16
"""How many rows or columns of pixels are made at once: a matrix for all would be nearly all zeros."""


class _Side(NamedTuple):
    """How a map is read along one side of the picture.

    Attributes:
        seen: tiles x window: the cells of the map that are near each tile of pixels.
        weights: tiles x `_TILE` x window: how much each counts for a pixel, linear between their centres.
        nearest: the cell at the middle of each pixel.
        is_inside: whether a pixel is in the tensor.
        pixels: how many there are.
    """

    seen: Expression
    weights: Expression
    nearest: Expression
    is_inside: Expression
    pixels: Expression

    @classmethod
    def of(cls, cells: Expression, line: tuple[Any, Any], tensor: Any, pixels: Expression) -> _Side:
        """From the size of the map, the way from tensor to picture, and the sizes of both."""
        graph, (factor, summand), share = cells.graph, line, cells / tensor
        start, end = (0 - summand) / factor * share, (pixels - summand) / factor * share
        step, tiles = (end - start) / pixels, (pixels + (_TILE - 1)) // _TILE
        first = math.ceil(-start / step - 1e-9).at_least(0).at_most(pixels - 1)
        last = math.floor((cells - start) / step + 1e-9).at_most(pixels).at_least(first + 1)
        reach, rim = step.at_least(1.0), step.at_most(1.0) * 0.5
        at = graph.range(tiles * _TILE).at_least(first).at_most(last - 1)
        centres = ((at + 0.5) * step + start).at_least(rim).at_most(cells - rim).reshape(tiles, _TILE)
        window = math.ceil(step * _TILE + reach * 2 + 1).at_most(cells)
        begins = math.floor(centres.slice((0,), (1,), (1,)) - reach).at_least(0).at_most(cells - window)
        seen = begins + graph.range(window)
        weights = (1 - abs(seen.unsqueeze(1) + 0.5 - centres.unsqueeze(2)) / reach).at_least(0)
        weights = (weights / weights.sum(2, keepdims=True)).cast(np.float32)
        found = (graph.range(pixels) + 0.5 - summand) / factor / tensor * cells
        nearest = math.floor(found).at_least(0).at_most(cells - 1)
        return cls(seen, weights, nearest, (found >= 0) & (found < cells), pixels)


def _read_both_sides(planes: Expression, place: Any) -> tuple[_Side, _Side]:
    """How planes over the tensor are read along the height and the width of the picture."""
    lines = place.to_picture[::-1]
    rows, columns = (_Side.of(planes.size(1 + i), lines[i], place.tensor[i], place.picture[i]) for i in (0, 1))
    return rows, columns


def _read_tiles(
    planes: Expression, rows: _Side, columns: _Side, finish: Callable[[Expression], Expression]
) -> Expression:
    """What a function makes of planes x 16 rows x columns of pixels, tile by tile: all could fill the memory."""
    graph = planes.graph

    def tile(index: Expression) -> list[Expression]:
        near = planes.take(rows.seen.take(index, 0), 1)
        low = graph.node("MatMul", rows.weights.take(index, 0), near, dtype=np.float32).transpose(0, 2, 1)
        wide = graph.node("MatMul", columns.weights, low.take(columns.seen, 1), dtype=np.float32)
        wide = wide.reshape(low.size(0), columns.seen.size(0) * _TILE, _TILE).transpose(0, 2, 1)
        return [finish(wide.slice((0,), (columns.pixels,), (2,)))]

    return graph.loop(rows.seen.size(0), tile)[0]


def _write_class_map(stack: Expression, place: Any) -> Expression:
    """The class of each pixel: from n x classes x height x width, or from classes."""
    graph, planes = stack.graph, stack.reshape(-1, stack.size(-2), stack.size(-1))
    rows, columns = _read_both_sides(planes, place)
    if planes.dtype is np.int64:
        classes = planes.take(rows.nearest, 1).take(columns.nearest, 2)
    else:
        classes = _read_tiles(
            planes, rows, columns, lambda wide: wide.graph.node("ArgMax", wide, dtype=np.int64, keepdims=0)
        )
    classes = classes.reshape(-1, columns.pixels).slice((0,), (rows.pixels,), (0,))
    is_inside = rows.is_inside.unsqueeze(1) & columns.is_inside
    return graph.where(is_inside, classes, OUTSIDE).cast(np.int32)


def _write_masks(corners: Expression, coefficients: Expression, prototypes: Expression, place: Any) -> Expression:
    """The mask of each object, false outside of its box: bool, objects x height x width."""
    graph, (height, width) = corners.graph, (prototypes.size(2), prototypes.size(3))
    # A row more, for a picture without objects: ONNX Runtime 1.24 fails where no matrices are multiplied.
    more = graph.constant(np.zeros((1, PROTOTYPES)), np.float32)
    coefficients = graph.node("Concat", coefficients, more, dtype=np.float32, axis=0)
    logits = graph.node("MatMul", coefficients, prototypes.reshape(PROTOTYPES, -1), dtype=np.float32)
    count, planes = corners.size(0) + 1, logits.reshape(-1, height, width)
    rows, columns = _read_both_sides(planes, place)
    tiles, masks = rows.seen.size(0), _read_tiles(planes, rows, columns, lambda wide: wide > 0)
    masks = masks.reshape(tiles, count, _TILE, columns.pixels).transpose(1, 0, 2, 3)
    masks = masks.reshape(count, tiles * _TILE, columns.pixels).slice((0, 0), (count - 1, rows.pixels), (0, 1))
    left, top, right, bottom = (corners.slice((side,), (1,), (1,)) for side in range(4))
    x, y = graph.range(columns.pixels), graph.range(rows.pixels)
    across, down = (x >= math.floor(left)) & (x < math.ceil(right)), (y >= math.floor(top)) & (y < math.ceil(bottom))
    return masks & down.unsqueeze(2) & across.unsqueeze(1)


# Where nodes go in a model: before it, replacing an input, or after it, as new outputs.


Written = tuple[GraphWriter, Any]
"""What writes nodes after those of a model, and a picture's `Placement` as values of its graph; None for a batch."""


def put_before(model: onnx.ModelProto, name: str, steps: Preprocessing) -> Written:
    """Turns an input into a picture."""
    from onnx import NodeProto, TensorProto, helper

    if any(output.name == name for output in model.graph.output):
        raise NotSupportedError(
            f"The input {name} is also an output of the model, which cannot be both a picture and a tensor.",
            hint="Put an Identity node between the two.",
        )
    prefix, names = f"{name}/picture", _used_names(model.graph)
    while any(used.startswith(prefix) for used in names):
        prefix += "_"
    graph = GraphWriter(prefix)
    tensor = graph.name_of("tensor")
    for part in messages(model.graph):  # including subgraphs
        if isinstance(part, NodeProto):
            part.input[:] = [tensor if read == name else read for read in part.input]
    placement = steps.write(graph, name, tensor)
    nodes = list(model.graph.node)
    model.graph.ClearField("node")
    model.graph.node.extend([*graph.nodes, *nodes])
    graph.nodes.clear()
    value = next(value for value in model.graph.input if value.name == name)
    model.graph.value_info.append(value)
    inner = model.graph.value_info[-1]
    inner.name, inner.type.denotation = tensor, ""
    sides = (f"{name}_height", f"{name}_width")
    size = value.type.tensor_type.shape.dim[0]
    batch: Shape = [size.dim_value or size.dim_param or None] if steps.is_batch else []
    shape: Shape = [*batch, *sides, find_layout(steps.source).channels]
    value.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.UINT8, shape))
    what = "Pictures of one size: pictures x" if batch else "One picture of any size:"
    value.doc_string = f"{what} height x width x channels, {steps.source.name}."
    return graph, placement


def _put_after(model: onnx.ModelProto, graph: GraphWriter, outputs: Outputs) -> dict[str, str]:
    """Appends nodes and outputs; returns the outputs' names, which end in a number where the model has them already."""
    from onnx import helper

    used, names = _used_names(model.graph), {}
    for what, (value, shape) in outputs.items():
        numbered = (f"{what}_{number}" for number in range(2, len(used) + 3))
        names[what] = next(name for name in (what, *numbered) if name not in used)
        graph.node("Identity", value, dtype=value.dtype, output=names[what])
        model.graph.output.append(helper.make_tensor_value_info(names[what], value.onnx_type, shape))
    model.graph.node.extend(graph.nodes)
    return names


def _used_names(graph: onnx.GraphProto) -> set[str]:
    from onnx import NodeProto

    nodes = [part for part in messages(graph) if isinstance(part, NodeProto)]
    values = {name for node in nodes for name in (node.name, *node.input, *node.output)}
    return values | {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
