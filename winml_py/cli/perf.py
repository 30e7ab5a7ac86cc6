"""`winml-py perf`: what load, bind and evaluate take, and a comparison of two results."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import Any

import click

from .. import __version__
from ..core.base.atomic_files import require_folder
from ..core.base.machine import usable_cores
from ..core.base.messages import Facts
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.runtime.providers.plugins import runtime_version
from ..inputs.files import models_of
from ..inputs.model import Case
from ..perf import runner_files
from ..perf.compare import MARGIN, SLOWER, UNCLEAR, compare, load, pair_cases
from ..perf.measure import Prepared, Receiver, prepare_together
from ..perf.measurement import ONCE, Measurement
from .arguments import (
    contract_options,
    device_option,
    engine_option,
    iterations_option,
    json_option,
    models_argument,
    output_option,
    precision_option,
    require_one_engine,
    require_unnamed,
    settings_option,
    size_options,
)
from .failures import naming
from .style import emit, number, print_sizes, progress, say, show, tell_assumed


@click.command()
@models_argument
@device_option(several=True)
@engine_option(several=True)
@precision_option
@settings_option
@iterations_option()
@click.option("--seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="Evaluate so long instead.")
@click.option("--threads", type=click.IntRange(1), default=1, metavar="N", help="Threads that evaluate at once.")
@click.option("--concurrent-load", type=click.IntRange(1), metavar="N", help="Load on N threads at once.")
@click.option("--thread-interval", type=click.FloatRange(0), default=0.0, metavar="MS", help="Between their starts.")
@click.option("--compare", nargs=2, type=click.Path(), metavar="OLD NEW", help="Compare two saved runs; no MODEL.")
@output_option("Write WinMLRunner's table.", "--csv", "csv_file", "FILE")
@output_option("Write WinMLRunner's Summary.csv.", "--per-iteration", "per_iteration", "FOLDER")
@click.option("--save-tensors", type=click.Choice(["first", "all"]), help="Write outputs to that folder, too.")
@size_options
@contract_options
@json_option
def perf(
    models: tuple[str, ...],
    devices: tuple[str, ...],
    engines: tuple[str, ...],
    iterations: int | None,
    seconds: float | None,
    threads: int,
    concurrent_load: int | None,
    thread_interval: float,
    compare: tuple[str, str] | None,
    csv_file: str | None,
    per_iteration: str | None,
    save_tensors: str | None,
    as_json: bool,
    **case_options: Any,
) -> None:
    """Measure each MODEL (or folder of them) on INPUT, or on example inputs."""
    if compare:
        compare_runs(*compare, as_json)
        return
    if not models:
        raise click.UsageError("Name a MODEL, or two saved runs: --compare OLD NEW.")
    if iterations is not None and seconds is not None:
        raise click.UsageError("Give --iterations or --seconds.")
    if save_tensors and not per_iteration:
        raise click.UsageError("--save-tensors needs a folder: --per-iteration FOLDER.")
    require_one_engine(case_options["settings"], engines, case_options["precision"])
    paths = [path for model in models for path in models_of(model)]
    if csv_file:
        require_folder(csv_file)
    if per_iteration:
        require_unnamed(os.path.join(per_iteration, runner_files.SUMMARY))
    cases = [
        Case(path, device=device, engine=engine, **case_options)
        for path in paths
        for device in devices or ("cpu",)
        for engine in engines or (None,)
    ]
    prepared: Iterator[Prepared] = map(Prepared, cases)
    if concurrent_load:
        prepared = iter(prepare_together(cases, concurrent_load, thread_interval / 1e3))
    measured = []
    for index, case in enumerate(cases, 1):
        name = os.path.basename(case.model)
        # Each of several cases has a folder for its outputs, or they would overwrite each other's.
        folder = os.path.join(per_iteration or "", f"{index}-{os.path.splitext(name)[0]}" if len(cases) > 1 else "")
        with progress(f"{name} on {case.device}") as advance, naming(case.model):
            ready = next(prepared)
            with ready.session as session:
                receive = _saver(folder, save_tensors, session.device.hardware)
                measured.append(ready.run(iterations, seconds, threads, advance, receive))
    if csv_file:
        runner_files.performance(csv_file, measured)
    if per_iteration:
        runner_files.iterations(per_iteration, measured)
    facts = _facts(measured)
    emit(facts, as_json, _print)
    for case in facts["cases"]:
        tell_assumed(case["model"], case["sizes"])


def _saver(folder: str, which: str | None, hardware: str) -> Receiver:
    """Writes the outputs of the first evaluation, of all, or of none."""

    def receive(index: int, result: LearningModelEvaluationResult) -> None:
        if which == "all" or (which == "first" and index == 0):
            runner_files.tensors(folder, result.outputs, hardware, index + 1)

    return receive


def _facts(measured: list[Measurement]) -> Facts:
    host = {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": usable_cores(),
        "winml_py": __version__,
        "onnxruntime": runtime_version(),
    }
    return {"host": host, "cases": [case.to_json() for case in measured]}


def _print(facts: Facts) -> None:
    for index, case in enumerate(facts["cases"]):
        if index:
            say("")
        _print_case(case)


def _print_case(case: Facts) -> None:
    say(f"{case['model']} on {case['device']}: {case['engine']}, {case['precision']}", "bold")
    rows = []
    for phase, figures in case["phases"].items():
        middle = [None] * 3 if phase in ONCE else [figures[key] for key in ("p50_ms", "p90_ms", "p99_ms")]
        rows.append([phase, *map(number, [case["first_ms"].get(phase), *middle, figures["cpu_p50_ms"]])])
    show(rows, ["ms", "first", "p50", "p90", "p99", "cpu"], "lr")
    several = f" on {case['threads']} threads" if case["threads"] > 1 else ""
    say(f"{case['iterations']} evaluations{several}, {number(case['evaluations_per_second'], 1)} a second")
    print_sizes(case["sizes"])
    memory, device = case["memory_mb"], case["device_memory_mb"]
    steps = f"{memory['before']:.0f} MB before, {memory['session']:.0f} with the session"
    on_device = "" if device is None else f"; {device:.0f} MB on the device"
    say(f"memory: {steps}, {max(memory.values()):.0f} at most{on_device}")


# What `winml-py perf --compare` says of two saved runs.


def compare_runs(old: str, new: str, as_json: bool) -> None:
    """Compares two saved runs; the exit code is 1 where something has become slower.

    Raises:
        click.UsageError: nothing in them belongs together.
        WinMLError: a file holds no measurement.
    """
    pairs, left = pair_cases(load(old), load(new))
    if not pairs:
        raise click.UsageError(f"{new}: It has no case in common with {old}: no model, and not as many cases.")
    facts = {"pairs": [compare(*pair) for pair in pairs], "unpaired": list(map(str, left)), "margin": MARGIN}
    emit({"kind": "comparison"} | facts, as_json, _print_comparison)
    if any(pair["verdict"] == SLOWER for pair in facts["pairs"]):  # type: ignore[attr-defined]
        raise click.exceptions.Exit(1)


def _print_comparison(facts: Facts) -> None:
    for pair in facts["pairs"]:
        names = pair["new"] if pair["old"] == pair["new"] else f"{pair['old']} -> {pair['new']}"
        say(names, "bold")
        ends = f"{number(pair['low'], 2)} to {number(pair['high'], 2)}"
        colour = "bold red" if pair["verdict"] == SLOWER else "bold"
        say(f"{pair['verdict']}: {number(pair['ratio'], 2)} times the time of the old one ({ends})", colour)
        rows = [
            [phase, number(one["old_ms"]), number(one["new_ms"]), number(one["ratio"], 2)]
            for phase, one in pair["phases"].items()
        ]
        show(rows, ["phase", "old ms", "new ms", "new / old"], "lr")
        if pair["verdict"] == UNCLEAR:
            say("The times vary too much to tell. Measure longer (--seconds), and nothing else at the same time.")
    for case in facts["unpaired"]:
        say(f"{case}: in one of the runs only")
