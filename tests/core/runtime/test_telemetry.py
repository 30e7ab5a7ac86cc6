"""ONNX Runtime's telemetry is off unless the user turns it on: what new processes leave on the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import MODELS, PICTURES

KEPT = ("PATH", "VK_ICD_FILENAMES", "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "SYSTEMROOT")

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


def run(home: Path, *arguments: str, **variables: str) -> str:
    """Runs Python with an empty home and nothing in the environment by which ONNX Runtime would know a CI."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"HOME": str(home), "LOCALAPPDATA": str(home), "TMPDIR": str(home), "TEMP": str(home)}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "MESA_SHADER_CACHE_DISABLE": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment | variables, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def left(home: Path) -> list[Path]:
    """The files that are not in the cache folder of winml-py."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return [path.relative_to(home) for path in files if "winml-py" not in path.relative_to(home).parts]


def names_the_node(home: Path) -> bool:
    return any(b"SecretNode" in (home / path).read_bytes() for path in left(home))


@pytest.fixture
def collects(tmp_path: Path) -> None:
    """Skips where this build of ONNX Runtime leaves nothing on the disk: there, a clean disk shows nothing."""
    raw = tmp_path / "raw"
    raw.mkdir()
    run(raw, "-c", FAILING + RAW)
    if not names_the_node(raw):
        pytest.skip("this build of ONNX Runtime keeps no events on the disk")


def test_a_session_leaves_nothing(collects: None, home: Path) -> None:
    run(home, "-c", FAILING + OURS)
    assert left(home) == []


def test_the_users_own_setting_is_left_alone(collects: None, home: Path) -> None:
    run(home, "-c", FAILING + OURS, ORT_DISABLE_TELEMETRY="0")
    assert names_the_node(home)


def test_a_runtime_that_was_imported_before_gets_no_names(collects: None, home: Path) -> None:
    """Its files are there by then."""
    run(home, "-c", FAILING + "import onnxruntime" + OURS)
    assert left(home) != []
    assert not names_the_node(home)


@pytest.mark.once
def test_commands_and_child_processes_leave_nothing(collects: None, home: Path) -> None:
    """`doctor` tries every plugin and every device in a process of its own."""
    digits, seven = str(MODELS / "digits.onnx"), str(PICTURES / "seven.png")
    for words in (["run", digits, seven], ["perf", digits, "-n", "1"], ["doctor"]):
        assert run(home, "-c", "from winml_py.cli.main import main; main()", *words) != ""
    assert left(home) == []
