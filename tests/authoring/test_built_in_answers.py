"""Labels and suppression built into models, against slow formulas in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from helpers.models import FLOAT, FLOAT16, data, tensor, unary
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageCropMode,
    ImageFeatureValue,
    ImageScaling,
    InvalidArgumentError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    NotSupportedError,
)
from winml_py.authoring import build_in

Array = np.ndarray[Any, Any]

RGB = ImageContract(BitmapPixelFormat.RGB8)
NAMES = ("cat", "dog", "Büffel")
PLACES = 160


def classifier(folder: Path, scores: Array, element: int = FLOAT) -> Path:
    """A model that gives the same scores for every picture."""
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["all"], keepdims=0),
        helper.make_node("Mul", ["all", "nothing"], ["none"]),
        helper.make_node("Add", ["none", "scores"], ["y"]),
    ]
    dtype = np.float16 if element == FLOAT16 else np.float32
    weights = {"nothing": np.array(0, dtype), "scores": scores.astype(dtype)}
    ends = [tensor("x", [1, 3, 4, 4], element), tensor("y", scores.shape, element)]
    path = folder / "classifier.onnx"
    path.write_bytes(data(nodes, ends[:1], ends[1:], weights))
    return path


@pytest.mark.parametrize("element", [FLOAT, FLOAT16])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_the_likeliest_classes_are_named(count: int, element: int, tmp_path: Path) -> None:
    scores = np.random.default_rng(count).permutation(count)[None] / 64
    labels = [f"the {number}th" for number in range(count)]
    target = tmp_path / "built.onnx"
    build_in(classifier(tmp_path, scores, element), target, RGB, labels=labels)
    onnx.checker.check_model(onnx.load(target), full_check=True)
    pixels = np.zeros((7, 9, 3), np.uint8)
    own, names, best = ort.InferenceSession(target).run(["y", "top_labels", "top_scores"], {"x": pixels})
    order = np.argsort(-scores[0])[:5]
    assert own[0].tolist() == scores[0].tolist()
    assert names.tolist() == [[labels[index] for index in order]]
    assert best.tolist() == [scores[0, order].tolist()]
    assert best.dtype == np.float32
    result = LearningModelSession(LearningModel.load(target)).evaluate_features({"x": pixels})
    assert list(result.outputs["top_labels"].get_as_vector_view()) == names[0].tolist()  # type: ignore[attr-defined]


def test_labels_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    source = classifier(tmp_path, np.zeros((1, 4)))
    with pytest.raises(InvalidArgumentError, match=r"There are 3 labels, but no output .* y of 1 x 4"):
        build_in(source, tmp_path / "none.onnx", RGB, labels=NAMES)
    whole = onnx.load(source)
    whole.graph.node.append(helper.make_node("Identity", ["y"], ["z"]))
    whole.graph.output.append(tensor("z", [1, 4]))
    onnx.save(whole, source)
    with pytest.raises(InvalidArgumentError, match="more than one output of the model has as many"):
        build_in(source, tmp_path / "none.onnx", RGB, labels="abcd")
    whole.graph.node[-1].output[0] = whole.graph.output[-1].name = "top_labels"
    onnx.save(whole, source)
    with pytest.raises(InvalidArgumentError, match="more than one output"):
        build_in(source, tmp_path / "none.onnx", RGB, labels="abcd")
    whole.graph.output[-1].type.CopyFrom(tensor("top_labels", ["n", "m"]).type)
    onnx.save(whole, source)
    with pytest.raises(NotSupportedError, match="already has a value top_labels"):
        build_in(source, tmp_path / "none.onnx", RGB, labels="abcd")


def detector(folder: Path, answer: Array, shape: tuple[int | str, ...], element: int = FLOAT) -> Path:
    """A model that gives the same boxes for every picture; the input goes through it, for `bind` to be asked."""
    dtype = np.float16 if element == FLOAT16 else np.float32
    nodes = [helper.make_node("Identity", ["answer"], ["output0"]), helper.make_node("Identity", ["images"], ["seen"])]
    ends = [tensor(name, shape, element) for name in ("images", "seen")]
    metadata = {"author": "Ultralytics", "names": str(dict(enumerate(NAMES)))}
    outputs = [tensor("output0", answer.shape, element), ends[1]]
    path = folder / "detector.onnx"
    path.write_bytes(data(nodes, ends[:1], outputs, {"answer": answer.astype(dtype)}, metadata=metadata))
    return path


def random_answer(seed: int, tensor_height: int, tensor_width: int) -> Array:
    """Boxes in groups that overlap, and scores of which a third is above the limit."""
    random = np.random.default_rng(seed)
    groups = random.uniform((0, 0, 5, 5), (tensor_width, tensor_height, 40, 40), (PLACES // 8, 4))
    boxes = np.repeat(groups, 8, axis=0) * random.uniform(0.96, 1.04, (PLACES, 4))
    scores = random.uniform(0, 1, (PLACES, len(NAMES))) ** 3
    return np.concatenate([boxes, scores], axis=1).T[None].astype(np.float32)


def suppressed(answer: Array) -> list[tuple[Array, float, int]]:
    """Box by box: corners, score and class of those that Ultralytics' predictor keeps."""
    boxes, scores = answer[0, :4].T.astype(np.float64), answer[0, 4:].T
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)
    kept: list[tuple[Array, float, int]] = []
    for index in np.argsort(-scores.max(axis=1), kind="stable"):
        score, its_class = float(scores[index].max()), int(scores[index].argmax())
        others = (corner for corner, _, other in kept if other == its_class)
        if score > 0.25 and all(overlap(corners[index], other) <= 0.7 for other in others):
            kept.append((corners[index], score, its_class))
    return kept[:300]


def overlap(one: Array, other: Array) -> float:
    sides = np.clip(np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]), 0, None)
    inside = float(sides.prod())
    return inside / float((one[2:] - one[:2]).prod() + (other[2:] - other[:2]).prod() - inside)


CONTRACTS = {
    "letterbox": (ImageContract.yolo(), (64, 96)),
    "centre": (RGB, (64, 96)),
    "stretched": (ImageContract(BitmapPixelFormat.RGB8, crop_mode=ImageCropMode.STRETCH), (64, 96)),
    "shortest side": (ImageContract(BitmapPixelFormat.RGB8, scaling=ImageScaling(shortest_side=80)), (64, 96)),
    "its own size": (RGB, ("h", "w")),
}


@pytest.mark.parametrize(("contract", "sides"), CONTRACTS.values(), ids=CONTRACTS)
@pytest.mark.parametrize("size", [(100, 231), (333, 50)])
def test_boxes_are_those_of_the_picture(
    contract: ImageContract, sides: tuple[int | str, int | str], size: tuple[int, int], tmp_path: Path
) -> None:
    answer = random_answer(size[0], 64, 96)
    source, target = detector(tmp_path, answer, (1, 3, *sides)), tmp_path / "built.onnx"
    build_in(source, target, contract, suppress=True)
    onnx.checker.check_model(onnx.load(target), full_check=True)
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    names = ["boxes", "box_scores", "box_classes", "box_labels"]
    boxes, scores, classes, labels = ort.InferenceSession(target).run(names, {"images": pixels})
    binding = LearningModelBinding(LearningModelSession(LearningModel.load(source)))
    picture = ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)
    binding.bind("images", picture, {"ImageContract": contract})
    (placement,) = binding.placements["images"]
    wanted = suppressed(answer)
    above = np.count_nonzero(answer[0, 4:].max(axis=0) > 0.25)
    assert 20 < len(wanted) < 0.6 * above < 0.6 * PLACES
    corners = placement.boxes_to_picture([corner for corner, _, _ in wanted], clip=True)
    np.testing.assert_allclose(boxes, corners, atol=1e-3)
    np.testing.assert_allclose(scores, [score for _, score, _ in wanted], rtol=1e-6)
    assert classes.tolist() == [its_class for _, _, its_class in wanted]
    assert labels.tolist() == [NAMES[its_class] for _, _, its_class in wanted]


def test_a_picture_without_boxes_has_none(tmp_path: Path) -> None:
    answer = random_answer(0, 64, 96)
    answer[:, 4:] = 0.2
    target = tmp_path / "built.onnx"
    build_in(detector(tmp_path, answer, (1, 3, 64, 96), FLOAT16), target, ImageContract.yolo(), suppress=True)
    pixels = np.zeros((30, 20, 3), np.uint8)
    session = ort.InferenceSession(target)
    boxes, labels = session.run(["boxes", "box_labels"], {"images": pixels})
    assert boxes.shape == (0, 4)
    assert labels.shape == (0,)


@pytest.mark.skipif(
    np.lib.NumpyVersion(onnx.__version__) < "1.22.0", reason="the interpreter of onnx below 1.22 fails in its Gather"
)
def test_suppression_means_the_same_by_the_reference_of_onnx(tmp_path: Path) -> None:
    target = tmp_path / "built.onnx"
    build_in(detector(tmp_path, random_answer(1, 64, 96), (1, 3, 64, 96)), target, ImageContract.yolo(), suppress=True)
    pixels = np.zeros((30, 20, 3), np.uint8)
    names = ["boxes", "box_scores", "box_classes"]
    found = ReferenceEvaluator(onnx.load(target)).run(names, {"images": pixels})
    for one, other in zip(found, ort.InferenceSession(target).run(names, {"images": pixels}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_models_with_other_answers_are_refused(tmp_path: Path) -> None:
    source = detector(tmp_path, np.zeros((1, 300, 6)), (1, 3, 64, 96))
    with pytest.raises(NotSupportedError, match=r"one output of 1 x 7 x boxes.* output0 of 1 x 300 x 6"):
        build_in(source, tmp_path / "none.onnx", ImageContract.yolo(), suppress=True)
    source.write_bytes(unary(shape=(1, 3, 4, 4)))
    with pytest.raises(InvalidArgumentError, match="got 0 names and 1 pictures"):
        build_in(source, tmp_path / "none.onnx", RGB, suppress=True)
    nodes = [helper.make_node("Identity", [name], [f"{name}2"]) for name in "ab"]
    ends = [tensor(name, [1, 3, 4, 4], TensorProto.FLOAT) for name in ("a", "b", "a2", "b2")]
    source.write_bytes(data(nodes, ends[:2], ends[2:]))
    with pytest.raises(InvalidArgumentError, match="got 3 names and 2 pictures"):
        build_in(source, tmp_path / "none.onnx", RGB, suppress=True, labels=NAMES)
    assert not (tmp_path / "none.onnx").exists()
