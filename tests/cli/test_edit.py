"""`winml-py edit`: what is written, by the onnx package, and that the model computes what it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from helpers.cli import call
from helpers.models import INT64, data, tensor
from helpers.paths import MODELS
from winml_py import ImageFeatureDescriptor, InvalidArgumentError, LearningModel, LearningModelSession
from winml_py.graphs.edit_features import Edits, edit_model

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
    done = call("edit", model, "--rename", "x=numbers", "--rename", "y=x", "--shape", "x=2,3", "--output", out)
    assert (done.exit_code, done.output) == (0, f"{out}: numbers, m -> x; results differ by 0.0e+00\n")
    edited = LearningModel.load(out)
    assert [(f.name, f.shape) for f in edited.input_features] == [("numbers", (2, 3)), ("m", (2, 1))]
    assert [(f.name, f.shape) for f in edited.output_features] == [("x", (2, 3))]
    m = np.float32([[2], [3]])
    for x in (np.abs(X), -np.abs(X)):
        np.testing.assert_array_equal(raw(out, numbers=x, m=m)[0], raw(model, x=x, m=m)[0])
        expected = (x + (W if x.sum() > 0 else -W)) * m
        np.testing.assert_allclose(raw(out, numbers=x, m=m)[0], expected, rtol=1e-6)


def test_words(model: Path, tmp_path: Path) -> None:
    words = ("--name", "n", "--description", "d", "--domain", "com.example", "--author", "me", "--version", "7")
    metadata = ("--metadata", "a=", "--metadata", "key=value=1")
    (tmp_path / "labels.txt").write_text("one\ntwo\nthree\n")
    labels = ("--labels", tmp_path / "labels.txt")
    done = call("edit", model, *words, *metadata, *labels, "--output", model, "--force", "--json")
    assert done.exit_code == 0
    facts = json.loads(done.output)
    assert facts == {
        "schema": 2,
        "kind": "edit",
        "model": str(model),
        "output": str(model),
        "inputs": ["x", "m"],
        "outputs": ["y"],
        "error": 0.0,
    }
    proto, edited = onnx.load(model), LearningModel.load(model)
    assert (proto.graph.name, proto.doc_string, proto.domain, proto.producer_name) == ("n", "d", "com.example", "me")
    assert (edited.name, edited.description, edited.version) == ("n", "d", 7)
    names = ("one", "two", "three")
    assert dict(edited.metadata) == {"key": "value=1", "Labels": json.dumps(names)}
    assert edited.labels == names
    assert proto.graph.input[0].doc_string == "numbers"


def test_labels_of_a_config_reach_run(tmp_path: Path) -> None:
    config, out = tmp_path / "config.json", tmp_path / "model.onnx"
    words = [f"digit {number}" for number in range(10)]
    config.write_text(json.dumps({"id2label": dict(enumerate(words))}))
    assert call("edit", MODELS / "digits.onnx", "--labels", config, "--output", out).exit_code == 0
    done = call("run", out, MODELS.parent / "samples" / "pictures" / "seven.png", "--json")
    assert "digit 7" in done.stdout
    assert LearningModel.load(out).labels == tuple(words)


def test_labels_that_are_no_list_are_none() -> None:
    for text in ("[", "{}", "[1]", "[" * 100_000):
        assert LearningModel.load(data([], [], [], metadata={"Labels": text})).labels == ()


def test_denotations(tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "edited.onnx"
    ends = [tensor("x", ["b", 3, 4, 4]), tensor("y", ["b", 3, 4, 4])]
    source.write_bytes(data([helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:]))
    sizes = "x=DATA_BATCH,DATA_CHANNEL,DATA_FEATURE,DATA_FEATURE"
    pixels = ("--metadata", "Image.BitmapPixelFormat=Rgb8")
    done = call("edit", source, "--denotation", "x=IMAGE", "--dimensions", sizes, *pixels, "--output", out)
    assert done.exit_code == 0, done.output
    (value,) = onnx.load(out).graph.input
    assert value.type.denotation == "IMAGE"
    assert [size.denotation for size in value.type.tensor_type.shape.dim] == sizes[2:].split(",")
    assert isinstance(LearningModel.load(out).input_features[0], ImageFeatureDescriptor)
    away = ("--denotation", "x=", "--dimensions", "x=,,,", "--metadata", "Image.BitmapPixelFormat=")
    assert call("edit", out, *away, "--output", out, "--force").exit_code == 0
    assert not isinstance(LearningModel.load(out).input_features[0], ImageFeatureDescriptor)
    assert "DATA_" not in str(onnx.load(out))


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        ([], "Say what to change", 2),
        (["--shape", "x"], "write INPUT=1,3,224,224", 2),
        (["--shape", "x=2,y"], "is not sizes with commas", 2),
        (["--shape", "x=0,3"], "has a size below 1", 2),
        (["--shape", "z=2,3"], "The model has no input 'z'.", 4),
        (["--shape", "x=2"], "The input 'x' is of shape [n, 3], and cannot be [2].", 4),
        (["--shape", "x=2,4"], "The input 'x' is of shape [n, 3], and cannot be [2, 4].", 4),
        (["--shape", "x=2,3", "--shape", "m=3,1"], "The input 'm' is of shape [n, 1], and cannot be [3, 1].", 4),
        (["--rename", "z=a"], "The model has no input or output 'z'.", 4),
        (["--rename", "x=w"], "The name 'w' is taken already.", 4),
        (["--rename", "x=a", "--rename", "y=a"], "The name 'a' is taken already.", 4),
        (["--rename", "x="], "The new name is ''.", 4),
        (["--denotation", "z=IMAGE"], "The model has no input or output 'z'.", 4),
        (["--dimensions", "x=DATA_BATCH"], "x has 2 sizes, and 1 denotations came.", 4),
    ],
)
def test_mistakes(model: Path, tmp_path: Path, arguments: list[str], message: str, code: int) -> None:
    out = tmp_path / "edited.onnx"
    failed = call("edit", model, *arguments, "--output", out)
    assert (failed.exit_code, message in failed.output) == (code, True), failed.output
    assert not out.exists()


def test_a_size_that_the_graph_does_not_take_is_not_written(tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "edited.onnx"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    source.write_bytes(data(nodes, [tensor("x", ["n", "k"])], [tensor("y", ["n", 3])], {"w": np.eye(4, 3, dtype="f")}))
    failed = call("edit", source, "--shape", "x=2,5", "--output", out)
    assert failed.exit_code not in (0, 2)
    assert not out.exists()
    assert call("edit", source, "--shape", "x=2,4", "--output", out).exit_code == 0


def test_inputs_that_cannot_be_made_up(tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "edited.onnx"
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"])]
    source.write_bytes(data(nodes, [tensor("ids", ["k"], INT64)], [tensor("y", ["k", 3])], {"table": X}))
    done = call("edit", source, "--description", "d", "--output", out)
    assert (done.exit_code, done.output) == (0, f"{out}: ids -> y; not run\n")
    failed = call("edit", source, "--rename", "ids=words", "--output", out)
    assert (failed.exit_code, "cannot be made up" in failed.output) == (4, True)
    np.save(tmp_path / "ids.npy", np.array([1, 0]))
    done = call("edit", source, "--rename", "ids=words", "--output", out, f"words={tmp_path / 'ids.npy'}")
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(raw(out, words=np.array([1]))[0], X[[1]])


def test_external_data_stay_where_they_are(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    proto = onnx.load_from_string(data(nodes, [tensor("x", ["n", 3])], [tensor("y", ["n", 3])], {"w": W}))
    source = tmp_path / "model.onnx"
    onnx.save(proto, source, save_as_external_data=True, location="weights.data", size_threshold=0)
    (tmp_path / "other").mkdir()
    edits = Edits(rename={"x": "a"}, version=2)
    with pytest.raises(InvalidArgumentError, match="lie in files beside it"):
        edit_model(source, tmp_path / "other" / "edited.onnx", edits)
    report = edit_model(source, tmp_path / "edited.onnx", edits)
    assert (report.inputs, report.error) == (("a",), 0.0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edited.onnx", "model.onnx", "other", "weights.data"]
    session = LearningModelSession(LearningModel.load(tmp_path / "edited.onnx"))
    np.testing.assert_array_equal(session.evaluate_features({"a": X}).outputs["y"], X * W)


def test_results_that_differ_are_not_written(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(proto: onnx.ModelProto, _: Any) -> None:
        proto.graph.node[3].op_type = "Div"

    monkeypatch.setattr("winml_py.graphs.edit_features.rename_features", broken)
    failed = call("edit", model, "--rename", "x=a", "--output", tmp_path / "edited.onnx")
    assert (failed.exit_code, "does not give what the model gives" in failed.output) == (1, True)
    assert not (tmp_path / "edited.onnx").exists()
