"""The programs that people write first: right, and shorter than without the package."""

from __future__ import annotations

import sys

import pytest

from helpers.paths import ROOT


@pytest.mark.exhaustive
def test_each_is_shorter_and_prints_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import first_programs

    found = first_programs.measure()  # which compares what they print
    assert {task: result["printed"][0].split()[0] for task, result in found.items()} == {
        "classify": "seven",
        "detect": "square",
        "read_text": "Load,",
        "listen": "A",
    }
    assert found["read_text"]["printed"] == ["Load, bind, evaluate 1234"]
    assert len(found["detect"]["printed"]) == 2
    for task, result in found.items():
        assert result["ours"] < result["raw"], task
    sys.modules.pop("first_programs")
