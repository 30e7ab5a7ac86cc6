"""Two saved runs, side by side."""

from __future__ import annotations

import json
from typing import Any

from ...errors import InvalidArgumentError

SCHEMA = 1


def load(path: str) -> dict[str, Any]:
    """What `winml-py perf --json` printed.

    Raises:
        InvalidArgumentError: the file holds something else.
    """
    try:
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
        if facts["schema_version"] != SCHEMA or facts["kind"] != "perf":
            raise ValueError(f"its schema is {facts.get('schema_version')}")
        for case in facts["cases"]:
            _key(case)
            for figures in case["phases"].values():
                float(figures["p50_ms"] + 0.0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{path} holds no measurement: {error}.", hint="Write it with `winml-py perf MODEL --json > FILE`."
        ) from error
    return dict(facts)


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """For every phase of the cases that are in both: old and new medians in milliseconds, and new over old."""
    before = {_key(case): case for case in old["cases"]}
    rows = []
    for case in new["cases"]:
        for phase, figures in case["phases"].items():
            earlier = before.get(_key(case), {"phases": {}})["phases"].get(phase)
            if earlier:
                ratio = figures["p50_ms"] / earlier["p50_ms"] if earlier["p50_ms"] else None
                rows.append(
                    {"case": " ".join(_key(case)), "phase": phase, "old_ms": earlier["p50_ms"]}
                    | {"new_ms": figures["p50_ms"], "ratio": ratio}
                )
    return rows


def _key(case: dict[str, Any]) -> tuple[str, ...]:
    name = str(case["model"]).replace("\\", "/").rpartition("/")[2]
    return name, str(case["device"]), str(case["engine"]), str(case["precision"]), f"x{case['threads']}"
