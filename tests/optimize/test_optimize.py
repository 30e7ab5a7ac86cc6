"""`optimize`, and `winml-py convert --optimize`: the same results, with fewer nodes, and everything else as it was."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from helpers.cli import call, require_failure
from helpers.models import tensor
from helpers.paths import MODELS
from helpers.reference import run_raw
from winml_py import InvalidArgumentError, LearningModel, NotSupportedError
from winml_py import optimize as module
from winml_py._inputs import copies
from winml_py.core.base.agreement import Agreement
from winml_py.errors import ConversionError
from winml_py.optimize import LEVELS, optimize

DIGITS = MODELS / "digits.onnx"
COMMAND = ("convert", "--optimize", "extended")


def old_model(path: Path) -> None:
    """A model whose weight is listed as an input, as exporters long did: it may be overridden, so is not folded."""
    weight = numpy_helper.from_array(np.random.default_rng(0).random((8, 4), np.float32), "w")
    nodes = [
        helper.make_node("Neg", ["w"], ["negative"]),
        helper.make_node("MatMul", ["x", "negative"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    ends = [tensor("x", ["n", 8], denotation="TENSOR"), tensor("w", [8, 4]), tensor("y", ["n", 4])]
    graph = helper.make_graph(nodes, "old", ends[:2], ends[2:], [weight], doc_string="a graph")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=6)
    model.producer_name, model.domain, model.model_version, model.doc_string = "somebody", "org.example", 7, "a model"
    helper.set_model_props(model, {"Image.BitmapPixelFormat": "Bgr8", "key": "value"})
    onnx.save(model, path)


@pytest.mark.parametrize("level", LEVELS)
def test_results_stay_and_so_does_the_rest(tmp_path: Path, level: str) -> None:
    out = tmp_path / "digits.onnx"
    report = optimize(DIGITS, out, level=level)
    image = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    expected = run_raw(str(DIGITS), {"image": image})["probabilities"]
    np.testing.assert_allclose(run_raw(str(out), {"image": image})["probabilities"], expected, atol=1e-6)
    before, after = LearningModel.load(DIGITS), LearningModel.load(out)
    for name in ("author", "name", "domain", "description", "version"):
        assert getattr(after, name) == getattr(before, name)
    assert dict(after.metadata) == dict(before.metadata)
    for features in ("input_features", "output_features"):
        old, new = getattr(before, features), getattr(after, features)
        assert [feature.expects() for feature in new] == [feature.expects() for feature in old]
        assert [feature.description for feature in new] == [feature.description for feature in old]
    assert report.nodes[1] == len(onnx.load(out).graph.node)
    assert report.size == (DIGITS.stat().st_size, out.stat().st_size)
    assert report.error < 1e-5
    onnx.checker.check_model(onnx.load(out)) if level in ("none", "basic") else None


def test_initializers_leave_the_inputs_and_are_folded(tmp_path: Path) -> None:
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    old_model(old)
    kept = tmp_path / "raw.onnx"
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 4, str(kept)
    onnxruntime.InferenceSession(old, options)
    assert "Neg" in {node.op_type for node in onnx.load(kept).graph.node}  # what stands in the way
    report = optimize(old, new)
    model = onnx.load(new)
    assert report.moved == ("w",)
    assert [info.name for info in model.graph.input] == ["x"]
    assert "Neg" not in {node.op_type for node in model.graph.node}
    assert model.ir_version == 6
    assert (model.producer_name, model.domain, model.model_version) == ("somebody", "org.example", 7)
    assert (model.doc_string, model.graph.doc_string) == ("a model", "a graph")
    assert {item.key: item.value for item in model.metadata_props} == {
        "Image.BitmapPixelFormat": "Bgr8",
        "key": "value",
    }
    assert model.graph.input[0].type.denotation == "TENSOR"
    assert {item.domain for item in model.opset_import} == {""}
    x = np.random.default_rng(1).random((3, 8), np.float32)
    np.testing.assert_allclose(run_raw(str(new), {"x": x})["y"], run_raw(str(old), {"x": x})["y"], rtol=1e-6)


def test_models_older_than_that_get_the_version_that_allows_it(tmp_path: Path) -> None:
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    old_model(old)
    model = onnx.load(old)
    model.ir_version = 3
    onnx.save(model, old)
    assert optimize(old, new, level="none").moved == ("w",)
    assert onnx.load(new).ir_version == 4
    onnx.checker.check_model(onnx.load(new))


def test_nothing_is_written_where_results_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "compare_outputs", lambda *values: Agreement(0.5, None, 1e-3))
    with pytest.raises(ConversionError, match="nothing was written"):
        optimize(DIGITS, tmp_path / "out.onnx")
    assert "differ by 5.0e-01" in require_failure(1, *COMMAND, DIGITS, "--output", tmp_path / "out.onnx")
    assert list(tmp_path.iterdir()) == []


def test_pictures_are_compared_by_levels(tmp_path: Path) -> None:
    assert optimize(MODELS / "sharpen.onnx", tmp_path / "sharpen.onnx").error <= 1 / 255


def test_the_command(tmp_path: Path) -> None:
    old = tmp_path / "old.onnx"
    old_model(old)
    result = call(*COMMAND, old, "--output", tmp_path / "new.onnx")
    assert result.exit_code == 0
    assert result.stdout.startswith("3 nodes became 2, 1 initializers no longer inputs; ")
    facts = json.loads(call("convert", "--optimize", "basic", old, "--output", tmp_path / "new.onnx", "--json").stdout)
    assert (facts["schema"], facts["nodes"], facts["moved"]) == (1, [3, 2], ["w"])
    array = tmp_path / "x.npy"
    np.save(array, np.ones((2, 8), np.float32))
    assert call(*COMMAND, old, f"x={array}", "--output", tmp_path / "new.onnx").exit_code == 0
    np.save(array, np.ones((2, 7), np.float32))
    assert "is 7, not 8" in require_failure(4, *COMMAND, old, f"x={array}", "--output", tmp_path / "new.onnx")


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.onnx"
    with pytest.raises(InvalidArgumentError, match="Unknown level 'most'"):
        optimize(DIGITS, out, level="most")
    with pytest.raises(ConversionError, match="nothing was written"):
        optimize(DIGITS, out, tolerance=float("nan"))
    monkeypatch.setattr(module, "_MAX_BYTES", 100)
    with pytest.raises(NotSupportedError, match="larger than 2 GB"):
        optimize(DIGITS, out)
    assert list(tmp_path.iterdir()) == []
