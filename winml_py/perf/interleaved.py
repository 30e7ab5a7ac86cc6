"""Interleaved runs of rivals: how much faster one is than another, and how certain that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

GAIN = 1.03
"""A smaller gain does not count: it is not worth an option that others have to understand."""

ROUNDS = 7
"""After each such number of rounds, checks whether the rivals differ clearly."""

LOOKS = 5
"""The most checks; after them, the rivals count as equal."""

LOST = 4
"""A rival that is slower in each of this many first rounds is dropped: of two equal rivals, 1 in 16 is so unlucky."""

SURE = 0.95
"""The probability that an interval contains the true median."""


def median_range(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the true median, for any distribution: that of the sign test.

    Fewer than six values are never enough for that: for them it is their range.

    Example:
        >>> median_range([3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0])
        (1.0, 7.0)
    """
    ordered, count = sorted(values), len(values)
    off, throws = 0, 1  # of 2**count sequences of coin tosses, those with at most `off` heads
    while 2 * (throws + math.comb(count, off + 1)) <= (1 - SURE) * 2**count:
        off += 1
        throws += math.comb(count, off)
    return ordered[off], ordered[count - 1 - off]


class Comparison(NamedTuple):
    """The comparison of two rivals.

    Attributes:
        gain: how many times as fast the other is, in the median turn.
        gain_range: the gain's 95 % interval.
        milliseconds: the times of both in the median turn.
        turns: how many turns each had.
        is_over: whether more turns would hardly change the result.
    """

    gain: float
    gain_range: tuple[float, float]
    milliseconds: tuple[float, float]
    turns: int
    is_over: bool

    @property
    def is_gain(self) -> bool:
        """Whether the other is faster, and chance is not a likely reason."""
        return self.gain >= GAIN and self.gain_range[0] > 1

    @property
    def problem(self) -> str:
        """Why there is no gain; "" if there is one."""
        low, high = self.gain_range
        if self.is_gain:
            return ""
        if low > 1:
            return "hardly faster"
        if self.gain <= 1 / GAIN and high < 1:
            return "slower"
        return "no faster" if high < GAIN else "not measurably different"


def compare_times(ones: Sequence[float], others: Sequence[float]) -> Comparison:
    """Compares two rivals by their seconds in the same turns."""
    ratios = [one / other for one, other in zip(ones, others, strict=True)]
    low, high = median_range(ratios)
    # The round with the median ratio: its times match the ratio, unlike the medians of each rival.
    rounds = sorted(zip(ones, others, strict=True), key=lambda pair: pair[0] / pair[1])
    before, after = rounds[(len(rounds) - 1) // 2]
    gain, turns = before / after, len(ratios)
    is_faster = turns % ROUNDS == 0 and gain >= GAIN and low > 1
    is_hopeless = turns >= ROUNDS and high < GAIN
    has_lost = turns >= LOST and max(ratios[:LOST]) < 1 / GAIN
    is_over = is_faster or is_hopeless or has_lost
    return Comparison(gain, (low, high), (1e3 * before, 1e3 * after), turns, is_over)
