"""Whole programs on this system; and on macOS, by substitute: `tests/macos/sitecustomize.py`."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.models import FLOAT, data, tensor
from helpers.paths import MODELS, PICTURES, ROOT

pytestmark = pytest.mark.once

PROGRAM = """
import os, sys, json
import numpy as np
from winml_py import *
from winml_py.core import cache

found = {}
with LearningModelSession(LearningModel.load(sys.argv[1])) as session:
    binding = LearningModelBinding(session)
    binding.bind("image", ImageFeatureValue.load(sys.argv[2]))
    found["top"] = session.evaluate(binding).top_k(1)[0].index
    found["many"] = [result.top_k(1)[0].index for result in session.evaluate_many([sys.argv[2]] * 3)]

x = np.random.default_rng(0).random((1, 2304), np.float32)
model = LearningModel.load(sys.argv[3])
with LearningModelSession(model) as session:  # a saved graph: written, then opened
    first = session.evaluate_features({"x": x})["y"].to_numpy().copy()
with LearningModelSession(model) as session:
    found["equal"] = bool((session.evaluate_features({"x": x})["y"].to_numpy() == first).all())
    found["saved"] = len(cache.list_saved_models())
    cache.clear()  # at once, or on Windows perhaps when nobody maps it any more
    found["equal again"] = bool((session.evaluate_features({"x": x})["y"].to_numpy() == first).all())
cache.clear()
found["left"] = len(list(cache.find_folder().iterdir()))

options = LearningModelSessionOptions()
options.isolation = "process"
with LearningModelSession(LearningModel.load(sys.argv[1]), options=options) as session:
    found["isolated"] = [session.evaluate_features({"image": sys.argv[2]}).top_k(1)[0].index for _ in range(2)]
    operation = session.evaluate_features_async({"image": sys.argv[2]})
    found["isolated"].append(operation.get(30).top_k(1)[0].index)
found["devices"] = [device.hardware for device in LearningModelDevice.find_all()][0]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def large_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is worth a saved graph: its weights have 20 MB."""
    from onnx import helper

    weight = np.random.default_rng(0).random((2304, 2304), np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = tmp_path_factory.mktemp("large") / "large.onnx"
    path.write_bytes(data([node], [tensor("x", ["n", 2304], FLOAT)], [tensor("y", ["n", 2304], FLOAT)], {"w": weight}))
    return path


def run_there(system: str, *command: object) -> subprocess.CompletedProcess[str]:
    folders = [ROOT / "tests" / "macos", ROOT] if system == "macos" else [ROOT]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    words = [sys.executable, *map(str, command)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)


on_systems = pytest.mark.parametrize(
    "system",
    [
        "this",
        pytest.param("macos", marks=pytest.mark.skipif(sys.platform != "linux", reason="by substitute, on Linux")),
    ],
)


@on_systems
def test_a_program(system: str, large_model: Path) -> None:
    done = run_there(system, "-c", PROGRAM, MODELS / "digits.onnx", PICTURES / "seven.png", large_model)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "top": 7,
        "many": [7, 7, 7],
        "saved": 1,
        "equal": True,
        "equal again": True,
        "left": 0,
        "isolated": [7, 7, 7],
        "devices": "cpu",
    }


@on_systems
def test_the_command_line(system: str) -> None:
    program = "from winml_py.cli.main import main; main()"
    done = run_there(system, "-c", program, "run", MODELS / "digits.onnx", PICTURES / "seven.png", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "run"
    done = run_there(system, "-c", program, "doctor", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert facts["system"] == (
        "Darwin 25.0.0 arm64" if system == "macos" else f"{platform.system()} {platform.release()} {platform.machine()}"
    )
    assert facts["devices"][0]["hardware"] == "cpu"
    assert not any("problem" in device for device in facts["devices"])


@pytest.mark.skipif(sys.platform != "linux", reason="the substitute is of Linux")
def test_the_substitute_lacks_what_is_missing() -> None:
    program = """
from winml_py.core.base import child_process, machine
from winml_py.core.runtime.isolated import system
print(machine.sys.platform, hasattr(machine.os, "sched_getaffinity"), hasattr(system.os, "memfd_create"))
print(repr(machine.read_group_file("/proc/self/cgroup")))
"""
    done = run_there("macos", "-c", program)
    assert done.stdout.split() == ["darwin", "False", "False", "''"], done.stderr
