"""Trouble with the cache folder is never an error of a session."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from helpers.paths import MODELS

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"),
    pytest.mark.exhaustive,
]

CODE = """
import logging, os, sys, tempfile
logging.basicConfig(level=logging.INFO)
import numpy as np, platformdirs.unix
from winml_py import LearningModel, LearningModelSession
from winml_py.core import cache
from winml_py.core.runtime.ort import saved_graph
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


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users can enter. Those of pytest's `tmp_path` are closed again by each pytest that starts."""
    with tempfile.TemporaryDirectory(prefix="cache-trouble-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def run(folder: Path, code: str = CODE, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME", "WINML_PY_CACHE")}
    base |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    model = folder / "digits.onnx"
    model.write_bytes((MODELS / "digits.onnx").read_bytes())
    model.chmod(0o644)
    empty = folder / "empty"
    empty.mkdir()
    empty.chmod(0o777)
    command = [sys.executable, "-c", code, str(model), "", str(empty)]
    return subprocess.run(command, capture_output=True, text=True, env=base, check=False)


def test_a_user_without_a_home_and_without_an_entry(place: Path) -> None:
    done = run(place)
    assert (done.returncode, done.stdout) == (0, "(1, 10) []\n"), done.stderr


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_folder_of_another_user(place: Path, mode: int) -> None:
    cache = place / "cache"
    cache.mkdir()
    cache.chmod(mode)
    done = run(place, WINML_PY_CACHE=str(cache))
    assert (done.returncode, done.stdout) == (0, "(1, 10) []\n"), done.stderr
    assert list(cache.iterdir()) == []


@pytest.fixture(params=["size=64k", "size=1m,nr_inodes=10", "ro"])
def mounted(request: pytest.FixtureRequest, place: Path) -> Iterator[Path]:
    """A disk without space, without inodes, or read-only."""
    disk = place / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"mode=700,{request.param}", "tmpfs", str(disk)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this process may not mount file systems")
    try:
        with suppress(OSError):
            (disk / "all").write_bytes(bytes(1 << 20))
        with suppress(OSError):
            for number in range(20 * ("nr_inodes" in request.param)):
                (disk / str(number)).touch()
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize("under", ["", "cache"])
def test_a_disk_that_takes_nothing(mounted: Path, place: Path, under: str) -> None:
    before = sorted(path for path in mounted.rglob("*") if path.is_file())
    code = CODE.replace("os.setgid(54321); os.setuid(54321)", "")
    done = run(place, code, WINML_PY_CACHE=str(mounted / under))
    assert (done.returncode, done.stdout) == (0, "(1, 10) []\n"), done.stderr
    assert any(words in done.stderr for words in ("Nothing is cached in", "is not written", "is not saved"))
    assert sorted(path for path in mounted.rglob("*") if path.is_file()) == before
