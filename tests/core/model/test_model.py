"""LearningModel: ways to load, what it tells, what happens after dispose, and what it refuses."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from helpers.models import FLOAT, data, model, tensor, unary
from helpers.paths import MODELS
from winml_py import (
    CorruptModelError,
    InvalidArgumentError,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    ModelNotFoundError,
    Weights,
)

TELLING = {
    "producer_name": "onnx-caffe2",
    "domain": "test-domain",
    "doc_string": "test-doc_string",
    "model_version": 123456,
    "metadata": {"thisisalongkey": "thisisalongvalue"},
}


def check(loaded: LearningModel) -> None:
    assert loaded.author == "onnx-caffe2"
    assert loaded.name == "test graph"
    assert loaded.domain == "test-domain"
    assert loaded.description == "test-doc_string"
    assert loaded.version == 123456
    assert loaded.metadata["tHiSiSaLoNgKeY"] == "thisisalongvalue"
    assert loaded.metadata.get("nothing") is None
    assert (loaded.opsets, loaded.ir_version) == ({"": 17}, 8)
    assert [(feature.name, feature.description) for feature in loaded.input_features] == [("x", "")]
    assert [feature.name for feature in loaded.output_features] == ["y"]


def test_every_source_gives_the_same_model(tmp_path: Path) -> None:
    whole = unary(**TELLING)
    path = tmp_path / "model.onnx"
    path.write_bytes(whole)
    for source in (path, str(path), whole, bytearray(whole), memoryview(whole), io.BytesIO(whole)):
        loaded = LearningModel.load(source)
        check(loaded)
        assert loaded.size == len(whole)
    check(LearningModel.load_from_file_path(path))
    with path.open("rb") as stream:
        check(LearningModel.load_from_stream(stream))


def test_bytes_are_kept_and_not_copied() -> None:
    whole = unary()
    before = sys.getrefcount(whole)
    loaded = LearningModel.load(whole)
    assert sys.getrefcount(whole) == before + 1
    loaded.dispose()
    assert sys.getrefcount(whole) == before


@pytest.mark.parametrize("folder", ["こんにちは maçã", "with space", "Ünïcode 😀"])
def test_any_path_works_for_loading_and_running(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "foo ß.onnx"
    path.parent.mkdir()
    path.write_bytes(unary())
    result = LearningModelSession(LearningModel.load(path)).evaluate_features({"x": np.ones(3, np.float32)})
    np.testing.assert_array_equal(result.outputs["y"], np.ones(3))


def test_a_relative_path_is_remembered_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.onnx").write_bytes(unary())
    monkeypatch.chdir(tmp_path)
    loaded = LearningModel.load("m.onnx")
    monkeypatch.chdir("/")
    LearningModelSession(loaded)


def test_a_folder_and_an_empty_path_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="Expected a model file, got a folder"):
        LearningModel.load_from_file_path(tmp_path)
    with pytest.raises(InvalidArgumentError, match="empty"):
        LearningModel.load("")
    with pytest.raises(ModelNotFoundError, match="The model file cannot be opened"):
        LearningModel.load("nul\0byte.onnx")


def test_a_stream_must_give_bytes() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Expected bytes from the stream, got str.*mode 'rb'"):
        LearningModel.load(io.StringIO("text"))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="got int"):
        LearningModel.load(5)  # type: ignore[arg-type]


def test_with_disposes() -> None:
    with LearningModel.load(unary()) as loaded:
        assert not loaded.is_disposed
    assert loaded.is_disposed
    assert repr(loaded) == "<LearningModel 'test graph': x -> y, disposed>"


def test_a_file_that_changed_after_loading_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(unary())
    loaded = LearningModel.load(path)
    path.write_bytes(unary("Neg"))
    os.utime(path, ns=(1, 1))
    with pytest.raises(CorruptModelError, match="has changed since"):
        LearningModelSession(loaded)
    path.unlink()
    with pytest.raises(ModelNotFoundError, match="Model file not found"):
        LearningModelSession(loaded)


def external_model(location: str) -> onnx.ModelProto:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    proto = model([node], [tensor("x", [4])], [tensor("y", [4])], {"w": np.arange(4, dtype=np.float32)})
    onnx.external_data_helper.set_external_data(proto.graph.initializer[0], location)
    proto.graph.initializer[0].ClearField("raw_data")
    return proto


def test_external_data_are_found_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(external_model("weights.bin").SerializeToString())
    result = LearningModelSession(LearningModel.load(path)).evaluate_features({"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(result.outputs["y"], [1, 2, 3, 4])


def test_missing_external_data_are_named(tmp_path: Path) -> None:
    whole = external_model("weights.bin").SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(whole)
    loaded = LearningModel.load(path)  # a header can be looked at without the weights
    with pytest.raises(ModelNotFoundError, match=r"weight w in the file weights\.bin"):
        LearningModelSession(loaded)
    with pytest.raises(ModelNotFoundError, match="has no folder to look in"):
        LearningModelSession(LearningModel.load(whole))


@pytest.mark.parametrize("location", ["sub/../weights.bin", "weights.bin/", "weights.bin/../weights.bin"])
@pytest.mark.parametrize("weights", Weights)
def test_a_name_that_only_looks_like_a_file_is_a_missing_one(tmp_path: Path, location: str, weights: Weights) -> None:
    (tmp_path / "weights.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(external_model(location).SerializeToString())
    options = LearningModelSessionOptions()
    options.weights = weights
    if os.name == "posix" or location.endswith("/"):  # Windows looks at names alone
        with pytest.raises(ModelNotFoundError, match="stores the weight w in the file"):
            LearningModelSession(LearningModel.load(path), None, options)
    if location.startswith("sub"):
        (tmp_path / "sub").mkdir()
    if location.startswith("sub") or (os.name == "nt" and not location.endswith("/")):
        session = LearningModelSession(LearningModel.load(path), None, options)
        assert session.evaluate_features({"x": np.ones(4, np.float32)}).outputs["y"].to_numpy().tolist() == [1, 2, 3, 4]


OUTSIDE = ["../weights.bin", "/etc/hostname"]
if os.name == "posix":
    OUTSIDE.append("link.bin")
else:
    OUTSIDE += ["..\\weights.bin", r"\windows\win.ini", r"C:\windows\win.ini", "D:weights.bin", r"\\server\share\w.bin"]


@pytest.mark.parametrize("location", OUTSIDE)
def test_external_data_stay_inside_the_folder(tmp_path: Path, location: str) -> None:
    (tmp_path / "weights.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    folder = tmp_path / "models"
    folder.mkdir()
    if os.name == "posix":
        (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    path = folder / "m.onnx"
    path.write_bytes(external_model(location).SerializeToString())
    with pytest.raises(CorruptModelError, match="outside"):
        LearningModelSession(LearningModel.load(path))


@pytest.mark.parametrize("place", ["subgraph", "attribute"])
def test_data_files_named_deep_inside_are_found_too(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    hidden = external_model("secret.bin").graph.initializer[0]
    if place == "attribute":
        nodes = [helper.make_node("Constant", [], ["w"], value=hidden), helper.make_node("Add", ["x", "w"], ["y"])]
    else:
        add = helper.make_node("Add", ["x", "w"], ["r"])
        branch = helper.make_graph([add], "branch", [], [tensor("r", [4])], [hidden])
        condition = helper.make_tensor("c", onnx.TensorProto.BOOL, [], [True])
        nodes = [
            helper.make_node("Constant", [], ["c"], value=condition),
            helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        ]
    whole = data(nodes, [tensor("x", [4])], [tensor("y", [4])])
    with pytest.raises(ModelNotFoundError, match="has no folder to look in"):
        LearningModelSession(LearningModel.load(whole))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(whole.replace(b"secret.bin", b"../etc.bin"))
    with pytest.raises(CorruptModelError, match="outside its folder"):
        LearningModelSession(LearningModel.load(folder / "m.onnx"))


def test_a_large_model_is_opened_over_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, make = [], onnxruntime.InferenceSession.__init__
    monkeypatch.setattr(
        onnxruntime.InferenceSession,
        "__init__",
        lambda *arguments, **options: given.append(arguments[1]) or make(*arguments, **options),
    )
    monkeypatch.setenv("WINML_PY_CACHE", "")
    rng = np.random.default_rng(0)
    weights = {"w": rng.random((2100, 2100), np.float32), "v": rng.random((2100, 7), np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["y"])]
    proto = model(nodes, [tensor("x", [None, 2100])], [tensor("y", [None, 7])], weights)
    path = tmp_path / "large ü.onnx"
    path.write_bytes(proto.SerializeToString())
    loaded = LearningModel.load(path)
    x = rng.random((3, 2100), np.float32)
    result = LearningModelSession(loaded).evaluate_features({"x": x})
    np.testing.assert_allclose(result.outputs["y"], x @ weights["w"] @ weights["v"], rtol=1e-3)
    assert [len(content) < 4096 for content in given] == [True]


@pytest.mark.posix("Windows lets few users make symbolic links, and Wine makes none")
def test_models_behind_links_work(tmp_path: Path) -> None:
    """As model caches lay them out: links in a snapshot's folder to files in another one."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    weights = {"w": np.random.default_rng(0).random((2100, 2100), np.float32)}
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [tensor(name, [None, 2100]) for name in "xy"]
    (blobs / "a1").write_bytes(model([node], ends[:1], ends[1:], weights).SerializeToString())
    (blobs / "b2").write_bytes(external_model("weights.bin").SerializeToString())
    (blobs / "c3").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    for name, blob in (("large.onnx", "a1"), ("small.onnx", "b2"), ("weights.bin", "c3")):
        (snapshot / name).symlink_to(blobs / blob)
    x = np.ones((1, 2100), np.float32)
    large = LearningModelSession(LearningModel.load(snapshot / "large.onnx")).evaluate_features({"x": x})
    np.testing.assert_allclose(large.outputs["y"], x @ weights["w"], rtol=1e-3)
    small = LearningModelSession(LearningModel.load(snapshot / "small.onnx"))
    result = small.evaluate_features({"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(result.outputs["y"], [1, 2, 3, 4])


def test_a_file_is_named_in_folders_alone() -> None:
    with pytest.raises(InvalidArgumentError, match="selects a model in a folder"):
        LearningModel.load((MODELS / "digits.onnx").read_bytes(), file="digits.onnx")
    with pytest.raises(InvalidArgumentError, match=r"Expected a folder with digits\.onnx, got a file"):
        LearningModel.load(MODELS / "digits.onnx", file="digits.onnx")


def test_empty_models_have_empty_properties() -> None:
    loaded = LearningModel.load(data([], [tensor("x", [1], FLOAT)], []))
    assert (loaded.author, loaded.domain, loaded.description, loaded.version) == ("", "", "", 0)
    assert dict(loaded.metadata) == {}
