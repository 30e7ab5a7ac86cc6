"""`winml-py tune`: find session options that are faster than the default."""

from __future__ import annotations

import os

import click

from .._examples import StatedSizes, find_input_sizes, make_examples, sizes_to_json, tell_assumed_sizes
from ..core.base.atomic_files import require_folder
from ..core.base.messages import Facts
from ..core.imaging.contract import ImageContract
from ..core.runtime.device import LearningModelDevice
from ..perf.tuning import search
from .arguments import (
    Setup,
    contract_option,
    device_option,
    inputs_argument,
    json_option,
    model_argument,
    output_option,
    size_options,
)
from .failures import prefix_errors
from .files import assign_files, read_inputs
from .style import emit, format_number, print_line, print_sizes, print_table, show_progress


@click.command()
@model_argument
@inputs_argument
@device_option
@output_option("The file to save the options to.")
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

    On a CPU, the command tries engines, number types, threads and memory settings. On a GPU, it tries the options of
    the provider. It keeps a change if it is clearly faster and the results on every INPUT stay the same. Without INPUT,
    it keeps the engine and the number type. To read the file that --output writes, call
    LearningModelSessionOptions.load(FILE).
    """
    if output:
        require_folder(output)
    with show_progress("tuning") as advance, prefix_errors(model, *inputs):
        setup = Setup(device, contract=contract, sizes=sizes)
        loaded = setup.load(model)
        items = [read_inputs(loaded, files) for _, files in assign_files(loaded, inputs)] if inputs else []
        features = sizes.apply(loaded.input_features)
        examples = {} if inputs else make_examples(features)
        with tell_assumed_sizes(features, items[0] if items else ()):
            used = LearningModelDevice.find(device)
            tuned = search(loaded, items, examples, used, setup.make_options(loaded), advance)
    if output:
        tuned.options.save(output, notes={"model": os.path.basename(model), "device": tuned.device})
    shown = sizes_to_json(find_input_sizes(features, items[0] if items else {}))
    facts: Facts = {"model": model} | tuned.to_json() | {"sizes": shown}
    emit(facts, as_json, _print_trials)
    if output and not as_json:
        print_line(f"written to {output}")


def _print_trials(facts: Facts) -> None:
    rows = []
    for trial in facts["trials"]:
        gain = trial["gain"]
        figures = [format_number(gain["milliseconds"][1]), format_number(gain["ratio"], 2)] if gain else ["", ""]
        rows.append([trial["change"], trial["problem"] or "kept", *figures])
    kept = ", ".join(trial["change"] for trial in facts["trials"] if trial["kept"])
    print_table(rows, ["tried", "", "ms", "speedup"], "llrr")
    print_line("")
    print_sizes(facts["sizes"])
    if gain := facts["gain"]:
        before, after = (f"{format_number(milliseconds)} ms" for milliseconds in gain["milliseconds"])
        print_line(f"{gain['ratio']:.2f} times as fast as the default, {after} instead of {before}: {kept}", "bold")
    elif kept:
        print_line(f"The default remains the best: when measured again, it is not clearly slower than {kept}.", "bold")
    else:
        print_line("The default remains the best: no change is clearly faster.", "bold")
