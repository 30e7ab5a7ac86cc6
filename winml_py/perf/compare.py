"""Comparing two saved runs, with a verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

from ..core.base.messages import REPORT_SCHEMA, Facts
from ..errors import InvalidArgumentError
from .measurement import Interval

MARGIN = 0.05
"""A smaller change does not count: two processes with the same work differ by as much."""

FASTER, SLOWER, SAME, UNCLEAR = "faster", "slower", "same", "unclear"


class SavedCase(NamedTuple):
    """A case of a saved run.

    Attributes:
        model: the name of the model's file; its folder may have changed.
        settings: device, engine, precision and threads.
        evaluation: the milliseconds of a whole evaluation.
        phases: the median milliseconds of each phase.
    """

    model: str
    settings: tuple[str, ...]
    evaluation: Interval
    phases: dict[str, float]

    def __str__(self) -> str:
        return " ".join((self.model, *self.settings))


Pair = tuple[SavedCase, SavedCase]


def load(path: str) -> list[SavedCase]:
    """Reads the output of `winml-py perf --json`.

    Raises:
        InvalidArgumentError: the file contains something else.
    """
    try:
        with open(path, "rb") as file:  # from bytes, json detects the encoding: PowerShell's ">" writes UTF-16
            facts = json.load(file)
        if facts.get("kind") != "perf":
            raise ValueError(f"its kind is {facts.get('kind')!r}, not 'perf'")
        if facts.get("schema") != REPORT_SCHEMA:
            raise ValueError(f"expected schema {REPORT_SCHEMA}, got {facts.get('schema')!r}")
        return [_case(case) for case in facts["cases"]]
    except FileNotFoundError as error:
        raise InvalidArgumentError(f"{path}: There is no such file.", hint="Check the working directory.") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{path}: It contains no measurement: {error}.", hint="Write it with `winml-py perf MODEL --json > FILE`."
        ) from error


def _case(case: Facts) -> SavedCase:
    figures = (case["evaluation"][key] + 0.0 for key in ("p50_ms", "low_ms", "high_ms"))
    settings = str(case["device"]), str(case["engine"]), str(case["precision"]), f"x{case['threads']}"
    phases = {phase: statistics["p50_ms"] + 0.0 for phase, statistics in case["phases"].items()}
    name = str(case["model"]).replace("\\", "/").rpartition("/")[2]
    return SavedCase(name, settings, Interval(*figures), phases)


def pair_cases(old: Sequence[SavedCase], new: Sequence[SavedCase]) -> tuple[list[Pair], list[SavedCase]]:
    """The cases of two runs in pairs, in the order of the new run, and the unpaired cases.

    Runs with equally many cases are paired in order; others by model and settings.
    """
    if len(old) == len(new):
        return list(zip(old, new, strict=True)), []
    by_name = {str(case): case for case in old}
    pairs = [(by_name.pop(str(case)), case) for case in new if str(case) in by_name]
    paired = [case for pair in pairs for case in pair]
    return pairs, [case for case in (*old, *new) if case not in paired]


def compare(old: SavedCase, new: SavedCase) -> Facts:
    """The ratio of the new evaluation time to the old one, its interval, and a verdict; and the ratio of each phase."""
    ratio = new.evaluation.middle / old.evaluation.middle if old.evaluation.middle else 1.0
    # The errors of both are independent, so their squares add up.
    spread = math.hypot(_uncertainty(old.evaluation), _uncertainty(new.evaluation))
    low, high = ratio / (1 + spread), ratio * (1 + spread)
    return {
        "old": str(old),
        "new": str(new),
        "ratio": ratio,
        "low": low,
        "high": high,
        "verdict": verdict(low, high),
        "phases": {
            phase: {"old_ms": before, "new_ms": now, "ratio": now / before if before else None}
            for phase, now in new.phases.items()
            if (before := old.phases.get(phase)) is not None
        },
    }


def _uncertainty(interval: Interval) -> float:
    """Half the length of an interval, over its middle."""
    return (interval.high - interval.low) / 2 / (interval.middle or 1.0)


def verdict(low: float, high: float) -> str:
    """The verdict on a ratio of times, by the ends of its interval."""
    if low > 1 + MARGIN:
        return SLOWER
    if high < 1 / (1 + MARGIN):
        return FASTER
    return SAME if low >= 1 / (1 + MARGIN) and high <= 1 + MARGIN else UNCLEAR
