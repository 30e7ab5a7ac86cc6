"""ConcurrencyTests: many threads, and several evaluations at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from helpers import reference, winml_models
from winml_py import LearningModelBinding, LearningModelSession
from winml_py.winrt.windows.ai.machinelearning import LearningModel

pytestmark = pytest.mark.usefixtures("all_cores")

THREADS, ROUNDS = 10, 20
NAMES = ("cat", "fish")


def expected(name: str) -> np.ndarray:
    image = winml_models.make_planes(winml_models.load_picture(name, 224, 224))
    scores: np.ndarray = reference.run_raw(winml_models.squeezenet(), {"data_0": image})["softmaxout_1"]
    return scores


def on_threads(work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(THREADS)))


@pytest.mark.winml("ConcurrencyTests.MultiThreadLoadModel")
def test_multi_thread_load_model(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(winml_models.squeezenet())
    assert on_threads(lambda _: LearningModel.load(path).name) == ["test graph"] * THREADS


def evaluate(session: LearningModelSession, frames: dict[str, Any], answers: dict[str, Any]) -> int:
    right = 0
    for index in range(ROUNDS):
        name = NAMES[index % 2]
        binding = LearningModelBinding(session)
        binding.bind("data_0", frames[name])
        result = session.evaluate(binding, "").outputs["softmaxout_1"].to_numpy()
        right += bool(np.abs(result - answers[name]).max() < 1e-3)
    return right


@pytest.mark.winml("ConcurrencyTests.MultiThreadMultiSession", "ConcurrencyTests.MultiThreadSingleSession")
@pytest.mark.parametrize("is_shared", [False, True])
def test_multi_thread(is_shared: bool) -> None:
    frames = {name: winml_models.make_frame(winml_models.load_picture(name, 224, 224)) for name in NAMES}
    answers = {name: expected(name) for name in NAMES}
    model = LearningModel.load(winml_models.squeezenet())
    shared = LearningModelSession(model) if is_shared else None
    assert on_threads(lambda _: evaluate(shared or LearningModelSession(model), frames, answers)) == [ROUNDS] * THREADS


@pytest.mark.winml(
    "ConcurrencyTests.EvalAsyncDifferentModels",
    "ConcurrencyTests.EvalAsyncDifferentSessions",
    "ConcurrencyTests.EvalAsyncDifferentBindings",
)
@pytest.mark.parametrize("differ", ["models", "sessions", "bindings"])
def test_eval_async(differ: str) -> None:
    names = ["cat", "fish", "cat"]
    model = LearningModel.load(winml_models.squeezenet())
    if differ == "models":
        sessions = [winml_models.open_session(winml_models.squeezenet()) for _ in names]
    elif differ == "sessions":
        sessions = [LearningModelSession(model) for _ in names]
    else:
        sessions = [LearningModelSession(model)] * len(names)

    async def run() -> list[Any]:
        operations = []
        for session, name in zip(sessions, names, strict=True):
            binding = LearningModelBinding(session)
            binding.bind("data_0", winml_models.make_frame(winml_models.load_picture(name, 224, 224)))
            operations.append(session.evaluate_async(binding, name))
        return [await operation for operation in operations]

    for result, name in zip(asyncio.run(run()), names, strict=True):
        assert result.correlation_id == name
        np.testing.assert_allclose(result.outputs["softmaxout_1"].to_numpy(), expected(name), atol=1e-3)
