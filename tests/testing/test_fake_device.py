"""The fake device that is shipped for app developers' own tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from helpers.models import data, tensor, unary
from winml_py import (
    BitmapPixelFormat,
    ClosedError,
    EvaluationError,
    LearningModel,
    LearningModelSession,
    NotSupportedError,
    TensorFloat,
    VideoFrame,
)
from winml_py.errors import E_UNEXPECTED
from winml_py.testing import FakeDevice


def test_a_function_stands_in_for_the_model() -> None:
    device = FakeDevice(lambda inputs: {"y": inputs["x"] * 2})
    session = LearningModelSession(LearningModel.load(unary()), device)
    output = TensorFloat.create([2])
    assert output.to_numpy().tolist() == [0, 0]  # has memory now, which is written in place
    kept = output.to_numpy()
    result = session.evaluate_features({"x": np.array([1, 2], np.float32), "y": output})
    assert result.outputs["y"] is output
    assert kept.tolist() == [2, 4]
    fresh = session.evaluate_features({"x": np.array([3], np.float32)}).outputs["y"]
    assert fresh.to_numpy().tolist() == [6]


def test_each_device_has_engines_of_its_own() -> None:
    loaded = LearningModel.load(unary())
    first, second = (FakeDevice(lambda inputs, n=n: {"y": inputs["x"] + n}) for n in (1, 2))
    for device, expected in ((first, 1), (second, 2), (None, 0)):
        session = LearningModelSession(loaded, device)
        assert session.evaluate_features({"x": np.zeros(1, np.float32)}).outputs["y"].to_numpy() == [expected]


def test_it_closes_like_a_real_one() -> None:
    session = LearningModelSession(LearningModel.load(unary()), FakeDevice(lambda inputs: {"y": inputs["x"]}))
    session.close()
    with pytest.raises(ClosedError):
        session.evaluate_features({"x": np.zeros(1, np.float32)})


@pytest.mark.parametrize(
    ("value", "element", "kind", "words"),
    [
        ("text", 1, EvaluationError, r"unexpected evaluation output .* y: expected Float\[1,\], got str"),
        (np.zeros(1), 1, EvaluationError, r"expected float32, got float64 of shape \(1,\)"),
        (np.zeros(1, np.uint8), TensorProto.FLOAT8E4M3FN, NotSupportedError, "such as float8"),
    ],
)
def test_a_function_that_gives_nonsense_is_told(value: Any, element: int, kind: type[Exception], words: str) -> None:
    ends = [tensor("x", [1])], [tensor("y", [1], element)]
    content = data([helper.make_node("Cast", ["x"], ["y"], to=element)], *ends)
    session = LearningModelSession(LearningModel.load(content), FakeDevice(lambda inputs: {"y": value}))
    with pytest.raises(kind, match=words):
        session.evaluate_features({"x": np.zeros(1, np.float32)})


def test_what_a_picture_of_its_own_size_adds_to_an_error() -> None:
    """To the engine's, what its size may have to do with it; to an output of another type, nothing."""

    def fail(_: object) -> Any:
        raise EvaluationError("It failed.", hint="Try again.", hresult=E_UNEXPECTED)

    content = unary(shape=(1, 3, "h", "w"), denotation="IMAGE")
    for function, words, hint in (
        (fail, "It failed. The model takes any size, and the picture for x kept its own size, 6x4.", "Try again. I"),
        (lambda _: {"y": "text"}, "got str.", "Correct the type"),
    ):
        session = LearningModelSession(LearningModel.load(content), FakeDevice(function))
        with pytest.raises(EvaluationError) as raised:
            session.evaluate_features({"x": VideoFrame(BitmapPixelFormat.BGRA8, 6, 4)})
        assert (raised.value.message[-len(words) :], raised.value.hresult) == (words, E_UNEXPECTED)
        assert raised.value.hint.startswith(hint)
