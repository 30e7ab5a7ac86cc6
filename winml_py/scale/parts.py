"""Parts: the folder of a job that is not finished. What is done of it lies there in files that are whole or absent."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from ..core.base.atomic_files import require_folder, write_whole, written_to, written_whole
from ..errors import InvalidArgumentError, StorageAccessError, StorageExistsError
from .arrow import import_arrow
from .lines import ERROR, LineTable, write_csv

KIND = "winml-py map"
_JOB, _LOCK = "job.json", "lock"
_KEY, _STAMPS = b"winml_py.map", b"winml_py.map.stamps"
"""Of a .parquet file's metadata: what the job is; and what its rows were read from, a stamp for each part."""


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
    """The parts of a job beside the file that it will become.

    Args:
        output: the path of that file.
        facts: what the job is. Parts of a job with other facts are not used.
    """

    ending: str
    """The ending of the name of a part."""

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

    @abstractmethod
    def done(self, index: int, rows: int, stamp: str) -> Done | str | None:
        """What there is of a part.

        Args:
            index: its number.
            rows: how many it has.
            stamp: what they are read from now.

        Returns:
            None where it has yet to be done; or in words why it is done anew.
        """

    @abstractmethod
    def write(self, index: int, table: Any, stamp: str) -> Done:
        """Writes a part, whole or not at all, and says what is in it.

        Args:
            index: its number.
            table: its rows, with their answers.
            stamp: what the rows were read from.

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

    def _path(self, index: int) -> str:
        return os.path.join(self.folder, f"part-{index:08d}{self.ending}")

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
            self.write(index, table.slice(index * rows, rows), stamp)

    def done(self, index: int, rows: int, stamp: str) -> Done | str | None:
        """What there is of a part, if anything."""
        path, arrow = self._path(index), import_arrow()
        if not os.path.lexists(path):
            return None
        try:
            # A part that the disk has damaged would otherwise be joined with the others.
            table = arrow.parquet.ParquetFile(path, page_checksum_verification=True).read()
            done, stamps = _count_errors(table.column(ERROR)), _stamps(table.schema)
        except (OSError, ValueError, KeyError, arrow.ArrowException):
            return DAMAGED
        if done.rows != rows:
            return DAMAGED
        return done if stamps == [stamp] else CHANGED

    def write(self, index: int, table: Any, stamp: str) -> Done:
        """Writes a part, whole or not at all, and says what is in it."""
        path = self._path(index)
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _STAMPS: json.dumps([stamp])})
        with written_to(path), written_whole(path) as file:
            import_arrow().parquet.write_table(table, file, write_page_checksum=True)
        return _count_errors(table.column(ERROR))

    def join(self, count: int) -> None:
        """Writes the file from the parts, in their order."""
        arrow = import_arrow()
        paths = list(map(self._path, range(count)))
        schemas = list(map(arrow.parquet.read_schema, paths))
        stamps = [stamp for schema in schemas for stamp in _stamps(schema)]
        plain = [schema.remove_metadata() for schema in schemas]
        # Where the model does not state a type, a part without answers has a column of nulls. It gets the type of the
        # others.
        schema = arrow.unify_schemas(plain, promote_options="permissive")
        schema = schema.with_metadata({_KEY: json.dumps(self._facts), _STAMPS: json.dumps(stamps)})
        with (
            written_to(self.output),
            written_whole(self.output) as file,
            arrow.parquet.ParquetWriter(file, schema) as writer,
        ):
            for path in paths:
                writer.write_table(arrow.parquet.ParquetFile(path).read().cast(schema))


class LineParts(Parts):
    """Parts as lines of JSON, which become a .jsonl or a .csv file. A finished file does not say which job wrote it.

    The first line of a part says what is in it, with a digest of the others, so that a damaged part is found.
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

    def done(self, index: int, rows: int, stamp: str) -> Done | str | None:
        """What there is of a part, if anything."""
        path = self._path(index)
        if not os.path.lexists(path):
            return None
        try:
            with open(path, "rb") as file:
                head = json.loads(file.readline())
                is_whole = head["digest"] == hashlib.file_digest(file, _digest).hexdigest()
            done = Done(head["rows"], head["failed"], head["first"])
        except (OSError, ValueError, KeyError, TypeError):
            return DAMAGED
        if not is_whole or done.rows != rows:
            return DAMAGED
        return done if head["stamp"] == stamp else CHANGED

    def write(self, index: int, table: LineTable, stamp: str) -> Done:
        """Writes a part, whole or not at all, and says what is in it."""
        body = "".join(f"{line}\n" for line in table.lines(are_texts_kept=self._is_csv)).encode()
        failed = [error for error in table.cells(ERROR) if error is not None]
        done = Done(table.num_rows, len(failed), failed[0] if failed else "")
        head = done._asdict() | {"columns": table.names, "stamp": stamp}
        head["digest"] = _digest(body).hexdigest()
        path = self._path(index)
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
        with open(self._path(0), "rb") as file:
            names: list[str] = json.loads(file.readline())["columns"]
            return names

    def _lines(self, count: int) -> Iterator[bytes]:
        for path in map(self._path, range(count)):
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
