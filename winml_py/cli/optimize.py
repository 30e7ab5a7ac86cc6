"""`winml-py optimize`: a model file as ONNX Runtime's optimisers leave it."""

from __future__ import annotations

from typing import Any

import click

from ..base.agreement import FLOAT_TOLERANCE
from ..tools.optimize import LEVELS
from ..tools.optimize import optimize as to_optimized
from .arguments import arrays_option, contract_options, json_option, model_argument, out_argument, tolerance_option
from .style import emit, progress, say


@click.command()
@model_argument
@out_argument
@click.option("--level", type=click.Choice(LEVELS), default="extended", metavar="LEVEL", help=f"{', '.join(LEVELS)}.")
@click.option("--transformer", metavar="KIND", help="bert, gpt2, vit, ...: fuse its layers, too.")
@arrays_option
@tolerance_option(FLOAT_TOLERANCE)
@contract_options
@json_option
def optimize(model: str, out: str, as_json: bool, **options: Any) -> None:
    """Write MODEL to OUT optimised, and check its results.

    Initializers among the inputs become constants. Names, metadata and the image contract stay. Level "basic" uses
    ONNX's own operators alone, "extended" (default) also those of ONNX Runtime, and "all" is for this processor alone.
    """
    with progress("optimising"):
        report = to_optimized(model, out, **options)
    emit(report.to_json(), as_json, lambda _: say(report))
