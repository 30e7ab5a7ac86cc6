"""The workflows of the hosted CI: what they name exists, and they may do no more than they need.

Nothing here runs a workflow. zizmor and check-jsonschema read them, too; `.github/linters.txt` has the versions.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any

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


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_jobs_have_names_limits_and_rights_of_their_own(job: dict[str, Any]) -> None:
    assert job["name"]
    assert 0 < job["timeout-minutes"] <= 60
    assert "permissions" in job
    assert not job.get("continue-on-error", False)
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}
        if step.get("uses", "").startswith("actions/setup-python@"):
            assert step["with"]["python-version"] in (*supported(), "${{ matrix.python }}")


def test_rights_are_few() -> None:
    for workflow in WORKFLOWS.values():
        assert workflow["permissions"] == {}
        assert {"group", "cancel-in-progress"} == set(workflow["concurrency"])
        assert workflow["defaults"] == {"run": {"shell": "bash"}}
    given = {
        name: job["permissions"] for name, job in JOBS.items() if job["permissions"] not in ({}, {"contents": "read"})
    }
    assert given == {
        "release.attest": {"id-token": "write", "attestations": "write"},
        "release.publish": {"id-token": "write"},
    }
    read = {name for name, job in JOBS.items() if job["permissions"] == {"contents": "read"}}
    assert read == {name for name, job in JOBS.items() if "actions/checkout@" in str(job["steps"])}


def test_actions_are_named_by_a_commit_and_say_its_version() -> None:
    commits: dict[str, set[str]] = {}
    for path in FOLDER.glob("*.yml"):
        for line in path.read_text().splitlines():
            if "uses:" in line:
                action, commit = re.fullmatch(
                    r" +(?:- )?uses: ([\w/-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)", line
                ).groups()
                commits.setdefault(action, set()).add(commit)
    assert all(len(each) == 1 for each in commits.values())
    assert {action.split("/")[0] for action in commits} == {"actions", "pypa"}


def test_no_expression_gets_into_a_script() -> None:
    assert not [step for job in JOBS.values() for step in job["steps"] if "${{" in step.get("run", "")]
    assert "secrets." not in "".join(path.read_text() for path in FOLDER.glob("*.yml"))


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
