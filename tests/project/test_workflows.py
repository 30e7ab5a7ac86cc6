"""The workflows of the hosted CI: what they name exists.

Nothing here runs a workflow. zizmor sees to it that they may do no more than they need, and that actions are named by a
commit; check-jsonschema, that they are well formed. `.github/linters.txt` has the versions.
"""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest
import yaml

from helpers.paths import ROOT
from winml_py.cli.main import main

pytestmark = pytest.mark.once

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yml"))}
JOBS = {f"{name}.{job}": steps for name, workflow in WORKFLOWS.items() for job, steps in workflow["jobs"].items()}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, OPTIONS = PYPROJECT["project"], PYPROJECT["tool"]["pytest"]["ini_options"]


def commands(*jobs: str) -> list[list[str]]:
    """The words of every command in the steps of some jobs, or of all."""
    scripts = [step["run"] for job in jobs or JOBS for step in JOBS[job]["steps"] if "run" in step]
    lines = [line for script in scripts for line in script.splitlines()]
    return [shlex.split(part) for line in lines for part in re.split(r" \| ", line)]


def linters() -> dict[str, str]:
    """The linters of the workflows, with their versions."""
    return dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / ".github" / "linters.txt").read_text(), re.MULTILINE))


def supported() -> list[str]:
    python = "Programming Language :: Python :: "
    return [name.removeprefix(python) for name in PROJECT["classifiers"] if name.startswith(python)]


def test_all_supported_pythons_are_tested_on_all_systems_that_have_wheels() -> None:
    matrix = JOBS["test.test"]["strategy"]["matrix"]
    assert matrix["python"] == supported()
    assert PROJECT["requires-python"] == f">={supported()[0]}"
    page = (ROOT / "docs" / "stability.md").read_text()
    rows = re.findall(r"^\| (\w+) on (x86-64|arm64) \| (yes|no)", page, re.MULTILINE)
    assert len(rows) == 6
    runners = {
        ("Linux", "x86-64"): "ubuntu-latest",
        ("Linux", "arm64"): "ubuntu-24.04-arm",
        ("Windows", "x86-64"): "windows-latest",
        ("Windows", "arm64"): "windows-11-arm",
        ("macOS", "arm64"): "macos-latest",
        ("macOS", "x86-64"): "macos-15-intel",
    }
    assert set(matrix["os"]) == {
        runners[system, processor] for system, processor, installs in rows if installs == "yes"
    }
    source = (FOLDER / "test.yml").read_text()
    assert all(runner in source for runner in runners.values())  # those that are left out with the reason


def test_commands_and_what_they_name_exist() -> None:
    known = {"pytest", "ruff", "mypy", "lint-imports", "python", "winml-py", ".ci/lowest", *linters()}
    shell = {"grep", "mkdir", "mv", "tee", "test", "tr", "version=$(sed"}
    for words in commands():
        assert words[0] in known | shell, words
        for word in words:
            if re.match(r"(\.ci|\.github|tests|docs)/", word):
                assert list(ROOT.glob(word)), word
            for extra in re.findall(r"^\.\[([\w,]+)\]$", word):
                assert set(extra.split(",")) <= set(PROJECT["optional-dependencies"])
        if words[0] == "python" and words[1].endswith(".py"):
            source = (ROOT / words[1]).read_text()
            assert all(f'"{word}"' in source for word in words if word.startswith("--"))
        if words[0] == "winml-py":
            command = main.commands[words[1]]
            options = {name for parameter in command.params for name in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= options
        if words[0] == "pytest":
            markers = {marker.split(":")[0].split("(")[0] for marker in OPTIONS["markers"]}
            assert set(re.findall(r"\w+", words[words.index("-m") + 1])) <= markers | {"not", "and", "or"}


def test_the_lowest_versions_are_tested_as_ci_tests_them() -> None:
    (tested,) = [words for words in commands("test.lowest") if words[0] == "pytest"]
    script = (ROOT / ".ci" / "run").read_text()
    (quick,) = re.findall(r"^QUICK=(.*)$", script, re.MULTILINE)
    assert shlex.join(tested).replace("'", '"') in script.replace('"$QUICK"', quick)


def test_the_linters_have_the_same_versions_everywhere() -> None:
    assert set(linters()) == {"check-jsonschema", "zizmor"}
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    pinned = {each for repo in hooks for hook in repo["hooks"] for each in hook.get("additional_dependencies", [])}
    assert pinned == {f"{name}=={version}" for name, version in linters().items()}
    assert {words[0] for words in commands("test.lint")} >= set(linters())
