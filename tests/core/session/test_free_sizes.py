"""Sizes that a model leaves free: stated by options or the contract, printed, and in every report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers.cli import call, require_failure
from helpers.models import data, tensor, unary
from helpers.seeing_models import ULTRALYTICS
from winml_py import ImageContract, LearningModel, LearningModelSessionOptions
from winml_py._examples import StatedSizes, find_example_shape

pytestmark = pytest.mark.one_python

COMMANDS = {
    "convert": ("--output", "out.onnx"),
    "perf": ("-n", "2"),
    "tune": ("--output", "options.json"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_tune: None) -> Path:
    """A folder with a model whose height and width are free, and a contract that states them."""
    monkeypatch.chdir(tmp_path)
    ends = [tensor(name, ["batch", 3, "height", "width"]) for name in "xy"]
    weights = {"w": np.ones((3, 1, 1), np.float32)}  # smaller in float16
    Path("free.onnx").write_bytes(data([helper.make_node("Mul", ["x", "w"], ["y"])], ends[:1], ends[1:], weights))
    Path("contract.json").write_text(json.dumps(ImageContract(size=(20, 30)).to_metadata()))
    return tmp_path


def reported(command: str, *arguments: str) -> Any:
    """The sizes in the JSON of a command."""
    result = call(command, "free.onnx", *COMMANDS[command], *arguments, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    return (facts["models"][0] if facts["kind"] == "perf" else facts)["sizes"]["x"]


@pytest.mark.parametrize("command", COMMANDS)
def test_sizes_are_stated_or_told(command: str, folder: Path) -> None:
    assert reported(command) == {"shape": [1, 3, 64, 64], "assumed": ["height", "width"]}
    shown = call(command, "free.onnx", *COMMANDS[command]).stdout
    assert "sizes: x 1x3x64x64 (height and width assumed)" in " ".join(shown.split())
    for arguments, shape in (
        (("--size", "16,24"), [1, 3, 16, 24]),
        (("--dim", "batch=2", "--dim", "height=8", "--dim", "width=9"), [2, 3, 8, 9]),
        (("--contract", "contract.json"), [1, 3, 20, 30]),
        (("--contract", "contract.json", "--size", "40,50"), [1, 3, 40, 50]),
    ):
        assert reported(command, *arguments) == {"shape": shape, "assumed": []}
    assert f"sizes: x {'x'.join(map(str, shape))}" in call(command, "free.onnx", *COMMANDS[command], *arguments).stdout


def test_sizes_reach_the_session(folder: Path, seven: Path) -> None:
    call("run", "free.onnx", seven, "--size", "16,24", "--output", "out.npz")
    assert np.load("out.npz")["y"].shape == (1, 3, 16, 24)
    assert reported("perf", "--profile", "--dim", "width=7")["shape"] == [1, 3, 64, 7]
    reported("tune", "--size", "12,14")
    assert LearningModelSessionOptions.load("options.json").input_shape_overrides == {"x": (-1, 3, 12, 14)}


def test_sizes_of_given_inputs_are_theirs(folder: Path, seven: Path) -> None:
    np.save("x.npy", np.zeros((2, 3, 5, 6), np.float32))
    for command in COMMANDS:
        assert reported(command, "x.npy") == {"shape": [2, 3, 5, 6], "assumed": []}
        assert reported(command, str(seven), "--contract", "contract.json")["shape"] == [1, 3, 20, 30]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dim", "widht=3"], "free.onnx: No input of the model has a dimension named 'widht'. Did you mean 'width'?"),
        (["--dim", "width"], "Expected NAME=N, got width"),
        (["--dim", "width=0"], "--dim width=0: Expected a name and a size"),
        (["--dim", "width=" + "9" * 5000], "Expected a name and a size"),
        (["--size", "224"], "--size 224: Expected height and width"),
        (["--size", "a,b"], "--size a,b: Expected height and width"),
    ],
)
def test_mistakes(arguments: list[str], words: str, folder: Path) -> None:
    for command, more in COMMANDS.items():
        assert words in require_failure(4 if "Did you mean" in words else 2, command, "free.onnx", *more, *arguments)


def test_a_stated_size_goes_before_the_exports(folder: Path, seven: Path) -> None:
    Path("detector.onnx").write_bytes(
        unary("Neg", [1, 3, "height", "width"], metadata=ULTRALYTICS | {"task": "detect"})
    )
    result = call("run", "detector.onnx", seven, "--size", "64,96", "--json")
    assert json.loads(result.stdout)["results"][0]["sizes"]["x"]["shape"] == [1, 3, 64, 96]


def test_a_size_for_a_model_that_has_all_of_them(folder: Path) -> None:
    Path("fixed.onnx").write_bytes(unary("Neg", [1, 3, 4, 5]))
    message = require_failure(4, "perf", "fixed.onnx", "--size", "8,8")
    assert "fixed.onnx: The model has no picture input with a free height or width." in message


def test_where_height_and_width_stand() -> None:
    ends = [tensor("rows", ["n", "h", "w", 3]), tensor("words", ["n", "length", 8]), tensor("y", ["n", "h", "w", 3])]
    model = LearningModel.load(data([helper.make_node("Neg", ["rows"], ["y"])], ends[:2], ends[2:]))
    rows, words = model.input_features
    assert StatedSizes(picture=(4, 5)).find_shapes([rows, words]) == {"rows": (-1, 4, 5, 3)}
    assert find_example_shape(words) == ((1, 64, 8), ("length",))  # type: ignore[arg-type]
    assert StatedSizes({"length": 7}).find_shapes([rows, words]) == {"words": (-1, 7, 8)}
