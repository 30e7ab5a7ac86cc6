"""A job: an evaluator for all rows of a source. Finished rows are written in parts, so that it can be resumed."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple

from ..core.base.atomic_files import require_folder, write_whole, written_to, written_whole
from ..errors import InvalidArgumentError, StorageAccessError, StorageExistsError
from .arrow import import_arrow
from .evaluator import Evaluator
from .lines import ERROR, LineTable, write_csv
from .source import Source

PART_SECONDS = 2.0
"""The seconds from one part to the next."""

TABLE_ROWS = 1000
"""The most rows of a part, and of a row group of a .parquet file."""

Progress = Callable[[int, int | None], object]
"""Called with the number of finished rows, and of all rows; None if that is unknown."""


class Done(NamedTuple):
    """Finished rows, how many of them failed, and the first failure's reason (or "")."""

    rows: int = 0
    failed: int = 0
    first: str = ""

    def plus(self, other: Done) -> Done:
        """The sum of both."""
        return Done(self.rows + other.rows, self.failed + other.failed, self.first or other.first)


class Outcome(NamedTuple):
    """The result of a job: the rows in the file, the rows of earlier runs, and the seconds of this run."""

    done: Done
    resumed: int
    seconds: float


def run(evaluator: Evaluator, source: Source, parts: Parts, tell: Progress) -> Outcome:
    """Finishes a job: evaluates the rows that are not finished, and writes the file."""
    started, done = time.monotonic(), parts.finished()
    if done is not None:
        return Outcome(done, done.rows, time.monotonic() - started)
    total = source.rows

    def tell_after(first: int) -> Progress:
        return lambda rows, _: tell(first + rows, total)

    with parts.claimed():
        done = parts.done()
        resumed, start = done.rows, 0
        for table in source.tables(TABLE_ROWS):
            end = start + table.num_rows
            if done.rows < end or not end:  # a source without rows has an empty part, for its columns
                rest = table.slice(done.rows - start)
                for finished in evaluator.pieces(rest, PART_SECONDS, tell_after(done.rows)):
                    done = done.plus(parts.write(done.rows, finished))
            start = end
        parts.join()
    parts.remove()
    return Outcome(done, resumed, time.monotonic() - started)


# Parts: the folder of an unfinished job. Its files are complete or absent.


KIND = "winml-py map"
_JOB, _LOCK = "job.json", "lock"
_KEY = b"winml_py.map"
"""The metadata key of a .parquet file for the job that wrote it."""

LINES = (".csv", ".jsonl")
"""Extensions of files that are written without pyarrow."""


class Parts(ABC):
    """The consecutive parts of a job, beside its output file. Parts of a job with other facts are not used."""

    ending: str
    """The extension of a part."""

    def __init__(self, output: str, facts: Mapping[str, object]) -> None:
        self.output, self.folder = output, f"{output}.parts"
        # As read back from a file, for comparison: there, tuples are lists.
        self._facts: dict[str, Any] = json.loads(json.dumps(dict(facts)))

    def finished(self) -> Done | None:
        """The rows in the output file, if this job wrote it; None if there is no file. Refuses another's file."""
        # If both exist, a run was killed before it removed the folder: the file is written again.
        if not os.path.lexists(self.output) or os.path.lexists(self.folder):
            return None
        if not self._wrote_file():
            raise StorageExistsError(f"{self.output} already exists.", hint="Name another file, or remove this one.")
        return self._read(self.output)

    @abstractmethod
    def _wrote_file(self) -> bool:
        """Whether the output file states that this job wrote it."""

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Makes the folder, or takes over an earlier run's, for this process only.

        Raises:
            WinMLError: the folder is another job's, another process uses it, or it cannot be made.
        """
        import filelock

        require_folder(self.output)
        with written_to(self.folder):
            os.makedirs(self.folder, exist_ok=True)
            if any(name != _LOCK and not name.startswith(".") for name in os.listdir(self.folder)):
                self._require_ours()
        try:
            with filelock.FileLock(os.path.join(self.folder, _LOCK), timeout=0):
                write_whole(os.path.join(self.folder, _JOB), json.dumps({"kind": KIND, "job": self._facts}).encode())
                yield
        except filelock.Timeout as error:
            raise StorageAccessError(f"Another process works on the job in {self.folder}.") from error
        finally:
            if not any(name.startswith("part-") for name in os.listdir(self.folder)):  # nothing to resume
                self.remove()

    def _require_ours(self) -> None:
        """Refuses the folder of another job: it would be removed in the end."""
        try:
            with open(os.path.join(self.folder, _JOB), encoding="utf-8") as file:
                contents = json.load(file)
        except (OSError, ValueError):
            contents = {}
        if contents.get("kind") != KIND:
            raise StorageExistsError(f"{self.folder} already exists, and has no unfinished job.")
        job = contents["job"]
        differing = sorted(key for key in {*job, *self._facts} if job.get(key) != self._facts.get(key))
        if differing:
            raise InvalidArgumentError(
                f"{self.folder} has a job that was begun with another {', '.join(differing)}.",
                hint="Resume it as it was begun, name another file to write, or remove the folder.",
            )

    def done(self) -> Done:
        """The rows in all parts."""
        return reduce(Done.plus, (done for _, _, done in self._parts()), Done())

    def _parts(self) -> Iterator[tuple[int, str, Done]]:
        """The consecutive parts: the first row, the path, and the rows of each."""
        first = 0
        while os.path.lexists(path := self._path(first)):
            done = self._read(path)
            yield first, path, done
            if not done.rows:
                break
            first += done.rows

    @abstractmethod
    def _read(self, path: str) -> Done:
        """The rows in a part's file."""

    @abstractmethod
    def write(self, first: int, table: Any) -> Done:
        """Writes a part, complete or not at all; returns its rows.

        Args:
            first: its first row, counted from 0.
            table: its rows, with their outputs.
        """

    @abstractmethod
    def join(self) -> None:
        """Writes the output file from the parts, in order."""

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, first: int) -> str:
        return os.path.join(self.folder, f"part-{first:012d}{self.ending}")


class ParquetParts(Parts):
    """Parts in Arrow's .parquet files. The output file states which job wrote it."""

    ending = ".parquet"

    def _wrote_file(self) -> bool:
        try:
            metadata = import_arrow().parquet.read_schema(self.output).metadata or {}
            return bool(json.loads(metadata.get(_KEY, b"{}")) == self._facts)
        except (OSError, ValueError):  # it cannot be read as a table
            return False

    def _read(self, path: str) -> Done:
        return _count_errors(import_arrow().parquet.ParquetFile(path).read(columns=[ERROR]))

    def write(self, first: int, table: Any) -> Done:
        """As in Parts."""
        path = self._path(first)
        with written_to(path), written_whole(path) as file:
            import_arrow().parquet.write_table(table, file)
        return _count_errors(table)

    def join(self) -> None:
        """As in Parts."""
        arrow = import_arrow()
        parts = [(first, path) for first, path, _ in self._parts()]
        # If the model states no type, a part without outputs has a column of nulls. It gets the type of the
        # others.
        schemas = [arrow.parquet.read_schema(path).remove_metadata() for _, path in parts]
        schema = arrow.unify_schemas(schemas, promote_options="permissive")
        schema = schema.with_metadata({_KEY: json.dumps(self._facts)})
        with (
            written_to(self.output),
            written_whole(self.output) as file,
            arrow.parquet.ParquetWriter(file, schema) as writer,
        ):
            for _, group in groupby(parts, lambda part: part[0] // TABLE_ROWS):  # few large row groups, not many small
                tables = (arrow.parquet.ParquetFile(path).read().cast(schema) for _, path in group)
                writer.write_table(arrow.concat_tables(tables))


def _count_errors(table: Any) -> Done:
    errors = table.column(ERROR)
    failed = errors.drop_null()
    return Done(len(errors), len(failed), failed[0].as_py() if len(failed) else "")


class LineParts(Parts):
    """Parts as lines of JSON, which become a .jsonl or a .csv file. The first line of a part describes its rows."""

    ending = ".jsonl"

    def _wrote_file(self) -> bool:
        return False

    def _head(self, path: str) -> dict[str, Any]:
        with open(path, "rb") as file:
            head: dict[str, Any] = json.loads(file.readline())
            return head

    def _read(self, path: str) -> Done:
        return Done(*self._head(path)["done"])

    def write(self, first: int, table: LineTable) -> Done:
        """As in Parts."""
        failed = [error for error in table.cells(ERROR) if error is not None]
        done = Done(table.num_rows, len(failed), failed[0] if failed else "")
        head = json.dumps({"columns": table.names, "done": done})
        lines = [head, *table.lines()]
        path = self._path(first)
        with written_to(path):
            write_whole(path, "".join(f"{line}\n" for line in lines).encode())
        return done

    def join(self) -> None:
        """As in Parts."""
        with written_to(self.output), written_whole(self.output) as file:
            if self._is_csv:
                text = io.TextIOWrapper(file, encoding="utf-8", newline="")
                write_csv(text, self._head(self._path(0))["columns"], self._lines())
                text.flush()
                text.detach()  # the file's opener closes it
            else:
                file.writelines(self._lines())

    @property
    def _is_csv(self) -> bool:
        return self.output.endswith(".csv")

    def _lines(self) -> Iterator[bytes]:
        for _, path, _ in self._parts():
            with open(path, "rb") as file:
                next(file)
                yield from file


def parts_for(output: str, facts: Mapping[str, object]) -> Parts:
    """The parts of a job for an output file with this name; refuses other extensions."""
    if output.endswith(".parquet"):
        return ParquetParts(output, facts)
    if output.endswith(LINES):
        return LineParts(output, facts)
    raise InvalidArgumentError(
        f"{output}: Unknown file extension {os.path.splitext(output)[1]!r}.",
        hint="Use .parquet, .csv or .jsonl.",
    )
