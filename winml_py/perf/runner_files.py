"""Files in the formats of WinMLRunner, for those who have scripts that read them."""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Mapping, Sequence

import numpy as np

from ..core.base.agreement import as_numpy
from ..core.base.atomic_files import write_whole, written_to
from ..core.base.messages import Facts
from .measurement import Measurement, spread

_STATISTICS = {"Average": "mean", "Standard Deviation": "stdev", "Min": "min", "Max": "max"}

SUMMARY = "Summary.csv"

_BIND, _EVALUATE = ("decode", "tensorize", "bind"), ("evaluate", "detensorize")
"""The phases that WinMLRunner calls binding, and those that it calls evaluation."""


def performance(path: str, measured: Sequence[Measurement]) -> None:
    """Writes a header and a row for each case: the times of six phases, and the memory they took.

    What is not measured here, such as a GPU's shared memory, is left empty.

    Raises:
        StorageAccessError: the file cannot be written.
    """
    _write(path, [_row(case) for case in measured])


def _row(case: Measurement) -> Facts:
    binds, runs = _milliseconds(case, *_BIND), _milliseconds(case, *_EVALUATE)
    # The columns of Windows ML's runner, by which its users compare; what cannot be measured here stays empty.
    milliseconds = {
        "Load": [case.first["load"].wall * 1e3],
        "Session Creation": [case.first["session"].wall * 1e3],
        "First Bind": binds[:1],
        "Bind": binds[1:],
        "First Evaluate": runs[:1],
        "Evaluate": runs[1:],
    }
    steps = [case.memory[step] / 1e6 for step in ("before", "load", "session", "first evaluation", "end")]
    grown = [[after - before] for before, after in itertools.pairwise(steps)]
    memory = dict(zip(("Load", "Session Creation", "First Evaluate", "Evaluate"), grown, strict=True))
    row = {
        "Model Name": os.path.basename(case.model),
        "Device Type": case.device,
        "Input Binding": "CPU",
        "Input Type": "Image" if {"decode", "tensorize"} <= case.samples.keys() else "Tensor",
        "Device Creation Location": "winml-py",
        "Iterations": case.iterations,
        "Load Iterations": 1,
        "Session Creation Iterations": 1,
    }
    units = {
        "(ms)": milliseconds,
        "Working Set Memory (MB)": memory,
        "Dedicated Memory (MB)": {},
        "Shared Memory (MB)": {},
    }
    for unit, by_phase in units.items():
        for phase in milliseconds:
            figures = spread(by_phase[phase]) if phase in by_phase else None
            for name, statistic in _STATISTICS.items():
                row[f"{name} {phase} {unit}"] = f"{figures[statistic]:.6g}" if figures else ""
    return row


def _milliseconds(case: Measurement, *phases: str) -> list[float]:
    """What the phases took together: in the first evaluation, and in each after it."""
    return [sum(lap[phase].wall * 1e3 for phase in phases if phase in lap) for lap in (case.first, *case.laps)]


def iterations(folder: str, measured: Sequence[Measurement]) -> None:
    """Writes `Summary.csv` to the folder: a row for each evaluation, including the first.

    Raises:
        StorageAccessError: the file cannot be written.
    """
    rows = []
    for case in measured:
        items = [case.inputs[0], *case.items]
        binds, runs = _milliseconds(case, *_BIND), _milliseconds(case, *_EVALUATE)
        for number, (item, bind, run) in enumerate(zip(items, binds, runs, strict=True), 1):
            row = {
                "Model Name": os.path.basename(case.model),
                "Input Name": os.path.basename(item),
                "Iterations": len(items),
                "Iteration Number": number,
                "CPU Working Set Diff (MB)": "",
                "CPU Working Set Start (MB)": f"{case.memory['first evaluation'] / 1e6:.3f}",
                "GPU Shared Memory Diff (MB)": "",
                "GPU Shared Memory Start (MB)": "",
                "GPU Dedicated Memory Diff (MB)": "",
                "Load (ms)": f"{case.first['load'].wall * 1e3:.6g}",
                "Bind (ms)": f"{bind:.6g}",
                "Evaluate (ms)": f"{run:.6g}",
            }
            rows.append(row)
    _write(os.path.join(folder, SUMMARY), rows)


def tensors(folder: str, outputs: Mapping[str, object], hardware: str, iteration: int) -> None:
    """Writes a file for each output that is a tensor or a picture: its numbers, in the order of its memory.

    Raises:
        StorageAccessError: a file cannot be written.
    """
    for feature, value in outputs.items():
        array = as_numpy(value)
        if isinstance(array, np.ndarray):
            name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in feature)
            path = os.path.join(folder, f"{name}{hardware.capitalize()}Iteration{iteration}.csv")
            _write(path, [{"Index": index, "Value": number} for index, number in enumerate(array.ravel().tolist())])


def _write(path: str, rows: Sequence[Mapping[str, object]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0] if rows else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with written_to(path):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    write_whole(path, text.getvalue().encode())
