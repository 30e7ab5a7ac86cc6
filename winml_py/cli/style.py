"""How every command prints: results as a table or as JSON to stdout, everything else to stderr.

Rich itself respects NO_COLOR and leaves colours out where the output is a pipe or a file. Its colours are commands to
the terminal, so it writes past `ShownStream`, and every text that it is given is spelled out here.
"""

from __future__ import annotations

import codecs
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from ..core.base.arguments import is_text
from ..core.base.messages import REPORT_SCHEMA, Facts, Progress, shown, shown_in_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def emit(facts: Facts, as_json: bool, table: Callable[[Facts], object]) -> None:
    """Prints what a command found.

    JSON begins with the version of its schema, and with its kind, which is the name of the command unless the facts say
    otherwise. What is about a model has its path under `model`.

    Args:
        facts: what it found, ready for JSON.
        as_json: whether to print JSON.
        table: otherwise prints the facts for people.
    """
    if as_json:
        click.echo(to_json({"schema": REPORT_SCHEMA, "kind": click.get_current_context().command.name} | facts))
    else:
        table(facts)


def to_json(facts: Facts) -> str:
    """Facts as JSON, which has no numbers that are not finite: they become the strings NaN, Infinity and -Infinity.

    Bytes of a file name that are not UTF-8 are halves of characters in Python. Strict readers of JSON refuse those:
    they are spelled out, as in the table. It is ASCII alone where standard output is not UTF-8.
    """
    # Windows writes to pipes and files in its code page: what that lacks would be spelled as JSON does not.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    is_ascii = codecs.lookup(encoding).name != "utf-8"
    text = json.dumps(_in_json(facts), indent=2, ensure_ascii=is_ascii, allow_nan=False, default=str)
    return shown_in_json(text)


def _in_json(value: object) -> Any:
    if isinstance(value, dict):
        return {_escape_halves(str(key)): _in_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_json(item) for item in value]
    if isinstance(value, str):
        return _escape_halves(value)
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _escape_halves(text: str) -> str:
    return text if is_text(text) else text.encode(errors="backslashreplace").decode()


def say(line: object, style: str = "", is_error: bool = False) -> None:
    """Prints a line as it is, without markup."""
    _console(is_error).print(_text(line, style), soft_wrap=True)


def number(value: float | None, digits: int = 3) -> str:
    """A number with so many digits after the point, and commas between thousands; nothing for None."""
    return "" if value is None else f"{value:,.{digits}f}"


def size_of(count: int) -> str:
    """A number of bytes in a larger unit: 4.3 GB."""
    from rich.filesize import decimal

    return decimal(count)


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

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=bool(columns), header_style="bold")
    cells = list(zip(*rows, strict=True))
    kept = [index for index, column in enumerate(cells) if any(column)]
    for index in kept:
        justify: Literal["left", "right"] = "left" if align[min(index, len(align) - 1)] == "l" else "right"
        table.add_column(columns[index] if columns else "", justify=justify, overflow="fold")
    for row in zip(*(cells[index] for index in kept), strict=True):
        table.add_row(*map(_text, row))
    _console().print(Padding(table, (0, 0, 0, indent), expand=False))


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Prints names and their values; names without a value are left out."""
    show([(_text(name, "bold"), value) for name, value in rows if value])


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """A bar on the terminal while the block runs; nothing where there is no terminal."""
    from rich import progress as bars

    screen = _console(is_error=True)
    if not screen.is_terminal:  # where a bar that is disabled ends with an empty line, below Rich 14.3
        yield lambda done, what: None
        return
    columns = (bars.TextColumn("{task.description}", markup=False), bars.BarColumn(), bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(shown(what), total=None)

        def advance(done: float | None, what: str) -> None:
            bar.update(task, total=None if done is None else 1.0, completed=done, description=shown(what) or None)

        yield advance


def _text(words: object, style: str = "") -> Text:
    """A text as it is shown. Unlike a str, Rich prints it without looking for markup."""
    from rich.text import Text

    return words if isinstance(words, Text) else Text(shown(str(words)), style=style)


def _console(is_error: bool = False) -> Console:
    from rich.console import Console

    return Console(file=original(sys.stderr if is_error else sys.stdout), stderr=is_error, highlight=False)


# Standard output and error of the program, through which nothing passes that a terminal would obey.


class ShownStream:
    """A text stream that spells out what a terminal would obey, and what its encoding lacks.

    It has no `buffer`: bytes would pass unseen.

    Args:
        stream: where the text goes.

    Attributes:
        stream: where the text goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.encoding, self.errors = stream.encoding or "utf-8", stream.errors

    def write(self, text: str) -> int:
        """Writes text; gives its length."""
        self.stream.write(shown(text).encode(self.encoding, "backslashreplace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        """Sends on what is written."""
        self.stream.flush()

    def isatty(self) -> bool:
        """Whether a terminal shows it."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """The number of the file."""
        return self.stream.fileno()


@contextmanager
def show_streams() -> Iterator[None]:
    """Puts a `ShownStream` before standard output and error.

    It stays where an error ends the program that is none of ours: its traceback holds strangers' words, too.
    """
    before: tuple[Any, Any] = sys.stdout, sys.stderr
    files = [(stream, stream.errors) for stream in before if isinstance(stream, io.TextIOWrapper)]

    def put_back() -> None:
        sys.stdout, sys.stderr = before
        for file, errors in files:
            with suppress(OSError, ValueError):  # nobody reads the pipe any more, or it is closed
                file.reconfigure(errors=errors)

    for file, _ in files:
        # Rich writes past `ShownStream`, and what the encoding lacks would be an error: Windows's code pages lack most.
        file.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = (stream and ShownStream(stream) for stream in before)
    try:
        yield
    except SystemExit:
        put_back()
        raise
    put_back()


def original(stream: Any) -> TextIO:
    """The stream behind a `ShownStream`, for text that is spelled out already, with colours."""
    return stream.stream if isinstance(stream, ShownStream) else stream


# The sizes of a command's inputs, as they are printed.


def print_sizes(sizes: Facts) -> None:
    """Prints the shapes of inputs, as they are in JSON."""
    shapes = (f"{name} {'x'.join(map(str, size['shape'])) or 'one number'}" for name, size in sizes.items())
    if sizes:
        say(f"sizes: {', '.join(shapes)}")


def warn_assumed(model: str, sizes: Facts) -> None:
    """Says to standard error which sizes of a model's inputs nothing states."""
    for name, size in sizes.items():
        if size["assumed"]:
            free = " and ".join(size["assumed"])
            say(
                f"{model}: Nothing states the size of {free} of the input {name}; 64 was taken. "
                "State it: --size H,W, or --dim NAME=N.",
                is_error=True,
            )
