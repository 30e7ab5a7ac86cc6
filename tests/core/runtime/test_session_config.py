"""Entries of ONNX Runtime's own session configuration: they reach it, or are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.cli import call
from helpers.models import unary
from helpers.paths import MODELS, PICTURES
from helpers.sessions import open_session
from winml_py import InvalidArgumentError, LearningModelSessionOptions, NotSupportedError
from winml_py.core.base.winrt_object import inside
from winml_py.core.runtime.ort import session_options


def test_entries_reach_the_runtime_last_of_all() -> None:
    entries = {"session.disable_prepacking": True, "session.intra_op.allow_spinning": "0", "ep.any.thing": 7}
    session = open_session(unary("Neg", [3]), session_config=entries, intra_op_thread_spinning=True)
    native = inside(session).engine._session.get_session_options()  # type: ignore[attr-defined]
    assert native.get_session_config_entry("session.disable_prepacking") == "1"
    assert native.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert native.get_session_config_entry("ep.any.thing") == "7"
    result = session.evaluate_features({"x": np.float32([1, 2, 3])}).outputs["y"].to_numpy()
    assert result.tolist() == [-1, -2, -3]


@pytest.mark.parametrize("key", ["session.disable_prepackings", "disable_prepacking", "", "session."])
def test_a_key_that_the_runtime_does_not_have_is_refused(key: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"ONNX Runtime \d.* has no session configuration"):
        open_session(unary("Neg", [3]), session_config={key: "1"})


def test_what_is_looked_for_is_in_the_runtimes_own_library() -> None:
    """Keys of its documentation that versions from 1.24 on have."""
    for key in ("session.dynamic_block_base", "session.disable_prepacking", "session.set_denormal_as_zero"):
        assert session_options._is_in_runtime(key)
    assert not session_options._is_in_runtime("session.dynamic_block_bases")


def test_another_engine_takes_none(openvino: object) -> None:
    config = {"session.disable_prepacking": "1"}
    with pytest.raises(NotSupportedError, match=r"openvino takes none of the settings in options\.session_config"):
        open_session(unary("Neg", [3]), engine="openvino", session_config=config)
    explained = open_session(unary("Neg", [3]), engine="auto", session_config=config).explain()
    assert "openvino takes none of the settings in options.session_config" in str(explained)


def test_they_are_kept_in_files_of_options(tmp_path: Path) -> None:
    options = LearningModelSessionOptions()
    options.session_config = {"session.disable_prepacking": True}
    options.save(tmp_path / "options.json")
    facts = json.loads((tmp_path / "options.json").read_text())
    assert facts["options"]["session_config"] == {"session.disable_prepacking": "1"}
    assert LearningModelSessionOptions.load(tmp_path / "options.json").session_config == options.session_config
    words = ["run", MODELS / "digits.onnx", PICTURES / "seven.png", "--settings", tmp_path / "options.json"]
    assert call(*words).exit_code == 0
    facts["options"]["session_config"] = {"session.no_such_thing": "1"}
    (tmp_path / "options.json").write_text(json.dumps(facts))
    result = call(*words)
    assert result.exit_code == 4
    assert "has no session configuration 'session.no_such_thing'" in result.stderr
