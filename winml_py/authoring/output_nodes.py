"""A model's answers as nodes after its own outputs (classes, boxes, masks), like `winml_py.vision`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._examples import make_examples
from .._graphs.model_file import list_names
from ..core.base.arrays import Array
from ..core.base.messages import did_you_mean
from ..core.features.pictures import ImageFeatureValue
from ..core.model.model import LearningModel
from ..core.onnx_file.expressions import Expression, GraphWriter
from ..core.session.result import LearningModelEvaluationResult
from ..core.session.session import LearningModelSession
from ..enums import BitmapPixelFormat
from ..errors import InvalidArgumentError, NotSupportedError
from ..vision.detections import LIMIT, OVERLAPS, THRESHOLDS, detections, may_be_detections, read_facts
from ..vision.layouts import PROTOTYPES, DetectionLayout, DetectorFacts, count_extra_numbers, recognise_layout
from ..vision.masks import OUTSIDE, find_segmentation, require_one_map
from ..vision.outputs import find_placement, read_floats
from .preprocessing_nodes import Shape, WrittenInput

if TYPE_CHECKING:
    import onnx

Outputs = dict[str, tuple[Expression, Shape]]
"""Values to give as outputs, with their shapes, by what they hold."""

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
    model: onnx.ModelProto, loaded: LearningModel, kind: str, labels: Sequence[str], written: Mapping[str, WrittenInput]
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

    kinds = {*ANSWERS, *(layout.value for layout in DetectionLayout)}
    if kind not in kinds:
        raise InvalidArgumentError(f"Unknown kind of answer: {kind!r}.", hint=did_you_mean(kind, kinds))
    (picture, (graph, place)), *more = written.items()
    if more or place is None:
        pictures = ", ".join(written) if more else "several"
        raise NotSupportedError(f"Built-in answers require exactly one picture, but the model takes {pictures}.")
    noise = np.random.default_rng(0).integers(0, 256, (256, 320, 3), np.uint8)
    image = ImageFeatureValue.from_array(noise, BitmapPixelFormat.RGB8)
    with LearningModelSession(loaded) as session:
        result = session.evaluate_features(make_examples(loaded.input_features) | {picture: image})
    facts = read_facts(result, find_placement(result, 0, None), labels)
    kind = _recognise(result, facts) if kind == AUTO else kind
    sides: Shape = [f"{picture}_height", f"{picture}_width"]
    elements = {output.name: output.type.tensor_type.elem_type for output in model.graph.output}

    def read_output(name: str) -> Expression:
        """An output of the model: floats as float32, whole numbers as int64."""
        output = Expression(graph, name, helper.tensor_dtype_to_np_dtype(elements[name]).type)
        return output.cast(np.float32 if np.issubdtype(output.dtype, np.floating) else np.int64)

    if kind in (CLASSES, SOFTMAX):
        outputs = _write_top_classes(read_output, result, labels, kind)
    elif kind == MASKS:
        name, array = require_one_map(result, find_segmentation(result, facts.labels) or None)
        if array.dtype.kind == "f" and array.shape[1] == 1:
            raise NotSupportedError(f"The output {name} is a single map of values, but the threshold is unknown.")
        outputs = {"class_map": (_write_class_map(read_output(name), place), sides)}
    else:
        layout = DetectionLayout(kind)
        if layout not in _DETECTORS or facts.exporter.task == "pose":
            content = "points" if layout in _DETECTORS else f"answers in the layout {layout.name}"
            hint = f"Read them with winml_py.vision.detections. Supported answers: {', '.join(ANSWERS[1:])}."
            raise NotSupportedError(f"The model returns {content}, which cannot be built in.", hint=hint)
        detections(result, layout=layout, labels=labels)  # raises if the outputs do not fit
        outputs = _write_objects(read_output, facts, layout, place, sides)
    return BuiltIn(kind, _put_after(model, graph, outputs))


def _recognise(result: LearningModelEvaluationResult, facts: DetectorFacts) -> str:
    """The kind of a model's answers, in the order of `winml-py run`."""
    if find_segmentation(result, facts.labels):
        return MASKS
    if may_be_detections(result, facts.labels):
        return recognise_layout(facts).value
    if any(1 < row.size == max(row.shape, default=0) for row in read_floats(result).values()):
        return CLASSES
    raise NotSupportedError(
        "The model's answers are not recognised.", hint=f"Pass one of {', '.join(ANSWERS[1:])}; or omit answers."
    )


def _write_top_classes(
    read_output: Callable[[str], Expression], result: LearningModelEvaluationResult, labels: Sequence[str], kind: str
) -> Outputs:
    """The likeliest classes, the best first, as `result.top_k` gives them."""
    ranked = result.top_k(1 << 30, labels)  # all of them; raises if the outputs do not fit
    rows = read_floats(result).items()
    (name,) = (name for name, row in rows if row.size == len(ranked) == max(row.shape, default=0))
    scores, count = read_output(name).reshape(1, -1), min(MOST_LABELS, len(ranked))
    graph = scores.graph
    if kind == SOFTMAX:
        scores = scores.apply("Softmax", axis=-1)
    best, indices = _sort_best(scores, graph.vector(count))
    outputs: Outputs = {"top_classes": (indices, [1, count]), "top_scores": (best, [1, count])}
    names = [prediction.label for prediction in sorted(ranked, key=attrgetter("index"))]
    if any(names):
        outputs["top_labels"] = (graph.constant(names, np.str_).take(indices, 0), [1, count])
    return outputs


def _sort_best(scores: Expression, count: Expression) -> tuple[Expression, Expression]:
    """The largest numbers of the last axis and their positions, in order."""
    best, positions = scores.graph.split("TopK", scores, count, dtypes=(scores.dtype, np.int64))
    return best, positions


# Objects, as `vision.detections` gives them.


class _Objects(NamedTuple):
    """The objects of a picture, the best first.

    Attributes:
        boxes: objects x 4: centre, width and height, in pixels of the tensor.
        scores: of each object.
        classes: of each object.
        coefficients: objects x `PROTOTYPES`, whose masks are sums of prototypes; None if there are no masks.
    """

    boxes: Expression
    scores: Expression
    classes: Expression
    coefficients: Expression | None = None


def _write_objects(
    read_output: Callable[[str], Expression], facts: DetectorFacts, layout: DetectionLayout, place: Any, sides: Shape
) -> Outputs:
    """Boxes in pixels of the picture, the best first; their scores, classes, names and masks."""

    def read_array(array: Array) -> Expression:
        """The output of the model that gave this array, one of those in `facts.outputs`."""
        (name,) = (name for name, output in facts.outputs.items() if output is array)
        return read_output(name)

    prototypes = None if facts.prototypes is None else read_array(facts.prototypes)
    if facts.table is None:
        boxes, logits = map(read_array, facts.queries or ())
        objects = _decode_queries(boxes, logits, place)
    else:
        table = read_array(facts.table)
        rows = table.transpose(0, 2, 1) if layout is DetectionLayout.YOLO else table
        objects = _suppress(rows, facts, layout, has_masks=prototypes is not None)
    graph = objects.boxes.graph
    corners = _find_corners_in_picture(objects.boxes, place)
    outputs: Outputs = {
        "boxes": (corners.cast(np.float32), ["box_count", 4]),
        "box_scores": (objects.scores, ["box_count"]),
        "box_classes": (objects.classes, ["box_count"]),
    }
    if facts.labels:
        names = graph.constant(facts.labels, np.str_)
        outputs["box_labels"] = (names.take(objects.classes, 0), ["box_count"])
    if objects.coefficients is not None and prototypes is not None:
        masks = _write_masks(corners, objects.coefficients, prototypes, place)
        outputs["box_masks"] = (masks, ["box_count", *sides])
    return outputs


def _decode_queries(boxes: Expression, logits: Expression, place: Any) -> _Objects:
    """DETR's queries that are likely objects."""
    graph = logits.graph
    boxes = boxes.reshape(-1, 4)
    shares = logits.apply("Softmax", axis=-1).slice((0,), (logits.size(2) - 1,), (2,))  # the last is no object
    scores, classes = (value.reshape(-1) for value in _sort_best(shares, graph.vector(1)))
    scores, order = _sort_best(scores, scores.size(0).at_most(LIMIT).reshape(1))
    count = (scores > THRESHOLDS[DetectionLayout.DETR]).cast(np.int64).sum(0)
    order = order.slice((0,), (count,), (0,))
    boxes, scores, classes = boxes.take(order, 0), scores.slice((0,), (count,), (0,)), classes.take(order, 0)
    height, width = place.tensor
    boxes = boxes * _repeat_for_sides(graph, width, height).cast(np.float32)  # they are shares of the tensor
    return _Objects(boxes, scores, classes)


def _suppress(rows: Expression, facts: DetectorFacts, layout: DetectionLayout, has_masks: bool) -> _Objects:
    """The objects that non-maximum suppression keeps of YOLO's 1 x places x columns."""
    assert facts.table is not None
    graph, has_objectness = rows.graph, layout is DetectionLayout.YOLO_V5
    first_class = 5 if has_objectness else 4
    width = facts.table.shape[2 if has_objectness else 1] - first_class
    class_count = width - count_extra_numbers(facts, width)

    # A place has one box, of its likeliest class: its scores for the other classes are 0.
    best, classes = _sort_best(rows.slice((first_class,), (class_count,), (2,)), graph.vector(1))
    if has_objectness:
        best = best * rows.slice((4,), (1,), (2,))
    is_best = classes.equals(graph.constant(range(class_count), np.int64))
    scores = (best * is_best.cast(np.float32)).transpose(0, 2, 1)

    # Rows of picture, class and place.
    boxes = rows.slice((0,), (4,), (2,))
    overlap = graph.constant([OVERLAPS[layout]], np.float32)
    threshold = graph.constant([THRESHOLDS[layout]], np.float32)
    arguments = boxes, scores, graph.vector(LIMIT), overlap, threshold
    selected = graph.node("NonMaxSuppression", *arguments, dtype=np.int64, center_point_box=1)

    # The best first. Of equal scores, of which half precision has many, the first place comes first: `TopK` keeps the
    # order of equal numbers.
    places = selected.slice((2,), (1,), (1,)).reshape(-1)
    selected = selected.take(_sort_best(-places, places.size(0).reshape(1))[1], 0)
    selected_scores = graph.node("GatherND", scores, selected, dtype=np.float32)
    sorted_scores, order = _sort_best(selected_scores, selected_scores.size(0).at_most(LIMIT).reshape(1))
    _, classes, places = (selected.take(order, 0).slice((column,), (1,), (1,)).reshape(-1) for column in range(3))

    boxes = boxes.reshape(-1, 4).take(places, 0)
    coefficients = None
    if has_masks:
        first = rows.size(2) - PROTOTYPES
        coefficients = rows.slice((first,), (PROTOTYPES,), (2,)).reshape(-1, PROTOTYPES).take(places, 0)
    return _Objects(boxes, sorted_scores, classes, coefficients)


def _find_corners_in_picture(boxes: Expression, place: Any) -> Expression:
    """Left, top, right and bottom in pixels of the picture, like `PicturePlacement.boxes_to_picture`, in float64."""
    graph = boxes.graph
    middles, halves = boxes.slice((0,), (2,), (1,)), boxes.slice((2,), (2,), (1,)) * 0.5
    corners = graph.node("Concat", middles - halves, middles + halves, dtype=np.float32, axis=1)
    (factor_x, summand_x), (factor_y, summand_y) = place.to_picture
    height, width = place.picture
    factors = _repeat_for_sides(graph, factor_x, factor_y)
    summands = _repeat_for_sides(graph, summand_x, summand_y)
    ends = _repeat_for_sides(graph, width, height)
    return (corners * factors + summands).at_least(0).at_most(ends)


def _repeat_for_sides(graph: GraphWriter, x: Any, y: Any) -> Expression:
    """Numbers for the four sides of a box."""
    pair = [graph.as_expression(value).cast(np.float64).reshape(1) for value in (x, y)]
    return graph.node("Concat", *pair, *pair, dtype=np.float64, axis=0)


# Maps over the tensor, read at the picture's pixels as `vision.masks` reads them.


_TILE = 16
"""How many rows or columns of pixels are made at once: a matrix for all would be nearly all zeros."""


class _SideReading(NamedTuple):
    """How a map is read along one side of the picture.

    Attributes:
        cells: tiles x window: the cells of the map that are near each tile of pixels.
        weights: tiles x `_TILE` x window: how much each counts for a pixel, linear between their centres.
        nearest: the cell at the middle of each pixel.
        is_inside: whether a pixel is in the tensor.
        pixel_count: how many pixels there are.
    """

    cells: Expression
    weights: Expression
    nearest: Expression
    is_inside: Expression
    pixel_count: Expression


def _plan_reading(planes: Expression, place: Any) -> tuple[_SideReading, _SideReading]:
    """How planes over the tensor are read along the height and the width of the picture."""
    across, down = place.to_picture
    rows = _plan_side(planes.size(1), down, place.tensor[0], place.picture[0])
    columns = _plan_side(planes.size(2), across, place.tensor[1], place.picture[1])
    return rows, columns


def _plan_side(
    cell_count: Expression, to_picture: tuple[Any, Any], tensor: Any, pixel_count: Expression
) -> _SideReading:
    """How a side of a map is read, from its size, the factor and summand to the picture, and the sizes of both."""
    factor, summand = to_picture

    # Where the picture begins and ends in the map, in cells.
    share = cell_count / tensor
    start = (0 - summand) / factor * share
    end = (pixel_count - summand) / factor * share
    cells, weights = _plan_tiles(cell_count, pixel_count, start, end)

    # Classes are not interpolated: each pixel has that of the cell at its middle.
    middles = (cell_count.graph.range(pixel_count) + 0.5 - summand) / factor / tensor * cell_count
    nearest = math.floor(middles).at_least(0).at_most(cell_count - 1)
    is_inside = (middles >= 0) & (middles < cell_count)
    return _SideReading(cells, weights, nearest, is_inside, pixel_count)


def _plan_tiles(
    cell_count: Expression, pixel_count: Expression, start: Expression, end: Expression
) -> tuple[Expression, Expression]:
    """The cells that each tile of pixels reads, and their weights; the pixels lie from `start` to `end`, in cells."""
    graph = cell_count.graph
    step = (end - start) / pixel_count  # from pixel to pixel, in cells

    # Pixels outside of the map read what the first or the last pixel inside of it does.
    tiles = (pixel_count + (_TILE - 1)) // _TILE
    first_inside = math.ceil(-start / step - 1e-9).at_least(0).at_most(pixel_count - 1)
    end_inside = math.floor((cell_count - start) / step + 1e-9).at_most(pixel_count).at_least(first_inside + 1)
    pixels = graph.range(tiles * _TILE).at_least(first_inside).at_most(end_inside - 1)

    # The centre of each pixel, not nearer to the edge than half of a pixel, or of a cell if that is less.
    margin = step.at_most(1.0) * 0.5
    centres = ((pixels + 0.5) * step + start).at_least(margin).at_most(cell_count - margin).reshape(tiles, _TILE)

    # The cells of a tile: as many for each, from as far before its first centre as weights reach.
    reach = step.at_least(1.0)  # at least to the next cell
    window = math.ceil(step * _TILE + reach * 2 + 1).at_most(cell_count)
    first_centres = centres.slice((0,), (1,), (1,))
    first_cells = math.floor(first_centres - reach).at_least(0).at_most(cell_count - window)
    cells = first_cells + graph.range(window)

    # Weights fall with the distance from a pixel to a cell's centre; their sum is 1 for each pixel.
    distances = abs(cells.unsqueeze(1) + 0.5 - centres.unsqueeze(2))
    weights = (1 - distances / reach).at_least(0)
    return cells, (weights / weights.sum(2, keepdims=True)).cast(np.float32)


def _read_tiles(
    planes: Expression, rows: _SideReading, columns: _SideReading, finish: Callable[[Expression], Expression]
) -> Expression:
    """What `finish` makes of planes x 16 rows x columns of pixels, tile by tile: all at once could fill the memory."""
    graph = planes.graph

    def read_tile(index: Expression) -> list[Expression]:
        near = planes.take(rows.cells.take(index, 0), 1)
        low = graph.node("MatMul", rows.weights.take(index, 0), near, dtype=np.float32).transpose(0, 2, 1)
        wide = graph.node("MatMul", columns.weights, low.take(columns.cells, 1), dtype=np.float32)
        wide = wide.reshape(low.size(0), columns.cells.size(0) * _TILE, _TILE).transpose(0, 2, 1)
        return [finish(wide.slice((0,), (columns.pixel_count,), (2,)))]

    return graph.loop(rows.cells.size(0), read_tile)[0]


def _write_class_map(stack: Expression, place: Any) -> Expression:
    """The class of each pixel: from n x classes x height x width, or from classes."""
    graph, planes = stack.graph, stack.reshape(-1, stack.size(-2), stack.size(-1))
    rows, columns = _plan_reading(planes, place)
    if planes.dtype is np.int64:
        classes = planes.take(rows.nearest, 1).take(columns.nearest, 2)
    else:
        find_best = partial(graph.node, "ArgMax", dtype=np.int64, keepdims=0)
        classes = _read_tiles(planes, rows, columns, find_best)
    classes = classes.reshape(-1, columns.pixel_count).slice((0,), (rows.pixel_count,), (0,))
    is_inside = rows.is_inside.unsqueeze(1) & columns.is_inside
    return graph.where(is_inside, classes, OUTSIDE).cast(np.int32)


def _write_masks(corners: Expression, coefficients: Expression, prototypes: Expression, place: Any) -> Expression:
    """The mask of each object, false outside of its box: bool, objects x height x width."""
    graph, (height, width) = corners.graph, (prototypes.size(2), prototypes.size(3))
    # A row more, for a picture without objects: ONNX Runtime 1.24 fails where no matrices are multiplied.
    extra_row = graph.constant(np.zeros((1, PROTOTYPES)), np.float32)
    coefficients = graph.node("Concat", coefficients, extra_row, dtype=np.float32, axis=0)
    logits = graph.node("MatMul", coefficients, prototypes.reshape(PROTOTYPES, -1), dtype=np.float32)
    count, planes = corners.size(0) + 1, logits.reshape(-1, height, width)
    rows, columns = _plan_reading(planes, place)
    tiles = rows.cells.size(0)
    masks = _read_tiles(planes, rows, columns, lambda pixels: pixels > 0)
    # Tiles x objects x 16 rows become objects x rows, without the last tile's rows below the picture.
    masks = masks.reshape(tiles, count, _TILE, columns.pixel_count).transpose(1, 0, 2, 3)
    masks = masks.reshape(count, tiles * _TILE, columns.pixel_count)
    masks = masks.slice((0, 0), (count - 1, rows.pixel_count), (0, 1))
    left, top, right, bottom = (corners.slice((side,), (1,), (1,)) for side in range(4))
    x, y = graph.range(columns.pixel_count), graph.range(rows.pixel_count)
    is_across = (x >= math.floor(left)) & (x < math.ceil(right))
    is_down = (y >= math.floor(top)) & (y < math.ceil(bottom))
    return masks & is_down.unsqueeze(2) & is_across.unsqueeze(1)


def _put_after(model: onnx.ModelProto, graph: GraphWriter, outputs: Outputs) -> dict[str, str]:
    """Appends nodes and outputs; returns the outputs' names, which end in a number where the model has them already."""
    from onnx import helper

    used_names, names = list_names(model), {}
    for content, (value, shape) in outputs.items():
        numbered = (f"{content}_{number}" for number in range(2, len(used_names) + 3))
        names[content] = next(name for name in (content, *numbered) if name not in used_names)
        graph.node("Identity", value, dtype=value.dtype, output=names[content])
        model.graph.output.append(helper.make_tensor_value_info(names[content], value.onnx_type, shape))
    model.graph.node.extend(graph.nodes)
    return names
