"""What is remembered from one process to the next: small facts in files, one a question.

A file is written whole or not at all, and one that cannot be read counts as missing. Every file and lock has a name of
ours: the folder may be one that others use, too, and nothing of theirs is touched.
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
from typing import NamedTuple

from ..base.atomic_files import written_whole
from ..base.messages import Facts, logger

SCHEMA = 1
KEY_LENGTH = 40
OURS = ".winml-py"
"""Part of the name of each of our files, and of each folder that is not finished."""

ENVIRONMENT = "WINML_PY_CACHE"
"""The environment variable that names another folder; empty, nothing is remembered."""

WAIT_SECONDS = 120.0
SLICE_SECONDS = 0.1  # between two looks at whether to go on waiting


class Entry(NamedTuple):
    """A remembered answer: its file, its size in bytes, and what it says."""

    path: Path
    size: int
    facts: Facts


def folder() -> Path | None:
    """Where answers belong: the user's cache folder, or what WINML_PY_CACHE says; None where nothing is kept."""
    override = os.environ.get(ENVIRONMENT)
    if override is not None:
        return Path(os.path.realpath(override)) if override else None
    from platformdirs import user_cache_path

    with suppress(RuntimeError):  # a user without a home has no cache folder; old platformdirs would name it "~"
        default = user_cache_path("winml-py", appauthor=False)
        if default.is_absolute():
            return Path(os.path.realpath(default))
    say_once(logging.INFO, "This user has no cache folder: nothing is kept.")
    return None


def trusted_folder(make: bool = False) -> Path | None:
    """The folder, made if `make`, if nobody else can change it; else None, and a line in the log says why."""
    where = folder()
    if where is None:
        return None
    try:
        if make:
            make_private(where)
        reason = reason_to_distrust(where)
    except OSError as error:  # it is missing, or the disk is full, or it is in another user's folder
        if make:
            say_once(logging.INFO, f"Nothing is kept in {where}: {error}")
        return None
    if reason:
        say_once(logging.WARNING, f"Nothing is kept in {where}: {reason}.")
    return None if reason else where


@cache
def say_once(level: int, line: str) -> None:
    """Logs a line, once in a process."""
    logger.log(level, "%s", line)


@contextmanager
def temporary_cache() -> Iterator[None]:
    """Within the block, the whole process keeps its answers in a temporary folder."""
    before = os.environ.get(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="winml-py-", ignore_cleanup_errors=True) as where:
        # Empty means that nothing is kept. A user who wants that gets it here, too.
        os.environ[ENVIRONMENT] = where if before != "" else ""
        try:
            yield
        finally:
            os.environ.pop(ENVIRONMENT)
            if before is not None:
                os.environ[ENVIRONMENT] = before


def key_of(*parts: object) -> str:
    """A name for the question that the parts make up."""
    text = json.dumps([SCHEMA, *parts], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=KEY_LENGTH // 2).hexdigest()


def read(key: str) -> Facts | None:
    """The answer under a key, or None: never given, damaged, or written by another version."""
    where = trusted_folder()
    return None if where is None else read_file(where / f"{key}{OURS}.json")


def read_file(path: Path) -> Facts | None:
    """The facts in a file, or None: not there, damaged, or written by another version."""
    facts = read_any_version(path)
    return facts if facts is not None and facts.get("schema_version") == SCHEMA else None


def read_any_version(path: Path) -> Facts | None:
    """The facts in a file, whichever version wrote it, or None: not there, or damaged."""
    try:
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def write(key: str, facts: Facts) -> None:
    """Keeps an answer. A folder that cannot be written to is no error: the question is asked again next time."""
    where = trusted_folder(make=True)
    if where is None:
        return
    try:
        write_file(where / f"{key}{OURS}.json", facts)
    except OSError as error:
        say_once(logging.INFO, f"Nothing is kept in {where}: {error}")


def write_file(path: Path, facts: Facts) -> None:
    """Writes facts for `read_file`, whole or not at all."""
    with written_whole(str(path), FILE_MODE) as file:
        file.write(json.dumps({"schema_version": SCHEMA} | facts, indent=2).encode())


@contextmanager
def asking(key: str, check: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Within the block this process alone answers the question; others wait, two minutes at most.

    The system drops the lock of a process that dies.

    Args:
        key: of the question.
        check: is called while this waits, and may raise.

    Yields:
        Whether the others really wait: False where nothing is kept, or the two minutes are over.
    """
    from filelock import FileLock, Timeout

    where = trusted_folder(make=True)
    lock = FileLock(where / f"{key}{OURS}.lock", timeout=SLICE_SECONDS, mode=FILE_MODE) if where else None
    until = time.monotonic() + WAIT_SECONDS
    while lock is not None and not lock.is_locked:
        try:
            lock.acquire()
        except Timeout:
            check()
            if time.monotonic() >= until:
                lock = None
        except (OSError, NotImplementedError) as error:  # no room for one, or the file system has no locks
            say_once(logging.INFO, f"Nobody waits for {lock.lock_file}: {error}")
            lock = None
    if lock is None:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def entries() -> list[Entry]:
    """All answers, oldest first."""
    dated = []
    for path in list_files(re.escape(f"{OURS}.json")):
        with suppress(OSError):
            status = path.lstat()
            dated.append((status.st_mtime, Entry(path, status.st_size, read_file(path) or {})))
    return [entry for _, entry in sorted(dated, key=lambda pair: pair[0])]


def list_files(ending: str, start: str = "") -> list[Path]:
    """What is in the folder under such names: a key between a start and an ending, given as patterns."""
    where = trusted_folder()
    pattern = re.compile(f"{start}[0-9a-f]{{{KEY_LENGTH}}}{ending}")
    with suppress(OSError):
        if where is not None:
            return [path for path in where.iterdir() if pattern.fullmatch(path.name)]
    return []


def clear() -> int:
    """Forgets everything; gives the number of answers that were there."""
    from filelock import FileLock, Timeout

    count = 0
    answer_ending = re.escape(f"{OURS}.json")
    for path in [*list_files(answer_ending), *list_files(rf"{answer_ending}\.[0-9a-f]+", r"\.")]:
        with suppress(OSError):
            path.unlink()
            count += path.suffix == ".json"
    for path in list_files(re.escape(f"{OURS}.lock")):
        with suppress(OSError, Timeout, NotImplementedError), FileLock(path, timeout=0):  # not one that somebody holds
            path.unlink()
    return count


# Folders that only their owner can change: what others could have written is not believed.


FILE_MODE = 0o600
FOLDER_MODE = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_private(folder: Path) -> None:
    """Makes a folder, and the parents that are missing, for this user alone, whatever the umask."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        if not folder.is_dir():  # else another process was faster
            raise
    else:
        folder.chmod(FOLDER_MODE)


def reason_to_distrust(folder: Path) -> str:
    """Why a folder may hold what others have written, or "".

    Where files have no modes, as on Windows, the user's folders are private by their place.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}, and this process runs as user {os.geteuid()}"
    if status.st_mode & _OTHERS_WRITE:
        return "others can write to it; chmod go-w takes that from them"
    for parent in folder.parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"anybody can rename what is in {parent}; chmod o-w, or chmod +t, prevents that"
    return ""
