"""Saved models: folders of files in the cache folder, trusted only if nobody else could have written them.

A saved model is checked before use, and all together are limited in size. Their names have a mark of this package:
other programs may use the folder, too, and their files are left alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..errors import CanceledError, WinMLError
from .base.atomic_files import open_atomically
from .base.messages import Facts, logger

T = TypeVar("T")

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
        return "other users can write to it; to prevent that, run chmod go-w"
    for parent in folder.parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"anybody can rename files in {parent}; to prevent that, run chmod o-w or chmod +t"
    return ""


# Saved models.


LIMIT_VARIABLE = "WINML_PY_CACHE_LIMIT"
"""The environment variable that sets another limit, in bytes."""

MAX_BYTES = 4 << 30
"""Bytes that all saved models may take together; the least recently used are removed first."""

_GROWTH = 2.2  # size per byte of weights: a saved model has them, and a rearranged copy
_MANIFEST = "manifest.json"


class CachedFolder(NamedTuple):
    """A saved model: its folder, its size in bytes, its last use (seconds since 1970), and the original model.

    `model` is the path of the model's file, or "" if unknown.
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


def is_intact(path: Path) -> bool:
    """Whether a folder has a saved model, which is this package's and complete; records its use."""
    try:
        manifest = _read_manifest(path)
        sizes = _read_sizes(path)
    except OSError:  # another process is removing it
        return False
    if manifest.get("schema_version") != SCHEMA or manifest.get("sizes") != sizes:
        return False
    with suppress(OSError):  # a saved model in a read-only folder can be used, too
        os.utime(path / _MANIFEST)
    return True


def _read_manifest(path: Path) -> Facts:
    """The facts in a folder's manifest; empty if the folder is not this package's.

    This package's are folders of this user that nobody else can write to, with a manifest that states the folder's
    name. It may be from another version.
    """
    try:
        facts = {} if find_reason_to_distrust(path) else json.loads((path / _MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) and facts.get("key") == path.name else {}


def _write_manifest(path: Path, facts: Facts) -> None:
    with open_atomically(str(path / _MANIFEST), FILE_MODE) as file:
        file.write(json.dumps({"schema_version": SCHEMA} | facts, indent=2).encode())


def open_or_make(
    folder: Path, model: str, open_it: Callable[[Path], T], make: Callable[[Path], None], check: Callable[[], None]
) -> T | None:
    """Opens a saved model, or makes it, in one process while the others wait.

    Args:
        folder: from `choose_folder`.
        model: the path of the model's file.
        open_it: opens the saved model in the folder.
        make: makes the saved model in the empty folder.
        check: called while this waits for another process; may raise.

    Returns:
        None if neither is possible. The log says why; an error of the model comes again without the folder.

    Raises:
        CanceledError: from `open_it`, `make` or `check`; unfinished files are removed.
    """

    def open_saved() -> T | None:
        if not is_intact(folder):
            return None
        try:
            return open_it(folder)
        except CanceledError:
            raise
        except (OSError, ValueError, WinMLError) as error:
            logger.warning("%s cannot be used and is written again: %s", folder, error)
            discard(folder)
            return None

    opened = open_saved()
    if opened is not None:
        return opened
    with lock(folder.name, check) as is_alone:
        opened = open_saved()  # another process may have made it during the wait
        if opened is not None or not is_alone:
            return opened
        try:
            start(folder, model)
            make(folder)
            for name in _read_sizes(folder):
                with open(folder / name, "rb+") as file:
                    os.fsync(file.fileno())  # so that a power cut leaves no file of zeros beside a manifest
            seal(folder)
            opened = open_it(folder)
        except CanceledError:
            raise
        except (OSError, ValueError, WinMLError) as error:  # a full disk, say, or an error of the model
            logger.info("Nothing is cached in %s: %s", folder, error)
        finally:
            if opened is None:
                discard(folder)
        return opened


def start(path: Path, model: str = "") -> None:
    """Makes an empty folder, which is not trusted before `seal`.

    The caller holds `lock` for the folder's name. An earlier folder is removed.

    Raises:
        OSError: the disk refuses, or the path is in use, or not this package's.
    """
    if os.path.lexists(path) and not _read_manifest(path) and any(path.iterdir()):
        raise FileExistsError(
            f"{path} is not replaced, because it has no winml-py manifest. If you do not need it, remove it."
        )
    if _read_manifest(path) and not _remove(path):
        raise FileExistsError(f"{path} is in use and cannot be replaced.")
    make_private(path)
    _write_manifest(path, {"key": path.name, "model": model})


def seal(path: Path) -> None:
    """Records the files of a folder; then removes old saved models beyond the limit.

    Raises:
        OSError: the disk refuses, or the folder is gone.
    """
    for file in path.rglob("*"):
        file.chmod(FOLDER_MODE if file.is_dir() else FILE_MODE)
    _write_manifest(path, {**_read_manifest(path), "sizes": _read_sizes(path)})
    _make_room(path)


def discard(path: Path) -> None:
    """Removes an unusable folder, if it is this package's."""
    if _read_manifest(path):
        _remove(path)


def list_saved_models() -> list[CachedFolder]:
    """All saved models, the least recently used first; no folders of other programs."""
    saved_models = []
    for path in list_files(""):
        manifest = _read_manifest(path)
        with suppress(OSError):
            if manifest:
                size = sum(file.lstat().st_size for file in path.rglob("*"))
                used = (path / _MANIFEST).stat().st_mtime
                saved_models.append(CachedFolder(path, size, used, str(manifest.get("model", ""))))
    return sorted(saved_models, key=lambda saved: saved.used)


def clear() -> int:
    """Removes all saved models, and the locks that nobody holds; returns the number of models.

    Sessions that use them are not affected.
    """
    from filelock import FileLock, Timeout

    count = sum(_remove(saved.path) for saved in list_saved_models())
    _remove_leftovers()
    for path in list_files(re.escape(f"{OURS}.lock")):
        with suppress(OSError, Timeout, NotImplementedError), FileLock(path, timeout=0):  # skips locks that are held
            path.unlink()
    return count


def _remove(path: Path) -> bool:
    """Removes a saved model at once or not at all. Sessions keep the files they map; on Windows it then remains."""
    removed = path.parent / f".{path.name}.{os.urandom(8).hex()}{OURS}"
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
    _remove_leftovers()


def _remove_leftovers() -> None:
    for path in list_files(rf"\.[0-9a-f]+{re.escape(OURS)}", r"\."):
        shutil.rmtree(path, ignore_errors=True)


def _read_sizes(folder: Path) -> dict[str, int]:
    """The sizes in bytes of the files in a folder and its subfolders, except the manifest."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != _MANIFEST)
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}
