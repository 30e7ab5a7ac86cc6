"""`winml-py optimize`: a model file as ONNX Runtime's optimisers leave it."""

from __future__ import annotations

from typing import Any

import click

from ..core.base.agreement import FLOAT_TOLERANCE
from ..core.base.messages import Facts
from ..inputs.files import given_values
from ..inputs.model import load_model
from ..optimize import LEVELS
from ..optimize import optimize as to_optimized
from .arguments import (
    contract_options,
    inputs_argument,
    json_option,
    model_argument,
    size_options,
    tolerance_option,
    written_model,
)
from .failures import naming
from .gains import print_speed, speed_of, tell_no_gain
from .style import emit, print_sizes, progress, say, tell_assumed

_REMEDIES = (
    "Optimisers look for time, and not for bytes; --level basic changes least.",
    "Sessions optimise models by themselves: a file helps old models, and those of --transformer.",
)


@click.command()
@model_argument
@inputs_argument
@written_model
@click.option("--level", type=click.Choice(LEVELS), default="extended", metavar="LEVEL", help=f"{', '.join(LEVELS)}.")
@click.option("--transformer", metavar="KIND", help="bert, gpt2, vit, ...: fuse its layers, too.")
@tolerance_option(FLOAT_TOLERANCE)
@size_options
@contract_options
@json_option
def optimize(model: str, inputs: tuple[str, ...], output: str, as_json: bool, **options: Any) -> None:
    """Write MODEL optimised, and check its results on INPUT, or on example inputs.

    Initializers among the inputs become constants. Names, metadata and the image contract stay. Level "basic" uses
    ONNX's own operators alone, "extended" (default) also those of ONNX Runtime, and "all" is for this processor alone.
    """
    with progress("optimising"), naming(model):
        loaded = load_model(model, options["contract"])
        values = given_values(loaded, inputs)
        report = to_optimized(model, output, inputs=values, force=True, **options)
        speed = speed_of(loaded, (model, output), values, options["sizes"])
    facts = {"model": model, "output": output} | report.to_json() | {"speed": speed}
    emit(facts, as_json, lambda _: _print(facts, report))
    tell_assumed(model, facts["sizes"])
    tell_no_gain(output, report.size, speed, _REMEDIES)


def _print(facts: Facts, report: object) -> None:
    say(report)
    print_sizes(facts["sizes"])
    print_speed(facts["speed"])
