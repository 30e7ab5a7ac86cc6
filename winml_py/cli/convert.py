"""`winml-py convert`: a float16 model from a float32 one, checked."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import click

from ..core.base.atomic_files import require_folder
from ..core.base.messages import Facts
from ..errors import ConversionError
from ..float16.convert import convert as to_float16
from ..inputs.files import given_values
from ..inputs.model import load_model
from ..perf.model_steps import write_model
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
from .gains import print_speed, ratio_of, speed_of, tell_no_gain
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

    Where the results differ by more than --tolerance, or the new model is neither smaller nor faster, the exit code is
    1, and nothing is written. Nodes that lose too much stay in float32, and are named.
    """
    require_folder(output)
    with naming(model):
        loaded = load_model(model, options["contract"])
        values = given_values(loaded, inputs)
    # Windows removes no file that a session still maps: the folder stays then.
    with (
        tempfile.TemporaryDirectory(prefix="winml-py-", ignore_cleanup_errors=True) as folder,
        progress("converting") as advance,
        naming(model),
    ):
        # Weights above 2 GB get a file beside the model, whose name is written into it.
        path = os.path.join(folder, os.path.basename(output))
        report = to_float16(model, path, inputs=values, progress=advance, **options)
        speed = speed_of(loaded, (model, path), values, options["sizes"])
        if report.size_after >= report.size_before and speed["verdict"] != "faster":
            raise ConversionError(
                f"The float16 model is neither smaller nor faster on the CPU: {ratio_of(speed)}, "
                + "; ".join(str(report).splitlines())
                + "; nothing was written.",
                hint="Keep the float32 model.",
                report=report,
            )
        write_model(path, output)
    facts = {"model": model, "output": output} | report.to_json() | {"speed": speed}
    emit(facts, as_json, lambda _: _print(facts, report))
    tell_assumed(model, facts["sizes"])
    tell_no_gain(output, (report.size_before, report.size_after), speed, _REMEDIES)


def _print(facts: Facts, report: object) -> None:
    say(report)
    print_sizes(facts["sizes"])
    print_speed(facts["speed"])
