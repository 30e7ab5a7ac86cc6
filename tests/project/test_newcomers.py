"""Mistakes that newcomers made, and what helps them: each message says what was expected, what came and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from helpers.cli import call
from helpers.models import INT64, data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.seeing_models import ULTRALYTICS
from winml_py import (
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelSession,
    TensorFloat,
    authoring,
    perf,
    vision,
)
from winml_py.authoring.contract_evidence import ContractEvidence
from winml_py.authoring.learning.learn_contract import LearnedContract
from winml_py.compare import compare

DIGITS = str(MODELS / "digits.onnx")
SEVEN = PICTURES / "seven.png"


def session(model: bytes | Path = MODELS / "digits.onnx") -> Any:
    return LearningModelSession(LearningModel.load(model))


def scalar_input() -> bytes:
    ends = [tensor("x", [1, 2]), helper.make_tensor_value_info("sr", INT64, [])]
    return data([helper.make_node("Identity", ["x"], ["y"])], ends, [tensor("y", [1, 2])])


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (
        lambda: ImageFeatureValue("a.png"),
        "Expected VideoFrame objects, got str. For a file, call ImageFeatureValue.load",
    ),  # type: ignore[arg-type]
    (
        lambda: session(unary("Neg", [1, 3, 8, 8])).evaluate_features({"x": np.zeros((8, 8, 3), np.uint8)}),
        r"first state how the model was trained: model.contracts['x'] = ImageContract.imagenet()",
    ),
    (lambda: session().run(None, {}), "Write session.evaluate_features({name: value}).outputs."),
    (lambda: TensorFloat.from_numpy(np.zeros(2, np.float32))[0], "Write tensor.to_numpy()[...]."),  # type: ignore[index]
    (lambda: TensorFloat.from_numpy(np.zeros(2, np.float32)).argmax(), "Write tensor.to_numpy().argmax."),  # type: ignore[attr-defined]
    (lambda: session().evaluate_features(ImageFeatureValue.load(SEVEN)), "Write {'image': value}."),
    (
        lambda: session(scalar_input()).evaluate_features({"x": np.zeros((1, 2), np.float32), "sr": np.array([16000])}),
        "bind the number without a list or an array around it",
    ),
    (
        lambda: session(unary("Neg", [1, 4])).evaluate_features({"x": np.zeros((1, 4), np.int16)}),
        "For 16-bit sound: array.astype(np.float32) / 32768",
    ),
    (
        lambda: session().evaluate_features({"image": [ImageFeatureValue.load(SEVEN)] * 2}),
        "Use session.evaluate_many(pictures), which evaluates them one by one",
    ),
    (lambda: ImageFeatureValue.load(b""), "Expected a picture, got 0 bytes. Pass the contents of a picture file"),
    (lambda: next(iter(session().evaluate_many("picsss"))).outputs, "picsss: There is no such picture or folder."),
    (
        lambda: LearningModel.load(MODELS / "digits.onnx").contracts.__setitem__("image", ImageContract.imagenet()),
        "The model takes gray pictures: state ImageContract(BitmapPixelFormat.GRAY8)",
    ),
    *(
        (partial(call, *arguments), f"Expected {expected}")  # type: ignore[arg-type]
        for call, arguments, expected in (
            (compare, (DIGITS, DIGITS), "a Case, got str"),
            (perf.measure, (DIGITS,), "a Case, got str"),
            (perf.Case, (DIGITS, str(SEVEN)), "a tuple, got str"),
            (vision.detections, (None,), "a LearningModelEvaluationResult, got NoneType"),
            (vision.masks, (None,), "a LearningModelEvaluationResult, got NoneType"),
            (ImageFeatureValue.from_pil, (5,), "a Pillow image, got int"),
            (ImageFeatureValue.from_software_bitmap, ("a.png",), "a SoftwareBitmap, got str"),
            (authoring.write_contract, (DIGITS, "out.onnx", "imagenet"), "an ImageContract, got str"),
            (authoring.build_in, (DIGITS, "out.onnx", "imagenet"), "an ImageContract, got str"),
            (authoring.check_samples, (DIGITS,), "a LearningModel, got str"),
        )
    ),
]


@pytest.mark.parametrize(("mistake", "words"), MISTAKES)
def test_a_mistake_is_told_with_what_to_do(mistake: Callable[[], object], words: str) -> None:
    with pytest.raises(Exception, match=re.escape(words)):
        mistake()


def test_classes_of_a_detector_lead_to_its_objects() -> None:
    result = session(unary("Neg", [1, 84, 21])).evaluate_features({"x": np.zeros((1, 84, 21), np.float32)})
    with pytest.raises(InvalidArgumentError, match=re.escape("call winml_py.vision.detections(result)")):
        result.top_k(5)


def test_a_size_that_is_no_multiple_of_the_models_stride_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "detector.onnx"
    proto = onnx.load_from_string(unary("Neg", [1, 3, "height", "width"]))
    proto.metadata_props.add(key="stride", value="32")
    onnx.save(proto, path)
    result = call("run", path, SEVEN, "--size", "333,333")
    assert result.exit_code == 4
    assert "metadata, got 333,333. Write --size 352,352, or in Python" in " ".join(result.stderr.split())


def test_a_stated_size_goes_before_the_exports(tmp_path: Path) -> None:
    path = tmp_path / "detector.onnx"
    path.write_bytes(unary("Neg", [1, 3, "height", "width"], metadata=ULTRALYTICS | {"task": "detect"}))
    result = call("run", path, SEVEN, "--size", "64,96", "--json")
    assert json.loads(result.stdout)["results"][0]["sizes"]["x"]["shape"] == [1, 3, 64, 96]


def test_bytes_for_integers_are_told_how_to_become_an_array(tmp_path: Path) -> None:
    (tmp_path / "ids.onnx").write_bytes(unary("Neg", [1, 32], TensorProto.INT32))
    (tmp_path / "file.py").write_text("print(1)\n")
    result = call("run", tmp_path / "ids.onnx", tmp_path / "file.py")
    assert result.exit_code == 4
    assert "neither an array (.npy) nor a table of numbers (.csv)" in result.stderr
    assert "Write an array with numpy.save" in result.stderr


def test_a_number_in_brackets_is_told_how_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "rate.onnx").write_bytes(unary("Neg", [], INT64))
    result = call("run", tmp_path / "rate.onnx", "x=[16000]")
    assert result.exit_code == 4
    words = " ".join(result.stderr.split())
    assert "[16000]: The input x takes Int64, but there is no such file." in words
    assert "write a few numbers without brackets: 1,2,3." in words


def test_the_characters_of_paddleocr_are_the_labels() -> None:
    proto = onnx.load_from_string(unary("Neg", [1, 4]))
    proto.metadata_props.add(key="character", value="a\nb")
    assert LearningModel.load(proto.SerializeToString()).labels == ("", "a", "b", " ")


def test_a_tensor_is_one_item_of_a_stream() -> None:
    tensor = TensorFloat.from_numpy(np.zeros((1, 1, 28, 28), np.float32))
    assert [result.succeeded for result in session().evaluate_many(tensor)] == [True]


def test_a_learned_contract_is_shown_without_its_evidence() -> None:
    contract = ImageContract(size=(32, 32))
    evidence = ContractEvidence("prepare", contract.to_metadata(), ((3024, 4032),))
    learned = LearnedContract(contract, "prepare", "rgb", 400, 50, 0.1, 1.0, evidence)
    assert "size 32 32" in str(learned)
    assert "3024" not in str(learned)
