"""Imports go one way: the contracts of pyproject.toml hold, and an import that breaks one is found."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Checks the package in a folder, and not the one that is installed."""
    return subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_contracts_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_text_files_have_an_encoding() -> None:
    """On Windows, a text file without one would be read and written in the code page."""
    pytest.importorskip("ruff")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--preview", "--select", "PLW1514", "--no-cache"]
    done = subprocess.run([*command, ROOT / "winml_py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_map_names_what_is_there() -> None:
    """docs/architecture.md: every file and folder that it names in backquotes."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.(?:pyi?|md)|[\w/]+/)`", text))
    assert len(named) > 30
    missing = [path for path in named if not ((ROOT / path).exists() or (ROOT / "winml_py" / path).exists())]
    assert missing == []


def test_the_rooms_name_modules_that_are_there() -> None:
    """docs/architecture.md, the tables of rooms: a word in backquotes is a module there, or a name of the code."""
    rows = re.findall(
        r"^\| (`[^|]*/`.*?) \| (.*) \|$", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    folders = [(ROOT / "winml_py" / name, about) for names, about in rows for name in re.findall(r"`([\w/]+)/`", names)]
    assert len(folders) > 20
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "winml_py").rglob("*.py"))
    for folder, about in folders:
        for word in re.findall(r"`(\w+)`", about):
            assert (folder / f"{word}.py").exists() or re.search(rf"\b(class|def) {word}\b", code), (folder, word)
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name in re.findall(r"`([A-Z]+[a-z][A-Za-z]+(?:\.[a-z_]+)?)`", page):
        assert all(re.search(rf"\b(class|def) {word}\b", code) for word in name.split(".")) or name.endswith(".md"), (
            name
        )


def test_child_processes_are_modules_that_run() -> None:
    """They are started by their names, which no tool follows when a file moves."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "winml_py").rglob("*.py"))
    names = set(re.findall(r'"(winml_py\.core\.[\w.]+)"', code))
    assert len(names) >= 3
    for name in names:
        path = Path(importlib.util.find_spec(name).origin)  # type: ignore[union-attr,arg-type]
        assert "\ndef main(" in path.read_text(encoding="utf-8")
