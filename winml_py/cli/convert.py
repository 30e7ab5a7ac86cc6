"""`winml-py convert`: a float16 model from a float32 one, checked."""

from __future__ import annotations

from typing import Any

import click

from ..core.base.messages import Facts
from ..float16.convert import convert as to_float16
from ..inputs.files import given_values
from ..inputs.model import load_model
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
    "Its weights are few, or stay in float32: see the nodes above.",
    "Float16 is for GPUs, and for CPUs that compute in it: winml-py perf {output} --device gpu, or --precision half.",
)


@click.command()
@model_argument
@inputs_argument
@written_model
@click.option("--float16", "is_float16", is_flag=True, required=True, help="Convert to float16.")
@click.option("--keep-io-types", is_flag=True, help="Leave the model's inputs and outputs in float32.")
@tolerance_option(1e-2)
@click.option("--keep-float32", multiple=True, metavar="NODE", help="A node or an operator to leave in float32.")
@size_options
@contract_options
@json_option
def convert(model: str, inputs: tuple[str, ...], output: str, is_float16: bool, as_json: bool, **options: Any) -> None:
    """Write MODEL in float16, and check its results on INPUT, or on example inputs.

    Where the results differ by more than --tolerance, the exit code is 1, and nothing is written. Nodes that lose too
    much stay in float32, and are named.
    """
    with naming(model):
        loaded = load_model(model, options["contract"])
        values = given_values(loaded, inputs)
    with progress("converting") as advance, naming(model):
        report = to_float16(model, output, inputs=values, progress=advance, force=True, **options)
        speed = speed_of(loaded, (model, output), values, options["sizes"])
    facts = {"model": model, "output": output} | report.to_json() | {"speed": speed}
    emit(facts, as_json, lambda _: _print(facts, report))
    tell_assumed(model, facts["sizes"])
    tell_no_gain(output, (report.size_before, report.size_after), speed, _REMEDIES)


def _print(facts: Facts, report: object) -> None:
    say(report)
    print_sizes(facts["sizes"])
    print_speed(facts["speed"])
