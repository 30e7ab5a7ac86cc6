"""The files for contributors: what they name exists. The workflows are tested in test_workflows.py."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.paths import ROOT

pytestmark = pytest.mark.once

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CODE = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", GUIDE, flags=re.DOTALL | re.MULTILINE))
COMMANDS = [
    command.split("#")[0].strip()
    for block in re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    for command in line.split("&&")
]


def parsed(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def folders_and_files(text: str) -> list[str]:
    """The paths of the repository that a text names."""
    return re.findall(r"(?<![\w/.])(?:winml_py|tests|docs|benchmarks|models|samples|\.ci|\.github)/[\w./-]*", text)


def test_the_workflows_run_what_the_guide_says() -> None:
    runs = [step["run"] for step in steps(parsed(ROOT / ".github/workflows/test.yml")) if "run" in step]
    linters = ["ruff check .", "ruff format --check .", "mypy", "lint-imports"]
    assert {'pytest -q -m "not once and not exhaustive"', 'pytest -q -m "once or exhaustive"', *linters} <= set(runs)
    assert set(linters) <= set(COMMANDS)
    hooks = {hook["id"] for repo in parsed(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]}
    assert {"ruff-check", "ruff-format", "mypy", "lint-imports"} <= hooks


@pytest.mark.parametrize("path", folders_and_files(" ".join([*CODE, *COMMANDS])))
def test_paths_in_the_guide_exist(path: str) -> None:
    assert (ROOT / path.rstrip(".")).exists() or path.startswith("docs/_build")


def test_links_in_the_guide_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)", GUIDE):
        assert (ROOT / link).exists(), link


def test_extras_in_the_guide_exist() -> None:
    extras = set(re.findall(r"'\.\[(\w+)\]'", GUIDE))
    assert "test" in extras
    assert extras <= set(PROJECT["optional-dependencies"])


def test_the_test_that_the_guide_runs_exists() -> None:
    command = next(command for command in COMMANDS if " -k " in command)
    _, file, _, name = command.split()
    assert name.strip('"') in "\n".join(re.findall(r"def (test_\w+)", (ROOT / file).read_text()))


def test_the_layers_are_those_of_the_core() -> None:
    diagram = re.search(r"^```\n(base <- .*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)[1]
    rooms = {path.parent.name for path in (ROOT / "winml_py" / "core").glob("*/__init__.py")}
    assert set(re.findall(r"\w+", diagram)) == rooms
