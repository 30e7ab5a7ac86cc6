"""Trouble with the cache folder is never an error of a session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import MODELS

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)

CODE = """
import os, sys, tempfile
import filelock, numpy as np, platformdirs.unix
from winml_py import LearningModel, LearningModelSession
from winml_py.cache import answers
from winml_py.runtime.ort import saved_graph
saved_graph.MAPPED_FROM = 0  # so that even a small model asks the cache

def evaluate():
    session = LearningModelSession(LearningModel.load(sys.argv[1]))
    outputs = session.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)}).outputs
    return outputs["probabilities"].shape

asked = os.environ.pop("WINML_PY_CACHE", None)
with tempfile.TemporaryDirectory() as os.environ["WINML_PY_CACHE"]:
    evaluate()  # it loads all modules, whose folder the other user may not read
del os.environ["WINML_PY_CACHE"]
if asked is not None:
    os.environ["WINML_PY_CACHE"] = asked
os.chdir(sys.argv[3])
os.setgid(54321); os.setuid(54321)  # no such user
print(evaluate(), os.listdir("."))
"""


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME", "WINML_PY_CACHE")}
    base |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    model = folder / "digits.onnx"
    model.write_bytes((MODELS / "digits.onnx").read_bytes())
    model.chmod(0o644)
    for parent in (folder, *folder.parents):
        if str(parent).startswith("/tmp/") and parent.stat().st_uid == 0:
            parent.chmod(parent.stat().st_mode | 0o055)
    empty = folder / "empty"
    empty.mkdir()
    empty.chmod(0o777)
    command = [sys.executable, "-c", CODE, str(model), "", str(empty)]
    return subprocess.run(command, capture_output=True, text=True, env=base, check=False)


def test_a_user_without_a_home_and_without_an_entry(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (0, "(1, 10) []\n"), done.stderr


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_folder_of_another_user(tmp_path: Path, mode: int) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(mode)
    done = run(tmp_path, WINML_PY_CACHE=str(cache))
    assert (done.returncode, done.stdout) == (0, "(1, 10) []\n"), done.stderr
    assert list(cache.iterdir()) == []


def test_a_lock_file_of_another_user(tmp_path: Path) -> None:
    """Every lock file there is root's, and cannot be opened by others."""
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    lock = cache / f"{'0' * 40}.lock"
    lock.touch()
    lock.chmod(0o600)
    patched = CODE.replace("os.chdir", "answers.key_of = lambda *parts: '0' * 40\nos.chdir")
    model = tmp_path / "digits.onnx"
    run(tmp_path, WINML_PY_CACHE="")  # opens the folders to others
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "WINML_PY_CACHE": str(cache),
    }
    command = [sys.executable, "-c", patched, str(model), str(cache), str(tmp_path / "empty")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, "(1, 10) []\n"), done.stderr
