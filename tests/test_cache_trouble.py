"""Trouble with the cache folder is never an error of a session."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import MODELS

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)

CODE = """
import logging, os, sys, tempfile
logging.basicConfig(level=logging.INFO)
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


def run(folder: Path, code: str = CODE, **environment: str) -> subprocess.CompletedProcess[str]:
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
    command = [sys.executable, "-c", code, str(model), "", str(empty)]
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
    """In a folder of this user, made by root: every lock file there is root's, and cannot be opened by others."""
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    lock = cache / f"{'0' * 40}.winml-py.lock"
    lock.touch(mode=0o600)
    os.chown(cache, 54321, 54321)
    patched = CODE.replace("os.chdir", "answers.key_of = lambda *parts: '0' * 40\nos.chdir")
    done = run(tmp_path, patched, WINML_PY_CACHE=str(cache))
    assert (done.returncode, done.stdout) == (0, "(1, 10) []\n"), done.stderr
    assert "Nobody waits for" in done.stderr
    assert list(cache.iterdir()) == [lock]


@pytest.fixture(params=["size=64k", "size=1m,nr_inodes=10", "ro"])
def mounted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A disk without space, without inodes, or read-only."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = f"mode=700,{request.param}"
    if (
        not shutil.which("mount")
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("this process may not mount file systems")
    try:
        with suppress(OSError):
            if "size=64k" in options:
                (disk / "all").write_bytes(bytes(1 << 20))
            for number in range(20 * ("inodes" in options)):
                (disk / str(number)).touch()
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize("under", ["", "cache"])
def test_a_disk_that_takes_nothing(mounted: Path, tmp_path: Path, under: str) -> None:
    before = sorted(path for path in mounted.rglob("*") if path.is_file())
    code = CODE.replace("os.setgid(54321); os.setuid(54321)", "")
    done = run(tmp_path, code, WINML_PY_CACHE=str(mounted / under))
    assert (done.returncode, done.stdout) == (0, "(1, 10) []\n"), done.stderr
    assert any(words in done.stderr for words in ("Nothing is kept in", "Nobody waits for", "No saved graph"))
    assert sorted(path for path in mounted.rglob("*") if path.is_file()) == before
