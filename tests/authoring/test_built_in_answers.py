"""Answers built into models, against slow formulas of the makers in numpy, and against `winml_py.vision`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from helpers.models import FLOAT, FLOAT16, data, tensor
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelEvaluationResult,
    LearningModelSession,
    NotSupportedError,
    vision,
)
from winml_py.authoring import build_in
from winml_py.scaling import ShortestSide, Stretch
from winml_py.vision import DetectionLayout

Array = np.ndarray[Any, Any]

RGB8 = BitmapPixelFormat.RGB8
RGB, YOLO = ImageContract(RGB8), ImageContract.yolo()
NAMES = ("cat", "dog", "Büffel")
ULTRALYTICS = {"author": "Ultralytics", "names": str(dict(enumerate(NAMES)))}
SIDES = (64, 96)
SIZES = [(100, 231), (333, 50)]


def fixed(
    folder: Path,
    outputs: Mapping[str, Array],
    sides: tuple[int | str, ...] = SIDES,
    element: int = FLOAT,
    metadata: Mapping[str, str] = ULTRALYTICS,
) -> Path:
    """A model that gives the same outputs for every picture, in a way that no runtime sees before it runs."""
    dtype = np.float16 if element == FLOAT16 else np.float32
    arrays = {name: array.astype(dtype) if array.dtype.kind == "f" else array for name, array in outputs.items()}
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in arrays.items()}
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["seen"], keepdims=0),
        helper.make_node("Sub", ["seen", "seen"], ["zero"]),
        *(helper.make_node("Cast", ["zero"], [f"{name}_zero"], to=kind) for name, kind in kinds.items()),
        *(helper.make_node("Add", [f"{name}_", f"{name}_zero"], [name]) for name in arrays),
    ]
    ends = [tensor(name, array.shape, kinds[name]) for name, array in arrays.items()]
    inputs, weights = [tensor("images", [1, 3, *sides], element)], {f"{name}_": array for name, array in arrays.items()}
    path = folder / "model.onnx"
    path.write_bytes(data(nodes, inputs, [*ends, tensor("seen", [], element)], weights, metadata=metadata))
    return path


def both(
    source: Path, contract: ImageContract, size: tuple[int, int], **options: Any
) -> tuple[dict[str, Array], LearningModelEvaluationResult]:
    """What the built-in model adds for a picture, and the result of the model before."""
    target = source.with_name("built.onnx")
    built = build_in(source, target, contract, **options)
    onnx.checker.check_model(onnx.load(target), full_check=True)
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    added = ort.InferenceSession(target).run([*built.outputs.values()], {"images": pixels})
    model = LearningModel.load(source)
    model.contracts["images"] = contract
    with LearningModelSession(model) as session:
        result = session.evaluate_features({"images": ImageFeatureValue.from_array(pixels, RGB8)})
    return dict(zip(built.outputs, added, strict=True)), result


# Classes


@pytest.mark.parametrize("element", [FLOAT, FLOAT16])
@pytest.mark.parametrize("kind", ["classes", "softmax", "auto"])
@pytest.mark.parametrize("count", [3, 40])
def test_the_likeliest_classes_are_named(count: int, kind: str, element: int, tmp_path: Path) -> None:
    scores = np.random.default_rng(count).permutation(count)[None] / 64
    labels = [f"the {number}th" for number in range(count)]
    source = fixed(tmp_path, {"top_scores": scores}, element=element, metadata={})
    added, result = both(source, RGB, (7, 9), answers=kind, labels=labels)
    order = np.argsort(-scores[0])[:5]
    wanted = np.exp(scores[0]) / np.exp(scores[0]).sum() if kind == "softmax" else scores[0]
    assert added["top_classes"].tolist() == [order.tolist()]
    assert added["top_labels"].tolist() == [[labels[index] for index in order]]
    np.testing.assert_allclose(added["top_scores"], [wanted[order]], rtol=1e-6)
    assert [one.index for one in result.top_k()] == order.tolist()
    built = LearningModel.load(tmp_path / "built.onnx")
    names = ["top_scores", "seen", "top_classes", "top_scores_2", "top_labels"]  # the first is the model's own
    assert ([one.name for one in built.output_features], built.labels) == (names, tuple(labels))


def test_labels_are_the_models_and_mean_auto(tmp_path: Path) -> None:
    scores = {"y": np.array([[0.0, 2, 1]])}
    assert both(fixed(tmp_path, scores), RGB, (7, 9), answers="classes")[0]["top_labels"][0, 0] == "dog"
    added, _ = both(fixed(tmp_path, scores, metadata={}), RGB, (7, 9), labels=("a", "b", "c"))
    assert added["top_labels"].tolist() == [["b", "c", "a"]]
    added, _ = both(fixed(tmp_path, {"y": np.zeros((1, 4))}), RGB, (7, 9), answers="classes")
    assert [*added] == ["top_classes", "top_scores"]
    with pytest.raises(InvalidArgumentError, match=r"Expected class names, got set\. Pass a list"):
        both(fixed(tmp_path, scores), RGB, (7, 9), labels={"a", "b", "c"})


# Boxes


def random_boxes(seed: int, count: int = 160) -> Array:
    """Centres and sizes of boxes in groups that overlap."""
    random = np.random.default_rng(seed)
    groups = random.uniform((0, 0, 5, 5), (SIDES[1], SIDES[0], 40, 40), (count // 8, 4))
    return np.repeat(groups, 8, axis=0) * random.uniform(0.96, 1.04, (count, 4))


def table_of(layout: str, seed: int = 0, extra: int = 0) -> Array:
    """Random boxes in the layout, of which a third has a score above the limit."""
    boxes, random = random_boxes(seed), np.random.default_rng(seed + 1)
    columns = [boxes, random.uniform(0, 1, (len(boxes), len(NAMES))) ** 3, random.normal(0, 1, (len(boxes), extra))]
    if layout == "yolo-v5":
        columns.insert(1, random.uniform(0.5, 1, (len(boxes), 1)))
    rows = np.concatenate(columns, axis=1).astype(np.float32)
    return rows[None] if layout == "yolo-v5" else rows.T[None]


def corners_of(boxes: Array) -> Array:
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)


def suppressed(table: Array, layout: str) -> tuple[list[int], Array]:
    """Box by box: the rows that Ultralytics' predictor keeps, the best first; and the scores of all."""
    rows = table[0] if layout == "yolo-v5" else table[0].T
    scores = rows[:, 5:8] * rows[:, 4:5] if layout == "yolo-v5" else rows[:, 4:7]
    corners, kept = corners_of(rows[:, :4].astype(np.float64)), list[int]()
    for index in np.argsort(-scores.max(axis=1), kind="stable"):
        others = [other for other in kept if scores[other].argmax() == scores[index].argmax()]
        limit = 0.45 if layout == "yolo-v5" else 0.7
        if scores[index].max() > 0.25 and all(overlap(corners[index], corners[other]) <= limit for other in others):
            kept.append(int(index))
    return kept[:300], scores


def overlap(one: Array, other: Array) -> float:
    sides = np.clip(np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]), 0, None)
    inside = float(sides.prod())
    return inside / float((one[2:] - one[:2]).prod() + (other[2:] - other[:2]).prod() - inside)


def assert_same(added: Mapping[str, Array], wanted: vision.Detections) -> None:
    assert np.abs(added["boxes"] - wanted.boxes).max(initial=0) < 0.05
    np.testing.assert_allclose(added["box_scores"], wanted.scores, rtol=1e-5)
    assert added["box_classes"].tolist() == wanted.indices.tolist()
    assert tuple(added["box_labels"]) == wanted.labels
    if "box_masks" in added:
        assert added["box_masks"].dtype == np.bool_
        assert (added["box_masks"] != wanted.masks).mean() <= 0.001


CONTRACTS: dict[str, tuple[ImageContract, tuple[int | str, ...]]] = {
    "letterbox": (YOLO, SIDES),
    "centre": (RGB, SIDES),
    "stretched": (ImageContract(RGB8, scaling=Stretch()), SIDES),
    "shortest side": (ImageContract(RGB8, scaling=ShortestSide(80)), SIDES),
    "its own size": (RGB, ("h", "w")),
}


@pytest.mark.parametrize("layout", ["yolo", "yolo-v5"])
@pytest.mark.parametrize(("contract", "sides"), CONTRACTS.values(), ids=CONTRACTS)
@pytest.mark.parametrize("size", SIZES)
def test_boxes_are_those_that_ultralytics_keeps(
    contract: ImageContract, sides: tuple[int | str, ...], size: tuple[int, int], layout: str, tmp_path: Path
) -> None:
    table = table_of(layout, size[0])
    added, result = both(fixed(tmp_path, {"output0": table}, sides), contract, size, answers=layout)
    kept, scores = suppressed(table, layout)
    assert 20 < len(kept) < 0.7 * np.count_nonzero(scores.max(axis=1) > 0.25)
    rows = table[0] if layout == "yolo-v5" else table[0].T
    corners = corners_of(rows[kept, :4].astype(np.float64))
    (placement,) = result.placements["images"]
    np.testing.assert_allclose(added["boxes"], placement.boxes_to_picture(corners, clip=True), atol=1e-3)
    np.testing.assert_allclose(added["box_scores"], scores[kept].max(axis=1), rtol=1e-6)
    assert added["box_classes"].tolist() == scores[kept].argmax(axis=1).tolist()
    assert_same(added, vision.detections(result, layout=DetectionLayout(layout)))


def test_boxes_of_half_precision_are_those_of_vision(tmp_path: Path) -> None:
    source = fixed(tmp_path, {"output0": table_of("yolo")}, element=FLOAT16)
    added, result = both(source, YOLO, SIZES[0], answers="yolo")
    assert_same(added, vision.detections(result, layout=DetectionLayout.YOLO))


@pytest.mark.parametrize("sides", [SIDES, ("h", "w")])
@pytest.mark.parametrize("size", SIZES)
def test_detrs_boxes_are_those_of_its_makers(
    size: tuple[int, int], sides: tuple[int | str, ...], tmp_path: Path
) -> None:
    """`post_process_object_detection`: a softmax, without its last class, and those above the threshold."""
    random = np.random.default_rng(size[0])
    logits, boxes = random.normal(0, 3, (400, len(NAMES) + 1)), random_boxes(1, 400) / ([*SIDES[::-1]] * 2)
    outputs = {"logits": logits[None], "pred_boxes": boxes[None]}
    added, result = both(fixed(tmp_path, outputs, sides, metadata={}), RGB, size, answers="auto", labels=NAMES)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    scores, classes = shares[:, :-1].max(axis=1), shares[:, :-1].argmax(axis=1)
    order = np.argsort(-scores)
    order = order[scores[order] > 0.5][:300]
    assert 100 < len(order) < 300
    (placement,) = result.placements["images"]
    tensor_sides = [placement.tensor_width, placement.tensor_height] * 2
    wanted = placement.boxes_to_picture(corners_of(boxes[order]) * tensor_sides, clip=True)
    np.testing.assert_allclose(added["boxes"], wanted, atol=1e-3)
    np.testing.assert_allclose(added["box_scores"], scores[order], rtol=1e-5)
    assert added["box_classes"].tolist() == classes[order].tolist()
    assert_same(added, vision.detections(result, labels=NAMES, layout=DetectionLayout.DETR))


# Masks, and the class of each pixel


def enlarged(plane: Array, result: LearningModelEvaluationResult) -> Array:
    """Pixel by pixel: a map over the tensor, linear between the centres of its cells."""
    (place,) = result.placements["images"]
    y, x = np.mgrid[: place.picture_height, : place.picture_width] + 0.5
    points = place.points_to_tensor(np.stack([x, y], axis=-1)) / (place.tensor_width, place.tensor_height)
    size = plane.shape[::-1]
    at = np.clip(points * size - 0.5, 0, np.array(size) - 1)
    low = np.minimum(at.astype(int), np.array(size) - 2)
    (u, v), (i, j) = np.moveaxis(at - low, 2, 0), np.moveaxis(low, 2, 0)
    above, below = (plane[j + d, i] * (1 - u) + plane[j + d, i + 1] * u for d in (0, 1))
    return np.asarray(above * (1 - v) + below * v)


@pytest.mark.parametrize("layout", ["yolo", "yolo-v5"])
@pytest.mark.parametrize("contract", [YOLO, RGB], ids=["letterbox", "centre"])
@pytest.mark.parametrize("size", [*SIZES, (13, 9)])
def test_masks_are_sums_of_prototypes(
    size: tuple[int, int], contract: ImageContract, layout: str, tmp_path: Path
) -> None:
    table, prototypes = table_of(layout, 3, 32), np.random.default_rng(9).normal(0, 1, (1, 32, 16, 24))
    outputs = {"output0": table, "output1": prototypes.astype(np.float32)}
    added, result = both(fixed(tmp_path, outputs), contract, size, answers=layout)
    found = vision.detections(result, layout=DetectionLayout(layout))
    assert_same(added, found)
    if contract is RGB or size == (13, 9):
        return
    rows, (kept, _) = (table[0] if layout == "yolo-v5" else table[0].T), suppressed(table, layout)
    y, x = np.mgrid[: size[0], : size[1]]
    for mask, index, (left, top, right, bottom) in zip(added["box_masks"], kept, found.boxes, strict=True):
        shares = 1 / (1 + np.exp(-enlarged(np.tensordot(rows[index, -32:], prototypes[0], 1), result)))
        inside = (x >= np.floor(left)) & (x < np.ceil(right)) & (y >= np.floor(top)) & (y < np.ceil(bottom))
        assert (mask != ((shares > 0.5) & inside)).mean() <= 0.001


@pytest.mark.parametrize(("contract", "sides"), CONTRACTS.values(), ids=CONTRACTS)
@pytest.mark.parametrize("size", [*SIZES, (13, 9), (16, 500)])
def test_each_pixel_has_its_class(
    size: tuple[int, int], contract: ImageContract, sides: tuple[int | str, ...], tmp_path: Path
) -> None:
    logits = np.random.default_rng(5).normal(0, 1, (1, 3, 16, 24)).astype(np.float32)
    added, result = both(fixed(tmp_path, {"y": logits}, sides), contract, size, answers="auto")
    wanted = vision.masks(result).classes
    assert (added["class_map"].shape, added["class_map"].dtype) == (size, np.int32)
    assert (added["class_map"] != wanted).mean() <= 0.001
    if contract is YOLO and size in SIZES:
        slow = np.argmax([enlarged(plane, result) for plane in logits[0]], axis=0)
        assert (added["class_map"] != slow).mean() <= 0.001
    whole = {"y": logits.argmax(axis=1)}
    added, result = both(fixed(tmp_path, whole, sides), contract, size, answers="masks")
    assert added["class_map"].tolist() == vision.masks(result).classes.tolist()


def test_a_picture_without_objects_has_none(tmp_path: Path) -> None:
    table = table_of("yolo", 0, 32)
    table[:, 4:7] = 0.2
    source = fixed(tmp_path, {"output0": table, "output1": np.zeros((1, 32, 16, 24), np.float32)})
    added, _ = both(source, YOLO, (30, 20), answers="yolo")
    shapes = {name: array.shape for name, array in added.items()}
    wanted: dict[str, tuple[int, ...]] = {f"box_{what}": (0,) for what in ("scores", "classes", "labels")}
    assert shapes == wanted | {"boxes": (0, 4), "box_masks": (0, 30, 20)}


@pytest.mark.skipif(
    np.lib.NumpyVersion(onnx.__version__) < "1.22.0", reason="the interpreter of onnx below 1.22 fails in its Gather"
)
@pytest.mark.parametrize("kind", ["yolo", "masks"])
def test_answers_mean_the_same_by_the_reference_of_onnx(kind: str, tmp_path: Path) -> None:
    prototypes = np.random.default_rng(9).normal(0, 1, (1, 32, 16, 24))
    source = fixed(tmp_path, {"output1": prototypes} | ({"output0": table_of("yolo", 1, 32)} if kind == "yolo" else {}))
    built = build_in(source, tmp_path / "built.onnx", YOLO, answers=kind)
    names = [name for name in built.outputs.values() if name != "box_labels"]
    pixels = {"images": np.zeros((30, 20, 3), np.uint8)}
    found = ReferenceEvaluator(onnx.load(tmp_path / "built.onnx")).run(names, pixels)
    wanted = ort.InferenceSession(tmp_path / "built.onnx").run(names, pixels)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


# What is refused


TABLE = np.zeros((1, 300, 6), np.float32)
POSE = ULTRALYTICS | {"task": "pose", "kpt_shape": "[2, 3]"}
REFUSED: list[tuple[dict[str, Array], dict[str, str], str, type[Exception], str]] = [
    *(
        ({"y": TABLE}, {}, layout.value, NotSupportedError, f"answers in the layout {layout.name}, which cannot")
        for layout in DetectionLayout
        if layout.value not in ("yolo", "yolo-v5", "detr")
    ),
    ({"y": TABLE}, {"task": "detect"} | ULTRALYTICS, "auto", NotSupportedError, "layout YOLO_END_TO_END"),
    ({"y": table_of("yolo", 0, 6)}, POSE, "yolo", NotSupportedError, "The model returns points"),
    ({"y": table_of("yolo", 0, 2)}, ULTRALYTICS, "yolo", InvalidArgumentError, "the number of labels is 3"),
    ({"y": TABLE}, {}, "detr", InvalidArgumentError, "do not match the layout DETR"),
    ({"y": np.zeros((1, 4))}, {}, "clases", InvalidArgumentError, "Unknown kind of answer: 'clases'.*classes"),
    ({"y": np.zeros((1, 4)), "z": np.zeros((1, 4))}, {}, "classes", InvalidArgumentError, "more than one of y, z"),
    ({"y": np.zeros((1, 1, 4, 4))}, {}, "masks", NotSupportedError, "y is a single map of values"),
    ({"y": np.zeros((1, 2, 4, 4))}, {}, "auto", NotSupportedError, "answers are not recognised"),
]


@pytest.mark.parametrize(("outputs", "metadata", "kind", "error", "words"), REFUSED)
def test_other_answers_are_refused_by_name(
    outputs: dict[str, Array], metadata: dict[str, str], kind: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    source = fixed(tmp_path, outputs, metadata=metadata)
    with pytest.raises(error, match=words):
        build_in(source, tmp_path / "none.onnx", YOLO, answers=kind)
    assert not (tmp_path / "none.onnx").exists()


def test_answers_are_of_one_picture(tmp_path: Path) -> None:
    ends = [tensor(name, [1, 3, 4, 4]) for name in ("a", "b", "a2", "b2")]
    nodes = [helper.make_node("Identity", [name], [f"{name}2"]) for name in "ab"]
    (tmp_path / "model.onnx").write_bytes(data(nodes, ends[:2], ends[2:]))
    with pytest.raises(NotSupportedError, match="require exactly one picture, but the model takes a, b"):
        build_in(tmp_path / "model.onnx", tmp_path / "none.onnx", RGB, answers="auto")
