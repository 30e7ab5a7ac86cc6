"""`winml-py convert`: a float16 model from a float32 one, checked."""

from __future__ import annotations

from typing import Any

import click

from ..errors import ConversionError
from ..tools.float16.convert import convert as to_float16
from ..tools.float16.report import ConversionReport
from .arguments import arrays_option, contract_options, json_option, model_argument, out_argument, tolerance_option
from .style import emit, progress, say


@click.command()
@model_argument
@out_argument
@click.option("--float16", "is_float16", is_flag=True, required=True, help="Convert to float16.")
@click.option("--keep-io-types", is_flag=True, help="Leave the model's inputs and outputs in float32.")
@tolerance_option(1e-2)
@arrays_option
@click.option("--keep-float32", multiple=True, metavar="NODE", help="A node or an operator to leave in float32.")
@contract_options
@json_option
def convert(model: str, out: str, is_float16: bool, as_json: bool, **options: Any) -> None:
    """Write MODEL to OUT in float16, and check its results.

    Where the results differ by more than --tolerance, the exit code is 1, and nothing is written. Nodes that lose too
    much stay in float32, and are named.
    """
    try:
        with progress("converting") as advance:
            report = to_float16(model, out, progress=lambda what: advance(None, what), **options)
    except ConversionError as error:
        if isinstance(error.report, ConversionReport) and as_json:
            emit(error.report.to_json(), as_json, say)
        raise
    emit(report.to_json(), as_json, lambda _: say(report))
