"""The cache folder: whether it can be trusted, the locks in it, and small facts in its files.

A file is written whole or not at all, and an unreadable file counts as missing. The names of locks have a mark of this
package: other programs may use the folder, too, and their files are left alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ..base.atomic_files import open_atomically
from ..base.messages import Facts, logger

SCHEMA = 1
KEY_LENGTH = 40
OURS = ".winml-py"
"""Part of the name of each of this package's files, and of each unfinished folder."""

ENVIRONMENT = "WINML_PY_CACHE"
"""The environment variable that names another folder; if empty, nothing is cached."""

WAIT_SECONDS = 120.0
SLICE_SECONDS = 0.1  # between checks for a stop while waiting


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
    log_once(logging.INFO, "This user has no cache folder: nothing is cached.")
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


def read_file(path: Path) -> Facts | None:
    """The facts in a file from any version, or None if it is missing or damaged."""
    try:
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def write_file(path: Path, facts: Facts) -> None:
    """Writes facts for `read_file`, whole or not at all."""
    with open_atomically(str(path), FILE_MODE) as file:
        file.write(json.dumps({"schema_version": SCHEMA} | facts, indent=2).encode())


@contextmanager
def lock(key: str, check: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Within the block, only this process may write what the key names; others wait, two minutes at most.

    The system releases the lock of a process that dies.

    Args:
        key: of a saved model.
        check: called while this waits; may raise.

    Yields:
        Whether the others wait: False if nothing is cached, or after the two minutes.
    """
    from filelock import FileLock, Timeout

    where = find_trusted_folder(make=True)
    file_lock = FileLock(where / f"{key}{OURS}.lock", timeout=SLICE_SECONDS, mode=FILE_MODE) if where else None
    until = time.monotonic() + WAIT_SECONDS
    while file_lock is not None and not file_lock.is_locked:
        try:
            file_lock.acquire()
        except Timeout:
            check()
            if time.monotonic() >= until:
                file_lock = None
        except (OSError, NotImplementedError) as error:  # the disk is full, or the file system has no locks
            log_once(logging.INFO, f"Cannot lock {file_lock.lock_file}: {error}")
            file_lock = None
    if file_lock is None:
        yield False
        return
    try:
        yield True
    finally:
        file_lock.release()


def list_files(ending: str, start: str = "") -> list[Path]:
    """The entries of the folder whose names are a start, a key and an ending, given as patterns."""
    where = find_trusted_folder()
    pattern = re.compile(f"{start}[0-9a-f]{{{KEY_LENGTH}}}{ending}")
    with suppress(OSError):
        if where is not None:
            return [path for path in where.iterdir() if pattern.fullmatch(path.name)]
    return []


def clear_locks() -> None:
    """Removes the locks that nobody holds."""
    from filelock import FileLock, Timeout

    for path in list_files(re.escape(f"{OURS}.lock")):
        with suppress(OSError, Timeout, NotImplementedError), FileLock(path, timeout=0):  # skips locks that are held
            path.unlink()


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
        return f"it belongs to user {status.st_uid}, and this process runs as user {os.geteuid()}"
    if status.st_mode & _OTHERS_WRITE:
        return "others can write to it; chmod go-w prevents that"
    for parent in folder.parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"anybody can rename files in {parent}; chmod o-w or chmod +t prevents that"
    return ""
