"""Operators of the program's own: Windows ML's operator providers."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from helpers import winml_models
from helpers.models import INT64, data, tensor
from helpers.paths import PICTURES
from winml_py import CustomOperator, EvaluationError, ImageFeatureValue, LearningModelBinding, LearningModelSession
from winml_py.winrt.windows.ai.machinelearning import ILearningModelOperatorProvider, LearningModel

FLOATS = (np.float32, 1)


class Provider(ILearningModelOperatorProvider):
    """Provides one operator."""

    def __init__(self, operator: CustomOperator) -> None:
        self.operators = [operator]


def evaluate(whole: bytes, operator: CustomOperator, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    session = LearningModelSession(LearningModel.load_from_stream(winml_models.open_stream(whole), Provider(operator)))
    binding = LearningModelBinding(session)
    for name, value in inputs.items():
        binding.bind(name, value)
    return {name: value.to_numpy() for name, value in session.evaluate(binding, "").outputs.items()}


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario20aLoadBindEvalCustomOperatorCPU")
def test_noisy_relu() -> None:
    node = helper.make_node("NoisyRelu", ["X"], ["Y"], domain="com.microsoft", mean=1.5, variance=0.0)
    ends = [tensor("X", [5]), tensor("Y", [5])]
    whole = data([node], ends[:1], ends[1:], domains={"com.microsoft": 1})

    def noisy_relu(x: np.ndarray, mean: float = 0.0, variance: float = 1.0) -> np.ndarray:
        noise = np.random.default_rng(0).normal(mean, variance**0.5, x.shape).astype(np.float32)
        return np.maximum(x + noise, 0)

    operator = CustomOperator(noisy_relu, "NoisyRelu", "com.microsoft", outputs=[FLOATS])
    x = np.float32([-50, -1, 0, 1, 50])
    np.testing.assert_array_equal(evaluate(whole, operator, X=x)["Y"], [0, 0.5, 1.5, 2.5, 51.5])


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario20bLoadBindEvalReplacementCustomOperatorCPU")
def test_a_replaced_relu() -> None:
    calls = []

    def relu(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        return np.maximum(x, 0)

    operator = CustomOperator(relu, "Relu", "", outputs=[FLOATS])
    x = np.float32([-50, -25, 0, 25, 50])
    np.testing.assert_array_equal(evaluate(winml_models.relu(), operator, X=x)["Y"], [0, 0, 0, 25, 50])
    assert len(calls) == 1


@pytest.mark.winml("CustomOpsScenarioTest.CustomKernelWithBuiltInSchema")
def test_a_kernel_for_an_operator_of_onnx() -> None:
    """A kernel is registered as "Mul" and adds: so it is the one that runs."""
    node = helper.make_node("Mul", ["X", "X"], ["Y"])
    whole = data([node], [tensor("X", [3, 2])], [tensor("Y", [3, 2])], opset=7, ir_version=3)
    operator = CustomOperator(lambda a, b: a + b, "Mul", "", outputs=[(np.float32, 2)])
    x = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    found = evaluate(whole, operator, X=x)["Y"]
    assert found.shape == (3, 2)
    np.testing.assert_array_equal(found, x + x)


@pytest.mark.winml("CustomOpsScenarioTest.CustomKernelWithCustomSchema")
@pytest.mark.parametrize("has_attributes", [True, False])
@pytest.mark.parametrize("rank", [2, None])
def test_a_kernel_and_a_schema_of_the_program(has_attributes: bool, rank: int | None) -> None:
    """Attributes with defaults; two outputs of different types, whose sizes a later node and the outputs leave free."""
    given = {"DefaultedNonRequiredInt": 7, "NonDefaultedNonRequiredString": "text"} if has_attributes else {}
    nodes = [
        helper.make_node("Foo", ["X"], ["a", "Count"], domain="com.microsoft.test", **given),
        helper.make_node("Neg", ["a"], ["Y"]),
    ]
    ends = [tensor("Y", [None, None]), tensor("Count", [1], INT64)]
    whole = data(nodes, [tensor("X", [3, 2])], ends, domains={"com.microsoft.test": 1})

    def foo(x: np.ndarray, DefaultedNonRequiredInt: int = 1, **others: str) -> tuple[np.ndarray, np.ndarray]:  # noqa: N803
        assert others == ({"NonDefaultedNonRequiredString": "text"} if has_attributes else {})
        return x[:2] * np.float32(DefaultedNonRequiredInt), np.int64([x.size])

    outputs = [(np.float32, rank), (np.int64, 1)]
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = evaluate(whole, CustomOperator(foo, "Foo", "com.microsoft.test", outputs=outputs), X=x)
    np.testing.assert_array_equal(found["Y"], -x[:2] * (7 if has_attributes else 1))
    assert found["Count"].tolist() == [6]
    truncated = CustomOperator(
        lambda x, **_: (x[0], np.int64([1])), "Foo", "com.microsoft.test", outputs=[(np.float32, 2), (np.int64, 1)]
    )
    with pytest.raises(EvaluationError, match="returned float32 of rank 1 as 'a', but declares float32 of rank 2"):
        evaluate(whole, truncated, X=x)


@pytest.mark.winml("AdapterSessionTest.RegisterCustomRegistry")
def test_a_registry_beside_a_model_that_needs_none() -> None:
    operator = CustomOperator(np.negative, "NoisyRelu", "com.microsoft", outputs=[FLOATS])
    whole = winml_models.candy("Bgr8")
    picture = ImageFeatureValue.load(PICTURES / "cat.jpg")
    results = []
    for provider in (Provider(operator), None):
        session = LearningModelSession(LearningModel.load_from_stream(winml_models.open_stream(whole), provider))
        binding = LearningModelBinding(session)
        binding.bind(session.model.input_features[0].name, picture)
        results.append(next(iter(session.evaluate(binding, "").outputs.values())))
    first, second = (value.video_frame.software_bitmap.to_numpy() for value in results)
    np.testing.assert_array_equal(first, second)
