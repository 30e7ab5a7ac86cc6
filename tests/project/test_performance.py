"""docs/performance.md: its tables are those of one run on one machine, and it has no figure from elsewhere."""

from __future__ import annotations

import importlib
import json
from types import ModuleType

import pytest

from helpers.paths import ROOT

pytestmark = [pytest.mark.once, pytest.mark.one_python]

PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
FIGURES = json.loads((ROOT / "benchmarks" / "figures.json").read_text(encoding="utf-8"))


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("all")


@pytest.fixture
def page(everything: ModuleType) -> ModuleType:
    return importlib.import_module("_page")


def test_every_benchmark_is_on_the_page(everything: ModuleType, page: ModuleType) -> None:
    names = {path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py")} - {"all", "gpu"}
    assert set(FIGURES["benchmarks"]) == set(everything.BENCHMARKS) == names
    assert {name for _, name, _ in page.BLOCK.findall(PAGE)} == names | {"machine"}
    for name in names:
        assert f"benchmarks/{name}.py" in PAGE


def test_the_blocks_show_the_figures_of_the_run(page: ModuleType) -> None:
    assert page.write_blocks(PAGE, FIGURES) == PAGE
    figures = {name: {"date": "2026-01-02", "failed": "TimeoutExpired"} for name in FIGURES["benchmarks"]}
    figures["imports"] = {
        "date": "2026-01-03",
        "tables": {"imports": [{"what": "numpy", "ms": 12.345, "x": 2}]},
        "bars": [{"bar": "ms", "figure": 12.345, "limit": "at most 12", "is_met": False}],
    }
    written = page.write_blocks(PAGE, {"machine": FIGURES["machine"], "benchmarks": figures})
    assert "what|ms|x|\n|---|---|---|\n|numpy|12.3|2|\n\nTargets: **ms: 12.35, missed (target: at most 12)**" in written
    assert written.count("Not measured") == len(figures) - 1
    assert "2026-01-02 to 2026-01-03" in written
    assert page.BLOCK.sub("", written) == page.BLOCK.sub("", PAGE)


def test_figures_of_two_machines_are_not_mixed(everything: ModuleType) -> None:
    here = FIGURES["machine"]
    assert everything.start_from(here, is_everything=False) == FIGURES
    with pytest.raises(SystemExit, match=f"run all again. cores {here['cores']}, now 96$"):
        everything.start_from(here | {"cores": 96}, is_everything=False)


def test_no_figure_is_from_elsewhere(page: ModuleType) -> None:
    assert page.find_strays(PAGE) == []


ELSEWHERE = "<!--elsewhere: NVIDIA A10, 2026-03-04-->\n{}\n\n| 3.2 ms |\n<!--end-->"


@pytest.mark.parametrize(
    ("text", "strays"),
    [
        ("It takes 22 µs, or 1,200ms; 1.3 to 1.6 times as long.", ["22 µs", "1,200ms", "1.3", "1.6 times"]),
        ("4x as fast, 95 % of 512 MB, a mean of 0.05.", ["4x", "95 %", "512 MB", "0.05"]),
        ("Two threads; 1080p; 28x28; 32 matrices; 12 megapixels; PP-OCRv6; AVX512-BF16; a 256x256 product", []),
        ("<!--figures:many-->\n| 3.2 ms |\n<!--end-->", []),
        (ELSEWHERE.format("On an NVIDIA A10, 2026-03-04."), []),
        (ELSEWHERE.format("On a GPU."), ["3.2 ms"]),
    ],
)
def test_a_figure_in_the_prose_is_found(page: ModuleType, text: str, strays: list[str]) -> None:
    assert page.find_strays(text) == strays
