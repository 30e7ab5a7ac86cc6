"""Writing files so that no other program ever sees an incomplete one."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import BinaryIO

from ...errors import InvalidArgumentError, StorageAccessError, StorageNotFoundError, WinMLError


def require_folder(path: str | os.PathLike[str]) -> None:
    """Refuses a file whose folder does not exist, or that is a folder, before time is spent on its contents.

    Raises:
        StorageNotFoundError, StorageAccessError: as it says.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise StorageNotFoundError(
            f"{os.fspath(path)}: There is no folder {folder} to write to.", hint="Make it first."
        )
    if os.path.isdir(path):
        raise StorageAccessError(f"{os.fspath(path)}: This is a folder.", hint="Name a file in it.")


def is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two paths lead to one file that is there."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def require_another_file(destination: str | os.PathLike[str], source: str | os.PathLike[str]) -> None:
    """Refuses, with an InvalidArgumentError, to write a new model in the place of the one that it is made from."""
    if is_same_file(destination, source):
        raise InvalidArgumentError(
            f"{os.fspath(destination)}: This is the model itself, and the new one would replace it.",
            hint="Name another file, or say that it is meant: force=True.",
        )


@contextmanager
def written_to(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns the system's errors, while a file is written, into a StorageAccessError that names the file."""
    try:
        yield
    except WinMLError:
        raise
    except OSError as error:
        raise StorageAccessError(f"{os.fspath(path)}: It cannot be written: {error.strerror or error}.") from error


WINDOWS_WAITS = (0.01, 0.03, 0.1, 0.3, 0.5)
"""Seconds between two tries to rename on Windows."""


def move_into_place(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Renames a file, which takes the place of one that is there; or a folder, which does not.

    Windows refuses that while a program, a virus scanner say, has one of them open: so it is tried for a second there.
    """
    for seconds in WINDOWS_WAITS if sys.platform == "win32" else ():
        try:
            os.replace(source, target)
        except PermissionError:
            time.sleep(seconds)
        else:
            return
    os.replace(source, target)


def copy_mode(source: str, target: str) -> None:
    """Gives a file the mode of another; but not "read-only" of Windows, with which no file is replaced or removed."""
    if sys.platform != "win32":
        shutil.copymode(source, target)


@contextmanager
def written_whole(path: str, mode: int | None = None) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path`, which takes its place when the block ends without an error.

    A link is written through. A device or a pipe is opened itself: to replace it would remove it from the system.

    Args:
        path: of the file.
        mode: of the file, from its first byte on; None for that of the file that is there, or the umask's.
    """
    real = os.path.realpath(path)
    is_there = os.path.exists(real)
    if is_there and not os.path.isfile(real):
        with open(real, "wb") as file:
            yield file
        return
    folder, file_name = os.path.split(real)
    temporary = os.path.join(folder, f".{file_name}.{os.urandom(8).hex()}")
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=0o666 if mode is None else mode)) as file:
            if mode is not None:
                os.chmod(temporary, mode)  # the umask may have taken the owner's rights
            elif is_there:
                copy_mode(real, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())  # or a crash of the system could leave the new name without its contents
        move_into_place(temporary, real)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = path  # the caller knows of no other file
        with suppress(OSError):  # it is not there; or Windows removes no open file, and the error is what counts
            os.unlink(temporary)
        raise


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file that appears whole or not at all; a StorageAccessError where it cannot be written."""
    with written_to(path), written_whole(os.fspath(path)) as file:
        file.write(data)
