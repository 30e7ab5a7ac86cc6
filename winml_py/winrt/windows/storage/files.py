"""How files are found and opened: what streams and items share."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import BinaryIO, TypeVar

from ....core.base.arguments import member
from ....core.base.async_operation import AsyncOperation
from ....errors import StorageAccessError, StorageNotFoundError, WinMLError

T = TypeVar("T")


class FileAccessMode(IntEnum):
    """What a file is opened for."""

    READ = 0
    READ_WRITE = 1


class StorageOpenOptions(IntFlag):
    """Who else may open a file meanwhile: here everybody always may."""

    NONE = 0
    ALLOW_ONLY_READERS = 1
    ALLOW_READERS_AND_WRITERS = 2


class CreationCollisionOption(IntEnum):
    """What to do if a file of that name exists."""

    REPLACE_EXISTING = 1
    FAIL_IF_EXISTS = 2
    OPEN_IF_EXISTS = 3


def start(work: Callable[[], T]) -> AsyncOperation[T]:
    """Starts work on files; the system's errors become ours."""

    def run() -> T:
        try:
            return work()
        except WinMLError:
            raise
        except FileNotFoundError as error:
            raise StorageNotFoundError(f"There is no file {error.filename}.", hint="Check the path.") from error
        except OSError as error:
            raise StorageAccessError(f"{error.filename or 'The file'}: {error.strerror or error}.") from error

    return AsyncOperation(lambda _: run())


def existing(path: Path, kind: str) -> Path:
    """The path itself, if there is a file or a folder; StorageNotFoundError where there is none."""
    if not (path.is_file() if kind == "file" else path.is_dir()):
        raise StorageNotFoundError(f"There is no {kind} {path}.", hint="Check the path.")
    return path


def start_opening(path: Path, access_mode: FileAccessMode, make: Callable[[BinaryIO], T]) -> AsyncOperation[T]:
    """Opens a file that exists, and makes a stream of it."""
    is_read = member(FileAccessMode, access_mode, "The access mode") == FileAccessMode.READ
    return start(lambda: make(existing(path, "file").open("rb" if is_read else "r+b")))
