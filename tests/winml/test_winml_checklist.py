"""The checklist is whole, and every test of it that runs on a CPU has one here."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path

from checklist import CLASSES, checklist, summary

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("test_winml_*.py"))


def marked() -> set[str]:
    functions = [value for name in MODULES for value in vars(importlib.import_module(name)).values()]
    marks = [mark for function in functions for mark in getattr(function, "pytestmark", []) if mark.name == "winml"]
    return {name for mark in marks for name in mark.args}


def test_the_checklist_is_whole() -> None:
    needs = checklist()
    assert len(needs) == 197
    assert set(needs.values()) == set(CLASSES)


def test_everything_that_runs_on_a_cpu_or_a_gpu_has_a_test() -> None:
    assert marked() == {name for name, need in checklist().items() if need in ("cpu", "gpu", "builder", "kernel")}


def test_the_summary_names_what_is_left() -> None:
    lines = summary({"A.b": "cpu", "A.c": "gpu", "A.d": "gpu"}, ["A.b", "A.d", "unknown"], Counter())
    assert lines[0] == "covered 2 of 3"
    assert lines[-2:] == ["not covered, needs a GPU: 1", "  A.c"]
