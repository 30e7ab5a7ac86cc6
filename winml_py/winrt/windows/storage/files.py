"""How files are opened, found and made: what streams, items and texts share."""

from __future__ import annotations

import itertools
import mimetypes
import os
import sys
from collections.abc import Callable
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from ....core.base.async_operation import AsyncOperation
from ....errors import InvalidArgumentError, StorageAccessError, StorageExistsError, StorageNotFoundError, WinMLError
from ..foundation import Uri

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
    """What to do where a file or a folder of the name exists, and one is made."""

    GENERATE_UNIQUE_NAME = 0
    REPLACE_EXISTING = 1
    FAIL_IF_EXISTS = 2
    OPEN_IF_EXISTS = 3


class NameCollisionOption(IntEnum):
    """What to do where a file or a folder of the name exists, and one is copied, moved or renamed."""

    GENERATE_UNIQUE_NAME = 0
    REPLACE_EXISTING = 1
    FAIL_IF_EXISTS = 2


class StorageDeleteOption(IntEnum):
    """Whether what is deleted goes to a recycle bin: here it never does."""

    DEFAULT = 0
    PERMANENT_DELETE = 1


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


def absolute_path(path: str | os.PathLike[str]) -> Path:
    """A path with all its folders. Unlike on Windows, it may be given relative to the current one."""
    return Path(path).absolute()


def application_path(uri: Uri) -> Path:
    """Where a file of the program's own lies: `ms-appx:///` is the folder of the script that runs.

    Raises:
        InvalidArgumentError: the URI has another scheme.
    """
    if uri.scheme_name != "ms-appx" or uri.host:
        raise InvalidArgumentError(f"{uri} is no file of the application.", hint="Write ms-appx:///model.onnx.")
    script = getattr(sys.modules["__main__"], "__file__", None)  # an interactive Python has none
    folder = Path(script).absolute().parent if script else Path.cwd()
    return folder / unquote(uri.path).lstrip("/")


def content_type_of(path: Path) -> str:
    """The MIME type that goes with the ending of a file's name, or ""."""
    return mimetypes.guess_type(path.name)[0] or ""


def existing(path: Path, kind: str) -> Path:
    """The path itself, if there is a file or a folder.

    Raises:
        StorageNotFoundError: there is none.
    """
    if not (path.is_file() if kind == "file" else path.is_dir()):
        raise StorageNotFoundError(f"There is no {kind} {path}.", hint="Check the path.")
    return path


def created(path: Path, kind: str = "file") -> bool:
    """Makes an empty file or folder, and says whether nothing of that name was there."""
    try:
        # Asked and made in one step: another process may be about to make it, too.
        if kind == "file":
            path.open("xb").close()
        else:
            path.mkdir()
    except FileExistsError:
        return False
    return True


def require_created(path: Path, kind: str = "file") -> Path:
    """Makes an empty file or folder.

    Raises:
        StorageExistsError: something of that name is there.
    """
    if not created(path, kind):
        raise StorageExistsError(f"There is a {kind} {path} already.", hint="Say REPLACE_EXISTING to overwrite it.")
    return path


def first_free(path: Path, kind: str = "file") -> Path:
    """`seven.png`, or `seven (2).png` where there is one, as Windows counts; an empty one is made."""
    stem, ending = (path.stem, path.suffix) if kind == "file" else (path.name, "")
    names = (path if n == 1 else path.with_name(f"{stem} ({n}){ending}") for n in itertools.count(1))
    return next(name for name in names if created(name, kind))
