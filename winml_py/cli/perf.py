"""`winml-py perf`: time load, bind and evaluate; profile nodes."""

from __future__ import annotations

import itertools
import os
import platform
from collections.abc import Sequence

import click

from .. import __version__
from .._examples import EXAMPLE
from ..core.base.atomic_files import require_folder, write_atomically
from ..core.base.machine import count_usable_cores
from ..core.base.messages import Facts, Progress
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.providers.plugins import read_runtime_version
from ..core.session.session import LearningModelSession
from ..perf.measure import Inputs, Stopwatch, measure, read_resident_memory
from ..perf.profile import OUTSIDE, Profile, profile
from .arguments import Setup, json_option, output_option, setup_options
from .failures import prefix_errors
from .files import assign_files, list_models, read_inputs
from .style import emit, format_number, print_line, print_sizes, print_table, show_progress


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL... [INPUT]...")
@click.option("-n", "--iterations", type=click.IntRange(1), metavar="N", help="Evaluations after the first.  [100]")
@click.option("--profile", "is_profile", is_flag=True, help="Print the time of each node instead.  [-n 20]")
@output_option("Write a trace for Perfetto.", "--trace", "FILE")
@setup_options
@json_option
def perf(
    models: tuple[str, ...], iterations: int | None, is_profile: bool, trace: str | None, setup: Setup, as_json: bool
) -> None:
    """Measure the speed of models.

    A MODEL can be a folder of models. Without INPUT, the models evaluate example inputs.
    """
    # The first word is a model or a folder of models, and so are the words after it that end in .onnx.
    count = 1
    while count < len(models) and models[count].lower().endswith(".onnx"):
        count += 1
    inputs = models[count:]
    paths = [path for model in models[:count] for path in list_models(model)]
    if is_profile or trace:
        if len(paths) > 1:
            raise click.UsageError("--profile accepts only one model.")
        _profile(paths[0], inputs, setup, iterations or 20, trace, as_json)
        return
    measurements = []
    for path in paths:
        title = f"{os.path.basename(path)} on {setup.device}"
        with show_progress(title) as advance, prefix_errors(path, *inputs, setup.settings):
            measurements.append(_measure(path, inputs, setup, iterations or 100, advance))
    host = {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": count_usable_cores(),
        "winml_py": __version__,
        "onnxruntime": read_runtime_version(),
    }
    facts: Facts = {"host": host, "models": measurements}
    emit(facts, as_json, _print_measurements)


def _measure(path: str, files: Sequence[str], setup: Setup, iterations: int, progress: Progress) -> Facts:
    """Measures a model: also the phases "load", reading the file's header, and "session", compiling the model."""
    watch, memory = Stopwatch(), {"before": read_resident_memory()}
    with watch.time_phase("load"):
        model = setup.load(path)
    memory["load"] = read_resident_memory()
    device, options = LearningModelDevice.find(setup.device), setup.make_options(model)
    with watch.time_phase("session"):
        session = LearningModelSession(model, device, options)
    memory["session"] = read_resident_memory()
    with session:
        names, inputs = _read_in_turn(model, files)
        measured = measure(session, inputs, iterations=iterations, progress=progress)
    measured.first = watch.times | measured.first
    measured.times = {phase: [once] for phase, once in watch.times.items()} | measured.times
    measured.memory = memory | measured.memory
    return {"model": path, "inputs": names} | measured.to_json()


def _read_in_turn(model: LearningModel, files: Sequence[str]) -> tuple[list[str], Inputs | None]:
    """The names of the inputs, and a function that reads the next one."""
    if not files:
        return [EXAMPLE], None
    evaluations = list(assign_files(model, files))
    turns = itertools.cycle(files for _, files in evaluations)
    return [name for name, _ in evaluations], lambda: read_inputs(model, next(turns))


def _print_measurements(facts: Facts) -> None:
    for index, measured in enumerate(facts["models"]):
        if index:
            print_line("")
        print_line(
            f"{measured['model']} on {measured['device']}: {measured['engine']}, {measured['precision']}", "bold"
        )
        rows = []
        for phase, figures in measured["phases"].items():
            middle = (
                [None] * 3 if phase in ("load", "session") else [figures[key] for key in ("p50_ms", "p90_ms", "p99_ms")]
            )
            rows.append([phase, *map(format_number, [measured["first_ms"].get(phase), *middle, figures["cpu_p50_ms"]])])
        print_table(rows, ["ms", "first", "p50", "p90", "p99", "cpu"], "lr")
        print_line(
            f"{measured['iterations']} evaluations, {format_number(measured['evaluations_per_second'], 1)} a second"
        )
        print_sizes(measured["sizes"])
        memory = measured["memory_mb"]
        steps = f"{memory['before']:.0f} MB before, {memory['session']:.0f} with the session"
        print_line(f"memory: {steps}, {max(memory.values()):.0f} at most")


# Profiles of nodes.


SLOWEST = 15
"""How many nodes the table has, the slowest first."""


def _profile(path: str, files: Sequence[str], setup: Setup, iterations: int, trace: str | None, as_json: bool) -> None:
    if trace:
        require_folder(trace)
    with show_progress("profiling"), prefix_errors(path, *files, setup.settings):
        model = setup.load(path)
        options = setup.make_options(model)
        options.profiling = True
        with LearningModelSession(model, LearningModelDevice.find(setup.device), options) as session:
            profiled = profile(session, _read_in_turn(model, files)[1], iterations)
    if trace:
        write_atomically(trace, profiled.trace)
    facts: Facts = {"kind": "profile", "model": path} | profiled.to_json()
    emit(facts, as_json, lambda facts: _print_profile(profiled, facts))


def _print_profile(profiled: Profile, facts: Facts) -> None:
    total = profiled.total
    print_line(
        f"{facts['model']} on {profiled.device}: {format_number(total / 1e3)} ms, mean of {profiled.evaluations}",
        "bold",
    )
    slowest, others = profiled.nodes[:SLOWEST], profiled.nodes[SLOWEST:]
    times = [(node.name, node.operator, node.provider.removesuffix("ExecutionProvider"), node.time) for node in slowest]
    if others:
        times.append((f"{len(others)} more nodes", "", "", sum(node.time for node in others)))
    times.append((OUTSIDE, "", "", profiled.outside))
    rows = [
        [*words, format_number(time, 1), format_number(100 * time / total if total else None, 1)]
        for *words, time in times
    ]
    print_table(rows, ["node", "operator", "provider", "us", "%"], "lllr")
    print_sizes(facts["sizes"])
    if profiled.caution:
        print_line(profiled.caution)
