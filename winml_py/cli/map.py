"""`winml-py map`: answers for everything in a folder or a table, as columns, in a resumable job."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from ..core.base.machine import usable_cores
from ..core.base.messages import Facts
from ..core.base.winrt_object import private_state
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.onnx_file.source import PackedFile, packed
from ..core.session.options import LearningModelSessionOptions
from ..scale.arrow import import_arrow
from ..scale.evaluator import Evaluator
from ..scale.job import LINES, Outcome, parts_for, run
from ..scale.source import Source
from .arguments import (
    contract_option,
    device_option,
    json_option,
    model_argument,
    output_option,
    pairs_option,
    settings_option,
)
from .failures import EVALUATION, convert_errors, prefix_errors
from .style import emit, number, progress, say


@click.command(name="map")
@model_argument
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@output_option("The .parquet, .csv or .jsonl to write.", required=True)
@pairs_option("--column", "columns", metavar="INPUT=COLUMN", help="The column of an input; A,B,C joins several.")
@click.option("--answer", "outputs", multiple=True, metavar="OUTPUT", help="An output to write; all by default.")
@click.option("--keep", multiple=True, metavar="COLUMN", help="A column to copy; all by default.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Cores to use; all by default.")
@click.option("--batch", type=click.IntRange(1), default=1, metavar="N", help="Rows per evaluation.")
@device_option
@settings_option
@click.option("--fast-decode", is_flag=True, help="Decode large JPEGs at the size the model needs.")
@contract_option
@json_option
def map_command(
    model: str, inputs: tuple[str, ...], output: str, workers: int | None, as_json: bool, **settings: Any
) -> None:
    """Evaluate MODEL on each picture or row of INPUT.

    INPUT: folders, patterns, pictures, or one .csv or .parquet. To resume an interrupted job, repeat the command.
    """
    in_lines = output.endswith(LINES)
    if output.endswith(".parquet") or any(path.endswith(".parquet") for path in inputs):
        import_arrow()
    with prefix_errors(model, *inputs):
        rows = Source.of(inputs, in_lines=in_lines)
        evaluator, facts = _evaluator(model, rows, threads=workers or usable_cores(), **settings)
    parts = parts_for(os.path.abspath(output), facts | {"source": rows.fingerprint()})
    with progress("evaluating") as advance, convert_errors(), keep_interrupts() as check:

        def tell(done: int, total: int | None) -> None:
            check()
            advance(done / total if total else None, f"{done:,}" + (f" of {total:,}" if total else ""))

        outcome = run(evaluator, rows, parts, tell)
    emit({"model": model, "output": output} | _facts(outcome), as_json, _show)
    if outcome.done.rows and outcome.done.failed == outcome.done.rows:
        raise click.exceptions.Exit(EVALUATION)


def _evaluator(
    path: str,
    source: Source,
    threads: int,
    columns: dict[str, str],
    outputs: tuple[str, ...],
    keep: tuple[str, ...],
    settings: str,
    contract: ImageContract | None,
    **same: Any,
) -> tuple[Evaluator, Facts]:
    """The evaluator, and everything that its answers depend on."""
    model = LearningModel.load(path)
    options = LearningModelSessionOptions.load(settings) if settings else None
    sources = {name: column.split(",") if "," in column else column for name, column in columns.items()}
    evaluator = Evaluator(
        model,
        options=options,
        contract=contract,
        columns=sources,
        outputs=outputs or None,
        keep=keep or None,
        threads=threads,
        **same,
    )
    evaluator.require_columns(source.columns)
    # A resumed job must match the one that wrote the parts in these: the model's content, not its name.
    stated = {
        "model": _digest(model),
        "settings": options and options.to_dict(),
        "contract": contract and contract.to_metadata(),
        "columns": sources,
        "answers": outputs,
        "kept columns": keep,
    }
    return evaluator, stated | same


def _digest(model: LearningModel) -> str:
    file = packed(private_state(model).open())
    return file.digest if isinstance(file, PackedFile) else ""


def _facts(outcome: Outcome) -> Facts:
    done, resumed, seconds = outcome
    rate = (done.rows - resumed) / seconds if seconds else 0.0
    return {
        "rows": done.rows,
        "succeeded": done.rows - done.failed,
        "failed": done.failed,
        "first_error": done.first,
        "resumed": resumed,
        "seconds": seconds,
        "rows_a_second": rate,
    }


def _show(facts: Facts) -> None:
    if facts["resumed"]:
        say(f"{facts['resumed']:,} of {facts['rows']:,} rows were done before")
    if facts["failed"]:
        say(f"{facts['failed']:,} rows failed; the first: {facts['first_error']}", "bold red", is_error=True)
    fresh = facts["rows"] - facts["resumed"]
    times = f"{fresh:,} rows took {number(facts['seconds'], 1)} s, {number(facts['rows_a_second'], 1)} a second"
    say(f"{facts['succeeded']:,} of {facts['rows']:,} rows succeeded" + (f"; {times}" if fresh else ""))
    say(f"written to {facts['output']}")


# Ctrl-C that no library can swallow.


@contextmanager
def keep_interrupts() -> Iterator[Callable[[], None]]:
    """Yields a function that raises KeyboardInterrupt if Ctrl-C was pressed since the block began.

    Arrow looks for pandas at each table, and swallows any exception that is raised meanwhile.
    """
    came = threading.Event()

    def handle(*_: object) -> None:
        came.set()
        raise KeyboardInterrupt

    def check() -> None:
        if came.is_set():
            raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()  # no other thread gets signals
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
