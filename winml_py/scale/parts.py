"""Parts: the folder of a job that is not finished. What is done of it lies there in files that are whole or absent."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..core.base.atomic_files import require_folder, write_whole, written_to, written_whole
from ..errors import InvalidArgumentError, StorageAccessError, StorageExistsError
from .arrow import import_arrow
from .batches import ERROR

KIND = "winml-py map"
_JOB, _LOCK = "job.json", "lock"
_KEY, _STAMPS = b"winml_py.map", b"winml_py.map.stamps"
"""Of a file's metadata: what the job is; and what its rows were read from, a stamp for each part."""


CHANGED, DAMAGED = "what they are read from has changed since", "their part was damaged"
"""Why rows are done anew."""


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


class Parts:
    """The parts of a job beside the file that it will become.

    Args:
        output: the path of that file.
        facts: what the job is. Parts of a job with other facts are not used.
    """

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

    def finished(self) -> Done | None:
        """What the file holds, where this job has written it; None where there is no file.

        Raises:
            StorageExistsError: the file is another's.
            StorageNotFoundError: there is no folder to write it to.
        """
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
        """Makes parts of so many rows of the file again, so that some of them can be done anew.

        Raises:
            StorageAccessError: they cannot be written.
        """
        arrow = import_arrow()
        table, stamps = arrow.parquet.ParquetFile(self.output).read(), self.stamps()
        for index, stamp in enumerate(stamps):
            self.write(index, table.slice(index * rows, rows), stamp)

    def done(self, index: int, rows: int, stamp: str) -> Done | str | None:
        """What there is of a part.

        Args:
            index: its number.
            rows: how many it has.
            stamp: what they are read from now.

        Returns:
            None where it has yet to be done; or in words why it is done anew.
        """
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
        """Writes a part, whole or not at all, and says what is in it.

        Args:
            index: its number.
            table: its rows, with their answers.
            stamp: what the rows were read from.

        Raises:
            StorageAccessError: it cannot be written.
        """
        path = self._path(index)
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _STAMPS: json.dumps([stamp])})
        with written_to(path), written_whole(path) as file:
            import_arrow().parquet.write_table(table, file, write_page_checksum=True)
        return _count_errors(table.column(ERROR))

    def join(self, count: int) -> None:
        """Writes the file from the parts, in their order, and removes the folder.

        Raises:
            StorageAccessError: it cannot be written.
        """
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

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, index: int) -> str:
        return os.path.join(self.folder, f"part-{index:08d}.parquet")

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


def _read_done(path: str) -> Done:
    return _count_errors(import_arrow().parquet.ParquetFile(path).read(columns=[ERROR]).column(ERROR))


def _stamps(schema: Any) -> list[str]:
    stamps = json.loads((schema.metadata or {}).get(_STAMPS, b"[]"))
    return [str(stamp) for stamp in stamps] if isinstance(stamps, list) else []


def _count_errors(errors: Any) -> Done:
    failed = errors.drop_null()
    return Done(len(errors), len(failed), failed[0].as_py() if len(failed) else "")
