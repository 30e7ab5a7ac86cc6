"""Parts: the folder of a job that is not finished. What is done of it lies there in files that are whole or absent."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..core.base.atomic_files import require_folder, write_whole, written_to, written_whole
from ..errors import InvalidArgumentError, StorageAccessError, StorageExistsError
from .arrow import import_arrow
from .lines import ERROR, LineTable, write_csv

KIND = "winml-py map"
_JOB, _LOCK = "job.json", "lock"
_KEY, _STAMPS, _ROWS = b"winml_py.map", b"winml_py.map.stamps", b"winml_py.map.rows"
"""Of a .parquet file's metadata: what the job is; what its rows were read from, a stamp for each part; and of a piece,
how many rows it has."""


CHANGED, DAMAGED = "what they are read from has changed since", "their part was damaged"
"""Why rows are done anew."""


LINES = (".csv", ".jsonl")
"""Endings of files that are written without pyarrow."""

_digest = partial(hashlib.blake2b, digest_size=20)


class Done(NamedTuple):
    """What there is of a part, or of a job.

    Attributes:
        rows: how many were evaluated.
        failed: how many of them have no answers.
        first: why the first of these has none, or "".
    """

    rows: int = 0
    failed: int = 0
    first: str = ""

    def plus(self, other: Done) -> Done:
        """Both together."""
        return Done(self.rows + other.rows, self.failed + other.failed, self.first or other.first)


class Parts(ABC):
    """The parts of a job beside the file that it will become. A part lies there in pieces, one after the other.

    Args:
        output: the path of that file.
        facts: what the job is. Parts of a job with other facts are not used.
    """

    ending: str
    """The ending of the name of a piece."""

    def __init__(self, output: str, facts: Mapping[str, object]) -> None:
        self.output, self.folder = output, f"{output}.parts"
        # As they come back from a file, with which they are compared: there, tuples are lists.
        self._facts: dict[str, Any] = json.loads(json.dumps(dict(facts)))

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Makes the folder, or takes the one that an earlier run left, for this process alone.

        Raises:
            StorageExistsError: the folder, or the file, is another job's or no job's.
            StorageAccessError: another process works on it, or the folder cannot be made.
        """
        import filelock

        self._require_ours()
        with written_to(self.folder):
            os.makedirs(self.folder, exist_ok=True)
        lock = filelock.FileLock(os.path.join(self.folder, _LOCK))
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout as error:
            raise StorageAccessError(
                f"Another process works on the job in {self.folder}.", hint="Wait until it is done."
            ) from error
        try:
            with lock:
                write_whole(os.path.join(self.folder, _JOB), json.dumps({"kind": KIND, "job": self._facts}).encode())
                yield
        finally:
            if not any(name.startswith("part-") for name in os.listdir(self.folder)):  # nothing to go on with
                self.remove()

    @abstractmethod
    def finished(self) -> Done | None:
        """What the file holds, where this job has written it; None where there is no file.

        Raises:
            StorageExistsError: the file is another's, or does not say whose it is.
            StorageNotFoundError: there is no folder to write it to.
        """

    def stamps(self) -> list[str]:
        """What the rows of a finished file were read from, a stamp for each part; none where it does not say."""
        return []

    def split(self, rows: int) -> None:  # noqa: B027 - nothing to split where `finished` never finds a file
        """Makes parts of so many rows of a finished file again, so that some of them can be done anew.

        Raises:
            StorageAccessError: they cannot be written.
        """

    def done(self, index: int, rows: int, stamp: str) -> Done | str | None:
        """What there is of a part, from its first row on.

        Args:
            index: its number.
            rows: how many it has.
            stamp: what they are read from now.

        Returns:
            None where all of it has yet to be done; or in words why it is done anew.
        """
        whole, is_begun = Done(), False
        while os.path.lexists(path := self._path(index, whole.rows)):
            piece = self._read(path, stamp)
            if isinstance(piece, str):
                return piece
            whole, is_begun = whole.plus(piece), True
            if not piece.rows or whole.rows > rows:
                break
        return DAMAGED if whole.rows > rows else whole if is_begun else None

    @abstractmethod
    def _read(self, path: str, stamp: str) -> Done | str:
        """What is in a piece; or in words why its part is done anew."""

    def discard(self, index: int, first: int) -> None:
        """Removes the pieces of a part from a row on.

        Raises:
            StorageAccessError: one cannot be removed.
        """
        for path in self._pieces(index):
            if path >= self._path(index, first):
                with written_to(path):
                    os.unlink(path)

    @abstractmethod
    def write(self, index: int, first: int, table: Any, stamp: str) -> Done:
        """Writes a piece of a part, whole or not at all, and says what is in it.

        Args:
            index: the number of the part.
            first: the piece's first row, counted in the part from 0.
            table: its rows, with their answers.
            stamp: what the rows of the part were read from.

        Raises:
            StorageAccessError: it cannot be written.
        """

    @abstractmethod
    def join(self, count: int) -> None:
        """Writes the file from the parts, in their order.

        Raises:
            StorageAccessError: it cannot be written.
        """

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, index: int, first: int) -> str:
        return os.path.join(self.folder, f"part-{index:08d}-{first:08d}{self.ending}")

    def _pieces(self, index: int) -> list[str]:
        return sorted(map(str, Path(self.folder).glob(f"part-{index:08d}-*{self.ending}")))

    @property
    def _is_new(self) -> bool:
        """Whether the run that made the folder ended before it wrote anything."""
        return not [name for name in os.listdir(self.folder) if name != _LOCK and not name.startswith(f".{_JOB}.")]

    def _require_ours(self) -> None:
        """Refuses a folder that is another's: it would be removed in the end."""
        if not os.path.lexists(self.folder) or (os.path.isdir(self.folder) and self._is_new):
            return
        try:
            with open(os.path.join(self.folder, _JOB), encoding="utf-8") as file:
                contents = json.load(file)
            job = contents["job"] if contents["kind"] == KIND else None
        except (OSError, ValueError, KeyError, TypeError):
            job = None
        if not isinstance(job, dict):
            raise StorageExistsError(
                f"{self.folder} is there already, and holds no unfinished job.", hint="Name another file to write."
            )
        differing = sorted(key for key in {*job, *self._facts} if job.get(key) != self._facts.get(key))
        if differing:
            raise InvalidArgumentError(
                f"{self.folder} holds a job that was begun with another {', '.join(differing)}.",
                hint="Finish it as it was begun, name another file to write, or remove the folder.",
            )


class ParquetParts(Parts):
    """Parts in Arrow's .parquet files. The finished one says which job wrote it, which can so do some rows anew."""

    ending = ".parquet"

    def finished(self) -> Done | None:
        """What the file holds, where this job has written it; None where there is no file."""
        require_folder(self.output)
        if not os.path.lexists(self.output):
            return None
        arrow = import_arrow()
        try:
            metadata = arrow.parquet.read_schema(self.output).metadata or {}
            is_ours = json.loads(metadata.get(_KEY, b"{}")) == self._facts
        except (OSError, ValueError, arrow.ArrowInvalid):
            is_ours = False
        if not is_ours:
            raise StorageExistsError(
                f"{self.output} is there already, and another job has written it.",
                hint="Name another file, or remove this one.",
            )
        return _read_done(self.output)

    def stamps(self) -> list[str]:
        """What the rows of the file were read from, a stamp for each part."""
        return _stamps(import_arrow().parquet.read_schema(self.output))

    def split(self, rows: int) -> None:
        """Makes parts of so many rows of the file again."""
        arrow = import_arrow()
        table, stamps = arrow.parquet.ParquetFile(self.output).read(), self.stamps()
        for index, stamp in enumerate(stamps):
            self.write(index, 0, table.slice(index * rows, rows), stamp)

    def _read(self, path: str, stamp: str) -> Done | str:
        """What is in a piece."""
        arrow = import_arrow()
        try:
            # A part that the disk has damaged would otherwise be joined with the others.
            table = arrow.parquet.ParquetFile(path, page_checksum_verification=True).read()
            done, stamps = _count_errors(table.column(ERROR)), _stamps(table.schema)
            if stamps != [stamp]:
                return CHANGED
            return done if done.rows == int(table.schema.metadata[_ROWS]) else DAMAGED
        except (OSError, ValueError, KeyError, arrow.ArrowException):
            return DAMAGED

    def write(self, index: int, first: int, table: Any, stamp: str) -> Done:
        """Writes a piece of a part, whole or not at all, and says what is in it."""
        path = self._path(index, first)
        facts = {_STAMPS: json.dumps([stamp]), _ROWS: str(table.num_rows)}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **facts})
        with written_to(path), written_whole(path) as file:
            import_arrow().parquet.write_table(table, file, write_page_checksum=True)
        return _count_errors(table.column(ERROR))

    def join(self, count: int) -> None:
        """Writes the file from the parts, in their order."""
        arrow = import_arrow()
        parts = list(map(self._pieces, range(count)))
        schemas = [[arrow.parquet.read_schema(path) for path in pieces] for pieces in parts]
        stamps = [stamp for first, *_ in schemas for stamp in _stamps(first)]
        plain = [schema.remove_metadata() for part in schemas for schema in part]
        # Where the model does not state a type, a piece without answers has a column of nulls. It gets the type of the
        # others.
        schema = arrow.unify_schemas(plain, promote_options="permissive")
        schema = schema.with_metadata({_KEY: json.dumps(self._facts), _STAMPS: json.dumps(stamps)})
        with (
            written_to(self.output),
            written_whole(self.output) as file,
            arrow.parquet.ParquetWriter(file, schema) as writer,
        ):
            for pieces in parts:
                tables = (arrow.parquet.ParquetFile(path).read().cast(schema) for path in pieces)
                writer.write_table(arrow.concat_tables(tables))


class LineParts(Parts):
    """Parts as lines of JSON, which become a .jsonl or a .csv file. A finished file does not say which job wrote it.

    The first line of a piece says what is in it, with a digest of the others, so that a damaged one is found.
    """

    ending = ".jsonl"

    def finished(self) -> None:
        """None where there is no file, or where a run that was killed after writing it has left its folder."""
        require_folder(self.output)
        if os.path.lexists(self.output) and not os.path.isdir(self.folder):
            raise StorageExistsError(
                f"{self.output} is there already, and does not say which job has written it.",
                hint="Name another file, or remove this one. A .parquet file can be done anew in part.",
            )

    def _read(self, path: str, stamp: str) -> Done | str:
        """What is in a piece."""
        try:
            with open(path, "rb") as file:
                head = json.loads(file.readline())
                is_whole = head["digest"] == hashlib.file_digest(file, _digest).hexdigest()
            done = Done(head["rows"], head["failed"], head["first"])
        except (OSError, ValueError, KeyError, TypeError):
            return DAMAGED
        if not is_whole:
            return DAMAGED
        return done if head["stamp"] == stamp else CHANGED

    def write(self, index: int, first: int, table: LineTable, stamp: str) -> Done:
        """Writes a piece of a part, whole or not at all, and says what is in it."""
        body = "".join(f"{line}\n" for line in table.lines(are_texts_kept=self._is_csv)).encode()
        failed = [error for error in table.cells(ERROR) if error is not None]
        done = Done(table.num_rows, len(failed), failed[0] if failed else "")
        head = done._asdict() | {"columns": table.names, "stamp": stamp}
        head["digest"] = _digest(body).hexdigest()
        path = self._path(index, first)
        with written_to(path):
            write_whole(path, f"{json.dumps(head)}\n".encode() + body)
        return done

    def join(self, count: int) -> None:
        """Writes the file from the parts, in their order."""
        with written_to(self.output), written_whole(self.output) as file:
            if self._is_csv:
                text = io.TextIOWrapper(file, encoding="utf-8", newline="")
                write_csv(text, self._columns(), self._lines(count))
                text.flush()
                text.detach()  # the file is closed where it was opened
            else:
                file.writelines(self._lines(count))

    @property
    def _is_csv(self) -> bool:
        return self.output.endswith(".csv")

    def _columns(self) -> list[str]:
        with open(self._path(0, 0), "rb") as file:
            names: list[str] = json.loads(file.readline())["columns"]
            return names

    def _lines(self, count: int) -> Iterator[bytes]:
        for path in itertools.chain.from_iterable(map(self._pieces, range(count))):
            with open(path, "rb") as file:
                next(file)
                yield from file


def parts_for(output: str, facts: Mapping[str, object]) -> Parts:
    """The parts of a job for a file of this name.

    Raises:
        InvalidArgumentError: the name has another ending.
    """
    if output.endswith(".parquet"):
        return ParquetParts(output, facts)
    if output.endswith(LINES):
        return LineParts(output, facts)
    raise InvalidArgumentError(
        f"{output}: The name of the file to write ends in {os.path.splitext(output)[1] or 'nothing'}.",
        hint="It ends in .parquet, .csv or .jsonl.",
    )


def _read_done(path: str) -> Done:
    return _count_errors(import_arrow().parquet.ParquetFile(path).read(columns=[ERROR]).column(ERROR))


def _stamps(schema: Any) -> list[str]:
    stamps = json.loads((schema.metadata or {}).get(_STAMPS, b"[]"))
    return [str(stamp) for stamp in stamps] if isinstance(stamps, list) else []


def _count_errors(errors: Any) -> Done:
    failed = errors.drop_null()
    return Done(len(errors), len(failed), failed[0].as_py() if len(failed) else "")
