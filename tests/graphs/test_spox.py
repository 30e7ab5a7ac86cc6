"""Models that spox builds load: the example of the how-to, and a graph whose result numpy knows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from helpers.paths import ROOT
from winml_py import LearningModel, LearningModelSession, TensorKind
from winml_py.experimental import (
    LearningModelBuilder,
    LearningModelExperimental,
    LearningModelJoinOptions,
    LearningModelOperator,
)

spox = pytest.importorskip("spox")
op = pytest.importorskip("spox.opset.ai.onnx.v17")

PAGE = (ROOT / "docs" / "how-to" / "building-models.md").read_text()


def softmax_of_squares() -> LearningModel:
    """A model with a Loop, which the builder does not make: the softmax of numbers that are squared n times."""
    numbers, times = spox.argument(spox.Tensor(np.float32, ("n",))), spox.argument(spox.Tensor(np.int64, ()))

    def body(_: Any, condition: Any, value: Any) -> list[Any]:
        return [condition, op.mul(value, value)]

    (squared,) = op.loop(times, v_initial=[numbers], body=body)
    proto = spox.build({"numbers": numbers, "times": times}, {"shares": op.softmax(squared, axis=0)})
    return LearningModel.load(proto.SerializeToString())


def softmax(numbers: np.ndarray) -> np.ndarray:
    powers = np.exp(numbers - numbers.max())
    return powers / powers.sum()


NUMBERS = np.float32([0.5, -1.5, 1.2])


def test_the_example_of_the_how_to(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(code, names)
    assert capsys.readouterr().out == re.findall(r"# (\(.*\))$", code, re.MULTILINE)[0] + "\n"
    tensor = names["result"].outputs["tensor"].to_numpy()
    np.testing.assert_allclose(tensor, np.full((1, 3, 4, 5), np.sqrt(0.2)), rtol=1e-6)


def test_a_loop() -> None:
    session = LearningModelSession(softmax_of_squares())
    for times in (0, 1, 3):
        came = session.evaluate_features({"numbers": NUMBERS, "times": np.int64(times)}).outputs["shares"]
        np.testing.assert_allclose(came.to_numpy(), softmax(NUMBERS ** (2**times)), rtol=1e-5)


@pytest.mark.parametrize("prefix", ["", "loop."])
def test_a_loop_is_joined(prefix: str) -> None:
    describe = LearningModelBuilder.create_tensor_feature_descriptor
    doubled = (
        LearningModelBuilder.create(13)
        .inputs.add(describe("x", TensorKind.FLOAT, ["n"]))
        .outputs.add(describe("y", TensorKind.FLOAT, ["n"]))
        .operators.add(LearningModelOperator("Mul").set_input("A", "x").set_constant("B", 2.0).set_output("C", "y"))
        .create_model()
    )
    options = LearningModelJoinOptions()
    options.link("y", "numbers")
    options.joined_node_prefix = prefix
    joined = LearningModelExperimental(doubled).join_model(softmax_of_squares(), options)
    features = {"x": NUMBERS, f"{prefix}times": np.int64(1)}
    came = LearningModelSession(joined).evaluate_features(features).outputs[f"{prefix}shares"]
    np.testing.assert_allclose(came.to_numpy(), softmax((2 * NUMBERS) ** 2), rtol=1e-5)
