"""Settings that must not be ignored in silence: pictures without a contract, and names that nothing has.

`winml_py.winrt` is as silent as Windows ML, and a test here says so.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.cli import call
from helpers.models import unary
from helpers.paths import PICTURES
from helpers.sessions import open_binding, open_session
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


# Pictures without a contract


@pytest.mark.parametrize("is_stream", [False, True])
def test_one_warning_a_feature_a_model(is_stream: bool) -> None:
    def use(model: LearningModel) -> None:
        session = LearningModelSession(model)
        for _ in range(2):
            if is_stream:
                list(session.evaluate_many([PICTURE] * 8, concurrency=4))
            else:
                session.evaluate_features({"x": PICTURE})

    model = LearningModel.load(BYTES)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(model)
        use(model)
    assert len(caught) == 1
    message = str(caught[0].message)
    for words in ("'x'", "BGR", "from 0 to 255", "centre", "model.contracts['x'] ="):
        assert words in message
    with pytest.warns(MissingContractWarning):
        use(LearningModel.load(BYTES))  # another model is told of anew


def test_the_warning_points_to_the_program() -> None:
    binding, session = open_binding(BYTES), open_session(BYTES)
    with pytest.warns(MissingContractWarning) as caught:
        binding.bind("x", PICTURE)
    assert caught[0].filename == __file__
    with pytest.warns(MissingContractWarning) as caught:
        session.evaluate_features({"x": PICTURE})
    assert caught[0].filename == __file__
    path = PICTURES / "seven.png"
    for evaluate in (
        lambda session: session.evaluate_features({"x": path}),
        lambda session: session.evaluate_features_async({"x": path}).get(60),
        lambda session: next(session.evaluate_many([path])),
    ):
        with pytest.warns(MissingContractWarning) as caught:
            assert evaluate(open_session(BYTES)).succeeded
        assert caught[0].filename == __file__


def test_what_states_a_contract_does_not_warn() -> None:
    """Warnings are errors here."""
    attached = LearningModel.load(BYTES)
    attached.contracts["x"] = ImageContract.yolo()
    LearningModelSession(attached).evaluate_features({"x": PICTURE})
    open_binding(DENOTED).bind("x", PICTURE)
    plain = open_binding(BYTES)
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
    assert result.stderr.count("No image contract is specified for the input 'x'.") == 1
    assert result.stderr.endswith("On the command line: --contract imagenet.\n")
    assert len(result.stderr.splitlines()) == 1


# Names


@pytest.mark.parametrize(
    ("key", "near"),
    [("BitmapBound", "BitmapBounds"), ("PixelRnge", "PixelRange"), ("imagecontract", "ImageContract"), (7, "")],
)
def test_unknown_properties_of_a_bind(key: Any, near: str) -> None:
    binding = open_binding(DENOTED)
    with pytest.raises(InvalidBindingError, match=f"Unknown bind property {key!r}") as info:
        binding.bind("x", PICTURE, {key: None})
    assert (f"Did you mean {near!r}?" if near else "Use one of: BitmapBounds, ") in info.value.hint
    assert dict(binding) == {}


def test_unknown_options() -> None:
    options = LearningModelSessionOptions()
    for name, near in (("intra_op_num_thread", "intra_op_num_threads"), ("profilng", "profiling"), ("save", "")):
        with pytest.raises(AttributeError, match=f"session option '{name}'. (Did you mean '{near}'|Use one of)"):
            setattr(options, name, 3)
    assert options.to_dict() == LearningModelSessionOptions().to_dict()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"intra_op_num_thread": 1}, "session option 'intra_op_num_thread'. Did you mean 'intra_op_num_threads'"),
        ({"tuning": {"memory_arna": True}}, "got an unexpected keyword argument 'memory_arna'"),
        ({"session_config": {"a": None}}, "each value is a str, a bool or a number"),
        ({"precision": "float61"}, "precision has no value 'float61'. Did you mean 'float16'"),
        ({"precision": 3}, "precision has no value 3. Use one of: auto"),
    ],
)
def test_unknown_words_in_a_file_of_options(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((InvalidArgumentError, TypeError), match=message):
        LearningModelSessionOptions.from_dict(settings)
    path = tmp_path / "options.json"
    path.write_text(json.dumps({"schema_version": 1, "kind": "session-options", "options": settings}))
    with pytest.raises(InvalidArgumentError, match=rf"options\.json: .*{message}"):
        LearningModelSessionOptions.load(path)


def test_unknown_dimensions() -> None:
    options = LearningModelSessionOptions()
    options.override_named_dimension("batchh", 1)
    for shape, hint in ((("batch", 3), "Did you mean 'batch'"), ((2, 3), "There are none"), (("n", "w"), "of: n, w")):
        with pytest.raises(InvalidArgumentError, match=f"dimension 'batchh', but no input of the model has it.*{hint}"):
            LearningModelSession(LearningModel.load(unary(shape=shape)), None, options)


@pytest.mark.parametrize("count", [9, 11])
def test_labels_of_another_number(count: int, digits: LearningModelSession) -> None:
    result = digits.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
    with pytest.raises(InvalidArgumentError, match=f"Expected 10 labels, .* got {count}"):
        result.top_k(labels=["class"] * count)


# Windows ML's silence


def test_winrt_is_as_silent_as_windows_ml() -> None:
    """Warnings are errors here."""
    options = LearningModelSessionOptions()
    options.override_named_dimension("DimensionThatDoesntExist", 12)
    session = LearningModelSession(WinRTModel.load(BYTES), None, options)
    binding = LearningModelBinding(session)
    binding.bind("x", PICTURE, {"BitmapBound": [0, 0, 1, 1]})
    binding.bind("x", np.ones((1, 3, 4, 6), np.float32), {"BitmapBounds": [0, 0, 1, 1]})  # numbers have no bounds
    assert session.evaluate(binding).outputs["y"].to_numpy().shape == (1, 3, 4, 6)
