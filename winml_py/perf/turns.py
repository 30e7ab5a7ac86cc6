"""Contenders that take turns: how many times as fast one is as another, how sure that is, and what disturbed it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..core.base.machine import allowed_cores
from ..core.base.timing import median_turn, take_turns

GAIN = 1.03
"""A smaller gain than this is none: it is not worth an option that others have to understand."""

ROUNDS = 7
"""After so many rounds, and each time after as many more, it is asked whether contenders are apart."""

LOOKS = 5
"""How often that is asked at most; then they are equal."""

LOST = 4
"""What is slower in each of so many first rounds needs no more: of two equal ways, one of sixteen is so unlucky."""

BUSY_CORES = 0.2
"""From so many cores on that other programs used, the user is told."""

SURE = 0.95
"""The chance with which an interval holds the true median."""


def median_range(values: Sequence[float]) -> tuple[float, float]:
    """The ends between which the true median of such values lies with a chance of 95 %, whatever their distribution.

    A value lies above the true median or below it as a coin falls. The true median is outside of the values that are
    left, once k are taken off at either end, with twice the chance of at most k heads in as many throws as there are
    values. k is the largest number for which that is at most 5 %: 0 of 7 values, 2 of 14, 5 of 21. Of fewer than six,
    which never suffice, it is their range.

    Example:
        >>> median_range([3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0])
        (1.0, 7.0)
        >>> median_range([1.0, *range(2, 14), 1000.0])
        (3, 12)
    """
    ordered, count = sorted(values), len(values)
    off, throws = 0, 1  # of 2**count ways to throw the coins, those with at most `off` heads
    while 2 * (throws + math.comb(count, off + 1)) <= (1 - SURE) * 2**count:
        off += 1
        throws += math.comb(count, off)
    return ordered[off], ordered[count - 1 - off]


class Comparison(NamedTuple):
    """How two contenders compare.

    Attributes:
        gain: how many times as fast the other is, in the median turn.
        gain_range: between which ends that lies with 95 %. The lower one is what is left of the gain if other programs
            held up the first contender, and it alone, as long as they ran.
        milliseconds: the times of both in the median turn.
        turns: how many turns each had.
        low: the lower end if other programs made no difference.
        is_over: whether more turns would hardly change what comes of it.
    """

    gain: float
    gain_range: tuple[float, float]
    milliseconds: tuple[float, float]
    turns: int
    low: float
    is_over: bool

    @property
    def is_gain(self) -> bool:
        """Whether the other is faster, and neither chance nor another program is likely to be why."""
        return self.gain >= GAIN and self.gain_range[0] > 1

    @property
    def problem(self) -> str:
        """Why it is no gain; "" where it is one."""
        if self.is_gain:
            return ""
        if self.low > 1:
            return "other programs may be why" if self.gain >= GAIN else "hardly faster"
        if self.gain <= 1 / GAIN and self.gain_range[1] < 1:
            return "slower"
        return "no faster" if self.gain_range[1] < GAIN else "equal, as far as can be told"


def is_enough(compared: Sequence[Comparison]) -> bool:
    """Whether a contender needs no more turns against others: it has lost to one, or after `ROUNDS` beats them all."""
    is_lost = any(each.is_over and not each.is_gain for each in compared)
    return is_lost or (compared[0].turns % ROUNDS == 0 and all(each.is_gain for each in compared))


class Race(NamedTuple):
    """What contenders took in turns.

    Attributes:
        seconds: of each contender, by rounds.
        held: for each round, the part of its time for which other programs may have held up who ran.
    """

    seconds: list[list[float]]
    held: list[float]

    def compare(self, one: int, other: int) -> Comparison:
        """How two of the contenders compare, by their numbers."""
        ones, others = self.seconds[one], self.seconds[other]
        ratios = [before / after for before, after in zip(ones, others, strict=True)]
        low, high = median_range(ratios)
        sure = median_range([ratio * (1 - held) for ratio, held in zip(ratios, self.held, strict=True)])
        before, after = median_turn(ones, others)
        gain, turns = before / after, len(ratios)
        is_apart = turns >= ROUNDS and (sure[1] <= 1 or high < GAIN or (gain >= GAIN and sure[0] > 1))
        has_lost = turns >= LOST and max(ratios[:LOST]) < 1 / GAIN
        return Comparison(gain, (sure[0], high), (1e3 * before, 1e3 * after), turns, low, is_apart or has_lost)

    def joined(self, other: Race) -> Race:
        """The rounds of two races of the same contenders."""
        seconds = [[*ones, *more] for ones, more in zip(self.seconds, other.seconds, strict=True)]
        return Race(seconds, [*self.held, *other.held])


def run_race(
    contenders: Sequence[Callable[[], float]],
    rounds: int,
    others: OtherPrograms,
    is_enough: Callable[[Race], bool] = lambda race: False,
) -> Race:
    """Lets contenders take turns.

    Args:
        contenders: each does its work once, and gives the seconds of it.
        rounds: how many turns each has, at most.
        others: tells what other programs did meanwhile.
        is_enough: is asked after each round whether to stop.
    """
    held: list[float] = []

    def end_round(seconds: Sequence[Sequence[float]]) -> bool:
        held.append(others.lap())
        return is_enough(Race([list(each) for each in seconds], held))

    others.restart()
    return Race(take_turns(contenders, rounds, end_round), held)


# Other programs. A setting with fewer threads may be the faster one only as long as another program has a core.


class OtherPrograms:
    """Tells for how much of the time other programs may have held up a contender.

    What they use of the processor counts as far as it leaves too few cores for the contenders' threads. A contender
    that ran for a second, while others used half a core that it needed, would have taken at least half a second without
    them. Time that a hypervisor takes away counts, too. Not seen are programs on a GPU, and those in the same container
    where a limit of that holds both up.

    Args:
        threads: how many cores a contender needs.

    Attributes:
        cores: how many cores other programs used, in each lap.
    """

    def __init__(self, threads: int) -> None:
        self.cores: list[float] = []
        self._threads = threads
        self._before = _clocks()

    def restart(self) -> None:
        """Begins a lap, and forgets the time since the last one."""
        self._before = _clocks()

    def lap(self) -> float:
        """The part of the time, from 0 to 1, since the lap began; and begins another."""
        now, before = _clocks(), self._before
        self._before, seconds = now, now.wall - before.wall
        if seconds <= 0 or now.idle == before.idle == 0:  # the system does not tell
            return 0.0
        used = now.cores - (now.idle - before.idle + now.own - before.own) / seconds
        self.cores.append(max(0.0, used))
        return min(1.0, max(0.0, used - (now.cores - self._threads)))


class _Clocks(NamedTuple):
    """Seconds on the clock, in which cores were idle, and of cores that this process used; and how many cores count."""

    wall: float
    idle: float
    own: float
    cores: int


def _clocks() -> _Clocks:
    import psutil

    cores = psutil.cpu_count() or 1
    allowed = allowed_cores()
    if len(allowed) < cores:
        each = [times for core, times in enumerate(psutil.cpu_times(percpu=True)) if core in allowed]
    else:
        each = [psutil.cpu_times()]
    idle = sum(times.idle + getattr(times, "iowait", 0.0) for times in each)
    return _Clocks(time.perf_counter(), idle, time.process_time(), min(cores, len(allowed)))
