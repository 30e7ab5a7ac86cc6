"""How every command prints: results as a table or as JSON to stdout, everything else to stderr.

Rich itself respects NO_COLOR and leaves colours out where the output is a pipe or a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def emit(facts: dict[str, Any], as_json: bool, table: Callable[[dict[str, Any]], object]) -> None:
    """Prints what a command found.

    Args:
        facts: what it found, ready for JSON.
        as_json: whether to print JSON.
        table: otherwise prints the facts for people.
    """
    if as_json:
        click.echo(json.dumps({"schema_version": 1} | facts, indent=2, ensure_ascii=False, default=str))
    else:
        table(facts)


def say(line: object, style: str = "", is_error: bool = False) -> None:
    """Prints a line as it is, without markup."""
    from rich.text import Text

    _console(is_error).print(Text(str(line), style=style), soft_wrap=True)


def number(value: float | None, digits: int = 3) -> str:
    """A number with so many digits after the point, and commas between thousands; nothing for None."""
    return "" if value is None else f"{value:,.{digits}f}"


def show(rows: Iterable[Sequence[str | Text]], columns: Sequence[str] = (), align: str = "l", indent: int = 0) -> None:
    """Prints a table. Columns whose cells are all empty are left out.

    Args:
        rows: the cells.
        columns: the headings; none for a table without headings.
        align: "l" (left, for words) or "r" (right, for numbers) for each column; the last letter is for all others.
        indent: how many spaces stand before the table.
    """
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=bool(columns), header_style="bold")
    cells = list(zip(*rows, strict=True))
    kept = [index for index, column in enumerate(cells) if any(column)]
    for index in kept:
        justify: Literal["left", "right"] = "left" if align[min(index, len(align) - 1)] == "l" else "right"
        table.add_column(columns[index] if columns else "", justify=justify, overflow="fold")
    for row in zip(*(cells[index] for index in kept), strict=True):
        table.add_row(*map(Text.assemble, row))  # a text, unlike a str, is printed without looking for markup
    _console().print(Padding(table, (0, 0, 0, indent), expand=False))


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Prints names and their values; names without a value are left out."""
    from rich.text import Text

    show([(Text(name, "bold"), value) for name, value in rows if value])


class Advance(Protocol):
    """The function that moves a progress bar."""

    def __call__(self, done: float | None = None, what: str = "", /) -> None:
        """Takes the part that is done, from 0 to 1, or None where that is unknown; and what is being done."""


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """A bar on the terminal while the block runs; nothing where there is no terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    screen = _console(is_error=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(what, total=None)

        def advance(done: float | None = None, what: str = "", /) -> None:
            bar.update(task, total=None if done is None else 1.0, completed=done, description=what or None)

        yield advance


def _console(is_error: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=is_error, highlight=False)
