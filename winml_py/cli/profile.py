"""`winml-py profile`: which nodes take the time."""

from __future__ import annotations

from typing import Any

import click

from ..base.atomic_files import require_folder, write_whole
from ..tools.perf.case import Case
from ..tools.perf.page import page
from ..tools.perf.profile import Profile
from ..tools.perf.profile import profile as record
from .arguments import (
    contract_options,
    device_option,
    engine_option,
    inputs_argument,
    iterations_option,
    json_option,
    model_argument,
    precision_option,
    require_one_engine,
    settings_option,
    size_options,
)
from .failures import naming
from .output_files import require_no_input
from .sizes import print_sizes, tell_assumed
from .style import emit, number, progress, say, show

ROWS = 15


@click.command()
@model_argument
@inputs_argument
@click.option("--html", type=click.Path(), metavar="FILE", help="Write a page with a map of operators and nodes.")
@click.option("--trace", type=click.Path(), metavar="FILE", help="Write the recording, for Perfetto.")
@iterations_option(20)
@device_option()
@engine_option()
@precision_option
@settings_option
@size_options
@contract_options
@json_option
def profile(html: str | None, trace: str | None, iterations: int, as_json: bool, **options: Any) -> None:
    """Show which nodes of MODEL take the time.

    It is evaluated on INPUT, or on example inputs. The page of --html is one file, which requests nothing from the
    network. It needs plotly: pip install 'winml-py[tools]'.
    """
    require_one_engine(options["settings"], options["engine"], options["precision"])
    for path in filter(None, (html, trace)):
        require_no_input(path, [options["model"], *options["inputs"]], remedy="")
        require_folder(path)
    with progress("profiling"), naming(options["model"]):
        profiled = record(Case(**{name: value for name, value in options.items() if value}), iterations)
    if html:
        write_whole(html, page(profiled).encode())
    if trace:
        write_whole(trace, profiled.trace)
    facts = profiled.to_json()
    emit(facts, as_json, lambda _: _print(profiled, facts))
    tell_assumed(profiled.model, facts["sizes"])


def _print(profiled: Profile, facts: dict[str, Any]) -> None:
    total = profiled.total
    say(f"{profiled.model} on {profiled.device}: {number(total / 1e3)} ms, mean of {profiled.evaluations}", "bold")
    rows = [
        [*words, number(time, 1), number(100 * time / total if total else None, 1)]
        for words, time in profiled.rows(ROWS)
    ]
    show(rows, ["node", "operator", "provider", "us", "%"], "lllr")
    print_sizes(facts["sizes"])
