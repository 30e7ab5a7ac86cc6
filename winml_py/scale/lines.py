"""Tables of plain Python values, without other libraries: read from CSV, written as lines of JSON."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..core.base.messages import as_json
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    from .output_columns import Cells, FilledColumns

ERROR = "error"
"""The column with the reason why a row has no outputs; None if it has."""


class LineTable:
    """Columns of Python values; also a batch (`batches.Batch`)."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = dict(columns)
        self.names = self.column_names = list(self._columns)
        self.rows = self.num_rows = len(next(iter(self._columns.values()), ()))

    def cells(self, name: str) -> Cells:
        """The cells of a column."""
        return self._columns[name]

    def slice(self, offset: int, length: int | None = None) -> LineTable:
        """This many rows from an offset, or all of them."""
        end = None if length is None else offset + length
        return LineTable({name: cells[offset:end] for name, cells in self._columns.items()})

    def with_outputs(self, kept_columns: Iterable[str], outputs: FilledColumns, errors: Cells) -> LineTable:
        """A table with the outputs. Failed rows have None."""
        columns: dict[str, Sequence[Any]] = {name: self._columns[name] for name in kept_columns}
        columns |= {column.feature.name: cells for column, cells in outputs}
        return LineTable(columns | {ERROR: errors})

    def lines(self) -> Iterator[str]:
        """Each row as a JSON object, without a line break."""
        for row in zip(*self._columns.values(), strict=True):
            yield json.dumps(dict(zip(self.names, map(as_json, row), strict=True)), ensure_ascii=False)


def read_csv(path: str, rows: int) -> Iterator[LineTable]:
    """Tables of this many rows from a CSV file with a header line; an empty one if there are no rows.

    Texts that are JSON numbers become numbers, and empty cells None.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            names = next(reader, [])
            if not names or len(set(names)) < len(names):
                raise _unreadable(path, "its first line must name the columns, each once")
            require_names(path, names)
            is_first = True
            while table := list(islice((row for row in reader if row), rows)):
                short = next((row for row in table if len(row) != len(names)), None)
                if short is not None:
                    raise _unreadable(
                        path, f"a row near line {reader.line_num} has {len(short)} cells, expected {len(names)}"
                    )
                columns = ([_number(cell) if cell else None for cell in cells] for cells in zip(*table, strict=True))
                yield LineTable(dict(zip(names, columns, strict=True)))
                is_first = False
            if is_first:
                yield LineTable(dict.fromkeys(names, ()))
    except InvalidArgumentError:  # also an OSError
        raise
    except FileNotFoundError as error:
        raise InvalidArgumentError(f"{path}: There is no such table.") from error
    except (OSError, UnicodeError, csv.Error) as error:
        raise _unreadable(path, str(error)) from error


def require_names(path: str, names: Sequence[str]) -> None:
    """Refuses a table whose first line only has numbers: it is a row, and would be lost."""
    if names and not any(isinstance(_number(name), str) for name in names):
        raise InvalidArgumentError(
            f"{path}: Expected column names in its first line, got {', '.join(names[:4])}.",
            hint="Write a line of names above the numbers: a,b,c.",
        )


def _unreadable(path: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{path}: The table cannot be read: {why}.")


def _number(text: str) -> Any:
    """A text's JSON number; else the text. A code such as 007 is not a number, and keeps its zeros."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else text


def write_csv(file: Any, names: Sequence[str], lines: Iterable[bytes]) -> None:
    """Writes JSON rows as CSV: texts as they are, missing values as empty cells, all others as JSON."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    for line in lines:
        row = json.loads(line)
        writer.writerow([_csv_cell(row[name]) for name in names])


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
