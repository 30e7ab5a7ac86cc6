"""Editing a model: what is written, by the onnx package, and that the model computes what it did."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from helpers.models import INT64, data, tensor
from helpers.paths import MODELS
from winml_py import (
    ImageFeatureDescriptor,
    InvalidArgumentError,
    LearningModel,
    LearningModelSession,
    WinMLError,
)
from winml_py.authoring import Edits, edit_model
from winml_py.errors import ConversionError

X = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
W = np.random.default_rng(4).standard_normal((3,)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with an If that reads its input from outside, and a free size that three values share."""
    branches = [
        helper.make_graph([helper.make_node(kind, ["x", "w"], ["out"])], kind, [], [tensor("out", ["n", 3])])
        for kind in ("Add", "Sub")
    ]
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["h"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Mul", ["h", "m"], ["y"]),
    ]
    path = tmp_path / "model.onnx"
    inputs = [tensor("x", ["n", 3], denotation="TENSOR", doc="numbers"), tensor("m", ["n", 1])]
    path.write_bytes(data(nodes, inputs, [tensor("y", ["n", 3])], {"w": W, "zero": np.float32(0)}, metadata={"a": "b"}))
    return path


def raw(path: Path, **inputs: Any) -> list[Any]:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)


def test_names_and_sizes(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "edited.onnx"
    report = edit_model(model, out, Edits(rename={"x": "numbers", "y": "x"}, shapes={"x": (2, 3)}))
    assert str(report) == "numbers, m -> x; results differ by 0.0e+00"
    edited = LearningModel.load(out)
    assert [(f.name, f.shape) for f in edited.input_features] == [("numbers", (2, 3)), ("m", (2, 1))]
    assert [(f.name, f.shape) for f in edited.output_features] == [("x", (2, 3))]
    m = np.float32([[2], [3]])
    for x in (np.abs(X), -np.abs(X)):
        np.testing.assert_array_equal(raw(out, numbers=x, m=m)[0], raw(model, x=x, m=m)[0])
        expected = (x + (W if x.sum() > 0 else -W)) * m
        np.testing.assert_allclose(raw(out, numbers=x, m=m)[0], expected, rtol=1e-6)


def test_words(model: Path) -> None:
    names = ("one", "two", "three")
    words = {"name": "n", "description": "d", "domain": "com.example", "author": "me", "version": 7}
    report = edit_model(model, model, Edits(**words, metadata={"a": "", "key": "value=1"}, labels=names))
    assert (report.inputs, report.outputs, report.error) == (("x", "m"), ("y",), 0.0)
    proto, edited = onnx.load(model), LearningModel.load(model)
    assert (proto.graph.name, proto.doc_string, proto.domain, proto.producer_name) == ("n", "d", "com.example", "me")
    assert (edited.name, edited.description, edited.version) == ("n", "d", 7)
    assert dict(edited.metadata) == {"key": "value=1", "Labels": json.dumps(names)}
    assert edited.labels == names
    assert proto.graph.input[0].doc_string == "numbers"


def test_labels_that_are_no_list_are_none() -> None:
    for text in ("[", "{}", "[1]", "[" * 100_000):
        assert LearningModel.load(data([], [], [], metadata={"Labels": text})).labels == ()


def test_denotations(tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "edited.onnx"
    ends = [tensor("x", ["b", 3, 4, 4]), tensor("y", ["b", 3, 4, 4])]
    source.write_bytes(data([helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:]))
    sizes = ("DATA_BATCH", "DATA_CHANNEL", "DATA_FEATURE", "DATA_FEATURE")
    pixels = {"Image.BitmapPixelFormat": "Rgb8"}
    edit_model(source, out, Edits(denotations={"x": "IMAGE"}, dimensions={"x": sizes}, metadata=pixels))
    (value,) = onnx.load(out).graph.input
    assert value.type.denotation == "IMAGE"
    assert [size.denotation for size in value.type.tensor_type.shape.dim] == list(sizes)
    assert isinstance(LearningModel.load(out).input_features[0], ImageFeatureDescriptor)
    away = Edits(denotations={"x": ""}, dimensions={"x": ("",) * 4}, metadata={"Image.BitmapPixelFormat": ""})
    edit_model(out, out, away)
    assert not isinstance(LearningModel.load(out).input_features[0], ImageFeatureDescriptor)
    assert "DATA_" not in str(onnx.load(out))


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (Edits(shapes={"z": (2, 3)}), "The model has no input 'z'."),
        (Edits(shapes={"x": (2,)}), "The input 'x' cannot have the shape [2]."),
        (Edits(shapes={"x": (2, 4)}), "The input 'x' cannot have the shape [2, 4]."),
        (Edits(shapes={"x": (2, 3), "m": (3, 1)}), "The input 'm' cannot have the shape [3, 1]."),
        (Edits(rename={"z": "a"}), "The model has no input or output 'z'."),
        (Edits(rename={"x": "w"}), "The name 'w' is already taken."),
        (Edits(rename={"x": "a", "y": "a"}), "The name 'a' is already taken."),
        (Edits(rename={"x": ""}), "The new name is ''."),
        (Edits(denotations={"z": "IMAGE"}), "The model has no input or output 'z'."),
        (Edits(dimensions={"x": ("DATA_BATCH",)}), "x has 2 sizes, got 1 denotations."),
        (Edits(labels=(1, 2, 3)), "Expected a sequence of texts as labels, got (1, 2, 3)."),
        (Edits(labels="012"), "Expected a sequence of texts as labels, got '012'."),
    ],
)
def test_mistakes(model: Path, tmp_path: Path, edits: Edits, message: str) -> None:
    out = tmp_path / "edited.onnx"
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        edit_model(model, out, edits)
    assert not out.exists()


def test_labels_are_one_for_each_score(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="Expected 10 labels, one for each score, got 9"):
        edit_model(MODELS / "digits.onnx", tmp_path / "out.onnx", Edits(labels=tuple("abcdefghi")))


def test_a_size_that_the_graph_does_not_take_is_not_written(tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "edited.onnx"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    source.write_bytes(data(nodes, [tensor("x", ["n", "k"])], [tensor("y", ["n", 3])], {"w": np.eye(4, 3, dtype="f")}))
    with pytest.raises(WinMLError):
        edit_model(source, out, Edits(shapes={"x": (2, 5)}))
    assert not out.exists()
    assert edit_model(source, out, Edits(shapes={"x": (2, 4)})).error == 0


def test_inputs_that_cannot_be_made_up(tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "edited.onnx"
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"])]
    source.write_bytes(data(nodes, [tensor("ids", ["k"], INT64)], [tensor("y", ["k", 3])], {"table": X}))
    assert str(edit_model(source, out, Edits(description="d"))) == "ids -> y; not run"
    with pytest.raises(InvalidArgumentError, match="has no example values"):
        edit_model(source, out, Edits(rename={"ids": "words"}))


def test_external_data_stay_where_they_are(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    proto = onnx.load_from_string(data(nodes, [tensor("x", ["n", 3])], [tensor("y", ["n", 3])], {"w": W}))
    source = tmp_path / "model.onnx"
    onnx.save(proto, source, save_as_external_data=True, location="weights.data", size_threshold=0)
    (tmp_path / "other").mkdir()
    edits = Edits(rename={"x": "a"}, version=2)
    with pytest.raises(InvalidArgumentError, match="are in files beside it"):
        edit_model(source, tmp_path / "other" / "edited.onnx", edits)
    report = edit_model(source, tmp_path / "edited.onnx", edits)
    assert (report.inputs, report.error) == (("a",), 0.0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edited.onnx", "model.onnx", "other", "weights.data"]
    session = LearningModelSession(LearningModel.load(tmp_path / "edited.onnx"))
    np.testing.assert_array_equal(session.evaluate_features({"a": X}).outputs["y"], X * W)


def test_results_that_differ_are_not_written(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(proto: onnx.ModelProto, _: Any) -> None:
        proto.graph.node[3].op_type = "Div"

    monkeypatch.setattr("winml_py.authoring.edit_features.rename_features", broken)
    with pytest.raises(ConversionError, match="does not give what the model gives"):
        edit_model(model, tmp_path / "edited.onnx", Edits(rename={"x": "a"}))
    assert not (tmp_path / "edited.onnx").exists()
