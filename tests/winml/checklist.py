"""Runs the tests that stand for Windows ML's own, and says which of those are covered: python tests/winml/checklist.py.

A test of the checklist is covered when every test here that is marked with its name passes.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CLASSES = {
    "cpu": "runs on a CPU",
    "gpu": "needs a GPU",
    "builder": "needs the graph builder",
    "kernel": "needs a custom kernel",
    "windows": "bound to a Windows service, Direct3D and DirectML among them",
    "internal": "an internal entry of Windows ML, without a public name",
}


def checklist() -> dict[str, str]:
    """The named tests of Windows ML's suite, and what each needs."""
    with (HERE / "checklist.csv").open(newline="") as file:
        return {row["test"]: row["needs"] for row in csv.DictReader(file)}


class Judge:
    """Counts, for each name of the checklist, the tests marked with it that passed and that did not."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}
        self.passed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            self.names[item.nodeid] = [name for mark in item.iter_markers("winml") for name in mark.args]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            (self.passed if report.passed else self.failed).update(self.names[report.nodeid])

    @property
    def covered(self) -> set[str]:
        return set(self.passed) - set(self.failed)


def summary(needs: dict[str, str], covered: Iterable[str], rows: Counter[str]) -> list[str]:
    """What is covered and what is not, by class."""
    done = set(covered) & set(needs)
    lines = [f"covered {len(done)} of {len(needs)}"]
    for name in ("ImageTest.ImageTest", "BatchTest.BatchSupport"):
        lines.append(f"{name}: {rows[name]} rows pass, those on a CPU and without Direct3D")
    for kind, words in CLASSES.items():
        left = [name for name, need in needs.items() if need == kind and name not in done]
        if left:
            lines += ["", f"not covered, {words}: {len(left)}", *(f"  {name}" for name in left)]
    return lines


def main() -> int:
    judge = Judge()
    status = pytest.main(["-q", "-m", "winml", str(HERE)], plugins=[judge])
    print("\n".join(summary(checklist(), judge.covered, judge.passed)))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
