"""`winml-py tune`: options that are faster on a model than the default."""

from __future__ import annotations

import os
from typing import Any

import click

from ..core.base.atomic_files import require_folder
from ..core.base.messages import Facts
from ..inputs.model import to_json
from ..perf.tune import LATENCY, THROUGHPUT
from ..perf.tune import tune as search
from .arguments import (
    contract_options,
    inputs_argument,
    json_option,
    model_argument,
    output_option,
    require_no_input,
    size_options,
)
from .failures import naming
from .style import emit, number, print_sizes, progress, say, show, tell_assumed

LONG_START = 2
"""How many times as long a session may take to make before the user is told: programs that evaluate once would lose."""


@click.command()
@model_argument
@inputs_argument
@click.option("--goal", type=click.Choice([LATENCY, THROUGHPUT]), default=LATENCY, show_default=True)
@output_option("The file of options to write.")
@size_options
@contract_options
@json_option
def tune(model: str, inputs: tuple[str, ...], goal: str, output: str | None, as_json: bool, **options: Any) -> None:
    """Search session options that make MODEL faster.

    It tries engine, precision, threads, execution mode, graph optimisation, memory, and for throughput also batches,
    on INPUT or on example inputs. A change is dropped if results differ, or if it does not beat the best so far twice,
    in nearly every turn.
    At the end, the best and the default run in turns. If the best does not win, the default is kept.

    LearningModelSessionOptions.load(FILE) reads what --output writes.
    """
    if output:
        require_no_input(output, [model, *inputs], remedy="")
        require_folder(output)
    with progress("tuning") as advance, naming(model):
        tuned = search(model, inputs, goal, advance, **options)
    if output:
        notes = {"model": os.path.basename(model), "goal": goal, "gain": tuned.gain, "batch": tuned.batch}
        tuned.options.save(output, notes=notes)
    facts = {"model": model, "goal": goal} | vars(tuned)
    facts |= {"options": tuned.options.to_dict(), "trials": [trial._asdict() for trial in tuned.trials]}
    facts["sizes"] = to_json(tuned.sizes)
    emit(facts, as_json, _print)
    tell_assumed(model, facts["sizes"])
    if output and not as_json:
        say(f"written to {output}")


def _print(facts: Facts) -> None:
    rows = []
    for trial in facts["trials"]:
        result = "kept" if trial["kept"] else trial["problem"]
        rows.append([trial["change"], result, number(trial["milliseconds"]), number(trial["gain"], 2)])
    show(rows, ["tried", "", "ms", "gain"], "llr")
    say("")
    print_sizes(facts["sizes"])
    default = f"{number(facts['default_ms'])} ms"
    if facts["gain"] > 1:
        kept = ", ".join(trial["change"] for trial in facts["trials"] if trial["kept"])
        low, high = facts["gain_range"]
        say(f"{facts['gain']:.2f} ({low:.2f} to {high:.2f}) times as fast as the default: {kept}", "bold")
        say(f"{default} by default, {number(facts['tuned_ms'])} ms tuned")
        before, after = facts["start_ms"]
        if after > LONG_START * before:
            say(f"A session takes {after:.0f} ms to make, {before:.0f} ms by default.")
    else:
        say(f"Nothing helped: the default, {default}, is the fastest.", "bold")
