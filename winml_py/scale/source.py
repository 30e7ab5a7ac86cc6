"""Source: what a job goes through, in tables of equal length: pictures by their paths, or the rows of a table."""

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
"""The column of pictures that are named by their files."""

TABLES = (".csv", ".parquet")


class Source(NamedTuple):
    """What a job goes through.

    Attributes:
        files: the pictures, or one table, by their absolute paths.
        is_table: which of the two.
        in_lines: whether its tables are plain ones (`LineTable`); otherwise they are Arrow's.
    """

    files: tuple[str, ...]
    is_table: bool
    in_lines: bool = False

    @classmethod
    def of(cls, sources: Sequence[str], *, in_lines: bool = False) -> Source:
        """Finds the files: folders and patterns stand for the pictures in them."""
        is_table = any(source.endswith(TABLES) and not os.path.isdir(source) for source in sources)
        if is_table and len(sources) > 1:
            raise InvalidArgumentError(
                f"A job goes through one table, or through pictures, and {len(sources)} sources came.",
                hint="Join the tables first, or start a job for each.",
            )
        files = sources if is_table else [file for source in sources for file in files_of(source) or [source]]
        for file in files:
            if not is_text(os.path.abspath(file)):
                raise InvalidArgumentError(
                    f"{file!r} is a name that UTF-8 cannot write, and a table has no other.", hint="Rename the file."
                )
        return cls(tuple(map(os.path.abspath, files)), is_table, in_lines)

    @property
    def rows(self) -> int | None:
        """How many there are; None where the file does not say."""
        if not self.is_table:
            return len(self.files)
        return None if self._is_text else int(import_arrow().parquet.read_metadata(self.files[0]).num_rows)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(next(self.tables(1)).column_names) if self.is_table else [PATH]

    def fingerprint(self) -> str:
        """Tells the source from another: the names of the files, their sizes and times."""
        digest = hashlib.blake2b(digest_size=20)
        for path in self.files:
            digest.update(path.encode(errors="surrogateescape"))
            try:
                status = os.stat(path)
                digest.update(f"\0{status.st_size} {status.st_mtime_ns}\0".encode())
            except OSError:  # its row says so
                digest.update(b"\0missing\0")
        return digest.hexdigest()

    def tables(self, rows: int) -> Iterator[Any]:
        """Tables of so many rows, the last of what is left; one without rows, where there are none."""
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
        except InvalidArgumentError:  # an OSError, too
            raise
        except FileNotFoundError as error:
            raise InvalidArgumentError(
                f"{self.files[0]}: There is no such table.", hint="Check the working directory."
            ) from error
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
    """The same rows in tables of so many."""
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
