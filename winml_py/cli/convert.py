"""`winml-py convert`: convert a model to float16 or optimize it, and check the results."""

from __future__ import annotations

import os
from typing import Any

import click

from .._inputs.examples import StatedSizes
from .._inputs.files import given_values
from .._inputs.model import load_model
from ..authoring.evidence import stated_contract
from ..authoring.write_contract import write_contract
from ..core.base.messages import Facts
from ..core.imaging.contract import ImageContract
from ..float16.convert import convert as to_float16
from ..float16.report import ConversionReport
from ..optimize import LEVELS, OptimizationReport, optimize
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
    float32. Optimized: "basic" uses ONNX's operators only, "extended" also ONNX Runtime's, "all" also those for this
    processor.
    """
    if is_float16 == bool(level):
        raise click.UsageError("Give either --float16 or --optimize LEVEL.")
    if level and (keep_io_types or keep_float32):
        raise click.UsageError("--keep-io-types and --keep-float32 require --float16.")
    with progress("converting") as advance, prefix_errors(model, *inputs):
        values = given_values(load_model(model, contract), inputs)
        options: dict[str, Any] = {"inputs": values, "contract": contract, "sizes": sizes, "force": True}
        if tolerance is not None:
            options["tolerance"] = tolerance
        report: OptimizationReport | ConversionReport
        if level:
            report = optimize(model, output, level=level, **options)
        else:
            options |= {"keep_io_types": keep_io_types, "keep_float32": keep_float32, "progress": advance}
            report = to_float16(model, output, **options)
        if os.path.isdir(model) and (stated := stated_contract(load_model(model).input_features)):
            write_contract(output, output, stated)  # a folder states it beside the model
    facts: Facts = {"model": model, "output": output} | report.to_json()
    emit(facts, as_json, lambda facts: _print_conversion(facts, report))
    warn_assumed(model, facts["sizes"])
    before, after = _sizes(report)
    if after >= before:
        say(f"{output}: The model is not smaller: {before:,} bytes became {after:,}.", is_error=True)


def _sizes(report: OptimizationReport | ConversionReport) -> tuple[int, int]:
    return report.size if isinstance(report, OptimizationReport) else (report.size_before, report.size_after)


def _print_conversion(facts: Facts, report: object) -> None:
    say(report)
    print_sizes(facts["sizes"])
