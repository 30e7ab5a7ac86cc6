"""`winml-py run`: evaluate models on pictures and arrays."""

from __future__ import annotations

from typing import Any

import click

from ..inputs.files import models_of
from .arguments import (
    contract_options,
    device_option,
    engine_option,
    force_option,
    json_option,
    labels_option,
    models_argument,
    output_option,
    precision_option,
    require_one_engine,
    settings_option,
    size_options,
)
from .evaluations import Wanted, evaluate_all
from .findings import AUTO, KINDS
from .output_files import require_no_input
from .style import emit, progress
from .summary import print_results


@click.command()
@models_argument
@click.option("--top-k", type=click.IntRange(1), default=5, show_default=True, metavar="N", help="How many classes.")
@labels_option
@click.option(
    "--layout",
    type=click.Choice(KINDS),
    default=AUTO,
    metavar="KIND",
    help="What the outputs are: yolo, detr, masks, none, ...",
)
@click.option("--threshold", type=click.FloatRange(0, 1), metavar="SCORE", help="The lowest score of an object.")
@click.option("--example", is_flag=True, help="Evaluate on example inputs; no INPUT.")
@output_option("What to write; see above.")
@force_option
@device_option()
@engine_option()
@precision_option
@settings_option
@click.option("--log-cpu-fallback", is_flag=True, help="List the nodes that a GPU leaves to the CPU.")
@click.option("--fast-decode", is_flag=True, help="Decode large JPEGs only as large as the model needs.")
@size_options
@contract_options
@json_option
def run(
    models: tuple[str, ...],
    inputs: tuple[str, ...],
    example: bool,
    output: str | None,
    force: bool,
    top_k: int,
    labels: str | None,
    layout: str,
    threshold: float | None,
    log_cpu_fallback: bool,
    fast_decode: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate each MODEL (or folder of them) on every INPUT.

    An input is a picture, a video, a folder or pattern ("*.jpg") of pictures, or an array in a .npy or .csv file; write
    several of one model as NAME=FILE.

    \b
    --output FILE.png    a picture that the model gives, or the input with
                         what was found drawn on it; of a video .mp4
    --output FILE.npz    all outputs as arrays
    --output FOLDER/     one file for each input, named like it
    """  # noqa: D301 - click wants the backspace itself
    require_one_engine(options["settings"], options["engine"], options["precision"])
    paths = [path for model in models for path in models_of(model)]
    if example == bool(inputs):
        raise click.UsageError(
            f"{' '.join(models)}: Name an INPUT after the model (a picture, a video, a folder of pictures, an array), "
            "or write --example, and no INPUT."
        )
    require_no_input(output, [*paths, *inputs], force)
    wanted = Wanted(top_k, labels, layout, threshold, output, force, log_cpu_fallback, fast_decode)
    given = {name: value for name, value in options.items() if value}
    with progress("evaluating") as advance:
        results = evaluate_all(paths, inputs, wanted, given, advance)
    emit({"results": results.facts}, as_json, print_results)
    if results.code:
        raise click.exceptions.Exit(results.code)
