"""Two saved runs, side by side."""

from __future__ import annotations

import json
from typing import Any

from ...errors import InvalidArgumentError
from ..report_schema import SCHEMA

Medians = dict[tuple[str, ...], dict[str, float]]
"""The median milliseconds of each phase, by what identifies a case: model, device, engine, precision and threads."""


def load(path: str) -> Medians:
    """Reads what `winml-py perf --json` printed.

    Raises:
        InvalidArgumentError: the file holds something else.
    """
    try:
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
        if facts.get("schema") != SCHEMA or facts.get("kind") != "perf":
            raise ValueError(f"its kind is {facts.get('kind')!r}, its schema {facts.get('schema')!r}, not {SCHEMA}")
        return {
            _key(case): {phase: figures["p50_ms"] + 0.0 for phase, figures in case["phases"].items()}
            for case in facts["cases"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{path}: It holds no measurement: {error}.", hint="Write it with `winml-py perf MODEL --json > FILE`."
        ) from error


def compare(old: Medians, new: Medians) -> list[dict[str, Any]]:
    """Old and new milliseconds, and new over old, of every phase of the cases that are in both."""
    return [
        {
            "case": " ".join(key),
            "phase": phase,
            "old_ms": old[key][phase],
            "new_ms": after,
            "ratio": after / old[key][phase] if old[key][phase] else None,
        }
        for key, phases in new.items()
        for phase, after in phases.items()
        if phase in old.get(key, {})
    ]


def _key(case: dict[str, Any]) -> tuple[str, ...]:
    """Without the model's folder, which may be another on another day."""
    name = str(case["model"]).replace("\\", "/").rpartition("/")[2]
    return name, str(case["device"]), str(case["engine"]), str(case["precision"]), f"x{case['threads']}"
