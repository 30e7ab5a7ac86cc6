"""`winml-py tune`: find session options that are faster than the default."""

from __future__ import annotations

import os

import click

from .._inputs.examples import StatedSizes
from .._inputs.model import Case
from ..core.base.atomic_files import require_folder
from ..core.base.messages import Facts
from ..core.imaging.contract import ImageContract
from ..perf.tune import tune as search
from .arguments import (
    contract_option,
    device_option,
    inputs_argument,
    json_option,
    model_argument,
    output_option,
    size_options,
)
from .failures import prefix_errors
from .style import emit, number, print_sizes, progress, say, show, warn_assumed


@click.command()
@model_argument
@inputs_argument
@device_option
@output_option("The file of options to write.")
@size_options
@contract_option
@json_option
def tune(
    model: str,
    inputs: tuple[str, ...],
    output: str | None,
    as_json: bool,
    device: str,
    sizes: StatedSizes,
    contract: ImageContract | None,
) -> None:
    """Search for session options that make MODEL faster.

    On a CPU it tries engines, precision, threads and memory, on a GPU its provider's options, on INPUT or on example
    inputs. Each change runs in turns with the best so far until they differ clearly. It is dropped if results differ,
    or if it is less than 3 % faster, or if noise may be the reason. LearningModelSessionOptions.load(FILE) reads the
    file that --output writes.
    """
    if output:
        require_folder(output)
    with progress("tuning") as advance, prefix_errors(model, *inputs):
        tuned = search(Case(model, inputs, device, contract=contract, sizes=sizes), advance)
    if output:
        notes = {"model": os.path.basename(model), "device": tuned.device, "gain": tuned.gain.ratio}
        tuned.options.save(output, notes=notes)
    facts: Facts = {"model": model} | tuned.to_json()
    emit(facts, as_json, _print_trials)
    warn_assumed(model, facts["sizes"])
    if output and not as_json:
        say(f"written to {output}")


def _print_trials(facts: Facts) -> None:
    rows = []
    for trial in facts["trials"]:
        result = "kept" if trial["kept"] else trial["problem"]
        figures = ["", "", ""]
        if gain := trial["gain"]:
            ends = " to ".join(number(end, 2) for end in gain["interval"])
            figures = [number(gain["milliseconds"][1]), number(gain["ratio"], 2), ends]
        rows.append([trial["change"], result, *figures])
    show(rows, ["tried", "", "ms", "speedup", "with 95 %"], "llrrl")
    say("")
    print_sizes(facts["sizes"])
    gain = facts["gain"]
    default, tuned = (f"{number(milliseconds)} ms" for milliseconds in gain["milliseconds"])
    if gain["ratio"] > 1:
        kept = ", ".join(trial["change"] for trial in facts["trials"] if trial["kept"])
        low, high = gain["interval"]
        say(f"{gain['ratio']:.2f} ({low:.2f} to {high:.2f}) times as fast as the default: {kept}", "bold")
        say(f"{default} by default, {tuned} tuned; 95 % confidence")
    else:
        say(f"No change helped: the default, {default}, is the fastest.", "bold")
