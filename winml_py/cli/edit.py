"""`winml-py edit`: what a model says of itself, and the names and sizes of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click

from ..core.base.agreement import FLOAT_TOLERANCE
from ..core.contracts.labels import labels_of
from ..graphs.edit_features import Edits, edit_model
from .arguments import (
    inputs_argument,
    json_option,
    labels_option,
    model_argument,
    pairs_option,
    tolerance_option,
    written_model,
)
from .failures import naming
from .style import emit, progress, say


@click.command()
@model_argument
@inputs_argument
@written_model
@pairs_option("--rename", "rename", metavar="OLD=NEW", help="An input or output.")
@pairs_option("--shape", "shapes", metavar="INPUT=1,3,224,224", help="Fixes free sizes; -1 leaves one.")
@pairs_option("--denotation", "denotations", metavar="NAME=WORD", help="IMAGE, AUDIO, TEXT, TENSOR or nothing.")
@pairs_option("--dimensions", "dimensions", metavar="NAME=WORD,...", help="DATA_BATCH, DATA_CHANNEL, ...")
@click.option("--name", metavar="TEXT", help="The model's name.")
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option("--domain", metavar="TEXT", help="Its namespace: com.example.")
@click.option("--author", metavar="TEXT", help="Who or what made it.")
@click.option("--version", type=click.IntRange(0, (1 << 63) - 1), metavar="N", help="Its own version.")
@pairs_option("--metadata", "metadata", metavar="KEY=VALUE", help="KEY= takes one away.")
@labels_option
@tolerance_option(FLOAT_TOLERANCE)
@json_option
def edit(model: str, output: str, as_json: bool, inputs: tuple[str, ...], tolerance: float, **changes: Any) -> None:
    """Write MODEL with other names, sizes or metadata, checked.

    Options take MODEL's names, and INPUT the new ones.
    """
    edits = _edits(**changes)
    if edits == Edits():
        raise click.UsageError("Say what to change: --rename, --shape, --description or another.")
    with progress("editing"), naming(model):
        report = edit_model(model, output, edits, inputs=inputs, tolerance=tolerance)
    facts = {"model": model, "output": output} | asdict(report)
    emit(facts, as_json, lambda _: say(f"{output}: {report}"))


def _edits(
    shapes: Iterable[tuple[str, str]], dimensions: Iterable[tuple[str, str]], labels: str | None, **rest: Any
) -> Edits:
    fields: dict[str, Any] = {name: dict(value) if isinstance(value, tuple) else value for name, value in rest.items()}
    return Edits(
        **fields,
        shapes={name: _sizes(text) for name, text in shapes},
        dimensions={name: tuple(word.strip() for word in text.split(",")) for name, text in dimensions},
        labels=None if labels is None else tuple(labels_of(labels)),
    )


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in text.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not sizes with commas between them.") from error
    if any(size < 1 and size != -1 for size in sizes):
        raise click.BadParameter(f"{text!r} has a size below 1; -1 leaves one as it is.")
    return sizes
