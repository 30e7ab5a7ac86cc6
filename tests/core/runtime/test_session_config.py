"""Entries of ONNX Runtime's own session configuration: they reach it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.cli import call
from helpers.models import unary
from helpers.paths import MODELS, PICTURES
from helpers.sessions import open_session
from winml_py import (
    InvalidArgumentError,
    LearningModelBinding,
    LearningModelSessionOptions,
    NotSupportedError,
    WinMLError,
)


def test_entries_reach_the_runtime_last_of_all(natives: list[Any]) -> None:
    entries = {"session.disable_prepacking": True, "session.intra_op.allow_spinning": "0", "ep.any.thing": 7}
    session = open_session(unary("Neg", [3]), session_config=entries, intra_op_thread_spinning=True)
    native = natives[-1]().get_session_options()
    assert native.get_session_config_entry("session.disable_prepacking") == "1"
    assert native.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert native.get_session_config_entry("ep.any.thing") == "7"
    result = session.evaluate_features({"x": np.float32([1, 2, 3])}).outputs["y"].to_numpy()
    assert result.tolist() == [-1, -2, -3]


def test_another_engine_takes_none(openvino: object) -> None:
    config = {"session.disable_prepacking": "1"}
    with pytest.raises(NotSupportedError, match=r"openvino does not support the settings in options\.session_config"):
        open_session(unary("Neg", [3]), engine="openvino", session_config=config)


def test_they_are_kept_in_files_of_options(tmp_path: Path) -> None:
    options = LearningModelSessionOptions()
    options.session_config = {"session.disable_prepacking": True}
    options.save(tmp_path / "options.json")
    facts = json.loads((tmp_path / "options.json").read_text())
    assert facts["options"]["session_config"] == {"session.disable_prepacking": "1"}
    assert LearningModelSessionOptions.load(tmp_path / "options.json").session_config == options.session_config
    words = ["run", MODELS / "digits.onnx", PICTURES / "seven.png", "--settings", tmp_path / "options.json"]
    assert call(*words).exit_code == 0


def test_entries_of_runs_reach_every_run() -> None:
    """The runtime refuses to shrink an arena that is not there: an evaluation says so, however it is made."""
    session = open_session(unary("Neg", [3]), run_config={"memory.enable_memory_arena_shrinkage": "gpu:7"})
    array = np.float32([1, 2, 3])
    binding = LearningModelBinding(session)
    binding.bind("x", array)
    for evaluate in (lambda: session.evaluate_features({"x": array}), lambda: session.evaluate(binding)):
        with pytest.raises(WinMLError, match="gpu:7"):
            evaluate()


@pytest.mark.parametrize("isolation", [None, "process"])
def test_the_log_is_written_from_its_severity_on(
    capfdbinary: pytest.CaptureFixture[bytes], isolation: str | None
) -> None:
    words = "Session successfully initialized"  # of the severity "info"

    def is_in(told: bytes) -> bool:
        return words.encode() in told or words.encode("utf-16-le") in told  # which it writes on Windows

    for severity, is_told in (("fatal", False), ("warning", False), ("info", True)):
        with open_session(unary("Neg", [3]), log_severity=severity, isolation=isolation) as session:
            session.evaluate_features({"x": np.float32([1, 2, 3])})
            told = capfdbinary.readouterr().err
            deadline = time.monotonic() + 20
            while is_told and not is_in(told) and time.monotonic() < deadline:  # another process's come later
                time.sleep(0.01)
                told += capfdbinary.readouterr().err
        assert is_in(told) is is_told
    with pytest.raises(InvalidArgumentError, match=r"severity cannot be 'loud'.*verbose, info, warning, error, fatal"):
        LearningModelSessionOptions().log_severity = "loud"
