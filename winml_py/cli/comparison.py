"""What `winml-py perf --compare` says of two saved runs."""

from __future__ import annotations

from typing import Any

import click

from ..perf.compare import MARGIN, SLOWER, UNCLEAR, compare, load, paired
from .style import emit, number, say, show


def compare_runs(old: str, new: str, as_json: bool) -> None:
    """Compares two saved runs; the exit code is 1 where something has become slower.

    Raises:
        click.UsageError: nothing in them belongs together.
        WinMLError: a file holds no measurement.
    """
    pairs, left = paired(load(old), load(new))
    if not pairs:
        raise click.UsageError(f"{new}: It has no case in common with {old}: no model, and not as many cases.")
    facts = {"pairs": [compare(*pair) for pair in pairs], "unpaired": list(map(str, left)), "margin": MARGIN}
    emit({"kind": "comparison"} | facts, as_json, _print)
    if any(pair["verdict"] == SLOWER for pair in facts["pairs"]):  # type: ignore[attr-defined]
        raise click.exceptions.Exit(1)


def _print(facts: dict[str, Any]) -> None:
    for pair in facts["pairs"]:
        names = pair["new"] if pair["old"] == pair["new"] else f"{pair['old']} -> {pair['new']}"
        say(names, "bold")
        ends = f"{number(pair['low'], 2)} to {number(pair['high'], 2)}"
        colour = "bold red" if pair["verdict"] == SLOWER else "bold"
        say(f"{pair['verdict']}: {number(pair['ratio'], 2)} times the time of the old one ({ends})", colour)
        rows = [
            [phase, number(one["old_ms"]), number(one["new_ms"]), number(one["ratio"], 2)]
            for phase, one in pair["phases"].items()
        ]
        show(rows, ["phase", "old ms", "new ms", "new / old"], "lr")
        if pair["verdict"] == UNCLEAR:
            say("The times vary too much to tell. Measure longer (--seconds), and nothing else at the same time.")
    for case in facts["unpaired"]:
        say(f"{case}: in one of the runs only")
