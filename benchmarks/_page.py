"""What docs/performance.md shows of `figures.json`, and which figures on it are from elsewhere.

The page has blocks, each for one benchmark, which `all.py` writes:

    <!--figures:NAME-->
    ...
    <!--end-->

A table from another machine (a GPU, say) stands between `<!--elsewhere: CARD, DATE-->` and `<!--end-->`, and says
both to the reader, too.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _measure import spell

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
FIGURES = Path(__file__).parent / "figures.json"
BLOCK = re.compile(r"(<!--figures:(\w+)-->\n).*?(<!--end-->)", re.DOTALL)
ELSEWHERE = re.compile(r"<!--elsewhere: (.+?), (\d{4}-\d\d-\d\d)-->\n(.*?)<!--end-->", re.DOTALL)
UNITS = r"%|(?:[mµun]?s|microseconds?|milliseconds?|seconds?|minutes?|[KMG]i?B|levels?|times|x)\b"
MEASURED = re.compile(rf"(?<![\w.,])\d[\d,]*(?:\.\d+(?: ?(?:{UNITS}))?| ?(?:{UNITS}))")
"""A number with a unit, or with a decimal point."""


def write_blocks(page: str, figures: Mapping[str, Any]) -> str:
    """The text of the page with these figures in its blocks."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{render(found[2], figures)}\n\n{found[3]}", page)


def render(name: str, figures: Mapping[str, Any]) -> str:
    if name == "machine":
        return _render_machine(figures)
    found = figures["benchmarks"].get(name, {})
    if "tables" not in found:
        return "Not measured."
    parts = [_render_table(rows) for rows in found["tables"].values()]
    if found["bars"]:
        parts.append("Targets: " + "; ".join(map(_render_bar, found["bars"])) + ".")
    return "\n\n".join(parts)


def _render_machine(figures: Mapping[str, Any]) -> str:
    facts = figures["machine"]
    dates = sorted({found["date"] for found in figures["benchmarks"].values()})
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    processor = f"{facts['processor']}, {facts['cores']} cores, with {facts['features']}"
    return f"{processor}; {facts['system']}; {versions}; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}."


def _render_table(rows: list[dict[str, Any]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([spell(value) for value in row.values()] for row in rows)]
    return "\n".join(f"|{'|'.join(line)}|" for line in lines)


def _render_bar(bar: Mapping[str, Any]) -> str:
    figure = f"{bar['bar']}: {bar['figure']:.4g}"  # 1.896 is not 1.9
    limit = f"target: {bar['limit']}"
    return f"{figure} ({limit})" if bar["is_met"] else f"**{figure}, missed ({limit})**"


def find_strays(page: str) -> list[str]:
    """The measured figures that stand outside of the blocks, or in one from elsewhere that does not say where."""
    rest = ELSEWHERE.sub(lambda found: "" if found[1] in found[3] and found[2] in found[3] else found[3], page)
    return MEASURED.findall(BLOCK.sub("", rest))
