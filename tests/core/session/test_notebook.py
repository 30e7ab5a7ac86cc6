"""What notebooks show, and the classes with the highest scores."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
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
from winml_py.errors import PictureNotFoundError, StorageNotFoundError


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


def test_a_failure_has_no_classes(digits: LearningModelSession) -> None:
    (result,) = digits.evaluate_many(["missing.png"])
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
    path = MODELS / "digits.labels.txt"
    assert result.top_k(1, path)[0].label == result.top_k(1, str(path))[0].label == "seven"  # type: ignore[arg-type]
    with pytest.raises(StorageNotFoundError):  # a text is a path, though it is a sequence of ten letters, too
        result.top_k(1, "ten.letter")  # type: ignore[arg-type]
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


def test_what_has_no_best_class(digits: LearningModelSession, cat: Path) -> None:
    result = digits.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
    for n in (0, -1, True, 1.5):
        with pytest.raises(InvalidArgumentError, match="whole number of 1 or more"):
            result.top_k(n)  # type: ignore[arg-type]
    for labels in (5, {0: "zero"}, {"zero", "one"}, frozenset(["zero"])):
        with pytest.raises(InvalidArgumentError, match=r"Expected class names, got \w+\. Pass a list"):
            result.top_k(labels=labels)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="no output 'scores'"):
        result.top_k(output="scores")
    edges = LearningModelSession(LearningModel.load(MODELS / "edges.onnx"))
    with pytest.raises(InvalidArgumentError, match="requires one output with one row of scores"):
        edges.evaluate_features({"image": ImageFeatureValue.load(cat)}).top_k()
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in "ab"]
    two = LearningModel.load(data(nodes, [tensor("x", [3])], [tensor(name, [3]) for name in "ab"]))
    result = LearningModelSession(two).evaluate_features({"x": np.ones(3, np.float32)})
    assert isinstance(result, LearningModelEvaluationResult)
    with pytest.raises(InvalidArgumentError, match="more than one of"):
        result.top_k()
    assert result.top_k(1, output="b")[0].index == 0
