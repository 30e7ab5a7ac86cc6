"""What notebooks show, and the classes with the highest scores."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

from helpers.models import data, tensor
from helpers.paths import MODELS
from winml_py import (
    BitmapPixelFormat,
    EvaluationError,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelEvaluationResult,
    LearningModelSession,
    SoftwareBitmap,
    VideoFrame,
)
from winml_py.errors import PictureNotFoundError


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
    means = [np.asarray(image.convert("RGB"), float).mean((0, 1)) for image in (preview, whole)]
    assert np.abs(means[0] - means[1]).max() < 3
    assert "ImageFeatureValue BGRA8 451x300" in html


def pictures_in(html: str) -> list[Image.Image]:
    return [Image.open(io.BytesIO(base64.b64decode(data))) for data in re.findall(r"base64,([A-Za-z0-9+/=]+)", html)]


def test_pictures_show_themselves(cat: Path) -> None:
    bitmap = SoftwareBitmap.load(cat)
    expected = np.asarray(Image.open(cat).convert("RGB"))
    frame = VideoFrame.create_with_software_bitmap(bitmap)
    value = ImageFeatureValue.create_from_video_frame(frame)
    shown = [Image.open(io.BytesIO(thing._repr_png_() or b"")) for thing in (bitmap, frame)]
    for image in (*shown, *pictures_in(value._repr_html_() or "")):
        difference = np.abs(np.asarray(image.convert("RGB"), int) - expected)
        assert difference.mean() < 1  # two decoders of JPEG
    assert "ImageFeatureValue BGR8 451x300" in str(value._repr_html_())


@pytest.mark.parametrize("pixel_format", [kind for kind in BitmapPixelFormat if kind.value])
def test_every_format_shows_itself(pixel_format: BitmapPixelFormat) -> None:
    gray = SoftwareBitmap.from_array(np.full((8, 12), 100, np.uint8), BitmapPixelFormat.GRAY8)
    image = Image.open(io.BytesIO(SoftwareBitmap.convert(gray, pixel_format)._repr_png_() or b""))
    assert image.size == (12, 8)
    assert np.abs(np.asarray(image.convert("L"), int) - 100).max() <= 2


def test_large_pictures_are_shown_small() -> None:
    tall = np.zeros((3000, 1500, 3), np.uint8)
    tall[:1500] = 200
    value = ImageFeatureValue.from_array(tall, BitmapPixelFormat.RGB8)
    (image,) = pictures_in(value._repr_html_() or "")
    assert image.size == (320, 640)
    pixels = np.asarray(image.convert("RGB"))
    assert (pixels[10, 10] == 200).all()
    assert (pixels[630, 10] == 0).all()
    assert "RGB8 1500x3000" in str(value._repr_html_())
    assert value.to_numpy() is not None
    assert tall.shape == (3000, 1500, 3)


def test_a_file_that_is_not_decoded_yet_and_a_batch(cat: Path) -> None:
    value = ImageFeatureValue.load(cat, fast_decode=True)
    (image,) = pictures_in(value._repr_html_() or "")
    assert image.size == (451, 300)
    frame = VideoFrame.create_with_software_bitmap(SoftwareBitmap.load(cat))
    assert len(pictures_in(ImageFeatureValue([frame] * 3)._repr_html_() or "")) == 3
    assert len(pictures_in(ImageFeatureValue([frame] * 20)._repr_html_() or "")) == 8


def test_what_is_closed_is_shown_as_text(cat: Path) -> None:
    bitmap = SoftwareBitmap.load(cat)
    frame = VideoFrame.create_with_software_bitmap(bitmap)
    value = ImageFeatureValue.create_from_video_frame(frame)
    bitmap.close()
    assert (bitmap._repr_png_(), frame._repr_png_(), value._repr_html_()) == (None, None, None)
    assert repr(bitmap) == "<SoftwareBitmap BGR8 451x300>"


def test_scores_have_the_models_labels() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    proto = onnx.load_from_string(data([node], [tensor("x", [3])], [tensor("y", [3])]))
    helper.set_model_props(proto, {"Labels": '["ash", "b<i>rch", "cedar"]'})
    session = LearningModelSession(LearningModel.load(proto))
    html = session.evaluate_features({"x": np.array([0.1, 0.7, 0.2], np.float32)})._repr_html_()
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", html)
    assert cells[-9:] == ["1", "0.7000", "b&lt;i&gt;rch", "2", "0.2000", "cedar", "0", "0.1000", "ash"]


def test_names_are_escaped() -> None:
    node = helper.make_node("Neg", ["<i>"], ["<b>x</b>"])
    loaded = LearningModel.load(data([node], [tensor("<i>", [2])], [tensor("<b>x</b>", [2])]))
    result = LearningModelSession(loaded).evaluate_features({"<i>": np.ones(2, np.float32)})
    html = result._repr_html_()
    assert "<b>x</b>" not in html
    assert "&lt;b&gt;x&lt;/b&gt;" in html


def test_a_failure_is_shown_as_one(digits: LearningModelSession) -> None:
    (result,) = digits.evaluate_many(["missing.png"])
    assert result._repr_html_() is None  # it is shown as text
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
    for bad in (np.nan, np.inf):
        result = session.evaluate_features({"x": np.array([1, bad, -np.inf, 2], np.float32)})
        with pytest.raises(EvaluationError, match="NaN or infinite"):
            result.top_k()
        assert "score" not in result._repr_html_()


def test_what_has_no_best_class(digits: LearningModelSession, cat: Path) -> None:
    result = digits.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
    for n in (0, -1, True, 1.5):
        with pytest.raises(InvalidArgumentError, match="whole number of 1 or more"):
            result.top_k(n)  # type: ignore[arg-type]
    for labels in (5, {0: "zero"}):
        with pytest.raises(InvalidArgumentError, match=r"Expected the names of the classes, got \w+\. Pass a list"):
            result.top_k(labels=labels)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="no output 'scores'"):
        result.top_k(output="scores")
    edges = LearningModelSession(LearningModel.load(MODELS / "edges.onnx"))
    with pytest.raises(InvalidArgumentError, match="needs an output with one row of scores"):
        edges.evaluate_features({"image": ImageFeatureValue.load(cat)}).top_k()
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in "ab"]
    two = LearningModel.load(data(nodes, [tensor("x", [3])], [tensor(name, [3]) for name in "ab"]))
    result = LearningModelSession(two).evaluate_features({"x": np.ones(3, np.float32)})
    assert isinstance(result, LearningModelEvaluationResult)
    with pytest.raises(InvalidArgumentError, match="more than one of"):
        result.top_k()
    assert result.top_k(1, output="b")[0].index == 0
