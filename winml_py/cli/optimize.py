"""`winml-py optimize`: a model file as ONNX Runtime's optimisers leave it."""

from __future__ import annotations

import click

from ..base.agreement import FLOAT_TOLERANCE
from ..errors import ConversionError
from ..tools.optimize import LEVELS
from ..tools.optimize import optimize as to_optimized
from .arguments import named_arrays_option, read_named
from .failures import EVALUATION, Failure, failures
from .style import emit, json_option, progress, say


@click.command()
@click.argument("model", type=click.Path())
@click.argument("out", type=click.Path())
@click.option("--level", type=click.Choice(LEVELS), default="extended", show_default=True)
@click.option("--transformer", metavar="KIND", help="bert, gpt2, vit, ...: fuse its layers, too.")
@named_arrays_option
@click.option("--tolerance", type=click.FloatRange(0, min_open=True), default=FLOAT_TOLERANCE, show_default=True)
@json_option
def optimize(
    model: str,
    out: str,
    level: str,
    transformer: str | None,
    inputs: list[tuple[str, str]],
    tolerance: float,
    as_json: bool,
) -> None:
    """Write MODEL to OUT optimised, and check that it gives what it gave.

    Initializers among the inputs become constants; names, metadata and image contract stay. Level "basic" keeps to
    ONNX's operators, "extended" uses ONNX Runtime's own, "all" is for this processor alone.
    """
    with failures():
        values = read_named(inputs)
        try:
            with progress("optimising") as tell:
                tell(0.1)
                report = to_optimized(
                    model, out, level=level, transformer=transformer, inputs=values, tolerance=tolerance
                )
        except ConversionError as error:
            raise Failure(str(error), EVALUATION) from error
    if as_json:
        emit(report.to_json())
    else:
        say(str(report))
