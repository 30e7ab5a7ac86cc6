"""Saved models: folders of files in the cache folder, trusted only if nobody else could have written them.

A saved model is made under another name and renamed when it is complete: nobody reads half of one, and nobody waits.
All together are limited in size. Each has a file that marks it as this package's: other programs may use the folder,
too, and their files are left alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..errors import CanceledError, WinMLError
from .base.messages import logger

T = TypeVar("T")

SCHEMA = 2
KEY_LENGTH = 40
OURS = ".winml-py"
"""The end of the names of unfinished folders, and of those that are being removed."""

MODEL = f"model{OURS}"
"""The file in each saved model that marks it as this package's, with the path to the original model."""

ENVIRONMENT = "WINML_PY_CACHE"
"""The environment variable that names another folder; if empty, nothing is cached."""


def find_folder() -> Path | None:
    """The folder of the cache: the user's cache folder, or the one in WINML_PY_CACHE; None if nothing is cached."""
    override = os.environ.get(ENVIRONMENT)
    if override is not None:
        return Path(os.path.realpath(override)) if override else None
    from platformdirs import user_cache_path

    with suppress(RuntimeError):  # a user without a home has no cache folder
        default = user_cache_path("winml-py", appauthor=False)
        if default.is_absolute():
            return Path(os.path.realpath(default))
    log_once(logging.INFO, "Nothing is cached, because this user has no cache folder.")
    return None


def find_trusted_folder(make: bool = False) -> Path | None:
    """The folder if nobody else can change it, made if `make`; else None, with the reason in the log."""
    where = find_folder()
    if where is None:
        return None
    try:
        if make:
            make_private(where)
        reason = find_reason_to_distrust(where)
    except OSError as error:  # it is missing, the disk is full, or it is in another user's folder
        if make:
            log_once(logging.INFO, f"Nothing is cached in {where}: {error}")
        return None
    if reason:
        log_once(logging.WARNING, f"Nothing is cached in {where}: {reason}.")
    return None if reason else where


@cache
def log_once(level: int, line: str) -> None:
    """Logs a line once per process."""
    logger.log(level, "%s", line)


@contextmanager
def use_temporary_cache() -> Iterator[None]:
    """Within the block, the whole process uses a temporary cache folder."""
    before = os.environ.get(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="winml-py-", ignore_cleanup_errors=True) as where:
        # An empty variable means that nothing is cached. That setting applies here, too.
        os.environ[ENVIRONMENT] = where if before != "" else ""
        try:
            yield
        finally:
            os.environ.pop(ENVIRONMENT)
            if before is not None:
                os.environ[ENVIRONMENT] = before


def make_key(*parts: object) -> str:
    """A key: a hash of everything that what is saved depends on."""
    text = json.dumps([SCHEMA, *parts], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=KEY_LENGTH // 2).hexdigest()


# Folders that only their owner can change: files that others could have written are not trusted.


FILE_MODE = 0o600
FOLDER_MODE = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_private(folder: Path) -> None:
    """Makes a folder and its missing parents, private to this user regardless of the umask."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        if not folder.is_dir():  # otherwise another process has made it
            raise
    else:
        folder.chmod(FOLDER_MODE)


def find_reason_to_distrust(folder: Path) -> str:
    """Why others may have written to a folder, or "".

    On Windows, where files have no modes, the user's folders are private because of their location.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}, but this process runs as user {os.geteuid()}"
    if status.st_mode & _OTHERS_WRITE:
        return "other users can write to it; to prevent that, run chmod go-w"
    for parent in folder.parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"anyone can rename files in {parent}; to prevent that, run chmod o-w or chmod +t"
    return ""


# Saved models.


LIMIT_VARIABLE = "WINML_PY_CACHE_LIMIT"
"""The environment variable that sets another limit, in bytes."""

MAX_BYTES = 4 << 30
"""Bytes that all saved models may take together; the least recently used are removed first."""

_GROWTH = 2.2  # size per byte of weights: a saved model has them, and a rearranged copy


class CachedFolder(NamedTuple):
    """A saved model: its folder, its size in bytes, its last use (seconds since 1970), and the original model.

    `model` is the path to the model's file, or "" for an unfinished folder.
    """

    path: Path
    size: int
    used: float
    model: str = ""


def read_limit() -> int:
    """Bytes that all saved models may take together."""
    limit = os.environ.get(LIMIT_VARIABLE, MAX_BYTES)
    try:
        return int(limit)
    except ValueError:
        log_once(logging.WARNING, f"{LIMIT_VARIABLE}={limit}: Expected a whole number of bytes. The value is ignored.")
        return MAX_BYTES


def choose_folder(key: str, weights: int) -> Path | None:
    """The folder of a model's saved form, whether or not it exists; `weights` is in bytes.

    None if nothing is cached, it would exceed the limit, or it would take more than half of the free disk space.
    """
    size = int(weights * _GROWTH)
    folder = find_trusted_folder(make=True) if size <= read_limit() else None
    if folder is None:
        return None
    cached = folder / key
    try:
        # An existing one takes no more space, even on a full disk.
        if cached.is_dir() or shutil.disk_usage(folder).free >= 2 * size:
            return cached
        reason = f"it takes {size} bytes, more than half of the free space"
    except OSError as error:
        reason = str(error)
    log_once(logging.INFO, f"The graph {cached} is not saved: {reason}.")
    return None


def open_or_make(folder: Path, model: str, open_it: Callable[[Path], T], make: Callable[[Path], None]) -> T | None:
    """Opens a saved model, which it makes first if there is none.

    Processes that start at once may each make it; all open the one that was complete first.

    Args:
        folder: from `choose_folder`.
        model: the path to the model's file.
        open_it: opens the saved model in the folder.
        make: makes the saved model in an empty folder, and leaves no file open.

    Returns:
        None if neither is possible. The log says why; an error of the model comes again without the folder.

    Raises:
        CanceledError: from `open_it` or `make`; unfinished files are removed.
    """
    opened = _open(folder, open_it)
    if opened is None:
        _make(folder, model, make)
        opened = _open(folder, open_it)
    return opened


def _open(folder: Path, open_it: Callable[[Path], T]) -> T | None:
    if not _is_ours(folder):
        return None
    with suppress(OSError):  # a saved model in a read-only folder can be used, too
        os.utime(folder)
    try:
        return open_it(folder)
    except CanceledError:
        raise
    except (OSError, ValueError, WinMLError) as error:
        logger.warning("%s cannot be used and is removed: %s", folder, error)
        _remove(folder)
        return None


def _make(folder: Path, model: str, make: Callable[[Path], None]) -> None:
    unfinished = folder.with_name(_make_temporary_name())
    try:
        make_private(unfinished)
        make(unfinished)
        (unfinished / MODEL).write_bytes(model.encode(errors="backslashreplace"))
        for path in unfinished.rglob("*"):
            path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
            if path.is_file():
                with open(path, "rb+") as file:
                    os.fsync(file.fileno())  # so that a power cut leaves no file of zeros under the final name
        os.rename(unfinished, folder)
    except CanceledError:
        raise
    except (OSError, ValueError, WinMLError) as error:  # a full disk, an error of the model, or it is there already
        logger.info("%s is not written: %s", folder, error)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    _make_room(folder)


def _make_temporary_name() -> str:
    return f".{os.urandom(8).hex()}{OURS}"


def _is_ours(path: Path) -> bool:
    """Whether it is a saved model: a folder of this user that nobody else can write to, with our mark."""
    with suppress(OSError):  # it is missing, or another process is removing it
        return not find_reason_to_distrust(path) and (path / MODEL).is_file()
    return False


def list_saved_models() -> list[CachedFolder]:
    """All saved models, the least recently used first, and folders that are unfinished, or that a killed process left.

    No folders of other programs.
    """
    where, saved_models = find_trusted_folder(), []
    with suppress(OSError):
        for path in where.iterdir() if where is not None else ():
            is_ours = _is_ours(path)
            if is_ours or (path.name.startswith(".") and path.name.endswith(OURS)):
                with suppress(OSError):
                    size = sum(file.lstat().st_size for file in path.rglob("*"))
                    model = (path / MODEL).read_text(encoding="utf-8", errors="replace") if is_ours else ""
                    saved_models.append(CachedFolder(path, size, path.lstat().st_mtime, model))
    return sorted(saved_models, key=lambda saved: saved.used)


def clear() -> int:
    """Removes everything that `list_saved_models` lists; returns the number of folders.

    Sessions that use them are not affected.
    """
    return sum(_remove(saved.path) for saved in list_saved_models())


def _remove(path: Path) -> bool:
    """Removes a folder at once or not at all. Sessions keep the files they map; on Windows it then remains."""
    removed = path.with_name(_make_temporary_name())
    try:
        os.rename(path, removed)  # removed later by this name, should this process die
    except OSError:
        return False
    shutil.rmtree(removed, ignore_errors=True)
    return True


def _make_room(newest: Path) -> None:
    saved_models = list_saved_models()
    total = sum(saved.size for saved in saved_models)
    for saved in saved_models:
        if total > read_limit() and saved.path != newest and _remove(saved.path):
            total -= saved.size
