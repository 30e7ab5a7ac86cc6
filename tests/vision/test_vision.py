"""What picture models answer, found again in the picture: boxes, masks, points, classes, embeddings."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from helpers import seeing_models as seeing
from helpers.rectangles import LETTERBOX, PICTURES, STRETCH, make_file
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelEvaluationResult,
    LearningModelPixelRange,
    LearningModelSession,
    TensorFloat,
    TensorInt64Bit,
    vision,
)
from winml_py.errors import EvaluationError, InvalidArgumentError, NotSupportedError
from winml_py.results import PicturePlacement
from winml_py.vision import DetectionLayout


def evaluated(model: bytes, name: str, contract: ImageContract | None = None) -> LearningModelEvaluationResult:
    loaded = LearningModel.load(model)
    if contract is not None:
        loaded.contracts["x"] = contract
    with LearningModelSession(loaded) as session:
        return session.evaluate_features({"x": ImageFeatureValue.load(make_file(name))})


def assert_found(found: vision.Detections, name: str, score: float) -> None:
    width, height, box, _ = PICTURES[name]
    assert (found.picture_width, found.picture_height) == (width, height)
    assert len(found) == 1
    assert np.abs(found.boxes[0] - box).max() <= 1
    assert found.labels == ("dog",)
    assert found.indices.tolist() == [1]
    assert found.scores[0] == pytest.approx(score, abs=1e-3)


ULTRALYTICS: dict[str, tuple[str, dict[str, str], dict[str, str], float]] = {
    # nodes, outputs, metadata, the score
    "v8": (seeing.yolo(), {"output0": f"float[1, 7, {seeing.PLACES}]"}, {"task": "detect"}, 0.9),
    "v5": (seeing.yolo_v5(), {"output0": f"float[1, {3 * seeing.PLACES}, 8]"}, {"task": "detect"}, 0.81),
    "end to end": (seeing.end_to_end(), {"output0": "float[1, 300, 6]"}, {"task": "detect", "end2end": "True"}, 0.81),
    "with suppression": (
        seeing.end_to_end(),
        {"output0": "float[1, 300, 6]"},
        {"task": "detect", "args": "{'batch': 1, 'nms': True}"},
        0.81,
    ),
    "rt-detr": (
        seeing.rt_detr_ultralytics(),
        {"output0": "float[1, 300, 7]"},
        {"task": "detect", "head": "RTDETRDecoder"},
        0.81,
    ),
}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("layout", ULTRALYTICS)
def test_an_export_of_ultralytics_needs_no_word_of_the_program(layout: str, name: str) -> None:
    nodes, outputs, metadata, score = ULTRALYTICS[layout]
    result = evaluated(seeing.make_model(nodes, outputs, seeing.ULTRALYTICS | metadata), name)
    assert_found(vision.detections(result), name, score)


@pytest.mark.parametrize("contract", [LETTERBOX, STRETCH], ids=["letterbox", "stretch"])
@pytest.mark.parametrize("name", PICTURES)
def test_detrs_boxes_are_shares_of_the_tensor(name: str, contract: ImageContract) -> None:
    model = seeing.make_model(
        seeing.queries([0.0, 5.0, 0.0, 1.0]), {"logits": "float[1, 2, 4]", "pred_boxes": "float[1,2,4]"}
    )
    result = evaluated(model, name, contract)
    score = np.exp(5) / (np.exp(5) + np.exp(1) + 2)
    assert_found(vision.detections(result, labels=seeing.LABELS, layout=DetectionLayout.DETR), name, score)


@pytest.mark.parametrize("name", PICTURES)
def test_rt_detrs_logits_are_each_on_their_own(name: str) -> None:
    model = seeing.make_model(
        seeing.queries([-9.0, 2.0, -9.0]), {"logits": "float[1, 2, 3]", "pred_boxes": "float[1, 2, 4]"}
    )
    found = vision.detections(evaluated(model, name, STRETCH), labels=seeing.LABELS)
    assert_found(found, name, 1 / (1 + np.exp(-2)))


@pytest.mark.parametrize("name", PICTURES)
def test_torchvisions_boxes_are_in_pixels_of_the_tensor(name: str) -> None:
    outputs = {"boxes": "float[q, 4]", "labels": "int64[q]", "scores": "float[q]"}
    result = evaluated(seeing.make_model(seeing.torchvision(), outputs), name, LETTERBOX)
    assert_found(vision.detections(result, labels=("background", "dog", "cat")), name, 0.81)
    both = vision.detections(result, threshold=0.05)
    assert both.indices.tolist() == [1, 2]
    assert both.labels == ("", "")


@pytest.mark.parametrize("name", PICTURES)
def test_masks_of_objects_cover_them(name: str) -> None:
    nodes = seeing.yolo("mix") + seeing.prototypes()
    outputs = {"output0": f"float[1, 39, {seeing.PLACES}]", "prototypes": "float[1, 32, 80, 80]"}
    result = evaluated(seeing.make_model(nodes, outputs, seeing.ULTRALYTICS | {"task": "segment"}), name)
    found = vision.detections(result)
    assert_found(found, name, 0.9)
    assert found.has_masks
    _, _, (left, top, right, bottom), _ = PICTURES[name]
    expected = np.zeros((found.picture_height, found.picture_width), bool)
    expected[top:bottom, left:right] = True
    (mask,) = found.masks
    rim = expected ^ mask
    assert rim.sum() <= 2 * (right - left + bottom - top)  # at most a pixel along the rim
    rim[top : top + 2], rim[bottom - 2 : bottom] = False, False
    rim[:, left : left + 2], rim[:, right - 2 : right] = False, False
    assert not rim.any()
    assert np.array_equal(found.mask(0), mask)


@pytest.mark.parametrize("name", PICTURES)
def test_points_are_where_the_corners_are(name: str) -> None:
    metadata = seeing.ULTRALYTICS | {"task": "pose", "kpt_shape": "[2, 3]"}
    model = seeing.make_model(seeing.yolo("points"), {"output0": f"float[1, 13, {seeing.PLACES}]"}, metadata)
    result = evaluated(model, name)
    (points,) = vision.detections(result).points
    _, _, (left, top, right, bottom), _ = PICTURES[name]
    assert np.abs(points[:, :2] - [[left, top], [right, bottom]]).max() <= 1
    assert points[:, 2].tolist() == [0.75, 0.75]
    assert_found(vision.detections(result), name, 0.9)


@pytest.mark.parametrize("name", PICTURES)
def test_each_pixel_has_its_class(name: str) -> None:
    result = evaluated(seeing.make_model(seeing.SEGMENTER, {"logits": "float[1, 3, 160, 160]"}), name, LETTERBOX)
    found = vision.masks(result, labels=seeing.LABELS)
    width, height, (left, top, right, bottom), _ = PICTURES[name]
    expected = np.zeros((height, width), np.int32)
    expected[top:bottom, left:right] = 2
    wrong = found.classes != expected
    wrong[max(0, top - 2) : top + 2], wrong[bottom - 2 : bottom + 2] = False, False
    wrong[:, max(0, left - 2) : left + 2], wrong[:, right - 2 : right + 2] = False, False
    assert not wrong.any()
    assert list(found.shares) == [0, 2] if found.shares[0] > 0.5 else [2, 0]
    assert np.array_equal(found.mask("bird"), found.classes == 2)
    assert found.shares[2] == pytest.approx((right - left) * (bottom - top) / width / height, rel=0.03)


def test_what_the_model_did_not_see_has_no_class() -> None:
    cropped = ImageContract(BitmapPixelFormat.RGB8, LearningModelPixelRange.ZERO_TO_ONE)  # the middle square
    result = evaluated(seeing.make_model(seeing.SEGMENTER, {"logits": "float[1, 3, 160, 160]"}), "landscape", cropped)
    found = vision.masks(result)
    assert (found.classes[:, :90] == -1).all()
    assert (found.classes[:, 390:] == -1).all()
    assert (found.classes[:, 91:389] != -1).all()
    assert sum(found.shares.values()) == pytest.approx(300 / 480)


def test_maps_of_numbers_need_a_threshold_and_maps_of_classes_none() -> None:
    result = evaluated(seeing.make_model("", {"mask": "float[1, 1, 320, 320]"}), "square", LETTERBOX)
    with pytest.raises(InvalidArgumentError, match="logits or scores"):
        vision.masks(result)
    assert vision.masks(result, threshold=0.5).mask(1).sum() == 318 * 316
    several = evaluated(seeing.make_model(seeing.SEGMENTER, {"logits": "float[1, 3, 160, 160]"}), "square", LETTERBOX)
    with pytest.raises(InvalidArgumentError, match="so there is no threshold"):
        vision.masks(several, threshold=0.5)
    nodes = "whole = Cast<to = 7>(mask)\n"
    classes = evaluated(seeing.make_model(nodes, {"whole": "int64[1, 1, 320, 320]"}), "square", LETTERBOX)
    assert vision.masks(classes).mask(1).sum() == 318 * 316


# Suppression


def slow_suppression(boxes: Any, scores: Any, classes: Any, overlap: float) -> list[int]:
    """Takes the best, drops what covers it too much, and so on."""
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        left, top, right, bottom = boxes[index]
        for other in kept:
            if classes[other] != classes[index]:
                continue
            across = min(right, boxes[other][2]) - max(left, boxes[other][0])
            down = min(bottom, boxes[other][3]) - max(top, boxes[other][1])
            both = max(0.0, across) * max(0.0, down)
            union = (right - left) * (bottom - top) - both
            union += (boxes[other][2] - boxes[other][0]) * (boxes[other][3] - boxes[other][1])
            if both / union > overlap:
                break
        else:
            kept.append(int(index))
    return kept


@pytest.mark.parametrize("overlap", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("seed", range(4))
def test_suppression_is_the_slow_one(seed: int, overlap: float) -> None:
    random = np.random.default_rng(seed)
    middles, sizes = random.uniform(-200, 160, (2100, 2)), random.uniform(20, 110, (2100, 2))
    scores = random.uniform(0, 1, (2100, 3)).astype(np.float32)
    table = np.concatenate([middles, sizes, scores], axis=1).astype(np.float32)
    placement = evaluated(seeing.make_model("", {"corners": "float[1, 4]"}), "square", LETTERBOX).placements["x"][0]
    output = TensorFloat.from_numpy(np.ascontiguousarray(table.T[None]))
    result = LearningModelEvaluationResult("", {"output0": output})
    found = vision.detections(result, threshold=0.85, overlap=np.float32(overlap), limit=3000, placement=placement)
    taken = table[table[:, 4:].max(axis=1) > 0.85]
    boxes = np.concatenate([taken[:, :2] - taken[:, 2:4] / 2, taken[:, :2] + taken[:, 2:4] / 2], axis=1)
    kept = slow_suppression(boxes, taken[:, 4:].max(axis=1), taken[:, 4:].argmax(axis=1), overlap)
    assert len(kept) > 50
    assert np.allclose(found.boxes, placement.boxes_to_picture(boxes[kept], clip=True), atol=1e-4)
    assert np.array_equal(found.indices, taken[kept, 4:].argmax(axis=1))


# What cannot be told apart is asked for


def test_no_answer_is_guessed() -> None:
    two = seeing.make_model(
        seeing.queries([0.0, 5.0, 0.0, 1.0]), {"logits": "float[1,2,4]", "pred_boxes": "float[1,2,4]"}
    )
    with pytest.raises(InvalidArgumentError, match="DETR or RT_DETR"):
        vision.detections(evaluated(two, "square", STRETCH))
    six = seeing.make_model(seeing.end_to_end(), {"output0": "float[1, 300, 6]"})
    with pytest.raises(InvalidArgumentError, match="YOLO_END_TO_END or RT_DETR_ULTRALYTICS"):
        vision.detections(evaluated(six, "square", STRETCH))
    assert len(vision.detections(evaluated(six, "square", STRETCH), labels=seeing.LABELS)) == 1
    for version, is_rtdetr in (("YOLOv10n", False), ("rtdetr-l", True)):  # two classes: six columns are either's
        facts = {"author": "Ultralytics", "task": "detect", "names": "{0: 'cat', 1: 'dog'}"}
        facts["description"] = f"Ultralytics {version} model trained on my.yaml"
        named = onnx.load_from_string(six)
        onnx.helper.set_model_props(named, facts)
        result = evaluated(named.SerializeToString(), "square", STRETCH)
        expected = DetectionLayout.RT_DETR_ULTRALYTICS if is_rtdetr else DetectionLayout.YOLO_END_TO_END
        np.testing.assert_array_equal(vision.detections(result).boxes, vision.detections(result, layout=expected).boxes)
    with pytest.raises(InvalidArgumentError, match="no known detection layout"):
        vision.detections(evaluated(seeing.make_model("", {"corners": "float[1, 4]"}), "square", STRETCH))


def test_numbers_that_are_no_scores_are_not_read_as_scores() -> None:
    """A model for poses without its metadata: its points would be classes."""
    model = seeing.make_model(seeing.yolo("points"), {"output0": f"float[1, 13, {seeing.PLACES}]"})
    with pytest.raises(EvaluationError, match="Expected scores from 0 to 1"):
        vision.detections(evaluated(model, "landscape", LETTERBOX))
    with pytest.raises(InvalidArgumentError, match="9 values after its box, but the number of labels is 3"):
        vision.detections(evaluated(model, "landscape", LETTERBOX), labels=seeing.LABELS)


# What is no number never becomes a box or a class


GOOD: dict[DetectionLayout, dict[str, Any]] = {
    DetectionLayout.YOLO: {"output0": np.tile(np.float32([[50], [50], [20], [30], [0.1], [0.9], [0.2]]), (1, 1, 4))},
    DetectionLayout.YOLO_V5: {"output0": np.tile(np.float32([50, 50, 20, 30, 0.9, 0.1, 0.9, 0.2]), (1, 4, 1))},
    DetectionLayout.YOLO_END_TO_END: {"output0": np.tile(np.float32([40, 35, 60, 65, 0.9, 1]), (1, 4, 1))},
    DetectionLayout.RT_DETR_ULTRALYTICS: {"output0": np.tile(np.float32([0.2, 0.2, 0.1, 0.1, 0, 0.9]), (1, 4, 1))},
    DetectionLayout.DETR: {
        "logits": np.tile(np.float32([0, 9, 0]), (1, 4, 1)),
        "pred_boxes": np.tile(np.float32([0.2, 0.2, 0.1, 0.1]), (1, 4, 1)),
    },
    DetectionLayout.RT_DETR: {
        "logits": np.tile(np.float32([-9, 9]), (1, 4, 1)),
        "pred_boxes": np.tile(np.float32([0.2, 0.2, 0.1, 0.1]), (1, 4, 1)),
    },
    DetectionLayout.TORCHVISION: {
        "boxes": np.tile(np.float32([40, 35, 60, 65]), (4, 1)),
        "labels": np.ones(4, np.int64),
        "scores": np.full(4, 0.9, np.float32),
    },
}
"""Four equal boxes in each layout."""


def answered(arrays: dict[str, Any]) -> LearningModelEvaluationResult:
    """The result of a model that gives back these arrays."""
    kinds = {"f": onnx.TensorProto.FLOAT, "i": onnx.TensorProto.INT64}
    inputs = [onnx.helper.make_tensor_value_info(f"{k}_in", kinds[v.dtype.kind], v.shape) for k, v in arrays.items()]
    outputs = [onnx.helper.make_tensor_value_info(k, kinds[v.dtype.kind], v.shape) for k, v in arrays.items()]
    nodes = [onnx.helper.make_node("Identity", [f"{name}_in"], [name]) for name in arrays]
    graph, opset = onnx.helper.make_graph(nodes, "given", inputs, outputs), onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[opset])
    with LearningModelSession(LearningModel.load(model.SerializeToString())) as session:
        return session.evaluate_features({f"{name}_in": array for name, array in arrays.items()})


@pytest.fixture(scope="module")
def place() -> PicturePlacement:
    return evaluated(seeing.make_model("", {"corners": "float[1, 4]"}), "square", STRETCH).placements["x"][0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("layout", GOOD)
def test_no_box_is_made_of_what_is_no_number(layout: DetectionLayout, bad: float, place: PicturePlacement) -> None:
    assert len(vision.detections(answered(GOOD[layout]), layout=layout, placement=place, overlap=1)) == 4
    if layout in (DetectionLayout.DETR, DetectionLayout.TORCHVISION):
        with pytest.raises(InvalidArgumentError, match="overlap has no effect"):
            vision.detections(answered(GOOD[layout]), layout=layout, placement=place, overlap=0.1)
    for name, array in GOOD[layout].items():
        places = np.ndindex(array.shape) if array.dtype.kind == "f" else ()
        for index in places:
            spoilt = GOOD[layout] | {name: array.copy()}
            spoilt[name][index] = bad
            with pytest.raises(EvaluationError):
                vision.detections(answered(spoilt), layout=layout, placement=place, overlap=1)


def test_no_box_is_inside_out(place: PicturePlacement) -> None:
    """As corners are whose order is another than the layout's, and sizes below 0."""
    for layout, column in itertools.product(GOOD, (2, 3)):
        arrays = {name: array.copy() for name, array in GOOD[layout].items()}
        boxes = arrays.get("pred_boxes", arrays.get("boxes", arrays.get("output0")))
        if layout is DetectionLayout.YOLO:
            boxes[0, column, 2] = -5
        else:
            boxes[..., 2, column] = -5
        with pytest.raises(EvaluationError, match="left edge is right of its right edge"):
            vision.detections(answered(arrays), layout=layout, placement=place, overlap=1)


def test_a_place_that_holds_no_object_may_hold_anything(place: PicturePlacement) -> None:
    table = GOOD[DetectionLayout.YOLO]["output0"].copy()
    table[0, :4, 1], table[0, 4:, 1] = np.nan, 0.1
    found = vision.detections(answered({"output0": table}), layout=DetectionLayout.YOLO, placement=place, overlap=1)
    assert len(found) == 3
    assert np.isfinite(found.boxes).all()


def test_masks_and_points_are_numbers(place: PicturePlacement) -> None:
    row = np.zeros((1, 1, 6 + 32), np.float32)
    row[0, 0, :6] = 40, 35, 60, 65, 0.9, 1
    prototypes = np.ones((1, 32, 80, 80), np.float32)
    good = {"output0": row, "output1": prototypes}
    for name, index in (("output0", (0, 0, 20)), ("output1", (0, 3, 5, 5))):
        spoilt = good | {name: good[name].copy()}
        spoilt[name][index] = np.nan
        assert vision.detections(answered(good), placement=place).has_masks
        with pytest.raises(EvaluationError, match="NaN or infinite"):
            vision.detections(answered(spoilt), placement=place)


# What is refused


def test_arrays_have_no_place_in_a_picture() -> None:
    nodes, outputs, metadata, _ = ULTRALYTICS["v8"]
    session = LearningModelSession(LearningModel.load(seeing.make_model(nodes, outputs, seeing.ULTRALYTICS | metadata)))
    array = np.zeros((1, 3, 320, 320), np.float32)
    array[0, 0, 10:90, 20:60] = 1
    result = session.evaluate_features({"x": array})
    with pytest.raises(InvalidArgumentError, match="No picture was bound"):
        vision.detections(result)
    placement = evaluated(seeing.make_model("", {"corners": "float[1, 4]"}), "square", LETTERBOX).placements["x"][0]
    assert vision.detections(result, placement=placement).boxes.tolist() == [[20, 10, 60, 90]]


def test_what_is_out_of_range_is_refused() -> None:
    nodes, outputs, metadata, _ = ULTRALYTICS["v8"]
    result = evaluated(seeing.make_model(nodes, outputs, seeing.ULTRALYTICS | metadata), "square")
    arguments: tuple[dict[str, Any], ...] = (
        {"threshold": 2},
        {"overlap": -0.1},
        {"limit": 0},
        {"picture": 1},
        {"labels": 5},
        {"layout": DetectionLayout.TORCHVISION},
        {"layout": "detr"},
    )
    for wrong in arguments:
        with pytest.raises(InvalidArgumentError):
            vision.detections(result, **wrong)
    turned = seeing.make_model(nodes, outputs, seeing.ULTRALYTICS | {"task": "obb", "names": "{0: 'a', 1: 'b'}"})
    with pytest.raises(NotSupportedError, match="oriented boxes"):
        vision.detections(evaluated(turned, "square"))


def test_an_unknown_output_is_named(place: PicturePlacement) -> None:
    output = TensorFloat.from_numpy(np.array([[3, 0, 4]], np.float32))
    two = LearningModelEvaluationResult("", {"E": output, "n": TensorInt64Bit.from_numpy(np.int64([[1, 2]]))})
    with pytest.raises(InvalidArgumentError, match=r"The model has no output 'f'\. Its outputs: E, n\."):
        vision.masks(two, output="f", placement=place)


# Drawing


def test_boxes_are_drawn_on_their_rims_and_classes_in_their_colours() -> None:
    nodes, outputs, metadata, _ = ULTRALYTICS["v8"]
    found = vision.detections(
        evaluated(seeing.make_model(nodes, outputs, seeing.ULTRALYTICS | metadata), "turned right")
    )
    drawn = np.asarray(found.draw(make_file("turned right"))).astype(int)
    left, top, right, bottom = np.rint(found.boxes[0]).astype(int)
    assert drawn.shape == (300, 480, 3)
    middle = drawn[(top + bottom) // 2, (left + right) // 2]
    assert middle.tolist() == [250, 0, 0]
    rim = drawn[(top + bottom) // 2, left]
    assert rim.tolist() not in ([250, 0, 0], [60, 60, 60])
    assert drawn[bottom, (left + right) // 2].tolist() == rim.tolist()
    assert drawn[-1, -1].tolist() == [60, 60, 60]
    with pytest.raises(InvalidArgumentError, match="300x480, but the evaluated one is 480x300"):
        found.draw(make_file("portrait"))
    with pytest.raises(InvalidArgumentError, match="Expected the picture that was evaluated, got int"):
        found.draw(3)
    classes = evaluated(seeing.make_model(seeing.SEGMENTER, {"logits": "float[1, 3, 160, 160]"}), "square", LETTERBOX)
    drawn = np.asarray(vision.masks(classes).draw(Image.new("RGB", (320, 320), (60, 60, 60))))
    assert drawn[0, 0].tolist() == [60, 60, 60]
    assert drawn[160, 160].tolist() != [60, 60, 60]


def test_what_was_found_in_a_line() -> None:
    boxes = np.array([[1, 2, 30.4, 40], [5, 6, 7, 8]], float)
    found = vision.Detections(boxes, np.float32([0.9, 0.4]), np.array([3, 0]), ("c<at", ""), 60, 50)
    assert repr(found) == "<Detections 2 in 60x50: c<at 0.90, 0 0.40>"
    assert [(one.index, one.box.tolist()) for one in found[1:]] == [(0, [5, 6, 7, 8])]
    many = vision.Detections(np.zeros((9, 4)), np.zeros(9, np.float32), np.zeros(9, int), ("x",) * 9, 60, 50)
    assert repr(many).endswith(", x 0.00, ...>")
    classes = np.array([[0, 0, 1, -1]], np.int32)
    for names in (("ground", "sky"), ("sky", "sky")):  # two classes may have one label
        words = "<Segmentation 4x1: {} 50.0%, {} 25.0%>".format(*names)
        assert repr(vision.Segmentation(classes, names)) == words
