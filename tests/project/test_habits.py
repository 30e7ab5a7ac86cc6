"""Python's habits: keywords, submodules after the plain import, lists of lists, and what a type checker finds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.models import INT64, STRING, unary
from helpers.paths import MODELS, PICTURES, ROOT
from winml_py import (
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
    PictureError,
    SizeMismatchError,
    SoftwareBitmap,
)
from winml_py.core.base.winrt_object import inside

DIGITS = MODELS / "digits.onnx"
SEVEN = PICTURES / "seven.png"


def test_device_and_options_are_keywords() -> None:
    model, options = LearningModel.load(DIGITS), LearningModelSessionOptions()
    options.intra_op_num_threads = 1
    with LearningModelSession(model, options=options) as session:
        assert inside(session).engine.options.intra_op_num_threads == 1
    with LearningModelSession(model, device=LearningModelDevice(), options=options) as session:
        assert session.device.hardware == "cpu"
    with LearningModelSession.create_async(model, options=options).get() as session:
        assert inside(session).engine.options.intra_op_num_threads == 1


def test_options_in_the_place_of_the_device_are_recognised() -> None:
    model = LearningModel.load(DIGITS)
    with pytest.raises(InvalidArgumentError, match=r"Write LearningModelSession\(model, options=options\)"):
        LearningModelSession(model, LearningModelSessionOptions())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"int came. Make them: options = LearningModelSessionOptions\(\)"):
        LearningModelSession(model, None, 3)  # type: ignore[arg-type]


def test_capabilities_are_there_after_the_plain_import() -> None:
    """And cost nothing before they are used: not even with `from winml_py import *`."""
    code = """
import sys
import winml_py
from winml_py import *
assert not any(name.startswith("winml_py.vision") for name in sys.modules), sys.modules
names = "authoring backend experimental float16 operators optimize perf scale testing vision".split()
print([name for name in names if getattr(winml_py, name).__name__ == f"winml_py.{name}"] == names)
print(set(names) <= set(dir(winml_py)), set(names) & set(winml_py.__all__))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["True", "True set()"]


@pytest.mark.parametrize("value", [SEVEN, str(SEVEN), SEVEN.read_bytes()], ids=["path", "text", "bytes"])
def test_pictures_by_path_and_bytes(value: Any) -> None:
    session = LearningModelSession(LearningModel.load(DIGITS))
    expected = session.evaluate_features_async({"image": value}).get().outputs["probabilities"].to_numpy()
    np.testing.assert_array_equal(session.evaluate_features({"image": value}).outputs["probabilities"], expected)


@pytest.mark.parametrize(
    ("element", "value", "expected"),
    [
        (STRING, [["a"], ["c"]], [["a"], ["c"]]),
        (1, [[1, 2.5], [3, 4]], [[1, 2.5], [3, 4]]),
        (INT64, ([1], (2,)), [[1], [2]]),
    ],
)
def test_lists_of_lists(element: int, value: Any, expected: Any) -> None:
    session = LearningModelSession(LearningModel.load(unary(shape=("n", len(expected[0])), element=element)))
    assert session.evaluate_features({"x": value}).outputs["y"].to_numpy().tolist() == expected


def test_lists_of_lists_that_do_not_fit_are_refused() -> None:
    session = LearningModelSession(LearningModel.load(unary(shape=("n", 2))))
    for wrong in ([[1, 2], [3]], [[1, "a"]], [[[1, 2]], [3]]):
        with pytest.raises(InvalidBindingError, match="list of list came"):
            session.evaluate_features({"x": wrong})
    with pytest.raises(SizeMismatchError):
        session.evaluate_features({"x": [[1, 2, 3]]})


def test_an_array_without_a_format_is_told_which_to_give() -> None:
    for make in (SoftwareBitmap.from_array, ImageFeatureValue.from_array):
        with pytest.raises(InvalidArgumentError, match=r"RGB8 for arrays of Pillow.*BGR8 for OpenCV's"):
            make(np.zeros((2, 2, 3), np.uint8))


def test_a_picture_of_two_bytes_is_no_picture() -> None:
    with pytest.raises(PictureError) as error:
        ImageFeatureValue.load(b"ab")
    assert str(error.value).startswith("2 bytes is not a picture that can be decoded: no decoder knows what it is.")


def test_contracts_show_what_the_model_states() -> None:
    """Also where an exporter states it in words of its own."""
    metadata = {"author": "Ultralytics", "task": "detect", "imgsz": "[8, 8]"}
    model = LearningModel.load(unary(shape=(1, 3, 8, 8), metadata=metadata))
    assert dict(model.contracts) == {}
    assert "the model states {'x': <ImageContract RGB8" in repr(model.contracts)
    model.contracts["x"] = ImageContract()
    assert "states" not in repr(model.contracts)


PROGRAM = """
import numpy as np
import winml_py
from winml_py import ImageFeatureValue, LearningModel, LearningModelBinding, LearningModelSession
from winml_py import LearningModelSessionOptions, TensorFloat, vision

options = LearningModelSessionOptions()
options.batch_size_override = 1
session = LearningModelSession(LearningModel.load("digits.onnx"), options=options)
binding = LearningModelBinding(session)
binding.bind("image", ImageFeatureValue.load("seven.png"))
binding.bind("image", np.zeros((1, 1, 28, 28), np.float32))
binding.bind("probabilities", TensorFloat.create(), {"DisableTensorCpuSync": True})
result = session.evaluate(binding)
result = session.evaluate_features({"image": "seven.png"})
label: str = result.top_k(1)[0].label
score: float = result.top_k(1)[0].score
shape: tuple[int, ...] = result.outputs["probabilities"].to_numpy().shape
names: list[str] = [feature.name for feature in session.model.input_features]
boxes = [found.box.tolist() for found in vision.detections(result)]
report = winml_py.optimize.optimize("a.onnx", "b.onnx")
nodes: int = report.nodes[0]
for one in session.evaluate_many("*.png"):
    print(one.source, one.top_k(1))
"""

PLANTED = {
    "options.batch_size_overide = 1": "batch_size_overide",
    "session.evalute(binding)": "evalute",
    "LearningModelSession(session.model, options)": "LearningModelDevice",
    "result.top_k('5')": "top_k",
    "report.node": '"node"',
}


CHECKERS = {
    "mypy": ["--strict", "--cache-dir", "cache"],
    "pyright": ["--pythonpath", sys.executable],
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_users_program_has_complete_types(tmp_path: Path, checker: str) -> None:
    """A strict checker takes the program, knows the type of all that it uses, and finds each of five mistakes."""
    pytest.importorskip(checker)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "\n".join(PLANTED) + "\n")
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", checker, *CHECKERS[checker], str(program)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, env=environment)
    found: dict[int, str] = {}
    for line, message in re.findall(r"program\.py:(\d+)(?::\d+)?(?: -|:) error: (.*)", done.stdout):
        found[int(line)] = f"{found.get(int(line), '')} {message}"
    first = PROGRAM.count("\n") + 1
    assert sorted(found) == list(range(first, first + len(PLANTED))), done.stdout + done.stderr
    for number, word in enumerate(PLANTED.values(), first):
        assert word in found[number]
