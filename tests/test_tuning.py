"""Tuning: every setting reaches ONNX Runtime, and none changes a result."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import onnxruntime
import pytest
from conftest import MODELS, ROOT

from winml_py import InvalidArgumentError, LearningModel, LearningModelSession, LearningModelSessionOptions, Tuning

CHANGED: dict[str, Any] = {
    "execution_mode": "parallel",
    "inter_op_num_threads": 2,
    "graph_optimization": "basic",
    "memory_arena": False,
    "arena_shrinkage": True,
    "memory_pattern": False,
    "prepacking": False,
    "dynamic_block_base": 4,
    "denormals_as_zero": True,
}


TOGETHER = [name for name in CHANGED if name != "arena_shrinkage"]


def session(tuning: Tuning) -> LearningModelSession:
    options = LearningModelSessionOptions()
    options.tuning = tuning
    return LearningModelSession(LearningModel.load(MODELS / "digits.onnx"), None, options)


def test_every_setting_is_tried_below() -> None:
    assert set(CHANGED) == {field.name for field in dataclasses.fields(Tuning)}
    assert all(getattr(Tuning(), name) != value for name, value in CHANGED.items())


@pytest.mark.parametrize("names", [*([name] for name in CHANGED), TOGETHER], ids="-".join)
def test_results_stay_the_same(names: list[str]) -> None:
    image = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    tuned = session(Tuning(**{name: CHANGED[name] for name in names}))
    for _ in range(3):
        came = tuned.evaluate_features({"image": image}).outputs["probabilities"].to_numpy()
        expected = session(Tuning()).evaluate_features({"image": image}).outputs["probabilities"].to_numpy()
        np.testing.assert_allclose(came, expected, atol=1e-6)


def test_settings_reach_the_runtime() -> None:
    opened = session(Tuning(**{name: CHANGED[name] for name in TOGETHER}))
    native = opened._engine()._session.get_session_options()  # type: ignore[attr-defined]
    assert native.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert native.inter_op_num_threads == 2
    assert native.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert not native.enable_cpu_mem_arena
    assert not native.enable_mem_pattern
    entries = {
        "session.disable_prepacking": "1",
        "session.dynamic_block_base": "4",
        "session.set_denormal_as_zero": "1",
    }
    assert {key: native.get_session_config_entry(key) for key in entries} == entries


@pytest.mark.parametrize("level", ["none", "basic", "extended", "layout", "all"])
def test_every_level_is_one_of_the_runtimes(level: str) -> None:
    opened = session(Tuning(graph_optimization=level))
    native = opened._engine()._session  # type: ignore[attr-defined]
    came = native.get_session_options().graph_optimization_level.name
    assert came == ("ORT_DISABLE_ALL" if level == "none" else f"ORT_ENABLE_{level.upper()}")


def test_sessions_of_equal_tuning_share_an_engine() -> None:
    model = LearningModel.load(MODELS / "digits.onnx")
    engines = []
    for arena in (True, True, False):
        options = LearningModelSessionOptions()
        options.tuning = Tuning(memory_arena=arena)
        engines.append(LearningModelSession(model, None, options)._engine())
    assert engines[0] is not engines[2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"execution_mode": "fast"},
        {"graph_optimization": 99},
        {"inter_op_num_threads": -1},
        {"inter_op_num_threads": 5000},
        {"dynamic_block_base": True},
        {"memory_arena": 1},
        {"prepacking": "no"},
        {"arena_shrinkage": True, "memory_arena": False},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        Tuning(**wrong)
    options = LearningModelSessionOptions()
    with pytest.raises(InvalidArgumentError, match="tuning"):
        options.tuning = wrong  # type: ignore[assignment]


def test_the_page_on_tuning_names_every_setting() -> None:
    page = (ROOT / "docs" / "tuning.md").read_text()
    settings = {f"tuning.{name}" for name in CHANGED}
    settings |= {"intra_op_num_threads", "intra_op_thread_spinning", "engine", "precision", "provider_options"}
    settings |= {"graph_capture", "allow_cpu_fallback"}
    assert settings <= set(re.findall(r"`(?:options\.)?([a-z_.]+)`", page))
