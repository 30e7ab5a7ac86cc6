"""`winml-py convert`: convert a model to float16, and check its results."""

from __future__ import annotations

import click

from .._examples import StatedSizes
from .._values import load_model
from ..core.base.messages import Facts
from ..core.imaging.contract import ImageContract
from ..float16.convert import convert as to_float16
from .arguments import (
    contract_option,
    force_option,
    inputs_argument,
    json_option,
    model_argument,
    output_option,
    require_unnamed,
    size_options,
)
from .failures import prefix_errors
from .files import read_single_evaluation
from .style import emit, print_line, print_sizes, show_progress


@click.command()
@model_argument
@inputs_argument
@output_option("The model to write.", required=True)
@force_option
@click.option("--keep-io-types", is_flag=True, help="Keep inputs and outputs in float32.")
@click.option("--keep-float32", multiple=True, metavar="NODE", help="Keep a node or operator in float32. Repeatable.")
@click.option(
    "--tolerance",
    type=click.FloatRange(0, min_open=True),
    default=0.01,
    show_default=True,
    metavar="X",
    help="Largest allowed difference, relative to its channel.",
)
@size_options
@contract_option
@json_option
def convert(
    model: str,
    inputs: tuple[str, ...],
    output: str,
    keep_io_types: bool,
    keep_float32: tuple[str, ...],
    tolerance: float,
    sizes: StatedSizes,
    contract: ImageContract | None,
    as_json: bool,
) -> None:
    """Convert a model to float16.

    The command checks the results on INPUT, or on example inputs. Nodes that would lose too much precision stay in
    float32. If the results differ by more than --tolerance, the command writes nothing.
    """
    require_unnamed(f"{output}.data")  # where the weights of a large model go
    with show_progress("converting") as advance, prefix_errors(model, *inputs):
        report = to_float16(
            model,
            output,
            keep_io_types=keep_io_types,
            inputs=read_single_evaluation(load_model(model, contract), inputs),
            tolerance=tolerance,
            keep_float32=keep_float32,
            progress=advance,
            contract=contract,
            sizes=sizes,
            force=True,
        )
    facts: Facts = {"model": model, "output": output} | report.to_json()

    def print_report(facts: Facts) -> None:
        print_line(report)
        print_sizes(facts["sizes"])

    emit(facts, as_json, print_report)
