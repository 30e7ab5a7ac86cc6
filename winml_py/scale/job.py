"""A job: everything in a source through an evaluator, part by part, so that it can be interrupted and resumed."""

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
from typing import Any, NamedTuple

from ..core.base.atomic_files import require_folder, write_whole, written_to, written_whole
from ..errors import InvalidArgumentError, StorageAccessError, StorageExistsError
from .arrow import import_arrow
from .evaluator import Evaluator
from .lines import ERROR, LineTable, write_csv
from .source import Source

PIECE_SECONDS = 2.0
"""The seconds between two writes of a part's finished rows."""

Progress = Callable[[int, int | None], object]
"""Called with the number of finished rows, and of all rows; None if that is unknown."""


class Done(NamedTuple):
    """The finished rows of a part, or of a job, how many of them failed, and the first failure's reason (or "")."""

    rows: int = 0
    failed: int = 0
    first: str = ""

    def plus(self, other: Done) -> Done:
        """The sum of both."""
        return Done(self.rows + other.rows, self.failed + other.failed, self.first or other.first)


class Job(NamedTuple):
    """A job: an evaluator for the rows of a source; the answers go into parts of a fixed number of rows."""

    evaluator: Evaluator
    source: Source
    parts: Parts
    part_rows: int


class Todo:
    """The unfinished parts of a job: the number of each part, its first unfinished row, and its rows from there on.

    Attributes:
        count: the number of parts, after the iteration.
        before: the rows of earlier runs.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.count, self.before = 0, Done()

    def __iter__(self) -> Iterator[tuple[int, int, Any]]:
        for index, table in enumerate(self._job.source.tables(self._job.part_rows)):
            self.count = index + 1
            done = self._job.parts.done(index)
            self.before = self.before.plus(done or Done())
            first = done.rows if done else 0
            if done is None or first < table.num_rows:
                yield index, first, table.slice(first)


Executor = Callable[[Job, Todo, Progress], Iterator[Done]]
"""A way to do the parts: yields the written rows, and reports the rows finished since."""


class Outcome(NamedTuple):
    """The result of a job: the rows in the file, the rows of earlier runs, and the seconds of this run."""

    done: Done
    resumed: int
    seconds: float


def run(job: Job, way: Executor, tell: Progress) -> Outcome:
    """Finishes a job, and writes its file."""
    started, finished = time.monotonic(), job.parts.finished()
    if finished is not None:
        return Outcome(finished, finished.rows, time.monotonic() - started)
    total, todo, done = job.source.rows, Todo(job), Done()

    def tell_all(more: int, _: int | None) -> None:
        tell(todo.before.rows + done.rows + more, total)

    with job.parts.claimed():
        for part in way(job, todo, tell_all):
            done = done.plus(part)
            tell_all(0, None)
        job.parts.join(todo.count)
    job.parts.remove()
    return Outcome(todo.before.plus(done), todo.before.rows, time.monotonic() - started)


def here(job: Job, todo: Todo, tell: Progress) -> Iterator[Done]:
    """Does the parts in this process, one after the other, and writes finished rows every few seconds."""
    for index, first, table in todo:
        yield from _in_pieces(job, index, first, table, tell)


def _in_pieces(job: Job, index: int, first: int, table: Any, tell: Progress) -> Iterator[Done]:
    written = 0

    def tell_since(done: int, total: int | None) -> None:
        tell(done - written, total)

    for piece in job.evaluator.pieces(table, PIECE_SECONDS, tell_since):
        yield job.parts.write(index, first + written, piece)
        written += piece.num_rows


# Parts: the folder of an unfinished job. Its files are complete or absent.


KIND = "winml-py map"
_JOB, _LOCK = "job.json", "lock"
_KEY = b"winml_py.map"
"""The metadata key of a .parquet file for the job that wrote it."""

LINES = (".csv", ".jsonl")
"""Extensions of files that are written without pyarrow."""


class Parts(ABC):
    """The parts of a job, beside its output file. Parts of a job with other facts are not used.

    A part consists of consecutive pieces: an interrupted job continues after the last one.
    """

    ending: str
    """The extension of a piece."""

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
            raise StorageAccessError(
                f"Another process works on the job in {self.folder}.", hint="Wait until it is done."
            ) from error
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
            raise StorageExistsError(
                f"{self.folder} already exists, and has no unfinished job.", hint="Name another file to write."
            )
        job = contents["job"]
        differing = sorted(key for key in {*job, *self._facts} if job.get(key) != self._facts.get(key))
        if differing:
            raise InvalidArgumentError(
                f"{self.folder} has a job that was begun with another {', '.join(differing)}.",
                hint="Resume it as it was begun, name another file to write, or remove the folder.",
            )

    def done(self, index: int) -> Done | None:
        """The finished rows of a part, from its first row on; None if it has not begun."""
        pieces = [piece for _, piece in self._pieces(index)]
        return reduce(Done.plus, pieces) if pieces else None

    def _pieces(self, index: int) -> Iterator[tuple[str, Done]]:
        """The files of a part's consecutive pieces, and the rows in them."""
        first = 0
        while os.path.lexists(path := self._path(index, first)):
            piece = self._read(path)
            yield path, piece
            if not piece.rows:
                break
            first += piece.rows

    @abstractmethod
    def _read(self, path: str) -> Done:
        """The rows in a piece's file."""

    @abstractmethod
    def write(self, index: int, first: int, table: Any) -> Done:
        """Writes a piece of a part, complete or not at all; returns its rows.

        Args:
            index: the number of the part.
            first: the piece's first row, counted in the part from 0.
            table: its rows, with their answers.
        """

    @abstractmethod
    def join(self, count: int) -> None:
        """Writes the output file from the parts, in order."""

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, index: int, first: int) -> str:
        return os.path.join(self.folder, f"part-{index:08d}-{first:08d}{self.ending}")


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
        # If the model states no type, a piece without answers has a column of nulls. It gets the type of the
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
    """Parts as lines of JSON, which become a .jsonl or a .csv file. The first line of a piece describes its rows."""

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
                text.detach()  # the file's opener closes it
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
    """The parts of a job for an output file with this name; refuses other extensions."""
    if output.endswith(".parquet"):
        return ParquetParts(output, facts)
    if output.endswith(LINES):
        return LineParts(output, facts)
    raise InvalidArgumentError(
        f"{output}: Unknown file extension {os.path.splitext(output)[1]!r}.",
        hint="Use .parquet, .csv or .jsonl.",
    )
