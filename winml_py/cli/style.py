"""How every command looks: tables without frames, messages apart from results, JSON where it is asked for.

Rich heeds NO_COLOR and pipes by itself; what a program may read goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from rich.console import Console

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def emit(facts: dict[str, Any]) -> None:
    """Prints facts as JSON."""
    click.echo(json.dumps(facts, indent=2, ensure_ascii=False, default=str))


def console(is_error: bool = False) -> Console:
    """A terminal, or what stands for one."""
    from rich.console import Console

    return Console(stderr=is_error, highlight=False)


def say(text: str, style: str = "") -> None:
    """Prints a line, as it is."""
    from rich.text import Text

    console().print(Text(text, style=style), soft_wrap=True)


def show(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
    """Prints a table: the first `left` columns are words, the others numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console().print(table)


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Prints what things are called, and what they are; those that are nothing are left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        if text:
            table.add_row(Text(name), Text(text))
    console().print(table)


class Steps(Protocol):
    """What a progress bar is told."""

    def __call__(self, done: float, what: str = "") -> None:
        """So much is done, from 0 to 1, and this is being done."""


@contextmanager
def progress(what: str) -> Iterator[Steps]:
    """A bar on the terminal while the block runs; nothing where there is no terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    screen = console(is_error=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(what, total=1.0)

        def tell(done: float, what: str = "") -> None:
            bar.update(task, completed=done, description=what or None)

        yield tell
