"""Writes files so that no other program ever sees an incomplete one."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import BinaryIO

from ...errors import StorageAccessError, StorageNotFoundError, WinMLError


def require_folder(path: str | os.PathLike[str]) -> None:
    """Refuses a path whose folder does not exist, or that is a folder, before time is spent on the contents.

    Raises:
        StorageNotFoundError, StorageAccessError: no such folder; the path is a folder.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise StorageNotFoundError(
            f"{os.fspath(path)}: The folder {folder} does not exist.", hint="Create the folder first."
        )
    if os.path.isdir(path):
        raise StorageAccessError(f"{os.fspath(path)}: This is a folder.", hint="Pass the path to a file in it.")


def is_same_file(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> bool:
    """Whether two paths lead to the same existing file."""
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


def fold_case(path: str) -> str:
    """The same text for paths that name one file: on Windows and macOS, names may differ in case."""
    return path if sys.platform == "linux" else path.casefold()


def has_other_drive(path: str, folder: str) -> bool:
    """Whether a path that is relative to a folder names another drive, or a share; never, except on Windows.

    Ask before you look for a file that an untrusted file names: to look for one on a share, Windows sends the user's
    credentials to the server.
    """
    drive = os.path.splitdrive(path)[0]
    return drive != "" and drive.casefold() != os.path.splitdrive(os.path.abspath(folder))[0].casefold()


@contextmanager
def translate_write_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns system errors within the block into a StorageAccessError that names the file."""
    try:
        yield
    except WinMLError:
        raise
    except OSError as error:
        raise StorageAccessError(f"{os.fspath(path)}: Cannot write the file: {error.strerror or error}.") from error


WINDOWS_WAITS = (0.01, 0.03, 0.1, 0.3, 0.5)
"""Seconds between attempts to rename on Windows."""


def move_into_place(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Renames a file, which replaces an existing one, or a folder, which does not.

    Windows refuses this while a program, such as a virus scanner, has one of them open: then retries for a second.
    """
    for seconds in WINDOWS_WAITS if sys.platform == "win32" else ():
        try:
            os.replace(source, target)
        except PermissionError:
            time.sleep(seconds)
        else:
            return
    os.replace(source, target)


@contextmanager
def open_atomically(path: str, mode: int | None = None) -> Iterator[BinaryIO]:
    """Opens a temporary file next to `path`, with its ending, which replaces it when the block ends without an error.

    Links are followed. A device or a pipe is opened directly: replacing it would remove it from the system.

    Args:
        path: the path to the file.
        mode: the file's mode, from its first byte on; None for that of the existing file, or the umask's.
    """
    real = os.path.realpath(path)
    is_there = os.path.exists(real)
    if is_there and not os.path.isfile(real):
        with open(real, "wb") as file:
            yield file
        return
    stem, ending = os.path.splitext(os.path.basename(real))
    temporary = os.path.join(os.path.dirname(real), f".{stem}.{os.urandom(8).hex()}{ending}")
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=0o666 if mode is None else mode)) as file:
            if mode is not None:
                os.chmod(temporary, mode)  # the umask may have removed the owner's rights
            elif is_there and sys.platform != "win32":  # Windows' "read-only" would prevent replacing the file
                os.chmod(temporary, stat.S_IMODE(os.stat(real).st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise a crash of the system could leave the new name without its contents
        move_into_place(temporary, real)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = path  # not the temporary file, of which the caller does not know
        with suppress(OSError):  # no file, or one open on Windows: the first error is raised
            os.unlink(temporary)
        raise


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file whole or not at all; raises StorageAccessError if it cannot be written."""
    with translate_write_errors(path), open_atomically(os.fspath(path)) as file:
        file.write(data)
