"""Detectors on grids, and SSD: within a pixel of their makers' own decoding, written out as loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from helpers.cli import call
from helpers.models import data, tensor
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelEvaluationResult,
    LearningModelSession,
    vision,
)
from winml_py.scaling import Stretch
from winml_py.vision import DetectionLayout

HEIGHT, WIDTH = 96, 160
GRIDS = {stride: (math.ceil(HEIGHT / stride), math.ceil(WIDTH / stride)) for stride in (8, 16, 32, 64)}
PLACES = sum(rows * columns for stride, (rows, columns) in GRIDS.items() if stride < 64)
MANY_PLACES = sum(rows * columns for rows, columns in GRIDS.values())

Boxes = list[tuple[float, list[float], int, list[list[float]] | None]]
"""Score, corners, class, points."""

ALL: dict[str, Any] = {"threshold": 0.6, "overlap": 1.0, "limit": 10_000}
"""What is so sure that every layout has some, and nothing suppressed."""


def model_of(outputs: dict[str, np.ndarray]) -> bytes:
    """A model that gives these arrays, whatever picture comes."""
    nodes = [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(a)) for name, a in outputs.items()]
    ends = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in outputs.items()
    ]
    return data(nodes, [tensor("x", [1, 3, HEIGHT, WIDTH])], ends)


def answer(outputs: dict[str, np.ndarray]) -> LearningModelEvaluationResult:
    """What a session gives for a picture of the tensor's size, so that a box of the tensor is one of the picture."""
    loaded = LearningModel.load(model_of(outputs))
    loaded.contracts["x"] = ImageContract(scaling=Stretch())
    picture = ImageFeatureValue.from_array(np.zeros((HEIGHT, WIDTH, 3), np.uint8), BitmapPixelFormat.RGB8)
    with LearningModelSession(loaded) as session:
        return session.evaluate_features({"x": picture})


def clipped(corners: list[float]) -> list[float]:
    return [min(max(value, 0), WIDTH if index % 2 == 0 else HEIGHT) for index, value in enumerate(corners)]


def require_same(found: vision.Detections, expected: Boxes) -> None:
    expected = sorted(expected, key=lambda one: -one[0])
    assert len(found) == len(expected) > 5
    np.testing.assert_allclose(found.scores, [score for score, *_ in expected], atol=1e-5)
    np.testing.assert_allclose(found.boxes, [clipped(corners) for _, corners, *_ in expected], atol=1e-2)
    assert found.indices.tolist() == [index for *_, index, _ in expected]
    if expected[0][3] is not None:
        np.testing.assert_allclose(found.points, [points for *_, points in expected], atol=1e-2)


def around(middle: tuple[float, float], size: tuple[float, float]) -> list[float]:
    (x, y), (width, height) = middle, size
    return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]


def yolox(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], Boxes]:
    """`demo_postprocess` of YOLOX's `yolox/utils/demo_utils.py`, place by place."""
    table = rng.uniform(0, 1, (1, PLACES, 5 + 3)).astype(np.float32)
    table[..., :2], table[..., 2:4] = rng.normal(0, 1, (2, 1, PLACES, 2))
    expected: Boxes = []
    rows = iter(table[0])
    for stride in (8, 16, 32):
        for row in range(GRIDS[stride][0]):
            for column in range(GRIDS[stride][1]):
                x, y, w, h, thing, *scores = map(float, next(rows))
                middle, size = ((x + column) * stride, (y + row) * stride), (math.exp(w) * stride, math.exp(h) * stride)
                expected.append((thing * max(scores), around(middle, size), scores.index(max(scores)), None))
    return {"output": table}, expected


def nanodet(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], Boxes]:
    """`get_bboxes` of NanoDet-Plus's head: the mean of 8 distances by their softmax, from each place's corner."""
    table = rng.uniform(0, 1, (1, MANY_PLACES, 3 + 32)).astype(np.float32)
    table[..., 3:] = rng.normal(0, 2, (1, MANY_PLACES, 32))
    expected: Boxes = []
    rows = iter(table[0])
    for stride in (8, 16, 32, 64):
        for row in range(GRIDS[stride][0]):
            for column in range(GRIDS[stride][1]):
                numbers = [float(number) for number in next(rows)]
                distances = []
                for side in range(4):
                    powers = [math.exp(number) for number in numbers[3 + 8 * side : 11 + 8 * side]]
                    distances.append(sum(i * power for i, power in enumerate(powers)) / sum(powers) * stride)
                x, y, score = column * stride, row * stride, max(numbers[:3])
                box = [x - distances[0], y - distances[1], x + distances[2], y + distances[3]]
                expected.append((score, box, numbers[:3].index(score), None))
    return {"output": table}, expected


def scrfd(rng: np.random.Generator, batched: bool = False) -> tuple[dict[str, np.ndarray], Boxes]:
    """`SCRFD.forward` of insightface: `distance2bbox` and `distance2kps`, two boxes a place."""
    outputs: dict[str, np.ndarray] = {}
    expected: Boxes = []
    for stride in (8, 16, 32):
        rows, columns = GRIDS[stride]
        count = 2 * rows * columns
        scores = rng.uniform(0, 1, (count, 1)).astype(np.float32)
        boxes = rng.uniform(0, 4, (count, 4)).astype(np.float32)
        points = rng.uniform(-2, 2, (count, 10)).astype(np.float32)
        for index in range(count):
            x, y = index // 2 % columns * stride, index // 2 // columns * stride
            left, top, right, bottom = (float(number) * stride for number in boxes[index])
            marks = [[x + float(px) * stride, y + float(py) * stride] for px, py in points[index].reshape(5, 2)]
            expected.append((float(scores[index, 0]), [x - left, y - top, x + right, y + bottom], 0, marks))
        for name, array in (("score", scores), ("bbox", boxes), ("kps", points)):
            outputs[f"{name}{stride}"] = array[None] if batched else array
    return outputs, expected


def yunet(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], Boxes]:
    """`FaceDetectorYNImpl::postProcess` of OpenCV's `face_detect.cpp`."""
    outputs: dict[str, np.ndarray] = {}
    expected: Boxes = []
    for stride in (8, 16, 32):
        rows, columns = GRIDS[stride]
        kinds, things = rng.uniform(-0.1, 1.1, (2, 1, rows * columns, 1)).astype(np.float32)
        boxes = rng.normal(0, 0.7, (1, rows * columns, 4)).astype(np.float32)
        points = rng.normal(0, 1, (1, rows * columns, 10)).astype(np.float32)
        for index in range(rows * columns):
            row, column = divmod(index, columns)
            kind, thing = (min(max(float(array[0, index, 0]), 0), 1) for array in (kinds, things))
            dx, dy, w, h = map(float, boxes[0, index])
            middle, size = ((column + dx) * stride, (row + dy) * stride), (math.exp(w) * stride, math.exp(h) * stride)
            box = around(middle, size)
            marks = [
                [(float(px) + column) * stride, (float(py) + row) * stride] for px, py in points[0, index].reshape(5, 2)
            ]
            expected.append((math.sqrt(kind * thing), box, 0, marks))
        for name, array in (("cls", kinds), ("obj", things), ("bbox", boxes), ("kps", points)):
            outputs[f"{name}_{stride}"] = array
    return outputs, expected


def ssd(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], Boxes]:
    """As ONNX's model zoo and MLPerf have it: corners as shares of the picture, classes from 1."""
    corners = np.sort(rng.uniform(0, 1, (1, 200, 2, 2)), axis=2).reshape(1, 200, 4).astype(np.float32)
    labels = rng.integers(1, 4, (1, 200))
    scores = rng.uniform(0, 1, (1, 200)).astype(np.float32)
    sides = WIDTH, HEIGHT, WIDTH, HEIGHT
    expected: Boxes = [
        (float(score), [float(value) * side for value, side in zip(box, sides, strict=True)], int(label), None)
        for box, label, score in zip(corners[0], labels[0], scores[0], strict=True)
    ]
    return {"bboxes": corners, "labels": labels, "scores": scores}, expected


Maker = Callable[[np.random.Generator], tuple[dict[str, np.ndarray], Boxes]]
MAKERS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "YOLOX": (yolox, ("a", "b", "c")),
    "NANODET": (nanodet, ("a", "b", "c")),
    "SCRFD": (scrfd, ()),
    "YUNET": (yunet, ()),
    "SSD": (ssd, ("background", "a", "b", "c")),
}


@pytest.mark.parametrize("name", MAKERS)
def test_boxes_are_the_makers(name: str) -> None:
    """The layout is recognised by shapes and names; nothing is suppressed here."""
    make, labels = MAKERS[name]
    outputs, expected = make(np.random.default_rng(len(name)))
    result = answer(outputs)
    assert result.placements["x"][0].tensor_width == WIDTH
    found = vision.detections(result, labels=labels, **ALL)
    require_same(found, [one for one in expected if one[0] > 0.6])
    same = vision.detections(result, labels=labels, layout=DetectionLayout[name], **ALL)
    np.testing.assert_array_equal(found.boxes, same.boxes)


def test_the_makers_thresholds_are_the_default() -> None:
    for name, threshold, overlap in (
        ("YOLOX", 0.3, 0.45),
        ("NANODET", 0.35, 0.6),
        ("SCRFD", 0.5, 0.4),
        ("YUNET", 0.9, 0.3),
        ("SSD", 0.5, 1.0),
    ):
        make, labels = MAKERS[name]
        result = answer(make(np.random.default_rng(3))[0])
        stated = vision.detections(result, labels=labels, threshold=threshold, overlap=overlap)
        np.testing.assert_array_equal(vision.detections(result, labels=labels).boxes, stated.boxes)


def test_scrfd_with_a_batch_and_without_points() -> None:
    outputs, expected = scrfd(np.random.default_rng(5), batched=True)
    kept = [one for one in expected if one[0] > 0.6]
    require_same(vision.detections(answer(outputs), **ALL), kept)
    bare = {name: array for name, array in outputs.items() if not name.startswith("kps")}
    found = vision.detections(answer(bare), **ALL)
    require_same(found, [(*one[:3], None) for one in kept])
    assert found.points is None


def test_yolox_that_its_export_has_decoded_is_read_as_it_is() -> None:
    outputs, expected = yolox(np.random.default_rng(6))
    decoded = outputs["output"].copy()
    for row, (_, box, *_) in zip(decoded[0], expected, strict=True):
        row[:4] = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, box[2] - box[0], box[3] - box[1]
    found = vision.detections(answer({"output": decoded}), labels=("a", "b", "c"), **ALL)
    require_same(found, [one for one in expected if one[0] > 0.6])


def test_what_may_be_two_layouts_is_asked() -> None:
    table = nanodet(np.random.default_rng(7))[0]["output"]
    with pytest.raises(InvalidArgumentError, match="may have the layout YOLOX or NANODET"):
        vision.detections(answer({"output": table}))
    for layout in (DetectionLayout.YOLOX, DetectionLayout.NANODET, DetectionLayout.YUNET, DetectionLayout.SCRFD):
        with pytest.raises(InvalidArgumentError, match=f"do not match the layout {layout.name}"):
            vision.detections(answer({"output": table[:, :50]}), layout=layout)


def test_run_lists_faces(tmp_path: Any) -> None:
    (tmp_path / "m.onnx").write_bytes(model_of(yunet(np.random.default_rng(8))[0]))
    ImageFeatureValue.from_array(np.zeros((HEIGHT, WIDTH, 3), np.uint8), BitmapPixelFormat.RGB8).save(
        tmp_path / "in.png"
    )
    shown = call("run", tmp_path / "m.onnx", tmp_path / "in.png").stdout
    assert "class" in shown
    assert "left" in shown
