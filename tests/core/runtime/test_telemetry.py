"""ONNX Runtime's telemetry is off unless the user turns it on: what new processes leave on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.homes import find_left, run_at_home
from helpers.paths import MODELS, PICTURES

FAILING = """
import sys
import numpy as np
from onnx import TensorProto, helper
def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)
node = helper.make_node("Reshape", ["x", "shape"], ["y"], name="SecretNode")
inputs = [value("x", TensorProto.FLOAT, ["n"]), value("shape", TensorProto.INT64, [1])]
graph = helper.make_graph([node], "secret", inputs, [value("y", TensorProto.FLOAT, None)])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
feeds = {"x": np.zeros(3, np.float32), "shape": np.array([7])}
"""
RAW = """
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as errors
onnxruntime.set_default_logger_severity(4)
try:
    onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
except (errors.Fail, errors.RuntimeException):
    sys.exit(0)
"""
OURS = """
from winml_py import LearningModel, LearningModelSession, WinMLError
try:
    LearningModelSession(LearningModel.load(model)).evaluate_features(feeds)
except WinMLError:
    sys.exit(0)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def names_the_node(home: Path) -> bool:
    return any(b"SecretNode" in (home / path).read_bytes() for path in find_left(home))


@pytest.fixture
def collects(tmp_path: Path) -> None:
    """Skips where this build of ONNX Runtime leaves nothing on the disk: there, a clean disk shows nothing."""
    raw = tmp_path / "raw"
    raw.mkdir()
    run_at_home(raw, "-c", FAILING + RAW)
    if not names_the_node(raw):
        pytest.skip("this build of ONNX Runtime keeps no events on the disk")


@pytest.mark.posix("ONNX Runtime for Windows writes its events to no file")
def test_a_session_leaves_nothing(collects: None, home: Path) -> None:
    run_at_home(home, "-c", FAILING + OURS)
    assert find_left(home) == []


@pytest.mark.posix("ONNX Runtime for Windows writes its events to no file")
def test_the_users_own_setting_is_left_alone(collects: None, home: Path) -> None:
    run_at_home(home, "-c", FAILING + OURS, ORT_DISABLE_TELEMETRY="0")
    assert names_the_node(home)


@pytest.mark.posix("ONNX Runtime for Windows writes its events to no file")
def test_a_runtime_that_was_imported_before_gets_no_names(collects: None, home: Path) -> None:
    """Its files are there by then."""
    run_at_home(home, "-c", FAILING + "import onnxruntime" + OURS)
    assert find_left(home) != []
    assert not names_the_node(home)


@pytest.mark.exhaustive
@pytest.mark.posix("ONNX Runtime for Windows writes its events to no file")
def test_commands_and_child_processes_leave_nothing(collects: None, home: Path) -> None:
    """`doctor` tries every plugin and every device in a process of its own."""
    digits, seven = str(MODELS / "digits.onnx"), str(PICTURES / "seven.png")
    for words in (["run", digits, seven], ["perf", digits, "-n", "1"], ["doctor"]):
        assert run_at_home(home, "-c", "from winml_py.cli.main import main; main()", *words) != ""
    assert find_left(home) == []
