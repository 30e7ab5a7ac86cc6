"""Rivals that take turns: how many times as fast one is as another, how sure that is, and what disturbed it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from ..core.base.machine import allowed_cores

GAIN = 1.03
"""A smaller gain than this is none: it is not worth an option that others have to understand."""

ROUNDS = 7
"""After so many rounds, and each time after as many more, it is asked whether rivals are apart."""

LOOKS = 5
"""How often that is asked at most; then they are equal."""

LOST = 4
"""What is slower in each of so many first rounds needs no more: of two equal ways, one of sixteen is so unlucky."""

BUSY_CORES = 0.2
"""From so many cores on that other programs used, the user is told."""

SURE = 0.95
"""The chance with which an interval holds the true median."""


def median_range(values: Sequence[float]) -> tuple[float, float]:
    """The ends between which the true median lies with a chance of 95 %, whatever the distribution: the sign test's.

    Of fewer than six values, which never suffice, it is their range.

    Example:
        >>> median_range([3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0])
        (1.0, 7.0)
    """
    ordered, count = sorted(values), len(values)
    off, throws = 0, 1  # of 2**count ways to throw the coins, those with at most `off` heads
    while 2 * (throws + math.comb(count, off + 1)) <= (1 - SURE) * 2**count:
        off += 1
        throws += math.comb(count, off)
    return ordered[off], ordered[count - 1 - off]


class Comparison(NamedTuple):
    """How two rivals compare.

    Attributes:
        gain: how many times as fast the other is, in the median turn.
        gain_range: between which ends that lies with 95 %.
        milliseconds: the times of both in the median turn.
        turns: how many turns each had.
        is_over: whether more turns would hardly change what comes of it.
        other_cores: how many of the cores that the rivals need other programs used.
    """

    gain: float
    gain_range: tuple[float, float]
    milliseconds: tuple[float, float]
    turns: int
    is_over: bool
    other_cores: float = 0.0

    @property
    def is_gain(self) -> bool:
        """Whether the other is faster, and neither chance nor another program is likely to be why."""
        return self.gain >= GAIN and _without(self.other_cores, self.gain_range[0]) > 1

    @property
    def problem(self) -> str:
        """Why it is no gain; "" where it is one."""
        low, high = self.gain_range
        if self.is_gain:
            return ""
        if low > 1:
            return "other programs may be why" if self.gain >= GAIN else "hardly faster"
        if self.gain <= 1 / GAIN and high < 1:
            return "slower"
        return "no faster" if high < GAIN else "equal, as far as can be told"


def _without(other_cores: float, ratio: float) -> float:
    """What is left of a ratio if other programs held up the first rival, and it alone, as long as they ran."""
    return ratio * (1 - min(1.0, other_cores))


def compare(ones: Sequence[float], others: Sequence[float], other_cores: float) -> Comparison:
    """How two rivals compare by their seconds in the same turns, while other programs used so many cores."""
    ratios = [one / other for one, other in zip(ones, others, strict=True)]
    low, high = median_range(ratios)
    # The round whose ratio is the median: its times agree with the ratio, which medians of each for itself need not.
    rounds = sorted(zip(ones, others, strict=True), key=lambda pair: pair[0] / pair[1])
    before, after = rounds[(len(rounds) - 1) // 2]
    gain, turns = before / after, len(ratios)
    is_hopeless = high < GAIN or _without(other_cores, high) <= 1
    is_apart = turns >= ROUNDS and (is_hopeless or (gain >= GAIN and _without(other_cores, low) > 1))
    has_lost = turns >= LOST and max(ratios[:LOST]) < 1 / GAIN
    return Comparison(gain, (low, high), (1e3 * before, 1e3 * after), turns, is_apart or has_lost, other_cores)


def is_enough(compared: Sequence[Comparison]) -> bool:
    """Whether a rival needs no more turns against others: it has lost to one, or after `ROUNDS` beats them all."""
    is_lost = any(each.is_over and not each.is_gain for each in compared)
    return is_lost or (compared[0].turns % ROUNDS == 0 and all(each.is_gain for each in compared))


class OtherPrograms:
    """Tells how many of the cores that rivals need other programs use, from now on.

    With fewer threads, a rival may be faster only as long as another program has a core. Not seen are programs on a
    GPU. Time that a hypervisor takes away counts, too.

    Args:
        threads: how many cores the rivals need.
    """

    def __init__(self, threads: int) -> None:
        self._threads, self._before = threads, _clocks()

    def cores(self) -> float:
        """How many of these they used until now, on average; 0 where the system does not tell."""
        now, before = _clocks(), self._before
        if not now.idle:
            return 0.0
        ours = (now.idle - before.idle + now.own - before.own) / (now.wall - before.wall)
        return max(0.0, self._threads - ours)


class _Clocks(NamedTuple):
    """Seconds: on the clock, that this process's cores were idle, and that it used them."""

    wall: float
    idle: float
    own: float


def _clocks() -> _Clocks:
    import psutil

    allowed = allowed_cores()
    each = [times for core, times in enumerate(psutil.cpu_times(percpu=True)) if core in allowed]
    idle = sum(times.idle + getattr(times, "iowait", 0.0) for times in each)
    return _Clocks(time.perf_counter(), idle, time.process_time())
