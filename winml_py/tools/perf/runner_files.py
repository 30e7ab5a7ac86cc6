"""Files in the formats of WinMLRunner, for those who have scripts that read them."""

from __future__ import annotations

import csv
import io
import itertools
import os
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.atomic_files import written_whole
from .measurement import Measurement, Sample

_PERFORMANCE = (
    "Model Name",
    "Device Type",
    "Input Binding",
    "Input Type",
    "Device Creation Location",
    "Iterations",
    "Load Iterations",
    "Session Creation Iterations",
)
_PHASES = ("Load", "Session Creation", "First Bind", "Bind", "First Evaluate", "Evaluate")
_STATISTICS = ("Average", "Standard Deviation", "Min", "Max")
_MEMORIES = ("Working Set Memory (MB)", "Dedicated Memory (MB)", "Shared Memory (MB)")
_ITERATION = (
    "Model Name",
    "Input Name",
    "Iterations",
    "Iteration Number",
    "CPU Working Set Diff (MB)",
    "CPU Working Set Start (MB)",
    "GPU Shared Memory Diff (MB)",
    "GPU Shared Memory Start (MB)",
    "GPU Dedicated Memory Diff (MB)",
    "Load (ms)",
    "Bind (ms)",
    "Evaluate (ms)",
)


def performance(path: str, measured: Sequence[Measurement]) -> None:
    """A header and a row for each case: times of six phases, and the memory they took.

    WinMLRunner's binding includes decoding and tensorizing, its evaluation what is made of the outputs. What nobody
    measures here, such as a GPU's shared memory, is left empty.
    """
    header = [*_PERFORMANCE]
    header += [f"{name} {phase} (ms)" for phase in _PHASES for name in _STATISTICS]
    header += [f"{name} {phase} {memory}" for memory in _MEMORIES for phase in _PHASES for name in _STATISTICS]
    _write(path, [header, *(_row(case) for case in measured)])


def _row(case: Measurement) -> list[Any]:
    phases = {
        "Load": case.samples["load"],
        "Session Creation": case.samples["session"],
        "First Bind": [_joined(case.first, "decode", "tensorize", "bind")],
        "Bind": _each(case, "decode", "tensorize", "bind"),
        "First Evaluate": [_joined(case.first, "evaluate", "detensorize")],
        "Evaluate": _each(case, "evaluate", "detensorize"),
    }
    words = [os.path.basename(case.model), case.device, "CPU", _kind(case), "winml-py", case.iterations, 1, 1]
    times = [figure for phase in _PHASES for figure in _four([sample.wall * 1e3 for sample in phases[phase]])]
    steps = [case.memory[step] / 1e6 for step in ("before", "load", "session", "first evaluation", "end")]
    grown = [after - before for before, after in itertools.pairwise(steps)]
    by_phase = {"Load": grown[0], "Session Creation": grown[1], "First Evaluate": grown[2], "Evaluate": grown[3]}
    working = [figure for phase in _PHASES for figure in _four([by_phase[phase]] if phase in by_phase else [])]
    return [*words, *times, *working, *([""] * (2 * len(_PHASES) * len(_STATISTICS)))]


def _kind(case: Measurement) -> str:
    return "Image" if "decode" in case.samples and "tensorize" in case.samples else "Tensor"


def _joined(phases: dict[str, Sample], *names: str) -> Sample:
    found = [phases[name] for name in names if name in phases]
    return Sample(sum(sample.wall for sample in found), sum(sample.cpu for sample in found))


def _each(case: Measurement, *names: str) -> list[Sample]:
    return [_joined(phases, *names) for phases in case.laps]


def _four(figures: list[float]) -> list[str]:
    if not figures:
        return [""] * len(_STATISTICS)
    four = (statistics.fmean(figures), statistics.pstdev(figures), min(figures), max(figures))
    return [f"{figure:.6g}" for figure in four]


def iterations(folder: str, measured: Sequence[Measurement]) -> str:
    """`Summary.csv` in the folder: a row for each evaluation, the first of them, too; gives its path."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "Summary.csv")
    rows: list[list[Any]] = [[*_ITERATION]]
    for case in measured:
        binds = [_joined(case.first, "decode", "tensorize", "bind"), *_each(case, "decode", "tensorize", "bind")]
        runs = [_joined(case.first, "evaluate", "detensorize"), *_each(case, "evaluate", "detensorize")]
        items = [case.inputs[0], *case.items]
        start = case.memory["first evaluation"] / 1e6
        for number, (item, bind, run) in enumerate(zip(items, binds, runs, strict=True), 1):
            words = [os.path.basename(case.model), os.path.basename(item), len(items), number]
            load = case.first["load"].wall * 1e3
            memory = ["", f"{start:.3f}", "", "", ""]
            rows.append([*words, *memory, f"{load:.6g}", f"{bind.wall * 1e3:.6g}", f"{run.wall * 1e3:.6g}"])
    _write(path, rows)
    return path


def tensor(folder: str, feature: str, hardware: str, iteration: int, array: np.ndarray[Any, Any]) -> str:
    """A tensor's numbers, by their place in memory; gives the file's path."""
    os.makedirs(folder, exist_ok=True)
    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in feature)
    path = os.path.join(folder, f"{name}{hardware.capitalize()}Iteration{iteration}.csv")
    _write(path, [["Index", "Value"], *enumerate(array.reshape(-1).tolist())])
    return path


def _write(path: str, rows: Sequence[Sequence[Any]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    with written_whole(path) as file:
        file.write(text.getvalue().encode())
