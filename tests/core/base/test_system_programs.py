"""Whole programs in a Python that lacks what the Python of Windows or macOS lacks: `tests/systems/sitecustomize.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.models import FLOAT, data, tensor
from helpers.paths import MODELS, PICTURES, ROOT

PROGRAM = """
import os, sys, json
import numpy as np
from winml_py import *
from winml_py.core.cache import records, folders

found = {}
with LearningModelSession(LearningModel.load(sys.argv[1])) as session:
    binding = LearningModelBinding(session)
    binding.bind("image", ImageFeatureValue.load(sys.argv[2]))
    found["top"] = session.evaluate(binding).top_k(1)[0].index
    found["many"] = [result.top_k(1)[0].index for result in session.evaluate_many([sys.argv[2]] * 3)]

records.write("a" * 40, {"said": "it"})  # the cache
with records.lock("b" * 40) as is_alone:
    found["alone"] = is_alone
found["said"] = records.read("a" * 40)["said"]

x = np.random.default_rng(0).random((1, 2304), np.float32)
model = LearningModel.load(sys.argv[3])
with LearningModelSession(model) as session:  # a saved graph: written, then opened
    first = session.evaluate_features({"x": x})["y"].to_numpy().copy()
with LearningModelSession(model) as session:
    found["equal"] = bool((session.evaluate_features({"x": x})["y"].to_numpy() == first).all())
    found["saved"] = len(folders.list_saved_models())
    found["removed while it is mapped"] = folders.clear()
    found["equal again"] = bool((session.evaluate_features({"x": x})["y"].to_numpy() == first).all())
found["removed"] = folders.clear()
found["left"] = len(list(records.find_folder().iterdir())) - len(records.list_files(".*"))

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
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "systems"), str(ROOT)]),
        "WINML_PY_TEST_SYSTEM": system,
    }
    words = [sys.executable, *map(str, command)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)


real_linux = pytest.mark.skipif(
    sys.platform != "linux" or "WINML_PY_TEST_SYSTEM" in os.environ, reason="the substitutes need Linux below them"
)


@pytest.mark.exhaustive
@real_linux
@pytest.mark.parametrize("system", ["windows", "macos"])
def test_a_program(system: str, large_model: Path) -> None:
    done = run_there(system, "-c", PROGRAM, MODELS / "digits.onnx", PICTURES / "seven.png", large_model)
    assert done.returncode == 0, done.stderr
    is_windows = system == "windows"
    assert json.loads(done.stdout) == {
        "top": 7,
        "many": [7, 7, 7],
        "alone": True,
        "said": "it",
        "saved": 1,
        "equal": True,
        "equal again": True,
        "removed while it is mapped": 0 if is_windows else 1,
        "removed": 1 if is_windows else 0,
        "left": 0,
        "isolated": [7, 7, 7],
        "devices": "cpu",
    }


@pytest.mark.exhaustive
@real_linux
@pytest.mark.parametrize("system", ["windows", "macos"])
def test_the_command_line(system: str) -> None:
    program = "from winml_py.cli.main import main; main()"
    done = run_there(system, "-c", program, "run", MODELS / "digits.onnx", PICTURES / "seven.png", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "run"
    done = run_there(system, "-c", program, "doctor", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert facts["system"].startswith("Windows 11 AMD64" if system == "windows" else "Darwin 25.0.0 arm64")
    assert facts["cores"]["control_group"] is None
    assert facts["devices"][0]["hardware"] == "cpu"
    assert not any("problem" in device for device in facts["devices"])


@real_linux
def test_the_substitute_refuses_what_windows_refuses(tmp_path: Path) -> None:
    """Else the runs above would show nothing."""
    program = """
import os, sys, mmap
folder = sys.argv[1]
def refused(act):
    try:
        act()
    except (PermissionError, FileExistsError) as error:
        return type(error).__name__
    return ""
def made(name, text="1"):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
first, second = made("first"), made("second")
said = []
with open(first, "rb") as file:
    said += [refused(lambda: os.unlink(first)), refused(lambda: os.replace(second, first))]
    said += [refused(lambda: os.replace(first, second)), refused(lambda: os.rename(folder, folder + "2"))]
with open(first, "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
said.append(refused(lambda: os.remove(first)))
mapped.close()
said.append(refused(lambda: os.rename(second, first)))
os.chmod(first, 0o400)
said += [refused(lambda: os.remove(first)), refused(lambda: os.replace(second, first))]
os.chmod(first, 0o600)
said += [refused(lambda: os.replace(second, first)), refused(lambda: os.remove(first))]
print(*said, sep=",")
"""
    done = run_there("windows", "-c", program, tmp_path)
    assert done.returncode == 0, done.stderr
    refusals = ["PermissionError"] * 5 + ["FileExistsError"] + ["PermissionError"] * 2 + ["", ""]
    assert done.stdout.strip().split(",") == refusals


@real_linux
def test_the_substitute_lacks_what_is_missing() -> None:
    program = """
from winml_py.core.base import child_process, machine
from winml_py.core.runtime.isolated import system
print(child_process.os.name, machine.sys.platform, hasattr(child_process.os, "register_at_fork"))
print(hasattr(machine.os, "geteuid"), hasattr(system.os, "memfd_create"))
print(repr(machine.read_group_file("/proc/self/cgroup")))
"""
    done = run_there("windows", "-c", program)
    assert done.stdout.split() == ["nt", "win32", "False", "False", "False", "''"], done.stderr
