"""Models built of operators: what they compute, by numpy and raw ONNX Runtime, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, numpy_helper

from helpers.sentences import require_sentence
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    InvalidArgumentError,
    LearningModel,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
    NotSupportedError,
    TensorInt64Bit,
    TensorKind,
    TensorString,
)
from winml_py._graphs import model_file
from winml_py.errors import StorageNotFoundError
from winml_py.experimental import LearningModelBuilder, LearningModelOperator, LearningModelSessionExperimental

describe = LearningModelBuilder.create_tensor_feature_descriptor
FLOAT, INT64 = TensorKind.FLOAT, TensorKind.INT64


def operator(kind: str, domain: str = "") -> LearningModelOperator:
    return LearningModelOperator(kind, domain)


def unary(kind: str, given: str, made: str) -> LearningModelOperator:
    return operator(kind).set_input("X", given).set_output("Y", made)


def builder(opset: int = 17, **inputs: list[int | str]) -> LearningModelBuilder:
    """A builder of a model of float inputs."""
    made = LearningModelBuilder.create(opset)
    for name, shape in inputs.items():
        made.inputs.add(describe(name, FLOAT, shape))
    return made


def proto(made: LearningModelBuilder, folder: Path) -> onnx.ModelProto:
    made.save(folder / "built.onnx")
    return onnx.load(folder / "built.onnx")


def raw(made: LearningModelBuilder, folder: Path, **inputs: Any) -> list[Any]:
    """What ONNX Runtime gives, without us."""
    made.save(folder / "built.onnx")
    return onnxruntime.InferenceSession(folder / "built.onnx", providers=["CPUExecutionProvider"]).run(None, inputs)


def x(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_built_model_runs_here_and_elsewhere(tmp_path: Path) -> None:
    made = builder(a=[2, 3], b=[3, 4]).outputs.add(describe("y", "the product", FLOAT, [2, 4]))
    made.operators.add(operator("MatMul").set_input("A", "a").set_input("B", "b").set_output("Y", "y"))
    model, (a, b) = made.create_model(), (x(2, 3), x(3, 4))
    result = LearningModelSession(model).evaluate_features({"a": a, "b": b}).outputs["y"].to_numpy()
    np.testing.assert_allclose(result, a @ b, rtol=1e-5)
    np.testing.assert_allclose(raw(made, tmp_path, a=a, b=b)[0], a @ b, rtol=1e-5)
    assert (model.opsets, model.name, model.output_features[0].description) == ({"": 17}, "model", "the product")
    assert [feature.shape for feature in model.input_features] == [(2, 3), (3, 4)]
    # The builder goes on after a model.
    made.outputs.add(describe("z", FLOAT, [2, 3])).operators.add(unary("Neg", "a", "z"))
    assert [len(built.output_features) for built in (model, made.create_model())] == [1, 2]


def test_the_order_of_operators_is_that_of_the_graph_and_the_bytes_are_always_the_same(tmp_path: Path) -> None:
    def build(order: int) -> LearningModelBuilder:
        made = builder(a=[2]).outputs.add(describe("y", FLOAT, [2]))
        for added in (unary("Abs", "a", "b"), unary("Neg", "b", "y"))[::order]:
            made.operators.add(added)
        return made

    first = proto(build(1), tmp_path)
    assert proto(build(1), tmp_path) == first
    assert [node.name for node in first.graph.node] == ["Abs_0", "Neg_1"]
    assert [node.name for node in proto(build(-1), tmp_path).graph.node] == ["Abs_1", "Neg_0"]
    assert raw(build(-1), tmp_path, a=np.float32([-1, 2]))[0].tolist() == [-1, -2]


def test_inputs_that_are_left_out_have_no_name(tmp_path: Path) -> None:
    made = builder(a=[4]).outputs.add(describe("y", FLOAT, [4]))
    # Names of schemas are found in any case.
    made.operators.add(operator("Clip").set_input("INPUT", "a").set_constant("Max", 0.5).set_output("output", "y"))
    node = proto(made, tmp_path).graph.node[0]
    assert list(node.input) == ["a", "", "Clip_0.max"]
    assert raw(made, tmp_path, a=np.float32([-2, 0, 1, 2]))[0].tolist() == [-2, 0, 0.5, 0.5]


def test_lists_of_inputs_and_outputs(tmp_path: Path) -> None:
    made = builder(a=[2], b=[4]).outputs.add(describe("c", FLOAT, [3])).outputs.add(describe("d", FLOAT, [3]))
    made.operators.add(
        operator("Concat").set_input("inputs", ["a", "b"]).set_attribute("axis", 0).set_output("concat_result", "ab")
    )
    made.operators.add(operator("Split").set_input("input", "ab").set_output("outputs", ["c", "d"]))
    assert [part.tolist() for part in raw(made, tmp_path, a=np.float32([0, 1]), b=np.float32([2, 3, 4, 5]))] == [
        [0, 1, 2],
        [3, 4, 5],
    ]


def test_outputs_that_nothing_reads_are_made_where_the_operator_has_to(tmp_path: Path) -> None:
    made = builder(a=[4]).outputs.add(describe("best", INT64, [1]))
    for number in range(2):
        name = "best" if number == 0 else "again"
        made.operators.add(operator("TopK").set_input("X", "a").set_constant("K", [1]).set_output("Indices", name))
    nodes = proto(made, tmp_path).graph.node
    assert [list(node.output) for node in nodes] == [["TopK_0.Values", "best"], ["TopK_1.Values", "again"]]
    assert raw(made, tmp_path, a=np.float32([1, 7, 3, 5]))[0].tolist() == [1]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (2, np.int64),
        (2.0, np.float32),
        ([[1.0], [2.0]], np.float32),
        (True, np.bool_),
        (np.float16([1, 2]), np.float16),
        (np.float64(2), np.float64),
        (TensorInt64Bit.create_from_array([2], [3, 4]), np.int64),
        (np.arange(6).reshape(2, 3).T, np.int64),
    ],
)
def test_constants(tmp_path: Path, value: Any, dtype: type) -> None:
    made = LearningModelBuilder.create(17).inputs.add_constant("c", value)
    array = value.to_numpy() if isinstance(value, TensorInt64Bit) else np.asarray(value, dtype)
    kind = {kind.name: kind for kind in TensorKind}
    words = {"bool": "BOOLEAN", "float32": "FLOAT", "float64": "DOUBLE"}
    made.outputs.add(describe("y", kind[words.get(array.dtype.name, array.dtype.name.upper())], array.shape))
    made.operators.add(operator("Identity").set_input("input", "c").set_output("output", "y"))
    stored = numpy_helper.to_array(proto(made, tmp_path).graph.initializer[0])
    assert stored.dtype == dtype
    np.testing.assert_array_equal(stored, array)
    np.testing.assert_array_equal(LearningModelSession(made.create_model()).evaluate_features({}).outputs["y"], array)
    texts = LearningModelBuilder.create(17).inputs.add_constant("c", ["a", "ü"])
    texts.outputs.add(describe("y", TensorKind.STRING, [2]))
    texts.operators.add(operator("Identity").set_input("input", "c").set_output("output", "y"))
    outputs = LearningModelSession(texts.create_model()).evaluate_features({}).outputs
    assert outputs["y"].get_as_vector_view() == ["a", "ü"]


def test_a_default_is_used_here_and_replaced_by_others(tmp_path: Path) -> None:
    made = builder(a=[2]).inputs.add("gain", "how loud", np.float32([3])).outputs.add(describe("y", FLOAT, [2]))
    made.operators.add(operator("Mul").set_input("A", "a").set_input("B", "gain").set_output("C", "y"))
    model, a = made.create_model(), np.float32([1, 2])
    assert [feature.name for feature in model.input_features] == ["a"]
    assert LearningModelSession(model).evaluate_features({"a": a}).outputs["y"].to_numpy().tolist() == [3, 6]
    assert raw(made, tmp_path, a=a, gain=np.float32([-1]))[0].tolist() == [-1, -2]
    assert proto(made, tmp_path).graph.input[1].doc_string == "how loud"


@pytest.mark.parametrize(
    ("kind", "name", "value", "stored"),
    [
        ("Softmax", "axis", TensorInt64Bit.create_from_array([], [1]), 1),
        ("Elu", "alpha", 2, 2.0),
        ("Transpose", "perm", TensorInt64Bit.create_from_array([2], [1, 0]), [1, 0]),
        ("Cast", "to", TensorKind.FLOAT, 1),
        ("ConstantOfShape", "value", numpy_helper.from_array(np.int64([7])), np.int64([7])),
        ("MaxPool", "auto_pad", TensorString.create_from_array([], ["SAME_UPPER"]), b"SAME_UPPER"),
    ],
)
def test_attributes(kind: str, name: str, value: Any, stored: Any) -> None:
    from winml_py._graphs.node import build_node

    schema = onnx.defs.get_schema(kind, 17)
    made = operator(kind).set_input(schema.inputs[0].name, "a").set_output(schema.outputs[0].name, "y")
    for needed in {part.name for part in schema.attributes.values() if part.required} - {name}:
        made.set_attribute(needed, [1, 1])
    node, _ = build_node(made.set_attribute(name, value), "it", 17)
    attribute = next(part for part in node.attribute if part.name == name)
    came = onnx.helper.get_attribute_value(attribute)
    assert AttributeProto.AttributeType.Name(attribute.type) == schema.attributes[name].type.name
    if attribute.type == AttributeProto.TENSOR:
        came = numpy_helper.to_array(came)
    np.testing.assert_array_equal(came, stored)


def test_operators_of_machine_learning_follow_the_operator_set(tmp_path: Path) -> None:
    made = builder(13, a=[1, 3]).outputs.add(describe("y", FLOAT, [1, 3]))
    made.operators.add(
        operator("Scaler", "ai.onnx.ml")
        .set_input("X", "a")
        .set_attribute("offset", [1.0, 2.0, 3.0])
        .set_attribute("scale", [2.0, 2.0, 2.0])
        .set_output("Y", "y")
    )
    assert made.create_model().opsets == {"": 13, "ai.onnx.ml": 2}  # as onnx 1.8 had them, the first with 13
    assert raw(made, tmp_path, a=np.float32([[1, 3, 5]]))[0].tolist() == [[0, 2, 4]]


def test_operators_of_the_runtime_are_written_in_the_order_given(tmp_path: Path) -> None:
    made = builder(a=[2, 3], b=[3, 4]).outputs.add(describe("y", FLOAT, [2, 4]))
    fused = operator("FusedGemm", "com.microsoft").set_input("A", "a").set_input("B", "b").set_output("Y", "y")
    made.operators.add(
        fused.set_attribute("activation", "Relu").set_attribute("alpha", -1.0).set_attribute("transA", 0)
    )
    a, b = x(2, 3), x(3, 4)
    np.testing.assert_allclose(raw(made, tmp_path, a=a, b=b)[0], np.maximum(-a @ b, 0), rtol=1e-5, atol=1e-6)
    assert made.create_model().opsets == {"": 17, "com.microsoft": 1}


def test_attributes_without_a_schema_are_of_their_values_types(tmp_path: Path) -> None:
    made = builder(a=[1]).outputs.add(describe("y", FLOAT, [1]))
    own = operator("Own", "my.domain").set_input("in", "a").set_output("out", "y")
    values = {"i": 1, "f": 1.5, "s": "w", "is": [1, 2], "fs": np.float32([1]), "ss": ["v"], "t": np.eye(2)}
    for name, value in values.items():
        own.set_attribute(name, value)
    node = proto(made.operators.add(own), tmp_path).graph.node[0]
    kinds = {part.name: AttributeProto.AttributeType.Name(part.type) for part in node.attribute}
    names = ("INT", "FLOAT", "STRING", "INTS", "FLOATS", "STRINGS", "TENSOR")
    assert kinds == dict(zip(values, names, strict=True))


def test_free_sizes_have_names_and_batches() -> None:
    made = (
        builder(a=["n", 3], v=[-1]).outputs.add(describe("y", FLOAT, ["n", 3])).outputs.add(describe("w", FLOAT, [-1]))
    )
    made.operators.add(operator("Abs").set_input("X", "a").set_output("Y", "y"))
    made.operators.add(operator("Abs").set_input("X", "v").set_output("Y", "w"))
    model, options = made.create_model(), LearningModelSessionOptions()
    assert [feature.dimension_names for feature in model.input_features] == [("n", ""), ("",)]
    options.batch_size_override = 2
    session = LearningModelSession(model, LearningModelDevice(), options)
    result = session.evaluate_features({"a": x(2, 3), "v": x(5)})
    assert [value.shape for value in result.outputs.values()] == [(2, 3), (5,)]
    options.batch_size_override = 0
    options.override_named_dimension("n", 4)
    session = LearningModelSession(model, LearningModelDevice(), options)
    assert LearningModelSessionExperimental(session).options.get_named_dimension_overrides() == {"n": 4}


def test_descriptors_of_other_models_are_taken() -> None:
    digits = LearningModel.load("models/digits.onnx")
    made = LearningModelBuilder.create(17).inputs.add(digits.input_features[0])
    made.outputs.add(describe("y", FLOAT, [1, 1, 28, 28]))
    made.operators.add(operator("Neg").set_input("X", "image").set_output("Y", "y"))
    assert made.create_model().input_features[0] == digits.input_features[0]
    other = LearningModel.load("models/digits.onnx")
    other.contracts["image"] = ImageContract(BitmapPixelFormat.GRAY8, mean=(3.0,))
    with pytest.raises(InvalidArgumentError, match="a different contract from the images before it"):
        made.outputs.add(other.input_features[0])


def test_sequences_and_maps_are_described() -> None:
    from winml_py import MapFeatureDescriptor, SequenceFeatureDescriptor

    element = describe("y", FLOAT, [2])
    made = builder(a=[2]).outputs.add(SequenceFeatureDescriptor("y", "", element))
    made.operators.add(operator("SequenceConstruct").set_input("inputs", ["a", "a"]).set_output("output_sequence", "y"))
    model, scores = made.create_model(), np.float32([1, 2])
    assert model.output_features[0].element_descriptor.shape == (2,)
    outputs = LearningModelSession(model).evaluate_features({"a": scores}).outputs
    assert [np.asarray(value).tolist() for value in outputs["y"]] == [[1, 2], [1, 2]]
    described = MapFeatureDescriptor("m", "", INT64, describe("m", FLOAT, []))
    zipped = builder(a=[1, 2]).outputs.add(SequenceFeatureDescriptor("m", "", described))
    zipped.operators.add(
        operator("ZipMap", "ai.onnx.ml")
        .set_input("X", "a")
        .set_attribute("classlabels_int64s", [5, 6])
        .set_output("Z", "m")
    )
    outputs = LearningModelSession(zipped.create_model()).evaluate_features({"a": scores[None]}).outputs
    assert list(outputs["m"]) == [{5: 1, 6: 2}]


def test_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = builder(a=[64]).outputs.add(describe("y", FLOAT, [64]))
    made.operators.add(operator("Add").set_input("A", "a").set_constant("B", x(64)).set_output("C", "y"))
    with pytest.raises(StorageNotFoundError):
        made.save(tmp_path / "none" / "model.onnx")
    monkeypatch.setattr(model_file, "MAX_PROTOBUF_BYTES", 100)
    with pytest.raises(NotSupportedError, match="larger than 2 GB"):
        made.create_model()


def gemm() -> LearningModelOperator:
    return operator("Gemm").set_input("A", "a").set_input("B", "b").set_output("Y", "y")


REFUSED = [
    (lambda: operator("Gem"), "There is no operator 'Gem' in the domain ''. Did you mean 'Gemm'?"),
    (lambda: operator("Gelu"), "Opset 17 has no operator Gelu. Use opset 20 or later."),
    (lambda: gemm().set_input("D", "a"), "Gemm_0 (Gemm) has no input 'D'. Use one of: A, B, C."),
    (lambda: gemm().set_output("Z", "z"), "Gemm_0 (Gemm) has no output 'Z'."),
    (lambda: gemm().set_name("product").set_attribute("transC", 1), "product (Gemm) has no attribute 'transC'. Did"),
    (lambda: gemm().set_attribute("transB", 1.5), "for the attribute transB of Gemm: expected int, got 1.5."),
    (lambda: gemm().set_attribute("alpha", "x"), "for the attribute alpha of Gemm: expected float, got 'x'."),
    (lambda: gemm().set_attribute("transB", [1, 1]), "attribute transB of Gemm: expected int, got [1, 1]."),
    (lambda: gemm().set_attribute("transB", None), "attribute transB of Gemm: expected int, got None."),
    (lambda: gemm().set_input("A", ["a", "a"]), "Gemm_0 (Gemm) expects one name for 'A', got 2"),
    (lambda: gemm().set_constant("C", {}), "The constant Gemm_0.C is a dict"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_operators_that_do_not_fit_their_schemas(make: Any, message: str) -> None:
    made = builder(a=[3, 4], b=[4, 5])
    with pytest.raises((InvalidArgumentError, NotSupportedError), match=re.escape(message)) as refused:
        made.operators.add(make())
    require_sentence(str(refused.value))
    made.outputs.add(describe("y", FLOAT, [3, 5]))
    made.operators.add(named := gemm())  # nothing of the refused one is left
    assert (named.name, repr(named)) == ("Gemm_0", "<LearningModelOperator Gemm 'Gemm_0': A, B -> Y>")
    assert len(made.create_model().output_features) == 1


LOOSE = [
    ([operator("Gemm").set_input("A", "a").set_output("Y", "y")], "has input size 1 not in range [min=2, max=3]"),
    ([operator("Gemm").set_input("A", "a").set_input("B", "b")], "Graph output 'y' is not an output of any node"),
    ([operator("Upsample").set_input("X", "a").set_output("Y", "y")], "Upsample is deprecated"),
    ([operator("Cast").set_input("input", "a").set_output("output", "y")], "Required attribute 'to' is missing"),
    ([gemm().set_input("B", "c")], "input 'c' of node: name: Gemm_0 OpType: Gemm is not output of any previous nodes."),
    ([gemm().set_input("A", "b").set_input("B", "a")], "(op_type:Gemm, node name: Gemm_0): "),
    ([gemm().set_constant("B", np.ones((4, 5)))], "node name: Gemm_0): B has inconsistent type tensor(double)"),
    ([gemm().set_constant("B", x(4, 6))], "differ in dimension 1: (6) vs (5)"),
    (
        [gemm().set_constant("B", x(511, 512))],
        "(op_type:Gemm, node name: Gemm_0): ",
    ),  # large ones are checked by their types
    ([gemm().set_output("Y", "z")], "Graph output 'y' is not an output of any node"),
    ([gemm(), unary("Relu", "a", "y")], "'y' has been used as output names multiple times"),
    (
        [gemm(), unary("Relu", "p", "q"), unary("Abs", "q", "p")],
        "form a cycle: Relu_1 (Relu), Abs_2 (Abs)",
    ),
]


@pytest.mark.parametrize(("operators", "message"), LOOSE)
def test_models_that_do_not_hold_together(operators: list[LearningModelOperator], message: str) -> None:
    made = builder(a=[3, 4], b=[4, 5]).outputs.add(describe("y", FLOAT, [3, 5]))
    for each in operators:
        made.operators.add(each.set_name(""))
    with pytest.raises(InvalidArgumentError, match=re.escape(message)) as refused:
        made.create_model()
    require_sentence(str(refused.value))


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda made: LearningModelBuilder.create(999), "The operator set cannot be 999"),
        (lambda made: made.inputs.add(describe("a", FLOAT, [1])), "The name 'a' is already in use"),
        (lambda made: made.inputs.add_constant("a", 1), "The name 'a' is already in use"),
        (lambda made: made.inputs.add("a"), "Expected a FeatureDescriptor, got str"),
        (lambda made: made.inputs.add("a", "b"), "Expected a FeatureDescriptor, got str"),
        (lambda made: made.operators.add("Relu"), "Expected a LearningModelOperator, got str"),
        (lambda made: made.operators.add(unary("Abs", "a", "y").set_name("one")), "The name 'one' is already in use"),
        (lambda made: describe("a", 7), "Expected 2 or 3 arguments after the name 'a', got 1"),
        (lambda made: describe("a", FLOAT, [1.5]), "A size of a cannot be 1.5"),
        (lambda made: describe("a", "float", [1]), "The element type of a cannot be 'float'"),
        (lambda made: operator(""), "An operator type cannot be ''"),
    ],
)
def test_mistakes(mistake: Any, message: str) -> None:
    made = builder(a=[3, 4])
    made.operators.add(unary("Neg", "a", "z").set_name("one"))
    with pytest.raises(InvalidArgumentError, match=re.escape(message)) as refused:
        mistake(made)
    require_sentence(str(refused.value))
