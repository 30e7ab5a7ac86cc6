"""What a program or a user writes by mistake is an error or a warning; `winml_py.winrt` keeps Windows ML's silence."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.cli import call
from helpers.models import unary
from helpers.paths import MODELS
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    LearningModelSessionOptions,
)
from winml_py.errors import MissingContractWarning
from winml_py.winrt.windows.ai.machinelearning import LearningModel as WinRTModel

PICTURE = ImageFeatureValue.from_array(np.zeros((4, 6, 3), np.uint8), BitmapPixelFormat.RGB8)
BYTES = unary(shape=(1, 3, 4, 6))
DENOTED = unary(shape=(1, 3, 4, 6), denotation="IMAGE")


def binding(model: LearningModel) -> LearningModelBinding:
    return LearningModelBinding(LearningModelSession(model))


# Pictures without a contract


def evaluated(session: LearningModelSession) -> None:
    session.evaluate_features({"x": PICTURE})


def streamed(session: LearningModelSession) -> None:
    list(session.evaluate_many([PICTURE] * 8, concurrency=4))


@pytest.mark.parametrize("use", [evaluated, streamed])
def test_one_warning_a_feature_a_model(use: Callable[[LearningModelSession], None]) -> None:
    model = LearningModel.load(BYTES)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            session = LearningModelSession(model)
            use(session)
            use(session)
    assert len(told) == 1
    message = str(told[0].message)
    for words in ("'x'", "BGR", "from 0 to 255", "centre", "model.contracts['x'] =", "--contract"):
        assert words in message
    with pytest.warns(MissingContractWarning):
        use(LearningModelSession(LearningModel.load(BYTES)))  # another model is told of anew


def test_the_warning_points_to_the_program() -> None:
    target = binding(LearningModel.load(BYTES))
    with pytest.warns(MissingContractWarning) as told:
        target.bind("x", PICTURE)
    assert told[0].filename == __file__
    session = LearningModelSession(LearningModel.load(BYTES))
    with pytest.warns(MissingContractWarning) as told:
        session.evaluate_features({"x": PICTURE})
    assert told[0].filename == __file__


def test_gray_is_called_gray() -> None:
    with pytest.warns(MissingContractWarning, match="gray, from 0 to 255"):
        binding(LearningModel.load(unary(shape=(1, 1, 4, 6)))).bind("x", PICTURE)


def test_what_states_a_contract_does_not_warn() -> None:
    """Warnings are errors here."""
    attached = LearningModel.load(BYTES)
    attached.contracts["x"] = ImageContract.yolo()
    for model in (attached, LearningModel.load(DENOTED)):
        binding(model).bind("x", PICTURE)
    plain = binding(LearningModel.load(BYTES))
    plain.bind("x", PICTURE, {"ImageContract": ImageContract.yolo()})
    order = {"BitmapPixelFormat": BitmapPixelFormat.RGBA8, "PixelRange": LearningModelPixelRange.ZERO_TO_ONE}
    plain.bind("x", PICTURE, order)
    plain.bind("x", np.zeros((1, 3, 4, 6), np.float32))
    with pytest.warns(MissingContractWarning, match="red, green, blue"):
        plain.bind("x", PICTURE, {"BitmapPixelFormat": BitmapPixelFormat.RGBA8})


def test_the_command_line_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "plain.onnx").write_bytes(BYTES)
    for name in ("a", "b"):
        Image.new("RGB", (6, 4)).save(tmp_path / f"{name}.png")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whatever Python is told
        result = call("run", tmp_path / "plain.onnx", tmp_path / "a.png", tmp_path / "b.png", "--json")
    assert len(json.loads(result.stdout)["results"]) == 2
    assert result.stderr.count("Nothing states which pictures the input 'x' was trained on.") == 1
    assert len(result.stderr.splitlines()) == 1


# Names


@pytest.mark.parametrize(
    ("key", "near"),
    [("BitmapBound", "BitmapBounds"), ("PixelRnge", "PixelRange"), ("imagecontract", "ImageContract"), (7, "")],
)
def test_unknown_properties_of_a_bind(key: Any, near: str) -> None:
    target = binding(LearningModel.load(DENOTED))
    with pytest.raises(InvalidBindingError, match=f"A bind has no property {key!r}") as info:
        target.bind("x", PICTURE, {key: None})
    assert (f"Did you mean {near!r}?" if near else "Known: BitmapBounds, ") in info.value.hint
    assert dict(target) == {}


def test_unknown_options() -> None:
    options = LearningModelSessionOptions()
    for name, near in (("intra_op_num_thread", "intra_op_num_threads"), ("profilng", "profiling"), ("save", "")):
        with pytest.raises(AttributeError, match=f"no session option '{name}'. (Did you mean '{near}'|Known)"):
            setattr(options, name, 3)
    assert options.to_dict() == LearningModelSessionOptions().to_dict()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"intra_op_num_thread": 1}, "no session option 'intra_op_num_thread'. Did you mean 'intra_op_num_threads'"),
        ({"tuning": {"memory_arna": True}}, "Tuning has no 'memory_arna'. Did you mean 'memory_arena'"),
        ({"session_config": {"a": None}}, "each value is a str, a bool or a number"),
        ({"precision": "haf"}, "precision has no 'haf'. Did you mean 'half'"),
        ({"precision": 3}, "precision has no 3. Known: auto"),
    ],
)
def test_unknown_words_in_a_file_of_options(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        LearningModelSessionOptions.from_dict(settings)
    path = tmp_path / "options.json"
    path.write_text(json.dumps({"schema_version": 1, "kind": "session-options", "options": settings}))
    with pytest.raises(InvalidArgumentError, match=rf"options\.json: .*{message}"):
        LearningModelSessionOptions.load(path)


def test_unknown_dimensions() -> None:
    options = LearningModelSessionOptions()
    options.override_named_dimension("batchh", 1)
    for shape, hint in ((("batch", 3), "Did you mean 'batch'"), ((2, 3), "Known: none"), (("n", "w"), "Known: n, w")):
        with pytest.raises(InvalidArgumentError, match=f"dimension 'batchh', but no input of the model has it.*{hint}"):
            LearningModelSession(LearningModel.load(unary(shape=shape)), None, options)


@pytest.mark.parametrize(("lines", "fits"), [(10, True), (9, False), (11, False)])
def test_labels_of_another_number(lines: int, fits: bool, tmp_path: Path, seven: Path) -> None:
    (tmp_path / "labels.txt").write_text("\n".join(f"class {index}" for index in range(lines)) + "\n\n")
    result = call("run", MODELS / "digits.onnx", seven, "--labels", tmp_path / "labels.txt")
    assert (result.exit_code == 0) is fits
    said = f"Expected 10 labels, one per line, got {lines}."
    assert (said in " ".join(result.stderr.split())) is not fits
    session = LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))
    answer = session.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
    if not fits:
        with pytest.raises(InvalidArgumentError, match=f"Expected 10 labels, .* got {lines}"):
            answer.top_k(labels=["class"] * lines)


# Windows ML's silence


def test_winrt_is_as_silent_as_windows_ml() -> None:
    """Warnings are errors here."""
    options = LearningModelSessionOptions()
    options.override_named_dimension("DimensionThatDoesntExist", 12)
    session = LearningModelSession(WinRTModel.load(BYTES), None, options)
    target = LearningModelBinding(session)
    target.bind("x", PICTURE, {"BitmapBound": [0, 0, 1, 1]})
    target.bind("x", np.ones((1, 3, 4, 6), np.float32), {"BitmapBounds": [0, 0, 1, 1]})  # numbers have no bounds
    assert session.evaluate(target).outputs["y"].to_numpy().shape == (1, 3, 4, 6)
