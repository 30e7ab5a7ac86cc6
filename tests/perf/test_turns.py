"""Turns of contenders: how sure a gain is, and what other programs may have to do with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from winml_py.perf import turns
from winml_py.perf.turns import LOST, ROUNDS, Comparison, OtherPrograms, Race, median_range, run_race

PUBLISHED = {6: (1, 6), 8: (1, 8), 9: (2, 8), 10: (2, 9), 15: (4, 12), 20: (6, 15), 25: (8, 18), 30: (10, 21)}
"""The ranks of the 95 % interval of a median in tables of statistics, by the number of values."""


@pytest.mark.parametrize("count", PUBLISHED)
def test_the_interval_of_a_median_is_that_of_the_tables(count: int) -> None:
    assert median_range([float(rank) for rank in range(count, 0, -1)]) == PUBLISHED[count]


def test_the_interval_of_few_values_is_their_range() -> None:
    assert median_range([3.0]) == (3, 3)
    assert median_range([2.0, 5.0, 1.0]) == (1, 5)


def compared(gains: list[float], held: float = 0.0) -> Comparison:
    return Race([gains, [1.0] * len(gains)], [held] * len(gains)).compare(0, 1)


def test_who_is_faster() -> None:
    one = compared([1.2, 1.3, 1.1, 1.25, 1.15, 1.22, 1.18])
    assert (one.gain, one.gain_range, one.turns) == (1.2, (1.1, 1.3), 7)
    assert (one.is_gain, one.is_over, one.problem) == (True, True, "")


@pytest.mark.parametrize(
    ("gains", "problem", "is_over"),
    [
        ([1.2, 1.3, 0.9, 1.25, 1.15, 1.22, 1.18], "equal, as far as can be told", False),
        ([1.01, 1.02, 1.01, 1.02, 1.01, 1.02, 1.02], "hardly faster", True),
        ([1.01, 0.99, 1.01, 0.98, 1.01, 1.02, 1.02], "no faster", True),
        ([1.01, 0.99, 1.01, 0.98, 1.01, 1.02, 1.2], "equal, as far as can be told", False),
        ([0.5] * LOST, "slower", True),
        ([0.90, 0.91, 0.89, 0.92], "slower", True),
        ([0.98] * ROUNDS, "no faster", True),
        ([0.9, 0.9, 0.9, 1.02, 0.9, 0.9, 0.9], "no faster", True),
        ([0.5] * (LOST - 1), "slower", False),
        ([0.5, 0.5, 1.5, 0.5], "equal, as far as can be told", False),
    ],
)
def test_who_is_not(gains: list[float], problem: str, is_over: bool) -> None:
    one = compared(gains)
    assert (one.is_gain, one.problem, one.is_over) == (False, problem, is_over)


def test_what_others_took_is_taken_off() -> None:
    """They held up the first contender for a fifth of its time, at worst."""
    one = compared([1.2] * ROUNDS, held=0.2)
    assert one.gain_range == pytest.approx((0.96, 1.2))
    assert (one.is_gain, one.is_over, one.problem) == (False, True, "other programs may be why")
    assert compared([1.3] * ROUNDS, held=0.2).is_gain


def test_a_loss_that_an_interval_up_to_a_gain_does_not_show_is_none() -> None:
    """Other programs took so much that no number of turns would show a gain, or a loss."""
    one = compared([0.9, 0.7, 1.4, 0.9, 1.2, 0.8, 0.9], held=0.9)
    assert (one.gain, one.gain_range, one.is_over) == (0.9, pytest.approx((0.07, 1.4)), True)
    assert one.problem == "equal, as far as can be told"


def test_quiet_turns_count() -> None:
    """In a third of the turns another program held them up. The others show the gain."""
    race = Race([[1.5] * 21, [1.0] * 21], [0.9 if turn % 3 == 0 else 0.0 for turn in range(21)])
    assert not race.compare(0, 1).is_gain  # 7 of 21 turns; 5 may be lost
    quieter = Race(race.seconds, [0.9 if turn % 5 == 0 else 0.0 for turn in range(21)])
    assert quieter.compare(0, 1).gain_range == (1.5, 1.5)


def test_races_are_joined() -> None:
    race = Race([[1.0], [2.0]], [0.1]).joined(Race([[3.0], [4.0]], [0.2]))
    assert race == Race([[1.0, 3.0], [2.0, 4.0]], [0.1, 0.2])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[turns._Clocks]:
    """What the system's clocks say, one after the other."""
    said: list[turns._Clocks] = []
    monkeypatch.setattr(turns, "_clocks", lambda: said.pop(0))
    return said


@pytest.mark.parametrize(
    ("threads", "idle", "own", "cores", "held"),
    [
        (4, 2.0, 2.0, 0.0, 0.0),  # of four cores for a second, two were idle, and two ours
        (4, 1.5, 2.0, 0.5, 0.5),  # half a core was another's, and we need all four
        (2, 1.0, 2.0, 1.0, 0.0),  # a core was another's, and two were left
        (4, 0.0, 2.0, 2.0, 1.0),
        (4, 2.1, 2.0, 0.0, 0.0),  # clocks that count in ticks may be ahead
    ],
)
def test_others_hold_up_who_needs_their_cores(
    threads: int, idle: float, own: float, cores: float, held: float, clock: list[turns._Clocks]
) -> None:
    start = turns._Clocks(10.0, 100.0, 5.0, 4)
    clock += [start, start, turns._Clocks(11.0, 100.0 + idle, 5.0 + own, 4)]
    others = OtherPrograms(threads)
    others.restart()
    assert others.lap() == pytest.approx(held)
    assert others.cores == [pytest.approx(cores)]


def test_a_system_that_does_not_tell(clock: list[turns._Clocks]) -> None:
    clock += [turns._Clocks(10.0, 0.0, 5.0, 4), turns._Clocks(11.0, 0.0, 6.0, 4)]
    others = OtherPrograms(4)
    assert (others.lap(), others.cores) == (0, [])


def test_the_real_clocks_go_on() -> None:
    before, now = turns._clocks(), turns._clocks()
    assert now.wall >= before.wall > 0
    assert now.idle >= before.idle
    assert now.cores >= 1


def test_a_race_ends_where_it_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    laps: Iterator[float] = iter([0.1, 0.2, 0.3])
    monkeypatch.setattr(OtherPrograms, "lap", lambda self: next(laps))
    contenders = [lambda: 2.0, lambda: 1.0]
    race = run_race(contenders, 9, OtherPrograms(1), lambda race: len(race.held) == 3)
    assert race == Race([[2.0] * 3, [1.0] * 3], [0.1, 0.2, 0.3])
