"""The file of weights beside a model that is larger than protobuf can hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from helpers.models import model, tensor
from winml_py import LearningModel, LearningModelSession
from winml_py._graphs import model_file

TABLE = np.random.default_rng(3).standard_normal((9, 64)).astype(np.float32)
SIZES = np.arange(101, dtype=np.int8)


def model_of_many_weights() -> ModelProto:
    """Weights as raw bytes, as numbers in a field of their type, in a branch, as texts, and small ones."""
    branch = helper.make_graph(
        [helper.make_node("Gather", ["table", "i"], ["picked"])],
        "branch",
        [],
        [tensor("picked", [64])],
        [numpy_helper.from_array(TABLE, "table")],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["numbers"], ["none"])], "other", [], [tensor("none", [64])]
    )
    made = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)],
        [tensor("c", [], TensorProto.BOOL), tensor("i", [], TensorProto.INT64)],
        [tensor("y", [64])],
        {"sizes": np.tile(SIZES, 30), "small": SIZES[:4]},
    )
    numbers = TensorProto(name="numbers", data_type=TensorProto.FLOAT, dims=[64], float_data=TABLE[0])
    words = helper.make_tensor("words", TensorProto.STRING, [40], ["a long word"] * 40)
    made.graph.initializer.extend([numbers, words])
    return made


def test_each_weight_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "MAX_PROTOBUF_BYTES", 100)
    expected = {weight.name: numpy_helper.to_array(weight) for weight in model_of_many_weights().graph.initializer}
    model_file.save_model(model_of_many_weights(), tmp_path / "large.onnx")

    saved = onnx.load(tmp_path / "large.onnx", load_external_data=False)
    moved = {weight.name for weight in saved.graph.initializer if weight.data_location == TensorProto.EXTERNAL}
    assert moved == {"sizes"}

    loaded = onnx.load(tmp_path / "large.onnx")
    onnx.checker.check_model(loaded)
    for weight in loaded.graph.initializer:
        np.testing.assert_array_equal(numpy_helper.to_array(weight), expected[weight.name])

    session = LearningModelSession(LearningModel.load(tmp_path / "large.onnx"))
    for condition, row in ((True, TABLE[5]), (False, TABLE[0])):
        outputs = session.evaluate_features({"c": np.array(condition), "i": np.array(5)}).outputs
        np.testing.assert_array_equal(outputs["y"].to_numpy(), row)
