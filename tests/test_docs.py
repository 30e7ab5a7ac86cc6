"""README, docs, samples and docstrings: every example runs, every link leads somewhere."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import winml_py

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")
MODULES = sorted(module.name for module in pkgutil.walk_packages(winml_py.__path__, "winml_py."))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the models and samples, to run examples in."""
    for name in ("models", "samples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_run(page: Path, checkout: Path) -> None:
    for number, code in enumerate(PYTHON.findall(page.read_text()), 1):
        exec(compile(code, f"{page.name}, example {number}", "exec"), {"__name__": "__main__"})


def test_the_quickstart_says_what_its_examples_print(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = "\n".join(page.read_text() for page in PAGES)
    for code in PYTHON.findall(pages):
        exec(compile(code, "example", "exec"), {})
        stated = re.findall(r"^(?:print\(.*\)  )?# (.*)$", code, re.MULTILINE)
        printed = " ".join(capsys.readouterr().out.split())
        if stated and printed:
            assert " ".join(stated) in printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str, checkout: Path) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_there_are_docstring_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    count = sum(bool(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name)))
    assert count >= 12


@pytest.mark.parametrize("sample", sorted((ROOT / "samples").glob("*.py")), ids=lambda path: path.name)
def test_the_samples_run(sample: Path, checkout: Path) -> None:
    done = subprocess.run([sys.executable, "samples/" + sample.name], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_ci_calls_the_two_lines_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert script.count('eval "$(readme_line ') == 2
    assert len(re.findall(r"^```sh\n.*\n```$", PAGES[0].read_text(), re.MULTILINE)) == 2
