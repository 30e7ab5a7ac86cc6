"""Parts: the folder of a job that is not finished. What is done of it lies there in files that are whole or absent."""

from __future__ import annotations

import io
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple

from ..core.base.atomic_files import require_folder, write_whole, written_to, written_whole
from ..errors import InvalidArgumentError, StorageAccessError, StorageExistsError
from .arrow import import_arrow
from .lines import ERROR, LineTable, write_csv

KIND = "winml-py map"
_JOB, _LOCK = "job.json", "lock"
_KEY = b"winml_py.map"
"""Of a .parquet file's metadata: which job wrote it."""

LINES = (".csv", ".jsonl")
"""Endings of files that are written without pyarrow."""


class Done(NamedTuple):
    """What there is of a part, or of a job: rows, how many of them failed, and why the first did (or "")."""

    rows: int = 0
    failed: int = 0
    first: str = ""

    def plus(self, other: Done) -> Done:
        """Both together."""
        return Done(self.rows + other.rows, self.failed + other.failed, self.first or other.first)


class Parts(ABC):
    """The parts of a job beside the file that it will become. Parts of a job with other facts are not used.

    A part lies there in pieces, one after the other: an interrupted job goes on behind the last.
    """

    ending: str
    """The ending of the name of a piece."""

    def __init__(self, output: str, facts: Mapping[str, object]) -> None:
        self.output, self.folder = output, f"{output}.parts"
        # As they come back from a file, with which they are compared: there, tuples are lists.
        self._facts: dict[str, Any] = json.loads(json.dumps(dict(facts)))

    def finished(self) -> Done | None:
        """What is in the file, where this job has written it; None where there is no file. Refuses another's file."""
        # Where both are there, a run was killed before it removed the folder: the file is written again.
        if not os.path.lexists(self.output) or os.path.lexists(self.folder):
            return None
        if not self._wrote_file():
            raise StorageExistsError(f"{self.output} exists already.", hint="Name another file, or remove this one.")
        return self._read(self.output)

    @abstractmethod
    def _wrote_file(self) -> bool:
        """Whether the finished file says that this job has written it."""

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Makes the folder, or takes the one that an earlier run left, for this process alone.

        Raises:
            WinMLError: the folder is another's, another process works on it, or it cannot be made.
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
            raise StorageAccessError(
                f"Another process works on the job in {self.folder}.", hint="Wait until it is done."
            ) from error
        finally:
            if not any(name.startswith("part-") for name in os.listdir(self.folder)):  # nothing to go on with
                self.remove()

    def _require_ours(self) -> None:
        """Refuses a folder that is another's: it would be removed in the end."""
        try:
            with open(os.path.join(self.folder, _JOB), encoding="utf-8") as file:
                contents = json.load(file)
        except (OSError, ValueError):
            contents = {}
        if contents.get("kind") != KIND:
            raise StorageExistsError(
                f"{self.folder} exists already, and holds no unfinished job.", hint="Name another file to write."
            )
        job = contents["job"]
        differing = sorted(key for key in {*job, *self._facts} if job.get(key) != self._facts.get(key))
        if differing:
            raise InvalidArgumentError(
                f"{self.folder} holds a job that was begun with another {', '.join(differing)}.",
                hint="Finish it as it was begun, name another file to write, or remove the folder.",
            )

    def done(self, index: int) -> Done | None:
        """What there is of a part, from its first row on; None where it has yet to be begun."""
        pieces = [piece for _, piece in self._pieces(index)]
        return reduce(Done.plus, pieces) if pieces else None

    def _pieces(self, index: int) -> Iterator[tuple[str, Done]]:
        """The files of a part, each behind the rows of the one before, and what is in them."""
        first = 0
        while os.path.lexists(path := self._path(index, first)):
            piece = self._read(path)
            yield path, piece
            if not piece.rows:
                break
            first += piece.rows

    @abstractmethod
    def _read(self, path: str) -> Done:
        """What is in the file of a piece."""

    @abstractmethod
    def write(self, index: int, first: int, table: Any) -> Done:
        """Writes a piece of a part, whole or not at all; returns what is in it.

        Args:
            index: the number of the part.
            first: the piece's first row, counted in the part from 0.
            table: its rows, with their answers.
        """

    @abstractmethod
    def join(self, count: int) -> None:
        """Writes the file from the parts, in their order."""

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, index: int, first: int) -> str:
        return os.path.join(self.folder, f"part-{index:08d}-{first:08d}{self.ending}")


class ParquetParts(Parts):
    """Parts in Arrow's .parquet files. The finished one says which job wrote it."""

    ending = ".parquet"

    def _wrote_file(self) -> bool:
        try:
            metadata = import_arrow().parquet.read_schema(self.output).metadata or {}
            return bool(json.loads(metadata.get(_KEY, b"{}")) == self._facts)
        except (OSError, ValueError):  # it cannot be read as a table
            return False

    def _read(self, path: str) -> Done:
        return _count_errors(import_arrow().parquet.ParquetFile(path).read(columns=[ERROR]))

    def write(self, index: int, first: int, table: Any) -> Done:
        """As in Parts."""
        path = self._path(index, first)
        with written_to(path), written_whole(path) as file:
            import_arrow().parquet.write_table(table, file)
        return _count_errors(table)

    def join(self, count: int) -> None:
        """As in Parts."""
        arrow = import_arrow()
        parts = [[path for path, _ in self._pieces(index)] for index in range(count)]
        # Where the model does not state a type, a piece without answers has a column of nulls. It gets the type of the
        # others.
        schemas = [arrow.parquet.read_schema(path).remove_metadata() for paths in parts for path in paths]
        schema = arrow.unify_schemas(schemas, promote_options="permissive")
        schema = schema.with_metadata({_KEY: json.dumps(self._facts)})
        with (
            written_to(self.output),
            written_whole(self.output) as file,
            arrow.parquet.ParquetWriter(file, schema) as writer,
        ):
            for paths in parts:
                pieces = (arrow.parquet.ParquetFile(path).read().cast(schema) for path in paths)
                writer.write_table(arrow.concat_tables(pieces))


def _count_errors(table: Any) -> Done:
    errors = table.column(ERROR)
    failed = errors.drop_null()
    return Done(len(errors), len(failed), failed[0].as_py() if len(failed) else "")


class LineParts(Parts):
    """Parts as lines of JSON, which become a .jsonl or a .csv file. The first line of a piece says what is in it."""

    ending = ".jsonl"

    def _wrote_file(self) -> bool:
        return False

    def _head(self, path: str) -> dict[str, Any]:
        with open(path, "rb") as file:
            head: dict[str, Any] = json.loads(file.readline())
            return head

    def _read(self, path: str) -> Done:
        return Done(*self._head(path)["done"])

    def write(self, index: int, first: int, table: LineTable) -> Done:
        """As in Parts."""
        failed = [error for error in table.cells(ERROR) if error is not None]
        done = Done(table.num_rows, len(failed), failed[0] if failed else "")
        head = json.dumps({"columns": table.names, "done": done})
        lines = [head, *table.lines()]
        path = self._path(index, first)
        with written_to(path):
            write_whole(path, "".join(f"{line}\n" for line in lines).encode())
        return done

    def join(self, count: int) -> None:
        """As in Parts."""
        with written_to(self.output), written_whole(self.output) as file:
            if self._is_csv:
                text = io.TextIOWrapper(file, encoding="utf-8", newline="")
                write_csv(text, self._head(self._path(0, 0))["columns"], self._lines(count))
                text.flush()
                text.detach()  # the file is closed where it was opened
            else:
                file.writelines(self._lines(count))

    @property
    def _is_csv(self) -> bool:
        return self.output.endswith(".csv")

    def _lines(self, count: int) -> Iterator[bytes]:
        for index in range(count):
            for path, _ in self._pieces(index):
                with open(path, "rb") as file:
                    next(file)
                    yield from file


def parts_for(output: str, facts: Mapping[str, object]) -> Parts:
    """The parts of a job for a file of this name; refuses other endings."""
    if output.endswith(".parquet"):
        return ParquetParts(output, facts)
    if output.endswith(LINES):
        return LineParts(output, facts)
    raise InvalidArgumentError(
        f"{output}: The name of the file to write ends in {os.path.splitext(output)[1] or 'nothing'}.",
        hint="It ends in .parquet, .csv or .jsonl.",
    )
