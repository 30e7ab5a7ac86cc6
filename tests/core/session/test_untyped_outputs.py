"""Outputs that the model's file only names, as inner values are made outputs: the engine knows their types."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, FLOAT16, INT64, STRING, model, tensor
from helpers.reference import run_raw
from helpers.sessions import open_session
from winml_py import (
    CustomOperator,
    EvaluationError,
    LearningModel,
    LearningModelSession,
    NotSupportedError,
    SizeMismatchError,
    TensorDouble,
    TensorFeatureDescriptor,
    TensorFloat,
    TensorKind,
)

X = np.float32([1, 0, 2])


def casting(element: int, **options: Any) -> bytes:
    """x -> inner, of another element type -> y; `inner` is an output by its name alone."""
    nodes = [
        helper.make_node("Cast", ["x"], ["inner"], to=element),
        helper.make_node("Cast", ["inner"], ["y"], to=FLOAT),
    ]
    proto = model(nodes, [tensor("x", ["n"])], [tensor("y", ["n"])], opset=21, ir_version=10, **options)
    proto.graph.output.append(onnx.ValueInfoProto(name="inner"))
    return proto.SerializeToString()


NUMPY_HAS = [FLOAT, FLOAT16, TensorProto.DOUBLE, INT64, TensorProto.UINT8, TensorProto.BOOL, STRING]


@pytest.mark.parametrize("element", NUMPY_HAS, ids=TensorProto.DataType.Name)
def test_an_output_without_a_type_is_what_the_engine_gives(element: int) -> None:
    whole = casting(element)
    expected = run_raw(whole, {"x": X})["inner"]
    session = open_session(whole)
    result = session.evaluate_features({"x": X}).outputs
    assert list(result) == ["y", "inner"]
    np.testing.assert_array_equal(result["inner"].to_numpy(), expected, strict=True)
    array = np.zeros_like(expected)
    assert session.evaluate_features({"x": X, "inner": array}).outputs["inner"] is array
    np.testing.assert_array_equal(array, expected, strict=True)
    values: list[Any] = []
    session.evaluate_features({"x": X, "inner": values})
    assert values == expected.tolist()


def test_its_descriptor_says_that_the_file_states_no_type() -> None:
    feature = LearningModel.load(casting(FLOAT)).output_features[1]
    assert isinstance(feature, TensorFeatureDescriptor)
    assert (feature.name, feature.tensor_kind, feature.has_rank, feature.has_type) == (
        "inner",
        TensorKind.UNDEFINED,
        False,
        False,
    )
    assert feature.describe() == "of a type that the file does not declare"


def test_memory_of_another_type_or_shape_is_refused() -> None:
    session = open_session(casting(TensorProto.DOUBLE))
    for target in (TensorFloat.create(), np.zeros(3, np.float32), np.zeros(3, np.int64)):
        with pytest.raises(EvaluationError, match="The output inner has float64 elements"):
            session.evaluate_features({"x": X, "inner": target})
    with pytest.raises(SizeMismatchError):
        session.evaluate_features({"x": X, "inner": np.zeros(4)})
    target = TensorDouble.create()
    session.evaluate_features({"x": X, "inner": target})
    assert target.to_numpy().tolist() == X.tolist()


@pytest.mark.parametrize("element", [TensorProto.FLOAT8E4M3FN, TensorProto.BFLOAT16, TensorProto.INT4])
def test_a_type_that_numpy_lacks_is_refused(element: int) -> None:
    with pytest.raises(NotSupportedError, match="float32"):
        open_session(casting(element)).evaluate_features({"x": X})


def test_sequences_and_maps_without_a_type() -> None:
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["inner"])
    maps = helper.make_node("ZipMap", ["row"], ["scores"], domain="ai.onnx.ml", classlabels_int64s=[5, 7])
    ends = [tensor("x", ["n"]), tensor("row", [1, 2])]
    same = helper.make_node("Identity", ["x"], ["y"])
    proto = model([node, maps, same], ends, [tensor("y", ["n"])], domains={"ai.onnx.ml": 3})
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("inner", "scores"))
    result = open_session(proto).evaluate_features({"x": X, "row": np.float32([[0.25, 0.75]])}).outputs
    assert [element.to_numpy().tolist() for element in result["inner"]] == [X.tolist()] * 2
    assert list(result["scores"]) == [{5: 0.25, 7: 0.75}]


def test_an_inner_value_of_a_model_with_a_python_function() -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["inner"]),
        helper.make_node("Double", ["inner"], ["twice"], domain="my"),
        helper.make_node("Relu", ["twice"], ["y"]),
    ]
    proto = model(nodes, [tensor("x", ["n"])], [tensor("y", ["n"])], domains={"my": 1})
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("inner", "twice"))
    operator = CustomOperator(lambda x: 2 * x, "Double", "my", outputs=[(np.float32, 1)])
    session = LearningModelSession(LearningModel.load(proto.SerializeToString(), operators=[operator]))
    result = session.evaluate_features({"x": X}).outputs
    assert result["inner"].to_numpy().tolist() == (-X).tolist()
    assert result["twice"].to_numpy().tolist() == (-2 * X).tolist()


def test_an_isolated_session_and_a_stream_give_it_too() -> None:
    whole = casting(INT64)
    with open_session(whole, isolation="process") as session:
        assert session.evaluate_features({"x": X}).outputs["inner"].to_numpy().tolist() == [1, 0, 2]
    (result,) = open_session(whole).evaluate_many([X])
    assert result.outputs["inner"].to_numpy().tolist() == [1, 0, 2]
