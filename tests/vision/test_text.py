"""Lines of text: found in a map, cut out, and read."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from helpers.models import unary
from tools import ocr
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    LearningModel,
    LearningModelEvaluationResult,
    LearningModelSession,
    vision,
)
from winml_py.errors import EvaluationError, InvalidArgumentError

Array = np.ndarray[Any, Any]
GRAY = ImageContract(BitmapPixelFormat.GRAY8, scaling=ImageContract.rapidocr("det").scaling)
HAS_RAPIDOCR = pytest.mark.skipif(find_spec("rapidocr") is None, reason="rapidocr is not installed")


def evaluated(numbers: Array, metadata: dict[str, str] | None = None) -> LearningModelEvaluationResult:
    """The result of a model that gives these numbers."""
    model = LearningModel.load(unary(shape=numbers.shape, metadata=metadata or {}))
    return LearningModelSession(model).evaluate_features({"x": numbers})


def found(levels: Array, **options: Any) -> vision.TextLines:
    """The lines in a picture that is its own map: its levels, 0 to 255, are scores of 0 to 1."""
    model = LearningModel.load(unary(shape=(1, 1, "h", "w")))
    model.contracts["x"] = GRAY
    # Windows ML's gray is a weighted sum, in which a level may lose one.
    result = LearningModelSession(model).evaluate_features({"x": Image.fromarray(levels)})
    return vision.text_lines(result, **{"threshold": 0.3 * 255, "lowest_score": 0.5 * 255} | options)


def drawn(*lines: tuple[tuple[float, float], tuple[float, float], float], size: tuple[int, int] = (960, 736)) -> Array:
    """White rectangles on black: middle, width and height, degrees."""
    levels = np.zeros(size[::-1], np.uint8)
    for line in lines:
        cv2.fillPoly(levels, [np.rint(cv2.boxPoints(line)).astype(np.int32)], (250,))
    return levels


def test_a_line_grows_to_its_letters() -> None:
    """Its core is 101 x 21 points, whose outline is 100 long and 20 high: it grows by 1.6 * 2000 / 240 to each side."""
    lines = found(drawn(((300, 200), (100, 20), 0)), dilates=False)
    assert (lines.picture_width, lines.picture_height) == (960, 736)
    grown = 1.6 * 2000 / 240
    left, top, right, bottom = 250 - grown, 190 - grown, 350 + grown, 210 + grown
    np.testing.assert_array_equal(lines.boxes, np.rint([[[left, top], [right, top], [right, bottom], [left, bottom]]]))
    assert lines.scores == pytest.approx([249.5], abs=0.6)
    assert repr(lines) == "<TextLines 1 in 960x736>"
    (more,) = found(drawn(((300, 200), (100, 20), 0)), dilates=False, growth=3).boxes
    np.testing.assert_array_equal(more[0], [250 - 25, 190 - 25])
    (dilated,) = found(drawn(((300, 200), (100, 20), 0))).boxes
    assert dilated[2].tolist() == [365, 225]  # the core reaches one number farther to the right and downwards


def test_boxes_are_in_pixels_of_the_picture_whatever_the_tensor() -> None:
    """A picture half as high is enlarged to 736: its boxes stay in its pixels."""
    small = found(drawn(((150, 100), (100, 20), 0), size=(480, 368)), dilates=False)
    assert (small.picture_width, small.picture_height) == (480, 368)
    (box,) = small.boxes
    np.testing.assert_allclose(box[[0, 2]], [(100 - 13.5, 90 - 13.5), (201 + 13.5, 111 + 13.5)], atol=1.5)


def test_lines_are_in_the_order_of_reading() -> None:
    """Two columns whose lines are 4 pixels apart in height, a line between them, and noise that is no line."""
    places = [(700, 104), (200, 100), (700, 296), (200, 300), (450, 200)]
    noise = [((50, 700), (1, 1), 0)]
    lines = found(drawn(*[(place, (200, 20), 0) for place in places], *noise))
    middles = lines.boxes.mean(axis=1).round(-1).tolist()
    assert middles == [[200, 100], [700, 100], [450, 200], [200, 300], [700, 300]]
    assert len(lines) == len(lines.scores) == 5


def test_no_lines() -> None:
    lines = found(drawn())
    assert lines.boxes.shape == (0, 4, 2)
    assert lines.scores.shape == (0,)
    assert lines.cut(Image.new("RGB", (960, 736))) == []
    faint = drawn(((300, 200), (100, 20), 0)) // 2
    assert len(found(faint)) == 0
    assert len(found(faint, lowest_score=0.4 * 255)) == 1


@HAS_RAPIDOCR
@pytest.mark.parametrize("dilates", [False, True])
def test_boxes_are_rapidocrs(dilates: bool) -> None:
    """Its own code, with pyclipper and shapely, on rectangles of all sizes and angles."""
    from rapidocr.ch_ppocr_det.main import TextDetector
    from rapidocr.ch_ppocr_det.utils import DBPostProcess

    theirs = DBPostProcess(0.3 * 255, 0.5 * 255, 1000, 1.6, "fast", dilates)
    rng = np.random.default_rng(7)
    compared = 0
    for _ in range(12):
        width, height = (int(side) * 32 for side in rng.integers(23, 32, 2))
        cells = [(x, y) for x in range(120, width - 100, 200) for y in range(120, height - 100, 200)]
        shapes = [tuple(rng.uniform((8, 3), (170, 40))) for _ in cells]
        levels = drawn(
            *zip(cells, shapes, rng.choice([0.0, 90.0, 45.0, *rng.uniform(-90, 90, 5)], len(cells)), strict=True),
            size=(width, height),
        )
        levels = cv2.GaussianBlur(levels, (5, 5), 0)
        levels[:40] = levels[-20:] = 0
        cv2.rectangle(levels, (-5, 10), (90, 20), (255,), -1)  # at the edge
        lines = found(levels, dilates=dilates)
        numbers = np.asarray(levels, np.float32)
        boxes, scores = theirs(numbers[None, None], (height, width))
        np.testing.assert_array_equal(lines.boxes, TextDetector.sorted_boxes(boxes))
        np.testing.assert_allclose(sorted(lines.scores), sorted(scores), atol=1)  # Windows ML's gray
        compared += len(boxes)
    assert compared > 100


def test_a_line_is_cut_out_level() -> None:
    """A band of four colours along a slanted line, and one that is high."""
    page = np.full((400, 600, 3), 255, np.uint8)
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 0)]
    turn = cv2.getRotationMatrix2D((300, 200), 20, 1)
    for number, colour in enumerate(colours):
        left = 100 + 100 * number
        corners = np.array([[left, 170], [left + 100, 170], [left + 100, 230], [left, 230]], np.float32)
        cv2.fillPoly(page, [np.rint(cv2.transform(corners[None], turn)).astype(np.int32)], colour)
    slanted = cv2.transform(np.array([[[100, 170], [500, 170], [500, 230], [100, 230]]], np.float64), turn)[0].round()
    high = np.array([[20, 20], [50, 20], [50, 120], [20, 120]], float)
    page[20:70, 20:50], page[70:120, 20:50] = (9, 99, 199), (199, 99, 9)
    lines = vision.TextLines(np.stack([slanted, high]), np.ones(2, np.float32), 600, 400)
    level, turned = lines.cut(Image.fromarray(page))
    assert level.size == pytest.approx((400, 60), abs=2)
    for number, colour in enumerate(colours):
        np.testing.assert_allclose(level.getpixel((50 + 100 * number, 30)), colour, atol=3)
    assert turned.size == (100, 30)  # to the left: its upper end is left now
    assert turned.getpixel((20, 15)) == (9, 99, 199)
    assert turned.getpixel((80, 15)) == (199, 99, 9)
    outlined = np.asarray(lines.draw(Image.fromarray(page), ["slanted"])).astype(int)
    middle = slanted[:2].mean(axis=0).round().astype(int)
    assert (
        outlined[middle[1] - 1 : middle[1] + 2, middle[0]].tolist()
        != page[middle[1] - 1 : middle[1] + 2, middle[0]].tolist()
    )
    assert outlined[200, 350].tolist() == page[200, 350].tolist()
    with pytest.raises(InvalidArgumentError, match="10x10, but the evaluated one is 600x400"):
        lines.cut(Image.new("RGB", (10, 10)))


def test_batches_by_width() -> None:
    pictures = [Image.new("RGB", size) for size in ((100, 10), (30, 10), (200, 100), (60, 10), (50, 10))]
    assert vision.batch_by_width(pictures, 2) == [[2, 1], [4, 3], [0]]
    assert vision.batch_by_width(pictures) == [[2, 1, 4, 3, 0]]
    assert vision.batch_by_width([]) == []
    with pytest.raises(InvalidArgumentError, match="size"):
        vision.batch_by_width(pictures, 0)


def steps(*best: tuple[int, float], characters: int = 5) -> Array:
    """Scores of one line: at each step, the index of the best character and its score."""
    scores = np.zeros((len(best), characters), np.float32)
    for step, (index, score) in zip(scores, best, strict=True):
        step[:] = (1 - score) / characters
        step[index] = score
    return scores


def test_repetitions_and_blanks_do_not_count() -> None:
    first = steps((1, 0.9), (1, 0.6), (0, 0.99), (1, 0.7), (2, 0.8), (4, 0.5))
    second = steps(*[(0, 0.9)] * 6)
    third = steps((0, 0.9), (3, 0.8), (3, 0.9), (2, 0.4), (3, 1.0), (0, 0.9))
    result = evaluated(np.stack([first, second, third]))
    readings = vision.read_text(result, labels=["", "a", "b", "c", " "])
    assert [reading.text for reading in readings] == ["aab ", "", "cbc"]
    expected = [(0.9 + 0.7 + 0.8 + 0.5) / 4, 0, (0.8 + 0.4 + 1.0) / 3]
    assert [reading.confidence for reading in readings] == pytest.approx(expected)


@pytest.mark.parametrize("constant", [0, 7], ids=["logarithms", "logits"])
def test_the_confidence_of_a_model_without_a_softmax(constant: float) -> None:
    scores = steps((1, 0.9), (0, 0.6), (2, 0.7))[None]
    shares = scores / scores.sum(axis=2, keepdims=True)
    readings = vision.read_text(evaluated(np.log(shares) + np.float32(constant)), labels=["", "a", "b", "c", " "])
    assert readings == [("ab", pytest.approx((shares[0, 0, 1] + shares[0, 2, 2]) / 2))]


def test_where_the_characters_come_from(tmp_path: Path) -> None:
    numbers = np.stack([steps((1, 0.9), (4, 0.9), (2, 0.9), (3, 0.9))])
    result = evaluated(numbers, {"character": "a\nb\nc\n"})
    assert vision.read_text(result) == [("a bc", pytest.approx(0.9))]
    file = tmp_path / "characters.txt"
    file.write_text("x\n\u3000\nz\n", encoding="utf-8")
    assert vision.read_text(result, labels=file)[0].text == "x \u3000z"
    assert vision.read_text(evaluated(numbers), labels=list("wxyz"))[0].text == "wzxy"  # without a space
    for blank in ("", "blank"):
        assert vision.read_text(evaluated(numbers), labels=[blank, *"abc"])[0].text == "a bc"
    with pytest.raises(
        InvalidArgumentError, match=r"scores for 5 characters, but the number of labels is 0\. As labels"
    ):
        vision.read_text(evaluated(numbers))


def test_results_of_other_models_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Expected one output of lines x steps x characters, got 0\."):
        vision.read_text(evaluated(np.zeros((1, 4), np.float32)))
    with pytest.raises(InvalidArgumentError, match="Pass the result of session"):
        vision.read_text(np.zeros((1, 4, 5)))  # type: ignore[arg-type]
    with pytest.raises(EvaluationError, match="not finite"):
        vision.read_text(evaluated(np.full((1, 4, 5), np.nan, np.float32)), labels=["", *"abcd"])
    model = LearningModel.load(unary(shape=(1, 3, "h", "w")))
    model.contracts["x"] = ImageContract.rapidocr("det")
    result = LearningModelSession(model).evaluate_features({"x": Image.new("RGB", (40, 30))})
    with pytest.raises(InvalidArgumentError, match="Expected one map of scores, got 3 maps"):
        vision.text_lines(result)
    for growth in (0, -1, math.nan, math.inf):
        with pytest.raises(InvalidArgumentError, match="growth cannot be"):
            found(drawn(), growth=growth)
    for option, value in (("threshold", math.nan), ("lowest_score", "0.5"), ("dilates", 3)):
        with pytest.raises(InvalidArgumentError, match=f"{option} cannot be"):
            found(drawn(), **{option: value})
    with pytest.raises(InvalidArgumentError, match=r"index of the picture cannot be 0\.5"):
        found(drawn(), picture=0.5)


@HAS_RAPIDOCR
@pytest.mark.once
def test_the_documented_program_reads_as_rapidocr_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["ocr.py", "--count", "2"])
    assert ocr.main() == 0
