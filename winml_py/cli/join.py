"""`winml-py join`: one model that evaluates two, one after the other."""

from __future__ import annotations

from typing import Any

import click

from ..core.base.agreement import FLOAT_TOLERANCE
from ..graphs.join import LearningModelJoinOptions, join_files
from .arguments import inputs_argument, json_option, pairs_option, tolerance_option, written_model
from .failures import naming
from .style import emit, progress, say


@click.command()
@click.argument("first", metavar="A", type=click.Path())
@click.argument("second", metavar="B", type=click.Path())
@inputs_argument
@pairs_option("--link", "links", metavar="OUTPUT=INPUT", required=True, help="A's output that becomes B's input.")
@written_model
@click.option("--prefix", default="", metavar="TEXT", help="Begins B's names; by default as far as needed.")
@click.option("--drop-unlinked", is_flag=True, help="Leave out A's outputs that are not linked.")
@tolerance_option(FLOAT_TOLERANCE)
@json_option
def join(
    first: str,
    second: str,
    output: str,
    links: tuple[tuple[str, str], ...],
    prefix: str,
    drop_unlinked: bool,
    as_json: bool,
    **checks: Any,
) -> None:
    """Write a model that runs A, then B, and check its results.

    Metadata and image contracts stay with the inputs and outputs that they are about. Where the results differ by more
    than --tolerance, the exit code is 1, and nothing is written.
    """
    options = LearningModelJoinOptions()
    for source, target in links:
        options.link(source, target)
    options.joined_node_prefix = prefix
    options.promote_unlinked_outputs_to_fused_outputs = not drop_unlinked
    with progress("joining"), naming(first):
        report = join_files(first, second, output, options, **checks)
    emit(
        {"model": first, "second_model": second, "output": output} | report.to_json(),
        as_json,
        lambda _: say(f"{output}: {report}"),
    )
