"""`winml-py convert`: convert a model to float16 or optimize it, and check the results."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

import click

from .._inputs.examples import StatedSizes, example_inputs
from .._inputs.files import given_values
from .._inputs.model import load_model
from ..core.base.atomic_files import require_folder, written_to, written_whole
from ..core.base.messages import Facts
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..errors import ConversionError
from ..float16.convert import convert as to_float16
from ..float16.report import ConversionReport
from ..optimize import LEVELS, OptimizationReport, optimize
from ..perf.rival import compare_models
from .arguments import (
    contract_option,
    force_option,
    inputs_argument,
    json_option,
    model_argument,
    output_option,
    size_options,
)
from .failures import prefix_errors
from .style import emit, print_sizes, progress, say, warn_assumed


@click.command()
@model_argument
@inputs_argument
@output_option("The model to write.", required=True)
@force_option
@click.option("--float16", "is_float16", is_flag=True, help="Convert to float16.")
@click.option("--optimize", "level", type=click.Choice(LEVELS), metavar="LEVEL", help=f"{', '.join(LEVELS)}.")
@click.option("--keep-io-types", is_flag=True, help="Leave inputs and outputs in float32.")
@click.option("--keep-float32", multiple=True, metavar="NODE", help="A node or operator to keep float32; repeatable.")
@click.option(
    "--tolerance",
    type=click.FloatRange(0, min_open=True),
    metavar="X",
    help="Largest difference, over its channel's magnitude.  [float16 0.01, otherwise 0.001]",
)
@size_options
@contract_option
@json_option
def convert(
    model: str,
    inputs: tuple[str, ...],
    output: str,
    is_float16: bool,
    level: str | None,
    keep_io_types: bool,
    keep_float32: tuple[str, ...],
    tolerance: float | None,
    sizes: StatedSizes,
    contract: ImageContract | None,
    as_json: bool,
) -> None:
    """Convert MODEL to float16, or optimize it, and check its results on INPUT or on example inputs.

    If results differ by more than --tolerance, nothing is written. Float16: nodes that lose too much precision stay in
    float32; a model that is neither smaller nor faster is not written. Optimized: "basic" uses ONNX's operators only,
    "extended" also ONNX Runtime's, "all" also those for this processor.
    """
    if is_float16 == bool(level):
        raise click.UsageError("Give --float16 or --optimize LEVEL.")
    if level and (keep_io_types or keep_float32):
        raise click.UsageError("--keep-io-types and --keep-float32 require --float16.")
    with progress("converting") as advance, prefix_errors(model, *inputs):
        loaded = load_model(model, contract)
        values = given_values(loaded, inputs)
        options: dict[str, Any] = {"inputs": values, "contract": contract, "sizes": sizes}
        if tolerance is not None:
            options["tolerance"] = tolerance
        report: OptimizationReport | ConversionReport
        speed = ""
        if level:
            report = optimize(model, output, level=level, force=True, **options)
        else:
            options |= {"keep_io_types": keep_io_types, "keep_float32": keep_float32, "progress": advance}
            report, speed = _to_float16(loaded, model, output, options)
    facts: Facts = {"model": model, "output": output} | report.to_json()
    emit(facts, as_json, lambda facts: _print(facts, report))
    warn_assumed(model, facts["sizes"])
    before, after = _sizes(report)
    if after >= before:
        say(f"{output}: The model is not smaller: {before:,} bytes became {after:,}.{speed}", is_error=True)


def write_model(source: str, destination: str) -> None:
    """Copies a model and the weights beside it, if any; each file complete or not at all.

    Raises:
        StorageAccessError: a file cannot be written.
    """
    for ending in (".data", ""):  # the weights first: other programs could see a model without them
        if os.path.exists(source + ending):
            with (
                written_to(destination),
                open(source + ending, "rb") as old,
                written_whole(destination + ending) as new,
            ):
                shutil.copyfileobj(old, new)


def _to_float16(
    loaded: LearningModel, model: str, output: str, options: Mapping[str, Any]
) -> tuple[ConversionReport, str]:
    """Converts a model, and writes it if it is smaller or faster. Returns a sentence on the speed, if measured.

    Raises:
        ConversionError: the model is neither smaller nor faster, or not accurate enough.
    """
    require_folder(output)
    # Windows cannot remove a file that a session still maps: the folder then stays.
    with tempfile.TemporaryDirectory(prefix="winml-py-", ignore_cleanup_errors=True) as folder:
        # Weights above 2 GB go to a file beside the model, which contains that file's name.
        path, speed = os.path.join(folder, os.path.basename(output)), ""
        report = to_float16(model, path, **options)
        before, after = _sizes(report)
        if after >= before:
            features = options["sizes"].applied(loaded.input_features)
            values, _ = example_inputs(features, options["inputs"])
            compared = compare_models((model, path), values, options["sizes"])
            low, high = compared.gain_range
            speed = f" It is {compared.gain:.2f} ({low:.2f} to {high:.2f}) times as fast on the CPU."
            if not compared.is_gain:
                raise ConversionError(
                    f"The float16 model is neither smaller nor faster ({compared.problem}): "
                    + "; ".join(str(report).splitlines())
                    + f"; nothing was written.{speed}",
                    hint="Keep the float32 model.",
                    report=report,
                )
        write_model(path, output)
    return report, speed


def _sizes(report: OptimizationReport | ConversionReport) -> tuple[int, int]:
    return report.size if isinstance(report, OptimizationReport) else (report.size_before, report.size_after)


def _print(facts: Facts, report: object) -> None:
    say(report)
    print_sizes(facts["sizes"])
