"""`winml-py convert`: a float16 model from a float32 one, checked."""

from __future__ import annotations

import click

from ..errors import ConversionError
from ..tools.float16.convert import convert as to_float16
from ..tools.float16.report import ConversionReport
from .arguments import named_arrays_option, read_named
from .failures import EVALUATION, Failure, failures
from .style import emit, json_option, say


@click.command()
@click.argument("model", type=click.Path())
@click.argument("out", type=click.Path())
@click.option("--float16", "is_float16", is_flag=True, required=True, help="Convert to float16.")
@click.option("--keep-io-types", is_flag=True, help="Leave the model's inputs and outputs in float32.")
@click.option("--tolerance", type=click.FloatRange(0, min_open=True), default=1e-2, show_default=True)
@named_arrays_option
@click.option("--keep-float32", multiple=True, metavar="NODE", help="A node or an operator to leave in float32.")
@json_option
def convert(
    model: str,
    out: str,
    is_float16: bool,
    keep_io_types: bool,
    tolerance: float,
    inputs: list[tuple[str, str]],
    keep_float32: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write MODEL to OUT in float16, and check that it gives what it gave.

    Exits with 1, and writes nothing, where the result is not good enough. Nodes that lose too much stay in float32, and
    are named. --tolerance is the largest difference in an output, over its largest magnitude.
    """
    with failures():
        values = read_named(inputs)
        try:
            with _Progress() as progress:
                report = to_float16(
                    model,
                    out,
                    keep_io_types=keep_io_types,
                    inputs=values,
                    tolerance=tolerance,
                    keep_float32=keep_float32,
                    progress=progress.tell,
                )
        except ConversionError as error:
            if isinstance(error.report, ConversionReport) and as_json:
                emit(error.report.to_json())
            raise Failure(str(error), EVALUATION) from error
    if as_json:
        emit(report.to_json())
    else:
        say(str(report))


class _Progress:
    """A line on the terminal that says what is being done; nothing where there is no terminal."""

    def __enter__(self) -> _Progress:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._progress.start()
        self._task = self._progress.add_task("starting", total=None)
        return self

    def tell(self, what: str) -> None:
        """Shows what is being done."""
        self._progress.update(self._task, description=what)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
