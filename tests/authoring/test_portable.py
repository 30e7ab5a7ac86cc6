"""A model with a built-in contract and its samples, which other runtimes than Python check."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.paths import ROOT
from helpers.planted import plant
from tools.portable import PACKAGES, VERSIONS
from winml_py import LearningModel
from winml_py.authoring import check_samples


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return plant(tmp_path_factory.mktemp("planted"))


def test_each_fault_is_found_and_no_other(planted: dict[str, Path]) -> None:
    for fault, path in planted.items():
        check = check_samples(LearningModel.load(path))
        is_close = fault in ("", "half precision")  # which is within 0.1 %, but not within JavaScript's 0.01 %
        assert check.is_right is is_close, fault
        assert (check.largest_difference > 1e-4) is bool(fault), fault
    assert len(planted) == 6


@pytest.mark.parametrize("runtime", VERSIONS)
def test_javascript_finds_them_too(planted: dict[str, Path], runtime: str) -> None:
    if not (shutil.which("node") and (PACKAGES / "node_modules" / runtime).exists()):
        pytest.skip("tests/tools/portable.py installs what this needs")
    for fault, path in planted.items():
        command = ["node", ROOT / "samples" / "javascript" / "check.mjs", path, runtime]
        done = subprocess.run(command, cwd=PACKAGES, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (int(bool(fault)), ""), (fault, done.stderr)
        assert done.stdout.splitlines()[-1] == ("wrong" if fault else "right")
