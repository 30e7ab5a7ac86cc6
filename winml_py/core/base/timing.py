"""Times what takes turns, so that it can be compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

BLOCK_SECONDS = 0.03
REST_SECONDS = 0.02


def time_block(run: Callable[[], object]) -> float:
    """The seconds of a run: the mean of a block of runs."""
    time.sleep(REST_SECONDS)  # the threads of the previous engine spin for a while after their work
    run()  # wakes the threads of this engine
    count = 0
    started = time.perf_counter()
    while count == 0 or time.perf_counter() - started < BLOCK_SECONDS:
        run()
        count += 1
    return (time.perf_counter() - started) / count


def take_turns(
    blocks: Sequence[Callable[[], float]],
    rounds: int,
    is_enough: Callable[[Sequence[Sequence[float]]], bool] = lambda seconds: False,
) -> list[list[float]]:
    """Times blocks in turns, so that disturbances affect all of them alike.

    Args:
        blocks: each does its work once, and returns the seconds it took.
        rounds: the maximum number of turns of each. The first block changes from round to round.
        is_enough: called with the measurements after each round; returns whether to stop.

    Returns:
        The seconds of each block, by rounds.
    """
    seconds: list[list[float]] = [[] for _ in blocks]
    for turn in range(rounds):
        order = list(zip(blocks, seconds, strict=True))
        for block, block_seconds in reversed(order) if turn % 2 else order:
            block_seconds.append(block())
        if is_enough(seconds):
            break
    return seconds
