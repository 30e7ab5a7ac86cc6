"""Weights that a model lists among its inputs, too: nobody can bind them, so that the engine folds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from helpers.models import tensor
from helpers.sessions import open_session
from winml_py import InvalidBindingError, LearningModel, LearningModelBinding, LearningModelSession, Weights

pytestmark = pytest.mark.one_python

SHAPES = {"w": (4, 3, 3, 3), "scale": (4,), "shift": (4,), "mean": (4,), "variance": (4,)}


def proto(ir_version: int = 8) -> onnx.ModelProto:
    """A convolution and a normalization, which become one node where the weights are constants."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.random(shape, np.float32) + 0.5, name) for name, shape in SHAPES.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", *list(SHAPES)[1:]], ["y"]),
    ]
    inputs = [tensor("x", [1, 3, 8, 8]), *(tensor(name, list(shape)) for name, shape in SHAPES.items())]
    graph = helper.make_graph(nodes, "graph", inputs, [tensor("y", [1, 4, 8, 8])], weights)
    opset = 8 if ir_version < 4 else 17
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


X = np.random.default_rng(1).random((1, 3, 8, 8), np.float32)


def expected(model: onnx.ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": X})[0]


def require_folded(session: LearningModelSession, model: onnx.ModelProto) -> None:
    assert [node.operator for node in session.assigned_nodes] == ["Conv"]
    came = session.evaluate_features({"x": X}).outputs["y"].to_numpy()
    np.testing.assert_allclose(came, expected(model), rtol=1e-5)


@pytest.mark.parametrize("weights", Weights)
def test_they_are_folded(tmp_path: Path, weights: Weights) -> None:
    model = proto()
    require_folded(open_session(model.SerializeToString(), weights=weights), model)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    require_folded(open_session(tmp_path / "m.onnx", weights=weights), model)


def test_in_a_model_whose_weights_are_in_another_file(tmp_path: Path) -> None:
    onnx.save(proto(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=64)
    require_folded(open_session(tmp_path / "m.onnx"), proto())
    came = open_session(tmp_path / "m.onnx", weights=Weights.PRIVATE).evaluate_features({"x": X})
    np.testing.assert_allclose(came.outputs["y"].to_numpy(), expected(proto()), rtol=1e-5)


def test_an_old_model_lists_all_of_them_and_is_left_as_it_is() -> None:
    model = proto(ir_version=3)
    session = open_session(model.SerializeToString())
    assert [node.operator for node in session.assigned_nodes] == ["Conv"]
    came = session.evaluate_features({"x": X}).outputs["y"].to_numpy()
    np.testing.assert_allclose(came, expected(model), rtol=1e-5)


def test_nobody_can_bind_them(openvino: object) -> None:
    model = LearningModel.load(proto().SerializeToString())
    assert [feature.name for feature in model.input_features] == ["x"]
    with pytest.raises(InvalidBindingError, match="w"):
        LearningModelBinding(LearningModelSession(model)).bind("w", np.zeros(SHAPES["w"], np.float32))
    came = open_session(proto().SerializeToString(), engine="openvino").evaluate_features({"x": X})
    np.testing.assert_allclose(came.outputs["y"].to_numpy(), expected(proto()), rtol=1e-5)


@pytest.mark.posix("Windows lets few users make symbolic links, and Wine makes none")
def test_files_behind_links_as_caches_of_models_have_them(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    onnx.save(proto(), blobs / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=64)
    for name in ("m.onnx", "w.bin"):
        (blobs / name).rename(blobs / f"blob-{name[0]}")
        (snapshot / name).symlink_to(blobs / f"blob-{name[0]}")
    try:  # a runtime that refuses it by itself is not asked for more
        onnxruntime.InferenceSession(snapshot / "m.onnx")
    except Exception:
        pytest.skip("this ONNX Runtime opens no weights behind links")
    came = open_session(snapshot / "m.onnx").evaluate_features({"x": X})
    np.testing.assert_allclose(came.outputs["y"].to_numpy(), expected(proto()), rtol=1e-5)
