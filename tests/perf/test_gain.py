"""Turns of candidates: how sure a gain is."""

from __future__ import annotations

import pytest

from winml_py.perf.tune import ROUNDS, find_median_range, measure_gain

PUBLISHED = {6: (1, 6), 8: (1, 8), 9: (2, 8), 10: (2, 9), 15: (4, 12), 20: (6, 15), 25: (8, 18), 30: (10, 21)}
"""The ranks of the 95 % interval of a median in tables of statistics, by the number of values."""


@pytest.mark.parametrize("count", PUBLISHED)
def test_the_interval_of_a_median_is_that_of_the_tables(count: int) -> None:
    assert find_median_range([float(rank) for rank in range(count, 0, -1)]) == PUBLISHED[count]


def test_the_interval_of_few_values_is_their_range() -> None:
    assert find_median_range([3.0]) == (3, 3)
    assert find_median_range([2.0, 5.0, 1.0]) == (1, 5)


@pytest.mark.parametrize(
    ("ratios", "problem", "is_over"),
    [
        ([1.2, 1.3, 1.1, 1.25, 1.15, 1.22, 1.18], "", True),
        ([1.2, 1.3, 0.9, 1.25, 1.15, 1.22, 1.18], "not clearly faster", False),
        ([1.01, 1.02, 1.01, 1.02, 1.01, 1.02, 1.02], "not clearly faster", True),
        ([1.01, 0.99, 1.01, 0.98, 1.01, 1.02, 1.02], "not clearly faster", True),
        ([1.01, 0.99, 1.01, 0.98, 1.01, 1.02, 1.2], "not clearly faster", False),
        ([0.98] * ROUNDS, "slower", True),
        ([0.9, 0.9, 0.9, 1.02, 0.9, 0.9, 0.9], "not clearly faster", True),
        ([0.5] * (ROUNDS - 1), "slower", False),
    ],
)
def test_who_is_faster(ratios: list[float], problem: str, is_over: bool) -> None:
    gain = measure_gain(ratios, [1.0] * len(ratios))
    assert (gain.is_clear, gain.problem, gain.is_over) == (not problem, problem, is_over)
    ordered = sorted(ratios)
    assert gain.ratio == ordered[(len(ratios) - 1) // 2]
    assert gain.interval == (ordered[0], ordered[-1])
    assert gain.milliseconds == (1e3 * gain.ratio, 1e3)
