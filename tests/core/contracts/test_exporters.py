"""What Ultralytics' exporter writes into a model is read when it is loaded."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import helper
from PIL import Image

from helpers.models import data, model, tensor, unary
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureDescriptor,
    ImageFeatureValue,
    ImageKernel,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    LearningModelSessionOptions,
    TensorFeatureDescriptor,
)
from winml_py.cli.main import main
from winml_py.scaling import Fit, Stretch
from winml_py.winrt.windows.ai.machinelearning import LearningModel as WinRTModel

EXPORTED = {
    "description": "Ultralytics YOLO11n model trained on /usr/src/ultralytics/ultralytics/cfg/datasets/coco.yaml",
    "author": "Ultralytics",
    "date": "2025-01-13T20:44:51.161519",
    "version": "8.3.61",
    "license": "AGPL-3.0 License (https://ultralytics.com/license)",
    "docs": "https://docs.ultralytics.com",
    "stride": "32",
    "task": "detect",
    "batch": "1",
    "imgsz": "[640, 640]",
    "names": "{0: 'person', 1: \"cat's\", 2: 'a \\\\ b, {c: 1}'}",
    "args": "{'batch': 1, 'half': False}",
    "channels": "3",
    "end2end": "False",
}
"""As version 8.3 writes them, with fewer and stranger names."""


def detector(shape: Any, metadata: dict[str, str], **options: Any) -> LearningModel:
    return LearningModel.load(unary(shape=shape, metadata=metadata, **options))


def stated(metadata: dict[str, str], shape: Any = (1, 3, "h", "w")) -> ImageContract | None:
    feature = detector(shape, metadata).input_features[0]
    return feature.contract if isinstance(feature, ImageFeatureDescriptor) else None


def test_a_detector_gets_ultralytics_letterbox() -> None:
    contract = stated(EXPORTED)
    assert contract == ImageContract(
        BitmapPixelFormat.RGB8,
        LearningModelPixelRange.ZERO_TO_ONE,
        scaling=Fit(),
        kernel=ImageKernel.LINEAR,
        pad=(114, 114, 114),
        size=(640, 640),
    )
    for task in ("segment", "pose", "obb"):
        assert stated(EXPORTED | {"task": task}) == contract
    older = {key: value for key, value in EXPORTED.items() if key not in ("channels", "end2end", "args")}
    assert stated(older) == contract


def test_a_picture_becomes_what_ultralytics_feeds() -> None:
    """Twice as wide as high: the upper and lower quarter are padding."""
    model = detector((1, 3, 8, 8), EXPORTED | {"imgsz": "[8, 8]"})
    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 3), np.uint8)
    value = ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)
    found = LearningModelSession(model).evaluate_features({"x": value}).outputs["y"].to_numpy()[0]
    expected = np.full((8, 8, 3), 114, np.uint8)
    expected[2:6] = pixels
    np.testing.assert_array_equal(found, (expected.transpose(2, 0, 1) / np.float32(255)).astype(np.float32))


def test_the_size_is_stated_where_the_model_leaves_it_free() -> None:
    for shape, size in (
        ((1, 3, "h", "w"), (640, 640)),
        ((1, 3, 640, "w"), (640, 640)),
        ((1, 3, 320, "w"), None),
        ((1, 3, 640, 640), None),
        ((1, 3, 320, 320), None),
    ):
        contract = stated(EXPORTED, shape)
        assert contract is not None
        assert contract.size == size


def test_an_override_replaces_the_exporters_size() -> None:
    model = detector((1, 3, "height", "width"), EXPORTED)
    picture = ImageFeatureValue.from_array(np.zeros((4, 8, 3), np.uint8), BitmapPixelFormat.RGB8)
    options = LearningModelSessionOptions()
    for name in ("height", "width"):
        options.override_named_dimension(name, 64)
    for given, side in ((None, 640), (options, 64)):
        result = LearningModelSession(model, None, given).evaluate_features({"x": picture})
        assert result.outputs["y"].to_numpy().shape == (1, 3, side, side)


def test_a_classifier_sees_the_middle_square() -> None:
    contract = stated(EXPORTED | {"task": "classify", "imgsz": "[224, 224]"})
    assert contract is not None
    assert (contract.size, contract.kernel, contract.mean) == ((224, 224), ImageKernel.ANTIALIASED_LINEAR, ())
    binding = LearningModelBinding(LearningModelSession(LearningModel.load(unary(shape=(1, 3, 224, 224)))))
    picture = ImageFeatureValue.from_array(np.zeros((300, 451, 3), np.uint8), BitmapPixelFormat.RGB8)
    binding.bind("x", picture, {"ImageContract": contract})
    left, top, right, bottom = binding.placements["x"][0].boxes_to_picture([0, 0, 224, 224])
    assert 224 * 451 / (right - left) == pytest.approx(336)  # int(224 * 451 / 300), as torchvision's Resize
    assert bottom - top == pytest.approx(300)
    wide = stated(EXPORTED | {"task": "classify", "imgsz": "[224, 448]"})
    assert wide is not None
    assert wide.scaling == Stretch()


@pytest.mark.parametrize("more", [{"head": "RTDETRDecoder"}, {"description": "Ultralytics rtdetr-l model "}])
def test_rtdetr_sees_the_picture_stretched(more: dict[str, str]) -> None:
    contract = stated(EXPORTED | more)
    assert contract is not None
    assert contract.scaling == Stretch()


def test_windows_keys_and_ours_come_first() -> None:
    keys = EXPORTED | {"Image.NominalPixelRange": "Normalized_1_1"}
    denoted = detector((1, 3, 8, 8), keys, denotation="IMAGE").input_features[0]
    assert isinstance(denoted, ImageFeatureDescriptor)
    assert denoted.contract == ImageContract(pixel_range=LearningModelPixelRange.MINUS_ONE_TO_ONE)
    bare = detector((1, 3, 8, 8), EXPORTED, denotation="IMAGE").input_features[0]
    assert isinstance(bare, ImageFeatureDescriptor)
    assert bare.contract.pixel_format is BitmapPixelFormat.RGB8
    unsupported = detector((1, 3, 8, 8), EXPORTED | {"Image.ColorSpaceGamma": "Linear"}, denotation="IMAGE")
    assert isinstance(unsupported.input_features[0], TensorFeatureDescriptor)


def test_only_inputs_that_fit_are_images() -> None:
    nodes = [helper.make_node("Identity", [name], [f"{name} out"]) for name in ("images", "points", "gray")]
    shapes = {"images": (1, 3, 8, 8), "points": (1, 4), "gray": (1, 1, 8, 8)}
    ends = [[tensor(name + end, shape) for name, shape in shapes.items()] for end in ("", " out")]
    loaded = LearningModel.load(data(nodes, *ends, metadata=EXPORTED))
    kinds = [feature.kind.name for feature in (*loaded.input_features, *loaded.output_features)]
    assert kinds == ["IMAGE", *["TENSOR"] * 5]


@pytest.mark.parametrize(
    "hostile",
    [
        {"author": "somebody"},
        {"task": "dance"},
        {"task": ""},
        {"channels": "1"},
        {"channels": "__import__('os')"},
        {"imgsz": ""},
        {"imgsz": "640"},
        {"imgsz": "[640]"},
        {"imgsz": "[640, true]"},
        {"imgsz": "[640, 1e400]"},
        {"imgsz": "[0, 640]"},
        {"imgsz": "[640, -640]"},
        {"imgsz": f"[{'9' * 5000}, 640]"},
        {"imgsz": "[" * 100_000},
        {"imgsz": "[__import__('os'), 1]"},
    ],
    ids=lambda case: str(case)[:60],
)
def test_what_does_not_read_as_the_exporter_writes_states_nothing(
    hostile: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "winml_py"):
        assert stated(EXPORTED | hostile) is None
    assert ("the metadata from Ultralytics' exporter are not used" in caplog.text) is ("author" not in hostile)


@pytest.mark.parametrize(
    "names",
    [
        "",
        "{}",
        "person",
        "['person']",
        "{0: 'a', 2: 'c'}",
        "{1: 'a'}",
        "{0: 'a' 1: 'b'}",
        "{0: a}",
        "{0: 'a}",
        "{0: 'a', **{1: 'b'}}",
        "{0: 'a\nb'}",
        "{0: '\\x'}",
        "{" * 100_000,
        "{0: '" + "a" * (1 << 20) + "'}",
        "{0: " + "'\\" * 300_000 + "}",
        "{-1: 'a', 0: 'b'}",
    ],
    ids=lambda names: names[:20],
)
def test_names_that_do_not_read_as_the_exporter_writes_are_no_labels(names: str) -> None:
    assert detector((1, 3, "h", "w"), EXPORTED | {"names": names}).labels == ()


def test_the_characters_of_paddleocr_are_the_labels() -> None:
    assert LearningModel.load(unary("Neg", [1, 4], metadata={"character": "a\nb"})).labels == ("", "a", "b", " ")


def test_labels_are_used_without_being_asked_for(tmp_path: Path) -> None:
    metadata = EXPORTED | {"task": "classify", "imgsz": "[2, 2]"}
    nodes = [helper.make_node("ReduceMax", ["x"], ["y"], axes=[2, 3], keepdims=0)]
    made = model(nodes, [tensor("x", (1, 3, 2, 2))], [tensor("y", (1, 3))], metadata=metadata, opset=13)
    loaded = LearningModel.load(made.SerializeToString())
    assert loaded.labels == ("person", "cat's", "a \\ b, {c: 1}")
    picture = ImageFeatureValue.from_array(np.full((2, 2, 3), (1, 200, 3), np.uint8), BitmapPixelFormat.RGB8)
    session = LearningModelSession(loaded)
    results = [session.evaluate_features({"x": picture}), *session.evaluate_many([picture])]
    for result in results:
        assert result.top_k(1)[0].label == "cat's"
        for labels in (["a", "b", "c"], np.array(["a", "b", "c"])):
            assert result.top_k(1, labels)[0].label == "b"
        assert (list(result), "y" in result, "x" in result) == (["y"], True, False)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    Image.new("RGB", (2, 2), (1, 200, 3)).save(tmp_path / "picture.png")
    run = CliRunner().invoke(main, ["run", str(path), str(tmp_path / "picture.png")])
    assert "cat's" in run.stdout
    assert run.stderr == ""


def test_labels_that_do_not_fit_the_scores_are_left_out() -> None:
    nodes = [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1, 2], keepdims=0)]
    made = model(nodes, [tensor("x", (1, 3, 2, 4))], [tensor("y", (1, 4))], metadata=EXPORTED, opset=13)
    session = LearningModelSession(LearningModel.load(made.SerializeToString()))
    result = session.evaluate_features({"x": np.zeros((1, 3, 2, 4), np.float32)})
    assert [best.label for best in result.top_k()] == [""] * 4


def test_winrt_reads_what_windows_ml_reads() -> None:
    loaded = WinRTModel.load(unary(shape=(1, 3, 8, 8), metadata=EXPORTED))
    assert isinstance(loaded.input_features[0], TensorFeatureDescriptor)
    assert loaded.labels == ()
