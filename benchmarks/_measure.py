"""Shared code of the benchmarks: interleaved timing, ratios of medians, tables, targets and JSON."""

import argparse
import gc
import json
import operator
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    rounds: int,
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds for each call, in each round. The calls take turns in a round, so noise affects all of them alike.

    Args:
        calls: what is measured, by name.
        rounds: how many turns each call takes.
        repeats: how many times it is called in a turn.
        clock: `time.thread_time`, where one thread does all the work and the machine is shared.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    gc.collect()
    gc.disable()
    try:
        for index in range(rounds):
            for name in names[index % len(names) :] + names[: index % len(names)]:
                call = calls[name]
                started = clock()
                for _ in range(repeats):
                    call()
                seconds[name].append((clock() - started) / repeats)
    finally:
        gc.enable()
    return seconds


def paired_processes(
    commands: Mapping[str, list[str]],
    rounds: int,
    seconds: float,
    generations: int = 3,
    most_seconds: float = float("inf"),
) -> dict[str, list[float]]:
    """Like `interleaved`, for engines with threads of their own, which spin for a while after their work.

    Each way has its own process, started by its command, which calls `serve`. While one works, the others sleep.

    Args:
        commands: the command that starts the process of each way.
        rounds: how many turns each process takes.
        seconds: the duration of a turn, without its warm-up.
        generations: how many times all processes are started again. The memory addresses of a process make it some
            percent faster or slower for its whole life.
        most_seconds: a generation ends after so long, and after three rounds at the earliest.

    Returns:
        The seconds of each way: a number for each round of each generation, in the same order for all.
    """
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(generations):
        for name, seconds_each in _generation(commands, rounds, seconds, most_seconds).items():
            samples[name] += seconds_each
    return samples


def _generation(
    commands: Mapping[str, list[str]], rounds: int, seconds: float, most_seconds: float
) -> dict[str, list[float]]:
    processes = {
        name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name, command in commands.items()
    }
    samples: dict[str, list[float]] = {name: [] for name in commands}
    names = list(commands)
    try:
        for process in processes.values():
            if _ask(process, "ready?") != "ready":
                raise RuntimeError("a way could not be prepared; its message stands above")
        started = time.perf_counter()
        for index in range(rounds):
            if index >= 3 and time.perf_counter() - started > most_seconds:
                break
            for name in names[index % len(names) :] + names[: index % len(names)]:
                time.sleep(0.02)
                samples[name].append(float(_ask(processes[name], str(seconds))))
    finally:
        for process in processes.values():
            process.communicate()
    return samples


def _ask(process: subprocess.Popen[str], question: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(question + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def serve(call: Callable[[], object]) -> None:
    """The process side of `paired_processes`: takes turns until its input ends."""
    for _ in range(3):
        call()
    for question in sys.stdin:
        if question.strip() == "ready?":
            print("ready", flush=True)
            continue
        budget = float(question)
        call()
        call()
        count, started = 0, time.perf_counter()
        while count == 0 or time.perf_counter() - started < budget:
            call()
            count += 1
        print((time.perf_counter() - started) / count, flush=True)


def geometric_mean(ratios: list[float]) -> float:
    return statistics.geometric_mean(ratios)


def ratio(one: list[float], other: list[float]) -> float:
    """How many times as fast the other is: the median of the rounds' ratios.

    What disturbs the machine for longer than a round disturbs both sides of a ratio alike: this is steadier than
    the ratio of two medians.
    """
    return statistics.median(map(operator.truediv, one, other))


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(samples) for name, samples in seconds.items()}


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


def at_most(what: str, figure: float, limit: float) -> dict[str, Any]:
    """A target, and whether a figure meets it."""
    return {"bar": what, "figure": float(figure), "limit": f"at most {limit:g}", "is_met": bool(figure <= limit)}


def at_least(what: str, figure: float, limit: float) -> dict[str, Any]:
    return {"bar": what, "figure": float(figure), "limit": f"at least {limit:g}", "is_met": bool(figure >= limit)}


def report(
    tables: Mapping[str, list[dict[str, Any]]], path: Path | None, bars: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Prints tables and targets, and writes them as JSON. `_page.py` puts them on the page with the same columns."""
    for rows in tables.values():
        cells = [list(rows[0]), *([spell(value) for value in row.values()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        print()
    for bar in bars:
        print("met   " if bar["is_met"] else "MISSED", f"{bar['bar']}: {spell(bar['figure'])}, {bar['limit']}")
    if path is not None:
        path.write_text(json.dumps({"tables": tables, "bars": bars}, indent=1) + "\n")


def spell(value: Any) -> str:
    """A number with two or three digits; other values as they are."""
    if not isinstance(value, float):
        return str(value)
    if 0 < abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
