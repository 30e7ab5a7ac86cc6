"""Rows of tests that try every two values together, in place of all combinations."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any


def pairs(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Some of the rows: every two values that stand together in any row stand together in one of these."""
    left = [(row, set(combinations(enumerate(row), 2))) for row in rows]
    chosen = []
    while left:
        row, covered = max(left, key=lambda entry: len(entry[1]))
        chosen.append(row)
        left = [(other, rest) for other, missing in left if (rest := missing - covered)]
    return chosen
