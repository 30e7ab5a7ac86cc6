"""The fake device that is shipped for app developers' own tests."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.models import unary
from winml_py import (
    ClosedError,
    EvaluationError,
    LearningModel,
    LearningModelSession,
    TensorFloat,
)
from winml_py.core.base.winrt_object import private_state
from winml_py.core.runtime.runs import Bound
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
    engine = private_state(session).engine
    session.close()
    with pytest.raises(ClosedError):
        engine.run(Bound({"x": np.zeros(1, np.float32)}))


def test_a_function_that_gives_nonsense_is_told() -> None:
    session = LearningModelSession(LearningModel.load(unary()), FakeDevice(lambda inputs: {"y": "text"}))  # type: ignore[dict-item]
    with pytest.raises(EvaluationError, match="unexpected evaluation output"):
        session.evaluate_features({"x": np.zeros(1, np.float32)})
