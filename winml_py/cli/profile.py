"""`winml-py profile`: which nodes take the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..core.base.atomic_files import require_folder, write_whole
from ..core.base.messages import Facts
from ..inputs.model import Case
from ..perf.page import page
from ..perf.profile import Profile, read
from ..perf.profile import profile as record
from .arguments import (
    contract_options,
    device_option,
    engine_option,
    inputs_argument,
    iterations_option,
    json_option,
    output_option,
    precision_option,
    require_one_engine,
    settings_option,
    size_options,
)
from .failures import INPUT, failures, naming
from .style import emit, number, print_sizes, progress, say, show, tell_assumed
from .summary import print_on_cpu

ROWS = 15


@click.command()
@click.argument("model", type=click.Path(), required=False)
@inputs_argument
@output_option("Write a page with a map of operators and nodes.", "--html", "html", "FILE")
@output_option("Write the recording, for Perfetto.", "--trace", "trace", "FILE")
@click.option("--trace-in", type=click.Path(), metavar="FILE", help="Read a recording, in the place of MODEL.")
@iterations_option(20)
@device_option()
@engine_option()
@precision_option
@settings_option
@size_options
@contract_options
@json_option
def profile(
    html: str | None, trace: str | None, trace_in: str | None, iterations: int, as_json: bool, **options: Any
) -> None:
    """Show which nodes of MODEL take the time.

    It is evaluated on INPUT, or on example inputs. The page of --html is one file, which requests nothing from the
    network.
    """
    require_one_engine(options["settings"], options["engine"], options["precision"])
    if bool(options["model"]) is bool(trace_in):
        raise click.UsageError("Give a MODEL, or a recording by --trace-in FILE; not both.")
    for path in filter(None, (html, trace)):
        require_folder(path)
    with progress("profiling"), naming(trace_in or options["model"]):
        case = {name: value for name, value in options.items() if value}
        profiled = _record(trace_in) if trace_in else record(Case(**case), iterations)
    if html:
        write_whole(html, page(profiled).encode())
    if trace:
        write_whole(trace, profiled.trace)
    facts = profiled.to_json()
    emit(facts, as_json, lambda _: _print(profiled, facts))
    tell_assumed(profiled.model, facts["sizes"])


def _record(path: str) -> Profile:
    """The profile in a file. It does not say which device it is of."""
    with failures(INPUT):
        return read(Path(path).read_bytes(), path)


def _print(profiled: Profile, facts: Facts) -> None:
    total = profiled.total
    where = f" on {profiled.device}" if profiled.device else ""
    say(f"{profiled.model}{where}: {number(total / 1e3)} ms, mean of {profiled.evaluations}", "bold")
    rows = [
        [*words, number(time, 1), number(100 * time / total if total else None, 1)]
        for words, time in profiled.rows(ROWS)
    ]
    show(rows, ["node", "operator", "provider", "us", "%"], "lllr")
    print_sizes(facts["sizes"])
    if profiled.caution:
        say(profiled.caution)
    print_on_cpu(profiled.on_cpu)
