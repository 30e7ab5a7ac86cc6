"""What the benchmarks share: interleaved timing, ratios of medians, a table and JSON."""

import argparse
import gc
import json
import platform
import statistics
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
