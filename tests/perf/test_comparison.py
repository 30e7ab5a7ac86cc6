"""Turns of rivals: how sure a gain is."""

from __future__ import annotations

import pytest

from winml_py.perf.tune import LOST, ROUNDS, Comparison, compare, median_range

PUBLISHED = {6: (1, 6), 8: (1, 8), 9: (2, 8), 10: (2, 9), 15: (4, 12), 20: (6, 15), 25: (8, 18), 30: (10, 21)}
"""The ranks of the 95 % interval of a median in tables of statistics, by the number of values."""


@pytest.mark.parametrize("count", PUBLISHED)
def test_the_interval_of_a_median_is_that_of_the_tables(count: int) -> None:
    assert median_range([float(rank) for rank in range(count, 0, -1)]) == PUBLISHED[count]


def test_the_interval_of_few_values_is_their_range() -> None:
    assert median_range([3.0]) == (3, 3)
    assert median_range([2.0, 5.0, 1.0]) == (1, 5)


def compared(gains: list[float]) -> Comparison:
    return compare(gains, [1.0] * len(gains))


def test_who_is_faster() -> None:
    one = compared([1.2, 1.3, 1.1, 1.25, 1.15, 1.22, 1.18])
    assert (one.gain, one.gain_range, one.turns) == (1.2, (1.1, 1.3), 7)
    assert (one.is_gain, one.is_over, one.problem) == (True, True, "")


@pytest.mark.parametrize(
    ("gains", "problem", "is_over"),
    [
        ([1.2, 1.3, 0.9, 1.25, 1.15, 1.22, 1.18], "not measurably different", False),
        ([1.01, 1.02, 1.01, 1.02, 1.01, 1.02, 1.02], "hardly faster", True),
        ([1.01, 0.99, 1.01, 0.98, 1.01, 1.02, 1.02], "no faster", True),
        ([1.01, 0.99, 1.01, 0.98, 1.01, 1.02, 1.2], "not measurably different", False),
        ([0.5] * LOST, "slower", True),
        ([0.90, 0.91, 0.89, 0.92], "slower", True),
        ([0.98] * ROUNDS, "no faster", True),
        ([0.9, 0.9, 0.9, 1.02, 0.9, 0.9, 0.9], "no faster", True),
        ([0.5] * (LOST - 1), "slower", False),
        ([0.5, 0.5, 1.5, 0.5], "not measurably different", False),
    ],
)
def test_who_is_not(gains: list[float], problem: str, is_over: bool) -> None:
    one = compared(gains)
    assert (one.is_gain, one.problem, one.is_over) == (False, problem, is_over)
