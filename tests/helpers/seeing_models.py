"""Models that see: they find the red rectangle in the tensor they are given, and say so in the layout of a detector.

Nothing of the package takes part in what they compute, so that a box which comes back to its place in the picture shows
that layout, placement and mapping are right.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

SIDE = 320
PLACES = 40 * 40 + 20 * 20 + 10 * 10
LABELS = ("cat", "dog", "bird")
ULTRALYTICS = {
    "author": "Ultralytics",
    "imgsz": f"[{SIDE}, {SIDE}]",
    "names": "{0: 'cat', 1: 'dog', 2: 'bird'}",
    "channels": "3",
}

_SEES = f"""
    zero = Constant<value = int64[1] {{0}}>()
    one = Constant<value = int64[1] {{1}}>()
    two = Constant<value = int64[1] {{2}}>()
    half = Constant<value_float = 0.5>()
    side = Constant<value_float = {SIDE}.0>()
    rows_axes = Constant<value = int64[2] {{1, 3}}>()
    columns_axes = Constant<value = int64[2] {{1, 2}}>()
    red = Slice(x, zero, one, one)
    green = Slice(x, one, two, one)
    difference = Sub(red, green)
    is_red = Greater(difference, half)
    mask = Cast<to = 1>(is_red)
    columns = ReduceMax<keepdims = 0>(mask, columns_axes)
    rows = ReduceMax<keepdims = 0>(mask, rows_axes)
    left_i = ArgMax<axis = 1>(columns)
    right_i = ArgMax<axis = 1, select_last_index = 1>(columns)
    top_i = ArgMax<axis = 1>(rows)
    bottom_i = ArgMax<axis = 1, select_last_index = 1>(rows)
    right_1 = Add(right_i, one)
    bottom_1 = Add(bottom_i, one)
    left = Cast<to = 1>(left_i)
    top = Cast<to = 1>(top_i)
    right = Cast<to = 1>(right_1)
    bottom = Cast<to = 1>(bottom_1)
    width = Sub(right, left)
    height = Sub(bottom, top)
    x_sum = Add(left, right)
    y_sum = Add(top, bottom)
    x_middle = Mul(x_sum, half)
    y_middle = Mul(y_sum, half)
    middle = Concat<axis = 1>(x_middle, y_middle, width, height)
    corners = Concat<axis = 1>(left, top, right, bottom)
"""
"""Gives `middle` and `corners`, 1 x 4 each, and `mask`, 1 x 1 x SIDE x SIDE."""

_PROTOTYPES = """
    pooled = AveragePool<kernel_shape = [4, 4], strides = [4, 4]>(mask)
    centred = Sub(pooled, half)
    rest = ConstantOfShape<value = float[1] {0}>(rest_shape)
    prototypes = Concat<axis = 1>(centred, rest)
"""


def _numbers(name: str, values: list[float]) -> str:
    return f"{name} = Constant<value = float[1, {len(values)}] {{{', '.join(map(str, values))}}}>()\n"


def _shape(name: str, *sizes: int) -> str:
    return f"{name} = Constant<value = int64[{len(sizes)}] {{{', '.join(map(str, sizes))}}}>()\n"


def yolo(extra: str = "") -> str:
    """One object (dog, 0.9), the same two pixels aside (dog, 0.6), and nothing everywhere else; `extra` a row more."""
    numbers = {"": 0, "mix": 32, "points": 6}[extra]
    rest = f", {extra}" if extra else ""
    return (
        _numbers("scores", [0.1, 0.9, 0.05])
        + _numbers("less", [0.1, 0.6, 0.05])
        + _numbers("aside", [2, 2, 0, 0])
        + _extras(extra)
        + f"row = Concat<axis = 1>(middle, scores{rest})\n"
        + "middle_2 = Add(middle, aside)\n"
        + f"row_2 = Concat<axis = 1>(middle_2, less{rest})\n"
        + "both = Concat<axis = 0>(row, row_2)\n"
        + _shape("nothing_shape", PLACES - 2, 7 + numbers)
        + "nothing = ConstantOfShape<value = float[1] {0}>(nothing_shape)\n"
        + "all = Concat<axis = 0>(both, nothing)\n"
        + "turned = Transpose<perm = [1, 0]>(all)\n"
        + "output0 = Unsqueeze(turned, zero)\n"
    )


def _extras(extra: str) -> str:
    if extra == "mix":
        return _numbers("mix", [20.0, *[0.0] * 31])
    if extra == "points":  # the corner at the left and top, and the other one
        return _numbers("sure", [0.75]) + "points = Concat<axis = 1>(left, top, sure, right, bottom, sure)\n"
    return ""


def yolo_v5() -> str:
    return (
        _numbers("scores", [0.9, 0.1, 0.9, 0.05])  # the first: whether there is an object
        + "row = Concat<axis = 1>(middle, scores)\n"
        + _shape("nothing_shape", 3 * PLACES - 1, 8)
        + "nothing = ConstantOfShape<value = float[1] {0}>(nothing_shape)\n"
        + "all = Concat<axis = 0>(row, nothing)\n"
        + "output0 = Unsqueeze(all, zero)\n"
    )


def end_to_end() -> str:
    return (
        _numbers("answer", [0.81, 1.0])
        + "row = Concat<axis = 1>(corners, answer)\n"
        + _shape("nothing_shape", 299, 6)
        + "nothing = ConstantOfShape<value = float[1] {0}>(nothing_shape)\n"
        + "all = Concat<axis = 0>(row, nothing)\n"
        + "output0 = Unsqueeze(all, zero)\n"
    )


def rt_detr_ultralytics() -> str:
    return (
        _numbers("scores", [0.1, 0.81, 0.05])
        + "share = Div(middle, side)\n"
        + "row = Concat<axis = 1>(share, scores)\n"
        + _shape("nothing_shape", 299, 7)
        + "nothing = ConstantOfShape<value = float[1] {0}>(nothing_shape)\n"
        + "all = Concat<axis = 0>(row, nothing)\n"
        + "output0 = Unsqueeze(all, zero)\n"
    )


def queries(logits: list[float]) -> str:
    """DETR's and RT-DETR's two outputs; the second query is nothing."""
    return (
        _numbers("first", logits)
        + _numbers("second", [-9.0] * (len(logits) - 1) + [9.0 if len(logits) == 4 else -9.0])
        + "share = Div(middle, side)\n"
        + "both_boxes = Concat<axis = 0>(share, share)\n"
        + "pred_boxes = Unsqueeze(both_boxes, zero)\n"
        + "both = Concat<axis = 0>(first, second)\n"
        + "logits = Unsqueeze(both, zero)\n"
    )


def torchvision() -> str:
    return (
        "boxes = Concat<axis = 0>(corners, corners)\n"
        "labels = Constant<value = int64[2] {1, 2}>()\n"
        "scores = Constant<value = float[2] {0.81, 0.07}>()\n"
    )


def prototypes() -> str:
    return _shape("rest_shape", 1, 31, SIDE // 4, SIDE // 4) + _PROTOTYPES


SEGMENTER = """
    no = Sub(half, mask)
    pooled_yes = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(mask)
    pooled_no = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(no)
    low = Sub(pooled_no, side)
    logits = Concat<axis = 1>(pooled_no, low, pooled_yes)
"""
"""Classes of pixels: 2 in the rectangle, 0 around it."""


def make_model(nodes: str, outputs: Mapping[str, str], metadata: Mapping[str, str] | None = None) -> bytes:
    """A model of one picture, RGB from 0 to 1.

    Args:
        nodes: one or more of the texts above, joined.
        outputs: their types by name, such as `float[1, 7, 2100]`.
        metadata: what its file says.
    """
    declared = ", ".join(f"{kind} {name}" for name, kind in outputs.items())
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
    seeing (float[1, 3, {SIDE}, {SIDE}] x) => ({declared}) {{ {_SEES} {nodes} }}"""
    model = onnx.parser.parse_model(text)
    onnx.helper.set_model_props(model, dict(metadata or {}))
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()
