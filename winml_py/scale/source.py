"""Source: the items of a job, in tables of equal length: pictures by their paths, or the rows of a table."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..core.base.arguments import is_text
from ..core.streams.sources import files_of
from ..errors import InvalidArgumentError
from .arrow import import_arrow
from .lines import LineTable, read_csv, require_names

PATH = "path"
"""The column of pictures' file names."""

TABLES = (".csv", ".parquet")


class Source(NamedTuple):
    """The items of a job.

    Attributes:
        files: the pictures, or one table, by their absolute paths.
        is_table: which of the two.
        in_lines: whether its tables are plain ones (`LineTable`) instead of Arrow's.
    """

    files: tuple[str, ...]
    is_table: bool
    in_lines: bool = False

    @classmethod
    def of(cls, sources: Sequence[str], *, in_lines: bool = False) -> Source:
        """Finds the files: folders and patterns mean the pictures in them."""
        is_table = any(source.endswith(TABLES) and not os.path.isdir(source) for source in sources)
        if is_table and len(sources) > 1:
            raise InvalidArgumentError(
                f"Expected one table, or pictures, got {len(sources)} sources.",
                hint="Join the tables first, or start a job for each.",
            )
        files = sources if is_table else [file for source in sources for file in files_of(source) or [source]]
        for file in files:
            if not is_text(os.path.abspath(file)):
                raise InvalidArgumentError(f"The name {file!r} cannot be encoded in UTF-8, as a table requires.")
        return cls(tuple(map(os.path.abspath, files)), is_table, in_lines)

    @property
    def rows(self) -> int | None:
        """The number of rows; None if the file does not state it."""
        if not self.is_table:
            return len(self.files)
        return None if self._is_text else int(import_arrow().parquet.read_metadata(self.files[0]).num_rows)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(next(self.tables(1)).column_names) if self.is_table else [PATH]

    def fingerprint(self) -> str:
        """Distinguishes the source from others, by the files' names, sizes and times."""
        digest = hashlib.blake2b(digest_size=20)
        for path in self.files:
            digest.update(path.encode(errors="surrogateescape"))
            try:
                status = os.stat(path)
                digest.update(f"\0{status.st_size} {status.st_mtime_ns}\0".encode())
            except OSError:  # its row reports the error
                digest.update(b"\0missing\0")
        return digest.hexdigest()

    def tables(self, rows: int) -> Iterator[Any]:
        """Tables of this many rows, the last one with the rest; an empty one if there are no rows."""
        if not self.is_table:
            make = LineTable if self.in_lines else import_arrow().table
            for start in range(0, len(self.files), rows):
                yield make({PATH: list(self.files[start : start + rows])})
        elif self.in_lines and self._is_text:
            yield from read_csv(self.files[0], rows)
        elif self.in_lines:
            for table in self._arrow_tables(rows):
                yield LineTable(table.to_pydict())
        else:
            yield from self._arrow_tables(rows)

    def _arrow_tables(self, rows: int) -> Iterator[Any]:
        arrow = import_arrow()
        try:
            with self._reader(rows) as reader:
                yield from _in_equal_tables(reader, rows)
        except InvalidArgumentError:  # also an OSError
            raise
        except FileNotFoundError as error:
            raise InvalidArgumentError(f"{self.files[0]}: There is no such table.") from error
        except (OSError, arrow.ArrowInvalid) as error:
            raise InvalidArgumentError(f"{self.files[0]}: The table cannot be read: {error}.") from error

    @property
    def _is_text(self) -> bool:
        return self.files[0].endswith(".csv")

    def _reader(self, rows: int) -> Any:
        arrow = import_arrow()
        if self._is_text:
            reader = arrow.csv.open_csv(self.files[0])
            require_names(self.files[0], reader.schema.names)
            return reader
        file = arrow.parquet.ParquetFile(self.files[0])
        return arrow.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(batch_size=rows))


def _in_equal_tables(batches: Iterable[object], rows: int) -> Iterator[Any]:
    """The same rows in tables of equal length."""
    arrow = import_arrow()
    schema = batches.schema  # type: ignore[attr-defined]
    buffered = schema.empty_table()
    is_first = True
    for batch in batches:
        buffered = arrow.concat_tables([buffered, arrow.Table.from_batches([batch])])
        while buffered.num_rows >= rows:
            yield buffered.slice(0, rows)
            buffered, is_first = buffered.slice(rows), False
    if buffered.num_rows or is_first:
        yield buffered
