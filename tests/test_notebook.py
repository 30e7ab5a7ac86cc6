"""What notebooks show, and the classes with the highest scores."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from build import data, tensor
from conftest import MODELS
from onnx import helper
from PIL import Image

from winml_py import (
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelEvaluationResult,
    LearningModelSession,
    PictureNotFoundError,
)


def test_a_models_features_are_a_table() -> None:
    html = LearningModel.load(MODELS / "digits.onnx")._repr_html_()
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert cells[:3] == ["input", "image", "Image[28x28]"]
    assert cells[4:6] == ["output", "probabilities"]
    assert "<b>digits</b>" in html


def test_a_session_says_where_it_runs() -> None:
    session = LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))
    assert f"on {session.device.name}: onnxruntime, float32" in session._repr_html_()
    session.close()
    assert ": closed" in session._repr_html_()


def test_a_results_scores_and_pictures(digits: LearningModelSession, seven: Path, cat: Path) -> None:
    html = digits.evaluate_features({"image": ImageFeatureValue.load(seven)})._repr_html_()
    assert re.findall(r"<td[^>]*>(\d)</td>", html)[0] == "7"
    edges = LearningModelSession(LearningModel.load(MODELS / "edges.onnx"))
    result = edges.evaluate_features({"image": ImageFeatureValue.load(cat)})
    html = result._repr_html_()
    encoded = re.search(r"base64,([A-Za-z0-9+/=]+)", html)
    assert encoded is not None
    preview = Image.open(io.BytesIO(base64.b64decode(encoded[1])))
    whole = result.outputs["result"].to_pil().convert("RGB")
    assert max(preview.size) == 160
    assert np.abs(np.asarray(preview, float).mean((0, 1)) - np.asarray(whole, float).mean((0, 1))).max() < 3
    assert "451 x 300" in html


def test_names_are_escaped() -> None:
    node = helper.make_node("Neg", ["<i>"], ["<b>x</b>"])
    loaded = LearningModel.load(data([node], [tensor("<i>", [2])], [tensor("<b>x</b>", [2])]))
    result = LearningModelSession(loaded).evaluate_features({"<i>": np.ones(2, np.float32)})
    for html in (loaded._repr_html_(), result._repr_html_()):
        assert "<b>x</b>" not in html
        assert "&lt;b&gt;x&lt;/b&gt;" in html


def test_a_failure_is_shown_as_one(digits: LearningModelSession) -> None:
    (result,) = digits.evaluate_many(["missing.png"])
    assert "failed: " in result._repr_html_()
    with pytest.raises(PictureNotFoundError):
        result.top_k()


def test_the_best_classes(digits: LearningModelSession, seven: Path) -> None:
    result = digits.evaluate_features({"image": ImageFeatureValue.load(seven)})
    scores = result.outputs["probabilities"].to_numpy()[0]
    labels = (MODELS / "digits.labels.txt").read_text().split()
    best = result.top_k(3, labels)
    assert [place.index for place in best] == sorted(range(10), key=lambda i: -scores[i])[:3]
    assert [place.score for place in best] == sorted(map(float, scores), reverse=True)[:3]
    assert best[0].label == "seven"
    assert len(result.top_k(99)) == 10
    assert result.top_k(1, output="PROBABILITIES")[0].label == ""


def test_equal_scores_come_in_order() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    session = LearningModelSession(LearningModel.load(data([node], [tensor("x", [4])], [tensor("y", [4])])))
    result = session.evaluate_features({"x": np.array([1, 3, 3, 2], np.float32)})
    assert [place.index for place in result.top_k(4)] == [1, 2, 3, 0]


def test_what_has_no_best_class(digits: LearningModelSession, cat: Path) -> None:
    result = digits.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
    for n in (0, -1, True, 1.5):
        with pytest.raises(InvalidArgumentError, match="whole number of 1 or more"):
            result.top_k(n)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="no output 'scores'"):
        result.top_k(output="scores")
    edges = LearningModelSession(LearningModel.load(MODELS / "edges.onnx"))
    with pytest.raises(InvalidArgumentError, match="none is one row of scores"):
        edges.evaluate_features({"image": ImageFeatureValue.load(cat)}).top_k()
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in "ab"]
    two = LearningModel.load(data(nodes, [tensor("x", [3])], [tensor(name, [3]) for name in "ab"]))
    result = LearningModelSession(two).evaluate_features({"x": np.ones(3, np.float32)})
    assert isinstance(result, LearningModelEvaluationResult)
    with pytest.raises(InvalidArgumentError, match="more than one is one row"):
        result.top_k()
    assert result.top_k(1, output="b")[0].index == 0
