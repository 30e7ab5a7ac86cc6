"""Timing of things against each other: they take turns, so that what disturbs the machine disturbs all alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence


def take_turns(
    blocks: Sequence[Callable[[], float]],
    rounds: int,
    is_enough: Callable[[Sequence[Sequence[float]]], bool] = lambda seconds: False,
) -> list[list[float]]:
    """Times blocks in turns.

    Args:
        blocks: each does its work once, and gives the seconds of it.
        rounds: how many turns each has, at most. Who is first changes from round to round.
        is_enough: is asked after each round, with what has been measured, whether to stop.

    Returns:
        The seconds of each block, by rounds.
    """
    seconds: list[list[float]] = [[] for _ in blocks]
    for number in range(rounds):
        order = list(zip(blocks, seconds, strict=True))
        for block, block_seconds in reversed(order) if number % 2 else order:
            block_seconds.append(block())
        if is_enough(seconds):
            break
    return seconds


def median_turn(ones: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The seconds of both blocks in the round whose ratio is the median: times and a ratio that agree with each other,
    which medians of each block for itself need not.
    """
    pairs = sorted(zip(ones, others, strict=True), key=lambda pair: pair[0] / pair[1])
    return pairs[(len(pairs) - 1) // 2]


def median_ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    """How many times as long the first take as the second: the median of the rounds' ratios."""
    return statistics.median([one / other for one, other in zip(ones, others, strict=True)])
