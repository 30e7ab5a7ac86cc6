"""Programs that are packed, and sessions in processes that servers start: small samples of the two tools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT

pytestmark = [pytest.mark.one_python, pytest.mark.posix("the tools look for Python where venv puts it on Unix")]


def run(tool: str, *arguments: str | Path) -> list[list[str]]:
    """The cells of the table that a tool prints, without its head."""
    command = [sys.executable, ROOT / "tests" / "tools" / tool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    return rows[2:]


def test_a_zip_archive(tmp_path: Path) -> None:
    ((name, *_, works),) = run("frozen.py", "--environment", sys.prefix, "--folder", tmp_path, "zipapp")
    assert (name, works) == ("zipapp", "yes")


@pytest.mark.exhaustive
def test_a_program_by_pyinstaller(tmp_path: Path) -> None:
    pytest.importorskip("PyInstaller")
    # In an environment of its own: everything that is installed here would be packed.
    rows = run("frozen.py", "--folder", tmp_path, "PyInstaller, one folder")
    assert [row[-1] for row in rows] == ["yes", "yes"]


@pytest.mark.exhaustive
def test_processes_of_multiprocessing() -> None:
    assert run("servers.py", "--environment", sys.prefix, "multiprocessing") == [
        ["multiprocessing, fork", "refused", "works", "works", "works"],
        ["multiprocessing, forkserver", "works", "works", "works", "works"],
        ["multiprocessing, spawn", "works", "works", "works", "works"],
    ]
