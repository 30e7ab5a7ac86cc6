"""`winml-py tune`: options that are faster on a model than the default."""

from __future__ import annotations

import os
from typing import Any

import click

from ..base.atomic_files import require_folder
from ..session import options_file
from ..tools.perf.tune import LATENCY, THROUGHPUT, Tuned
from ..tools.perf.tune import tune as search
from .failures import failures, usage
from .style import emit, json_option, progress, say, show


@click.command()
@click.argument("model", type=click.Path())
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@click.option("--goal", type=click.Choice([LATENCY, THROUGHPUT]), default=LATENCY, show_default=True)
@click.option("--output", type=click.Path(), metavar="FILE", help="Write the options to this file.")
@json_option
def tune(model: str, inputs: tuple[str, ...], goal: str, output: str | None, as_json: bool) -> None:
    """Search session options that are faster on MODEL than the default, and give the same.

    They are tried on INPUT, or on made-up values: engine, precision, threads, execution mode, graph optimisation,
    memory, and for throughput batches. A candidate must win against the best so far twice, and the best against the
    default at the end; else the default is kept, and that is said.

    LearningModelSessionOptions.load(FILE) reads what --output writes.
    """
    with failures():
        if output:
            require_folder(output)
        with progress("tuning") as tell, usage():
            tuned = search(model, inputs, goal, tell)
        if output:
            notes = {"model": os.path.basename(model), "goal": goal, "gain": tuned.gain, "batch": tuned.batch}
            options_file.write(output, tuned.options.to_dict(), notes=notes)
    if as_json:
        emit(_facts(tuned, model, goal))
    else:
        _print(tuned, output)


def _facts(tuned: Tuned, model: str, goal: str) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "tuning",
        "model": model,
        "goal": goal,
        "gain": tuned.gain,
        "batch": tuned.batch,
        "default_ms": tuned.default_ms,
        "tuned_ms": tuned.tuned_ms,
        "options": tuned.options.to_dict(),
        "trials": [trial._asdict() for trial in tuned.trials],
    }


def _print(tuned: Tuned, output: str | None) -> None:
    rows = []
    for trial in tuned.trials:
        milliseconds = "" if trial.milliseconds is None else f"{trial.milliseconds:,.3f}"
        gain = "" if trial.gain is None else f"{trial.gain:.2f}"
        rows.append([trial.change, "kept" if trial.kept else trial.problem, milliseconds, gain])
    show(["tried", "", "ms", "gain"], rows, left=2)
    say("")
    if tuned.gain > 1:
        kept = [trial.change for trial in tuned.trials if trial.kept]
        say(f"{tuned.gain:.2f} times as fast as the default: {', '.join(kept)}", "bold")
        say(f"{tuned.default_ms:,.3f} ms by default, {tuned.tuned_ms:,.3f} ms tuned")
    else:
        say(f"Nothing helped: the default, {tuned.default_ms:,.3f} ms, is the fastest.", "bold")
    if output:
        say(f"written to {output}")
