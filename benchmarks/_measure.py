"""What the benchmarks share: interleaved timing, ratios of medians, a table and JSON."""

import argparse
import gc
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def interleaved(calls: Mapping[str, Callable[[], object]], rounds: int, repeats: int) -> dict[str, list[float]]:
    """Seconds a call, for each round. In a round the calls take turns, so that noise hits them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    gc.collect()
    gc.disable()
    try:
        for index in range(rounds):
            for name in names[index % len(names) :] + names[: index % len(names)]:
                call = calls[name]
                started = time.perf_counter()
                for _ in range(repeats):
                    call()
                seconds[name].append((time.perf_counter() - started) / repeats)
    finally:
        gc.enable()
    return seconds


def paired_processes(
    commands: Mapping[str, list[str]], rounds: int, seconds: float, generations: int = 3
) -> dict[str, list[float]]:
    """As `interleaved`, for engines with threads of their own, which spin a while after their work: every way lives in
    a process of its own, made by its command, which calls `serve`. One works while the others sleep.

    Args:
        commands: how each way's process is started.
        rounds: how often each takes its turn.
        seconds: how long a turn takes, its warm-up apart.
        generations: how often all processes are started anew: where its memory lies makes one of them faster or slower
            by some percent for its life.
    """
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(generations):
        for name, seconds_each in _generation(commands, rounds, seconds).items():
            samples[name].append(statistics.median(seconds_each))
    return samples


def _generation(commands: Mapping[str, list[str]], rounds: int, seconds: float) -> dict[str, list[float]]:
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
        for index in range(rounds):
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
    """The other end of `paired_processes`: takes turns until nobody asks any more."""
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


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(samples) for name, samples in seconds.items()}


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


def report(name: str, rows: list[dict[str, Any]], path: Path | None) -> None:
    """Prints the rows as a table, and writes them as JSON with what was measured on."""
    from importlib.metadata import version

    columns = list(rows[0])
    cells = [[_spell(row[column]) for column in columns] for row in rows]
    widths = [max(len(column), *(len(row[i]) for row in cells)) for i, column in enumerate(columns)]
    for row in (columns, *cells):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if path is not None:
        packages = ("winml-py", "onnxruntime", "numpy", "pillow")
        host = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
        facts = {
            "schema_version": 1,
            "benchmark": name,
            "host": host | {package: version(package) for package in packages},
            "rows": rows,
        }
        path.write_text(json.dumps(facts, indent=2) + "\n")


def _spell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
