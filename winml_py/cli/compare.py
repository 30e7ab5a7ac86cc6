"""`winml-py compare`: whether answers change with another model, engine, device or precision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import click

from .._examples import EXAMPLE, NOTHING_STATED
from ..compare.comparison import Comparison, list_compared_inputs
from ..compare.comparison import compare as compare_sessions
from ..core.base.messages import Facts
from .arguments import Setup, json_option, setup_options
from .failures import prefix_errors
from .files import assign_files, read_files
from .style import emit, print_line, print_table, show_progress


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL... [INPUT]...")
@click.option("--nodes", is_flag=True, help="Also find the first node that differs.")
@setup_options
@json_option
def compare(models: tuple[str, ...], nodes: bool, setup: Setup, as_json: bool) -> None:
    """Check whether another model, engine or device changes answers.

    Compares MODEL with a second MODEL, or with itself on another engine, device or precision. --engine, --device,
    --precision and --settings apply to the second side. The first side uses the defaults. Without INPUT, both evaluate
    the samples next to MODEL, or example inputs. An answer is settled if its lead is more than twice the largest
    difference of any input. If an answer changes, the exit code is 1.
    """
    model, *inputs = models
    second_model = inputs.pop(0) if inputs and inputs[0].lower().endswith(".onnx") else model
    if second_model == model and replace(setup, sizes=NOTHING_STATED, contract=None) == Setup():
        hint = "Add a second model, --engine, --device, --precision or --settings."
        raise click.UsageError(f"{model}: There is nothing to compare it with. {hint}")
    both = model if second_model == model else f"{model}, {second_model}"  # an error may be about either
    with show_progress("comparing") as advance, prefix_errors(both, model, second_model, *inputs, setup.settings):
        with (
            Setup(sizes=setup.sizes, contract=setup.contract).make_session(model) as first,
            setup.make_session(second_model) as second,
        ):
            evaluations = list(assign_files(first.model, inputs)) if inputs else []
            names = [name for name, _ in evaluations]

            def read_in_turn() -> Iterator[dict[str, Any]]:
                for index, (name, files) in enumerate(evaluations):
                    advance(index / len(evaluations), name)
                    yield read_files(first.model, files)

            compared = compare_sessions(first, second, read_in_turn() if inputs else None, names=names)
        facts: Facts = {"model": model} | compared.to_json()
        for path, side in zip((model, second_model), facts["sides"], strict=True):
            side["model"] = path
        if nodes:
            from ..compare.first_departure import find_departure

            place = (compared.doubtful or compared.answers)[0].position
            if inputs:
                values: Mapping[str, Any] = read_files(first.model, evaluations[place][1])
            else:
                _, values = list(list_compared_inputs(first))[place]
            departure = find_departure(first, second, values)
            facts["departure"] = departure and asdict(departure)
    emit(facts, as_json, lambda facts: _print_comparison(compared, facts))
    if nodes and not as_json:
        print_line(departure or "No single node differs by more than its inputs explain.")
    if compared.answers[0].input == EXAMPLE:
        print_line(f"{model}: The inputs are examples. To use your own, add them after the model.", is_error=True)
    if not compared.is_same:
        raise click.exceptions.Exit(1)


def _print_comparison(compared: Comparison, facts: Facts) -> None:
    for name, side in zip(("first", "second"), facts["sides"], strict=True):
        print_line(f"{name:8}{side['model']} on {side['device']}: {side['engine']}, {side['precision']}")
    print_line("")
    rows = []
    for output in compared.outputs:
        numbers = [f"{number:.2g}" for number in (output.largest, output.relative)]
        lost = f"{output.not_finite[0]:,} and {output.not_finite[1]:,}" if any(output.not_finite) else ""
        rows.append([output.name, *numbers, lost])
    print_table(rows, ["differences", "largest", "relative", "not finite"], "lr")
    print_line("")
    rows = []
    for answer in compared.doubtful:
        numbers = [f"{answer.changed:.2%}", f"{answer.lead:.2g}", f"{2 * answer.difference:.2g}"]
        state = "not settled" if answer.is_same else "changed"
        rows.append([answer.input, answer.output, answer.first, answer.second, *numbers, state])
    if rows:
        print_table(rows, ["answers", "output", "first", "second", "changed", "lead", "2 x difference", ""], "llllrrrl")
    print_line(compared, "bold")
