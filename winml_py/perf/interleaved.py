"""Interleaved runs of rivals: how much faster one is than another, how certain that is, and what disturbed it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from ..core.base.machine import allowed_cores

GAIN = 1.03
"""A smaller gain does not count: it is not worth an option that others have to understand."""

ROUNDS = 7
"""After each such number of rounds, checks whether the rivals differ clearly."""

LOOKS = 5
"""The most checks; after them, the rivals count as equal."""

LOST = 4
"""A rival that is slower in each of this many first rounds is dropped: of two equal rivals, 1 in 16 is so unlucky."""

BUSY_CORES = 0.2
"""If other programs used this many cores or more, the user is warned."""

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
        other_cores: how many of the cores that the rivals need were used by other programs.
    """

    gain: float
    gain_range: tuple[float, float]
    milliseconds: tuple[float, float]
    turns: int
    is_over: bool
    other_cores: float = 0.0

    @property
    def is_gain(self) -> bool:
        """Whether the other is faster, and neither chance nor another program is a likely reason."""
        return self.gain >= GAIN and _without(self.other_cores, self.gain_range[0]) > 1

    @property
    def problem(self) -> str:
        """Why there is no gain; "" if there is one."""
        low, high = self.gain_range
        if self.is_gain:
            return ""
        if low > 1:
            return "other programs may be the reason" if self.gain >= GAIN else "hardly faster"
        if self.gain <= 1 / GAIN and high < 1:
            return "slower"
        return "no faster" if high < GAIN else "not measurably different"


def _without(other_cores: float, ratio: float) -> float:
    """The remaining ratio if other programs only slowed down the first rival, for as long as they ran."""
    return ratio * (1 - min(1.0, other_cores))


def compare(ones: Sequence[float], others: Sequence[float], other_cores: float) -> Comparison:
    """Compares two rivals by their seconds in the same turns, with this load of other programs in cores."""
    ratios = [one / other for one, other in zip(ones, others, strict=True)]
    low, high = median_range(ratios)
    # The round with the median ratio: its times match the ratio, unlike the medians of each rival.
    rounds = sorted(zip(ones, others, strict=True), key=lambda pair: pair[0] / pair[1])
    before, after = rounds[(len(rounds) - 1) // 2]
    gain, turns = before / after, len(ratios)
    is_hopeless = high < GAIN or _without(other_cores, high) <= 1
    is_apart = turns >= ROUNDS and (is_hopeless or (gain >= GAIN and _without(other_cores, low) > 1))
    has_lost = turns >= LOST and max(ratios[:LOST]) < 1 / GAIN
    return Comparison(gain, (low, high), (1e3 * before, 1e3 * after), turns, is_apart or has_lost, other_cores)


def is_enough(compared: Sequence[Comparison]) -> bool:
    """Whether a rival needs no more turns: it has lost to another, or beats them all after `ROUNDS`."""
    is_lost = any(each.is_over and not each.is_gain for each in compared)
    return is_lost or (compared[0].turns % ROUNDS == 0 and all(each.is_gain for each in compared))


class OtherPrograms:
    """Measures how many of the cores that rivals need are used by other programs, from now on.

    With fewer threads, a rival may be faster only as long as another program uses a core. Programs on a GPU are not
    seen. Time that a hypervisor takes away also counts.

    Args:
        threads: how many cores the rivals need.
    """

    def __init__(self, threads: int) -> None:
        self._threads, self._before = threads, _clocks()

    def cores(self) -> float:
        """How many cores they have used until now, on average; 0 if the system does not tell."""
        now, before = _clocks(), self._before
        if not now.idle:
            return 0.0
        ours = (now.idle - before.idle + now.own - before.own) / (now.wall - before.wall)
        return max(0.0, self._threads - ours)


class _Clocks(NamedTuple):
    """Seconds: on the clock, that this process's cores were idle, and that the process used them."""

    wall: float
    idle: float
    own: float


def _clocks() -> _Clocks:
    import psutil

    allowed = allowed_cores()
    each = [times for core, times in enumerate(psutil.cpu_times(percpu=True)) if core in allowed]
    idle = sum(times.idle + getattr(times, "iowait", 0.0) for times in each)
    return _Clocks(time.perf_counter(), idle, time.process_time())
