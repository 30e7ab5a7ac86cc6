"""Tuning: every setting reaches ONNX Runtime, and none changes a result."""

from __future__ import annotations

import dataclasses
import gc
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.paths import MODELS, ROOT
from helpers.sessions import open_session
from winml_py import InvalidArgumentError, LearningModelSessionOptions, Tuning
from winml_py.errors import IllegalCallError, StorageNotFoundError

pytestmark = pytest.mark.usefixtures("all_cores")

CHANGED: dict[str, Any] = {
    "execution_mode": "parallel",
    "inter_op_num_threads": 2,
    "graph_optimization": "basic",
    "memory_arena": False,
    "memory_pattern": False,
}


def test_every_setting_is_tried_below() -> None:
    assert set(CHANGED) == {field.name for field in dataclasses.fields(Tuning)}
    assert all(getattr(Tuning(), name) != value for name, value in CHANGED.items())


@pytest.mark.parametrize("names", [*([name] for name in CHANGED), list(CHANGED)], ids="-".join)
def test_results_stay_the_same(names: list[str]) -> None:
    image = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    tuned = open_session(MODELS / "digits.onnx", tuning=Tuning(**{name: CHANGED[name] for name in names}))
    for _ in range(3):
        came = tuned.evaluate_features({"image": image}).outputs["probabilities"].to_numpy()
        expected = (
            open_session(MODELS / "digits.onnx", tuning=Tuning())
            .evaluate_features({"image": image})
            .outputs["probabilities"]
            .to_numpy()
        )
        np.testing.assert_allclose(came, expected, atol=1e-6)


@pytest.mark.parametrize("level", ["none", "basic", "extended", "layout", "all"])
def test_every_level_is_one_of_the_runtimes(level: str, natives: list[Any]) -> None:
    opened = open_session(MODELS / "digits.onnx", tuning=Tuning(graph_optimization=level))
    assert opened.engine == "onnxruntime"
    came = natives[-1]().get_session_options().graph_optimization_level.name
    assert came == ("ORT_DISABLE_ALL" if level == "none" else f"ORT_ENABLE_{level.upper()}")


@pytest.mark.parametrize(
    "wrong",
    [
        {"execution_mode": "fast"},
        {"graph_optimization": 99},
        {"inter_op_num_threads": -1},
        {"inter_op_num_threads": 5000},
        {"memory_arena": 1},
        {"memory_pattern": "no"},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        Tuning(**wrong)
    options = LearningModelSessionOptions()
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        options.tuning = wrong
    with pytest.raises(InvalidArgumentError, match="Expected a Tuning"):
        options.tuning = list(wrong)  # type: ignore[assignment]


def test_the_page_on_tuning_names_every_setting() -> None:
    page = (ROOT / "docs" / "tuning.md").read_text()
    settings = {f"tuning.{name}" for name in CHANGED}
    settings |= {"intra_op_num_threads", "intra_op_thread_spinning", "engine", "precision", "provider_options"}
    settings |= {"graph_capture", "allow_cpu_fallback", "weights", "profiling"}
    assert settings <= set(re.findall(r"`(?:options\.)?([a-z_.]+)`", page))


def test_a_profile_has_every_node_of_every_evaluation(tmp_path: Path) -> None:
    opened = open_session(MODELS / "digits.onnx", profiling=True)
    image = np.zeros((1, 1, 28, 28), np.float32)
    for _ in range(3):
        opened.evaluate_features({"image": image})
    opened.end_profiling(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())
    kernels = [event for event in events if event["cat"] == "Node" and event["name"].endswith("_kernel_time")]
    nodes = {event["name"] for event in kernels}
    assert len(kernels) == 3 * len(nodes)
    assert {event["args"]["op_name"] for event in kernels} >= {"Conv", "Softmax"}
    assert sum(event["name"] == "model_run" for event in events) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
    opened.end_profiling(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "trace.json").read_bytes()
    assert opened.evaluate_features({"image": image}).succeeded  # goes on


def test_profiles_of_two_sessions_are_apart(tmp_path: Path) -> None:
    first, second = (
        open_session(MODELS / "digits.onnx", profiling=True),
        open_session(MODELS / "digits.onnx", profiling=True),
    )
    first.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
    for name, opened, runs in (("first", first, 1), ("second", second, 0)):
        opened.end_profiling(tmp_path / name)
        events = json.loads((tmp_path / name).read_text())
        assert sum(event["name"] == "model_run" for event in events) == runs


def test_a_profile_that_cannot_be_written_can_be_written_elsewhere(tmp_path: Path) -> None:
    opened = open_session(MODELS / "digits.onnx", profiling=True)
    with pytest.raises(StorageNotFoundError, match=r"folder .* does not exist"):
        opened.end_profiling(tmp_path / "missing" / "trace.json")
    opened.end_profiling(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())


def test_nothing_is_recorded_unless_asked_for(tmp_path: Path) -> None:
    with pytest.raises(IllegalCallError, match=r"options\.profiling = True"):
        open_session(MODELS / "digits.onnx", tuning=Tuning()).end_profiling(tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_session_leaves_no_recording_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opened = open_session(MODELS / "digits.onnx", profiling=True)
    assert len(list(tmp_path.iterdir())) == 1
    opened.close()
    del opened
    gc.collect()
    assert list(tmp_path.iterdir()) == []
