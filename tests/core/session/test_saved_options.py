"""Session options in a file: `save`, `load`, and files that hold none."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.models import unary
from winml_py import (
    InvalidArgumentError,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    Precision,
    Tuning,
    Weights,
)
from winml_py.errors import StorageNotFoundError


def test_options_come_back_from_a_file(tmp_path: Path) -> None:
    options = LearningModelSessionOptions()
    options.batch_size_override = 3
    options.override_named_dimension("rows", 7)
    options.intra_op_num_threads = 2
    options.intra_op_thread_spinning = False
    options.engine, options.precision = "openvino", Precision.BFLOAT16
    options.tuned_for = {"model": "0123"}
    options.provider_options = {"device_id": 1}
    options.graph_capture, options.allow_cpu_fallback = False, False
    options.close_model_on_session_creation, options.profiling = True, True
    options.weights, options.tuning = Weights.PRIVATE, Tuning(memory_arena=False, memory_pattern=False)
    options.save(tmp_path / "options.json")
    back = LearningModelSessionOptions.load(tmp_path / "options.json")
    assert back.to_dict() == options.to_dict()
    known = {name for name in vars(LearningModelSessionOptions) if isinstance(getattr(type(options), name), property)}
    known -= {"named_dimension_overrides"}  # which are set one by one
    assert known <= set(options.to_dict())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"kind": "session-options"}',
        '{"schema_version": 1, "kind": "perf", "options": {}}',
        '{"schema_version": 2, "kind": "session-options", "options": {}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"colour": 1}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"precision": "quarter"}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"precision": 3}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"tuning": {"speed": 9}}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"profiling": "no"}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"named_dimension_overrides": {"\\ud800": 3}}}',
        "[" * 100_000,
        '{"schema_version": 1, "kind": "session-options", "options": {"intra_op_num_threads": -1}}',
    ],
)
def test_files_that_hold_no_options(tmp_path: Path, text: str) -> None:
    (tmp_path / "options.json").write_text(text)
    with pytest.raises(InvalidArgumentError):
        LearningModelSessionOptions.load(tmp_path / "options.json")


def test_options_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageNotFoundError):
        LearningModelSessionOptions.load(tmp_path / "missing.json")
    with pytest.raises(StorageNotFoundError):
        LearningModelSessionOptions().save(tmp_path / "missing" / "options.json")


def test_a_session_takes_loaded_options(tmp_path: Path) -> None:
    options = LearningModelSessionOptions()
    options.intra_op_num_threads = 1
    options.save(tmp_path / "options.json")
    loaded = LearningModelSessionOptions.load(tmp_path / "options.json")
    session = LearningModelSession(LearningModel.load(unary("Neg", [2])), None, loaded)
    assert session.get_intra_op_num_threads() == 1
