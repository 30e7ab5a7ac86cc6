"""Contracts built into models of old operator sets: the original's answer, or refused; never another number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from winml_py import BitmapPixelFormat, ImageContract, NotSupportedError
from winml_py.authoring import build_in

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
SHAPE = (1, 3, 6, 7)
PIXELS = RNG.integers(0, 256, (6, 7, 3), np.uint8)
PLANES = PIXELS.transpose(2, 0, 1)[None].astype(np.float32)


def numbers(*shape: int) -> Array:
    return RNG.normal(0, 1, shape).astype(np.float32)


def whole(*values: int) -> Array:
    return np.array(values, np.int64)


ONES, SCALES = np.ones(3, np.float32), np.array([1, 1, 2, 2], np.float32)
REDUCTIONS = "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare"
UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Floor GlobalAveragePool GlobalLpPool GlobalMaxPool "
    "HardSigmoid Hardmax Identity IsInf IsNaN LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization Neg "
    "NonZero Reciprocal Relu Round Selu Shape Sigmoid Sign Sin Sinh Size Softmax Softplus Softsign Sqrt Tan Tanh "
    "ThresholdedRelu Transpose Flatten Squeeze Dropout ArgMax ArgMin Unique Celu HardSwish"
)

# The operator, its attributes, and the inputs after the picture: weights, or names of earlier values. ONNX Runtime runs
# no operator with the attributes `broadcast`, `is_test` or `consumed_inputs`.
Row = tuple[str, dict[str, Any], tuple[Any, ...]]
ROWS: list[Row] = [
    *((operator, {}, ()) for operator in UNARY.split()),
    *((f"Reduce{kind}", {"axes": axes, "keepdims": keep}, ())
      for kind in REDUCTIONS.split() for axes, keep in (([1], 1), ([-1, 2], 0))),
    *((f"Reduce{kind}", {}, ()) for kind in REDUCTIONS.split()),
    *((operator, {"axis": axis}, ())
      for operator in ("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "Flatten", "LpNormalization")
      for axis in (0, 1, 2, 3)),
    *((operator, {"axis": -1}, ()) for operator in ("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "Flatten")),
    *(("Resize", {"mode": mode}, (scales,)) for mode in ("nearest", "linear")
      for scales in (SCALES, np.array([1, 1, 0.5, 0.5], np.float32), np.array([1, 1, 1.5, 2.5], np.float32))),
    *(("Resize", {"mode": mode, "coordinate_transformation_mode": way}, (np.array([], np.float32), SCALES))
      for mode in ("nearest", "linear", "cubic")
      for way in ("half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn", "pytorch_half_pixel")),
    *(("Upsample", {"mode": mode}, (scales,)) for mode in ("nearest", "linear")
      for scales in (SCALES, np.array([1, 1, 1.5, 2.5], np.float32))),
    *(("Upsample", {"mode": mode, "scales": [1.0, 1.0, 2.0, 2.0]}, ()) for mode in ("nearest", "linear")),
    ("BatchNormalization", {}, (ONES, ONES, ONES * 0.5, ONES * 2)),
    ("BatchNormalization", {"epsilon": 0.1}, (ONES, ONES, ONES * 0.5, ONES * 2)),
    ("BatchNormalization", {"spatial": 0}, tuple(abs(numbers(3, 6, 7)) for _ in range(4))),
    ("Dropout", {"ratio": 0.4}, ()), ("Dropout", {"ratio": 0.0}, ()),
    ("Pad", {"pads": [0, 0, 1, 2, 0, 0, 3, 1], "value": 1.5}, ()),
    ("Pad", {"pads": [0, 0, 1, 2, 0, 0, 3, 1], "mode": "reflect"}, ()),
    ("Pad", {"pads": [0, 0, 1, 0, 0, 0, -2, 1], "mode": "edge"}, ()),
    ("Pad", {"mode": "constant"}, (whole(0, 0, 1, 2, 0, 0, 3, 1), np.float32(2))),
    ("Clip", {"min": -1.0, "max": 2.0}, ()), ("Clip", {"min": 0.5}, ()), ("Clip", {}, ()),
    ("Clip", {}, (np.float32(-1), np.float32(2))),
    ("Slice", {"starts": [1, 2], "ends": [-1, 5], "axes": [2, 3]}, ()),
    ("Slice", {"starts": [0, 1], "ends": [9, 3]}, ()),
    ("Slice", {}, (whole(5, 0), whole(0, 7), whole(2, 3), whole(-2, 2))),
    ("TopK", {"k": 2}, ()), ("TopK", {"k": 2, "axis": 1}, ()), ("TopK", {"axis": 2}, (whole(3),)),
    ("TopK", {"axis": 2, "largest": 0}, (whole(3),)),
    ("Squeeze", {"axes": [0]}, ()), ("Unsqueeze", {"axes": [0, 3]}, ()), ("Unsqueeze", {"axes": [-1]}, ()),
    ("Split", {"axis": 1}, ()), ("Split", {"axis": 3, "split": [2, 4, 1]}, ()),
    ("Split", {"axis": -1, "split": [2, 4, 1]}, ()),
    *((operator, {}, (np.abs(weight) + 1,))
      for operator in ("Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater", "Equal", "PRelu")
      for weight in (numbers(7), numbers(3, 1, 1), numbers(*SHAPE))),
    ("Pow", {}, (whole(2),)), ("Pow", {}, (np.int32(3),)), ("Mod", {"fmod": 1}, (np.float32(3),)),
    ("Max", {}, (numbers(*SHAPE),)), ("Min", {}, (numbers(7),)), ("Sum", {}, (numbers(*SHAPE), numbers(3, 1, 1))),
    ("Mean", {}, (numbers(*SHAPE), numbers(*SHAPE))), ("Max", {}, ()),
    ("Concat", {"axis": 1}, (numbers(*SHAPE),)), ("Concat", {"axis": -1}, (numbers(*SHAPE),)),
    ("Reshape", {"shape": [0, -1]}, ()), ("Reshape", {}, (whole(0, -1),)), ("Expand", {}, (whole(2, 3, 6, 7),)),
    ("Tile", {}, (whole(1, 2, 1, 3),)), ("Transpose", {"perm": [0, 2, 3, 1]}, ()),
    ("Cast", {"to": TensorProto.INT32}, ()), ("Cast", {"to": TensorProto.DOUBLE}, ()),
    ("Cast", {"to": TensorProto.UINT8}, ()), ("Cast", {"to": TensorProto.FLOAT16}, ()),
    ("Gather", {"axis": 2}, (whole(4, 0, -1),)), ("Gather", {"axis": 3}, (whole(4, 0),)),
    ("GatherElements", {"axis": 3}, (whole(*range(6)).reshape(1, 1, 6, 1).repeat(3, 1),)),
    ("GatherND", {}, (whole(0, 1).reshape(1, 2),)), ("ScatterND", {}, (whole(0, 1).reshape(1, 2), numbers(1, 6, 7))),
    ("ScatterElements", {"axis": 3}, (whole(2).reshape(1, 1, 1, 1), numbers(1, 1, 1, 1))),
    ("Scatter", {"axis": 3}, (whole(2).reshape(1, 1, 1, 1), numbers(1, 1, 1, 1))),
    ("Compress", {"axis": 3}, (np.array([1, 0, 1, 1], bool),)), ("CumSum", {}, (np.int32(2),)),
    ("MatMul", {}, (numbers(7, 4),)), ("Conv", {"pads": [1, 1, 1, 1]}, (numbers(2, 3, 3, 3), numbers(2))),
    ("Conv", {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (numbers(2, 3, 3, 3),)),
    ("ConvTranspose", {"strides": [2, 2], "output_padding": [1, 1]}, (numbers(3, 2, 3, 3),)),
    ("ConvTranspose", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (numbers(3, 2, 3, 3),)),
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, ()),
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, ()),
    ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 2]}, ()),
    ("MaxPool", {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER"}, ()),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, ()),
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1,
                     "pads": [1, 1, 1, 1]}, ()),
    ("AveragePool", {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}, ()),
    ("LpPool", {"kernel_shape": [3, 3], "strides": [2, 2]}, ()), ("LRN", {"size": 3}, ()),
    ("InstanceNormalization", {}, (ONES, ONES * 0.5)), ("DepthToSpace", {"blocksize": 1}, ()),
    ("SpaceToDepth", {"blocksize": 1}, ()), ("MaxRoiPool", {"pooled_shape": [2, 2]}, (numbers(1, 5) * 0,)),
    ("RoiAlign", {"output_height": 2, "output_width": 2},
     (np.array([[0.5, 0.5, 4, 5]], np.float32), whole(0))),
    ("Where", {}, ("is_positive", numbers(*SHAPE))), ("And", {}, ("is_positive", "is_positive")),
    ("Or", {}, ("is_positive", "is_positive")), ("Xor", {}, ("is_positive", "is_positive")),
    ("Not", {}, ("is_positive",)), ("OneHot", {}, ("k", whole(5), np.array([0, 1], np.float32))),
    ("ConstantOfShape", {}, ("k",)), ("ReverseSequence", {"batch_axis": 0, "time_axis": 1}, (whole(2),)),
    ("QuantizeLinear", {}, (np.float32(0.02), np.uint8(128))), ("EyeLike", {}, ("flat",)),
    ("Gemm", {"alpha": 0.5, "transB": 1}, ("flat", numbers(4, 42), numbers(4))),
    ("Gemm", {}, ("flat", numbers(42, 4), numbers(4))), ("Det", {}, ("square",)),
    ("NonMaxSuppression", {}, (np.array([[[0, 0, 1, 1]]], np.float32), np.ones((1, 1, 1), np.float32), whole(5))),
    *((operator, {"hidden_size": 4}, ("rows", numbers(1, 4 * gates, 7), numbers(1, 4 * gates, 4)))
      for operator, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))),
]  # fmt: skip

OUTPUTS = {"TopK": 2, "Split": 3, "RNN": 2, "GRU": 2, "LSTM": 3}
NEWEST = 22
"""The operator set that joins convert to. Built-in nodes need 13."""


def find_opsets(operator: str) -> list[int]:
    """The operator sets in which an operator has another version than in those before."""
    history = {schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.name == operator}
    return sorted({*history, 7, 12} - {version for version in history if version >= NEWEST})


def make_model(row: Row, opset: int, is_free: bool) -> bytes | None:
    """A model of the operator behind a picture; None if ONNX Runtime does not run it in this operator set."""
    operator, attributes, others = row
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["scaled"]),
        helper.make_node("Add", ["scaled", "summand"], ["signed"]),
    ]
    weights = {"factor": np.full(1, 1 / 32, np.float32), "summand": np.full(1, -4, np.float32)}
    made = {
        "flat": helper.make_node("Reshape", ["signed", "flat shape"], ["flat"]),
        "square": helper.make_node("Reshape", ["signed", "square shape"], ["square"]),
        "rows": helper.make_node("Reshape", ["signed", "rows shape"], ["rows"]),
        "is_positive": helper.make_node("Greater", ["signed", "zero"], ["is_positive"]),
        "k": helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(whole(3, 2))),
    }
    inputs = [] if others and isinstance(others[0], str) and others[0] != "is_positive" else ["signed"]
    if operator in ("And", "Or", "Xor", "Not", "NonMaxSuppression"):
        inputs = []
    if operator == "Where":
        others = ("is_positive", "signed", others[1])
        inputs = []
    for place, other in enumerate(others):
        if isinstance(other, str):
            nodes += [made[other]] if other in made and made[other] not in nodes else []
            inputs.append(other)
        else:
            weights[f"w{place}"] = np.asarray(other)
            inputs.append(f"w{place}")
    weights |= {"flat shape": whole(3, 42), "square shape": whole(14, 3, 3), "rows shape": whole(18, 1, 7)}
    weights["zero"] = np.zeros(SHAPE, np.float32)
    outputs = [f"y{place}" for place in range(OUTPUTS.get(operator, 1))]
    nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
    if opset < 7:  # the runtime has no Mul and Add of these sets
        nodes = nodes[2:]
        for node in nodes:
            node.input[:] = ["x" if name == "signed" else name for name in node.input]
    used = {name for node in nodes for name in node.input}
    sides = ["height", "width"] if is_free else SHAPE[2:]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, *sides])]
    graph = helper.make_graph(
        nodes, "g", ends, list(map(helper.make_empty_tensor_value_info, outputs)),
        [numpy_helper.from_array(value, name) for name, value in weights.items() if name in used],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    try:
        session = open_raw(model.SerializeToString())
        session.run(None, {"x": PLANES})
    except Exception:  # the runtime raises classes that have no common base
        return None
    elements = {"float": "FLOAT", "double": "DOUBLE"}
    for info, output in zip(session.get_outputs(), graph.output, strict=True):
        name = info.type.removeprefix("tensor(").removesuffix(")")
        element = TensorProto.DataType.Value(elements.get(name, name.upper()))
        output.CopyFrom(helper.make_tensor_value_info(info.name, element, None))
    model.graph.CopyFrom(graph)
    return bytes(model.SerializeToString())


def open_raw(model: bytes | str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def require_same(expected: list[Array], actual: list[Array], words: str) -> None:
    for before, after in zip(expected, actual, strict=True):
        assert before.dtype == after.dtype, words
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4, err_msg=words)


def build(model: bytes, folder: Path) -> bool:
    """Whether the contract could be built in; then the answer must be the original's."""
    source, target = folder / "model.onnx", folder / "built.onnx"
    source.write_bytes(model)
    target.unlink(missing_ok=True)
    try:
        build_in(source, target, ImageContract(BitmapPixelFormat.RGB8))
    except NotSupportedError as error:
        if target.exists() or "operator set" not in str(error):
            raise
        return False
    expected = open_raw(model).run(None, {"x": PLANES})
    require_same(expected, open_raw(str(target)).run(None, {"x": PIXELS}), str(onnx.load(source).graph.node))
    return True


@pytest.mark.parametrize(
    ("row", "opset", "is_converted"),
    [
        (("Resize", {"mode": "linear"}, (SCALES,)), 10, False),  # it was asymmetric
        (("Resize", {"mode": "nearest"}, (SCALES,)), 10, True),  # twice the size: the same pixels
        (("Upsample", {"mode": "linear"}, (SCALES,)), 9, False),
        (("Hardmax", {"axis": 1}, ()), 11, False),  # over all axes from this one on
        (("Softmax", {"axis": 1}, ()), 11, True),
        (("Clip", {"min": -1.0, "max": 2.0}, ()), 7, True),
        (("ReduceSum", {"axes": [1], "keepdims": 0}, ()), 11, True),
    ],
)
def test_an_old_model_is_converted_rightly_or_refused(row: Row, opset: int, is_converted: bool, tmp_path: Path) -> None:
    for is_free in (False, True):
        model = make_model(row, opset, is_free)
        assert model is not None
        assert build(model, tmp_path) == is_converted


def convert(nodes: list[onnx.NodeProto], outputs: dict[str, int], opset: int, folder: Path) -> None:
    """Builds a contract into a model of a picture."""
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])]
    made = [helper.make_tensor_value_info(name, element, None) for name, element in outputs.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", ends, made), opset_imports=[helper.make_opsetid("", opset)], ir_version=6
    )
    source = folder / "model.onnx"
    source.write_bytes(model.SerializeToString())
    build_in(source, folder / "built.onnx", ImageContract())


def test_a_difference_inside_the_model_is_found_where_its_answer_hides_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Hardmax", ["x"], ["h"], axis=1),
        helper.make_node("Shape", ["h"], ["y"]),  # the same, whatever is in h
    ]
    with pytest.raises(NotSupportedError, match=r"has 11 and .* returns different results: 'h' of Hardmax: the "):
        convert(nodes, {"y": TensorProto.INT64}, 11, tmp_path)


def test_an_empty_answer_is_no_evidence(tmp_path: Path) -> None:
    nodes = [helper.make_node("Slice", ["x"], ["y"], starts=[0], ends=[0], axes=[2])]
    with pytest.raises(NotSupportedError, match="'y' was empty"):
        convert(nodes, {"y": TensorProto.FLOAT}, 9, tmp_path)


def test_a_subgraph_is_refused_unless_its_operators_mean_the_same(tmp_path: Path) -> None:
    def choose(operator: str) -> list[onnx.NodeProto]:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in "ab"]
        branches = [
            helper.make_graph([helper.make_node(kind, ["x"], [end.name])], "g", [], [end])
            for kind, end in zip(("Cos", operator), ends, strict=True)
        ]
        true = numpy_helper.from_array(np.array(True))
        return [
            helper.make_node("Constant", [], ["c"], value=true),
            helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        ]

    with pytest.raises(NotSupportedError, match="Hardmax is in a subgraph or a function"):
        convert(choose("Hardmax"), {"y": TensorProto.FLOAT}, 12, tmp_path)
    convert(choose("Sin"), {"y": TensorProto.FLOAT}, 12, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_never_another_number(row: Row, tmp_path: Path) -> None:
    for opset in find_opsets(row[0]):
        if opset < 13 and (model := make_model(row, opset, is_free=True)) is not None:  # built-in nodes need set 13
            build(model, tmp_path)
