"""`winml-py perf`: time load, bind and evaluate; profile nodes."""

from __future__ import annotations

import os
import platform
from dataclasses import replace

import click

from .. import __version__
from .._cases.case import Case
from .._cases.files import list_models
from ..core.base.atomic_files import require_folder, write_atomically
from ..core.base.machine import count_usable_cores
from ..core.base.messages import Facts
from ..core.runtime.providers.plugins import read_runtime_version
from ..perf.measure import PHASES_ONCE, PreparedCase
from ..perf.profile import OUTSIDE, Profile, profile
from .arguments import case_options, json_option, output_option
from .failures import prefix_errors
from .style import emit, format_number, print_line, print_sizes, print_table, show_progress, warn_assumed


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL... [INPUT]...")
@click.option("-n", "--iterations", type=click.IntRange(1), metavar="N", help="Evaluations after the first.  [100]")
@click.option("--profile", "is_profile", is_flag=True, help="Show each node's time instead.  [-n 20]")
@output_option("Write the trace, for Perfetto.", "--trace", "FILE")
@case_options
@json_option
def perf(
    models: tuple[str, ...], iterations: int | None, is_profile: bool, trace: str | None, case: Case, as_json: bool
) -> None:
    """Measure each MODEL (or folder of them) on INPUT, or on example inputs."""
    # The first word is a model or a folder of models, and so are the words after it that end in .onnx.
    count = 1
    while count < len(models) and models[count].lower().endswith(".onnx"):
        count += 1
    inputs = models[count:]
    cases = [replace(case, model=path, inputs=inputs) for model in models[:count] for path in list_models(model)]
    if is_profile or trace:
        if len(cases) > 1:
            raise click.UsageError("--profile takes one model.")
        _profile_case(cases[0], iterations or 20, trace, as_json)
        return
    measurements = []
    for case in cases:
        files = case.model, *case.inputs, case.settings
        with show_progress(f"{os.path.basename(case.model)} on {case.device}") as advance, prefix_errors(*files):
            prepared = PreparedCase(case)
            with prepared.session:
                measurements.append(prepared.measure(iterations or 100, advance))
    host = {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": count_usable_cores(),
        "winml_py": __version__,
        "onnxruntime": read_runtime_version(),
    }
    facts: Facts = {"host": host, "cases": [measurement.to_json() for measurement in measurements]}
    emit(facts, as_json, _print_measurements)
    for measured in facts["cases"]:
        warn_assumed(measured["model"], measured["sizes"])


def _print_measurements(facts: Facts) -> None:
    for index, case in enumerate(facts["cases"]):
        if index:
            print_line("")
        print_line(f"{case['model']} on {case['device']}: {case['engine']}, {case['precision']}", "bold")
        rows = []
        for phase, figures in case["phases"].items():
            middle = [None] * 3 if phase in PHASES_ONCE else [figures[key] for key in ("p50_ms", "p90_ms", "p99_ms")]
            rows.append([phase, *map(format_number, [case["first_ms"].get(phase), *middle, figures["cpu_p50_ms"]])])
        print_table(rows, ["ms", "first", "p50", "p90", "p99", "cpu"], "lr")
        print_line(f"{case['iterations']} evaluations, {format_number(case['evaluations_per_second'], 1)} a second")
        print_sizes(case["sizes"])
        memory, device = case["memory_mb"], case["device_memory_mb"]
        steps = f"{memory['before']:.0f} MB before, {memory['session']:.0f} with the session"
        on_device = "" if device is None else f"; {device:.0f} MB on the device"
        print_line(f"memory: {steps}, {max(memory.values()):.0f} at most{on_device}")


# Profiles of nodes.


SLOWEST = 15
"""How many nodes the table has, the slowest first."""


def _profile_case(case: Case, iterations: int, trace: str | None, as_json: bool) -> None:
    if trace:
        require_folder(trace)
    with show_progress("profiling"), prefix_errors(case.model, *case.inputs, case.settings):
        profiled = profile(case, iterations)
    if trace:
        write_atomically(trace, profiled.trace)
    facts: Facts = {"kind": "profile"} | profiled.to_json()
    emit(facts, as_json, lambda facts: _print_profile(profiled, facts))
    warn_assumed(case.model, facts["sizes"])


def _print_profile(profiled: Profile, facts: Facts) -> None:
    total = profiled.total
    print_line(
        f"{profiled.model} on {profiled.device}: {format_number(total / 1e3)} ms, mean of {profiled.evaluations}",
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
    if profiled.on_cpu:
        print_line(f"{len(profiled.on_cpu)} node{'s' * (len(profiled.on_cpu) > 1)} on the CPU:")
    for node in profiled.on_cpu:
        print_line(f"  {node.operator} {node.node}".rstrip() + f": {node.reason or 'the log does not say why'}")
