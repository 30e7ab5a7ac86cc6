"""The wheel: what is in it, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import winml_py
from helpers.paths import ROOT

pytestmark = pytest.mark.once


def test_the_wheel_holds_the_package_and_its_types(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"winml_py-{winml_py.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = ROOT / "winml_py"
    endings = (".py", ".pyi", ".typed", ".html", ".css", ".js", ".svg")  # the page of `winml-py view` has all of these
    sources = {path for path in package.rglob("*") if path.suffix in endings}
    expected = {path.relative_to(ROOT).as_posix() for path in sources | {package / "py.typed"}}
    assert names == expected
    assert {"winml_py/py.typed", "winml_py/__init__.pyi"} <= names


def test_the_command_is_installed() -> None:
    scripts = {entry.name: entry.value for entry in metadata.distribution("winml-py").entry_points}
    assert scripts == {"winml-py": "winml_py.cli.main:main"}
    assert metadata.version("winml-py") == winml_py.__version__
