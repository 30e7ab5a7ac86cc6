"""How every command prints: results as a table or as JSON to stdout, everything else to stderr.

Rich respects NO_COLOR, and omits colours if the output is a pipe or a file. Its colours are commands to the terminal,
so it bypasses `EscapingStream`, and every text passed to it is escaped here.
"""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from ..core.base.messages import REPORT_SCHEMA, Facts, Progress, as_json, escape_controls, escape_controls_in_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def emit(facts: Facts, as_json: bool, table: Callable[[Facts], object]) -> None:
    """Prints a command's results.

    JSON begins with the version of its schema and its kind, which is the command's name unless the facts state another.
    Facts about a model have its path under `model`.

    Args:
        facts: the results, ready for JSON.
        as_json: whether to print JSON.
        table: prints the facts as a table otherwise.
    """
    if as_json:
        click.echo(to_json({"schema": REPORT_SCHEMA, "kind": click.get_current_context().command.name} | facts))
    else:
        table(facts)


def to_json(facts: Facts, is_line: bool = False) -> str:
    """Facts as JSON. If it is one line, or standard output is not UTF-8, it is pure ASCII."""
    # Windows writes to pipes and files in its code page: characters that it lacks would be escaped in a non-JSON way.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    is_ascii = is_line or codecs.lookup(encoding).name != "utf-8"
    text = json.dumps(as_json(facts), indent=None if is_line else 2, ensure_ascii=is_ascii, allow_nan=False)
    return escape_controls_in_json(text)


def print_line(line: object, style: str = "", is_error: bool = False) -> None:
    """Prints a line as it is, without markup."""
    _make_console(is_error).print(_make_text(line, style), soft_wrap=True)


def format_number(value: float | None, digits: int = 3) -> str:
    """A number with this many decimals and with thousands separators; "" for None."""
    return "" if value is None else f"{value:,.{digits}f}"


def format_size(count: int) -> str:
    """A number of bytes in a larger unit: 4.3 GB."""
    from rich.filesize import decimal

    return decimal(count)


def print_table(
    rows: Iterable[Sequence[str | Text]], columns: Sequence[str] = (), align: str = "l", indent: int = 0
) -> None:
    """Prints a table, without the columns whose cells are all empty.

    Args:
        rows: the cells.
        columns: the headings; none for a table without headings.
        align: for each column "l" (left, for words) or "r" (right, for numbers); the last letter is for all others.
        indent: the spaces before the table.
    """
    from rich.padding import Padding
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=bool(columns), header_style="bold")
    cells = list(zip(*rows, strict=True))
    filled = [index for index, column in enumerate(cells) if any(column)]
    for index in filled:
        justify: Literal["left", "right"] = "left" if align[min(index, len(align) - 1)] == "l" else "right"
        table.add_column(columns[index] if columns else "", justify=justify, overflow="fold")
    for row in zip(*(cells[index] for index in filled), strict=True):
        table.add_row(*map(_make_text, row))
    _make_console().print(Padding(table, (0, 0, 0, indent), expand=False))


def print_pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Prints names and their values, without the names that have no value."""
    print_table([(_make_text(name, "bold"), value) for name, value in rows if value])


@contextmanager
def show_progress(title: str, is_shown: bool = True) -> Iterator[Progress]:
    """A progress bar on the terminal during the block; nothing without a terminal, or if it is not to be shown."""
    screen = _make_console(is_error=True)
    if not (is_shown and screen.is_terminal):  # below Rich 14.3, a disabled bar prints an empty line
        yield lambda done, what: None
        return
    from rich import progress as bars

    columns = (bars.TextColumn("{task.description}", markup=False), bars.BarColumn(), bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(escape_controls(title), total=None)

        def advance(done: float | None, what: str) -> None:
            bar.update(
                task, total=None if done is None else 1.0, completed=done, description=escape_controls(what) or None
            )

        yield advance


def _make_text(words: object, style: str = "") -> Text:
    """A text to print. Unlike for a str, Rich does not look for markup in it."""
    from rich.text import Text

    return words if isinstance(words, Text) else Text(escape_controls(str(words)), style=style)


def _make_console(is_error: bool = False) -> Console:
    from rich.console import Console

    return Console(file=unwrap_stream(sys.stderr if is_error else sys.stdout), stderr=is_error, highlight=False)


# The program's standard output and error, without terminal control characters.


class EscapingStream:
    """A text stream that escapes terminal control characters, and characters that its encoding lacks.

    It has no `buffer`: bytes would bypass the escaping.

    Args:
        stream: where the text goes.

    Attributes:
        stream: where the text goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.encoding, self.errors = stream.encoding or "utf-8", stream.errors

    def write(self, text: str) -> int:
        """Writes text; returns its length."""
        self.stream.write(escape_controls(text).encode(self.encoding, "backslashreplace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        """Flushes the stream."""
        self.stream.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """The file descriptor."""
        return self.stream.fileno()


@contextmanager
def escape_streams() -> Iterator[None]:
    """Wraps standard output and error in a `EscapingStream`.

    If an error that is not ours ends the program, the wrapper stays: the traceback contains foreign text.
    """
    before: tuple[Any, Any] = sys.stdout, sys.stderr
    files = [(stream, stream.errors) for stream in before if isinstance(stream, io.TextIOWrapper)]

    def put_back() -> None:
        sys.stdout, sys.stderr = before
        for file, errors in files:
            with suppress(OSError, ValueError):  # the pipe has no reader, or is closed
                file.reconfigure(errors=errors)

    for file, _ in files:
        # Rich bypasses `EscapingStream`, and a character that a Windows code page lacks would be an error.
        file.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = (stream and EscapingStream(stream) for stream in before)
    try:
        yield
    except SystemExit:
        put_back()
        raise
    put_back()


def unwrap_stream(stream: Any) -> TextIO:
    """The stream inside a `EscapingStream`, for text that is already escaped, with colours."""
    return stream.stream if isinstance(stream, EscapingStream) else stream


# Printing the sizes of a command's inputs.


def print_sizes(sizes: Facts) -> None:
    """Prints the shapes of inputs, and which of their sizes nothing states."""
    shapes = []
    for name, size in sizes.items():
        assumed = f" ({' and '.join(size['assumed'])} assumed)" if size["assumed"] else ""
        shapes.append(f"{name} {'x'.join(map(str, size['shape'])) or 'one number'}{assumed}")
    if shapes:
        print_line(f"sizes: {', '.join(shapes)}")
