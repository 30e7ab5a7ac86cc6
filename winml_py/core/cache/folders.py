"""Saved models: folders of files in the cache folder, checked before use, and limited in size."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...errors import CanceledError, WinMLError
from ..base.messages import Facts, logger
from . import records

T = TypeVar("T")

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
        records.log_once(logging.WARNING, f"{LIMIT_VARIABLE}={limit}: Expected a whole number of bytes; it is ignored.")
        return MAX_BYTES


def choose_folder(key: str, weights: int) -> Path | None:
    """The folder of a model's saved form, whether or not it exists; `weights` is in bytes.

    None if nothing is cached, it would exceed the limit, or it would take more than half of the free disk space.
    """
    size = int(weights * _GROWTH)
    folder = records.find_trusted_folder(make=True) if size <= read_limit() else None
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
    records.log_once(logging.INFO, f"No saved graph {cached}: {reason}.")
    return None


def is_intact(path: Path) -> bool:
    """Whether a folder has a saved model, which is this package's and complete; records its use."""
    try:
        manifest = _read_manifest(path)
        sizes = _read_sizes(path)
    except OSError:  # another process is removing it
        return False
    if manifest.get("schema_version") != records.SCHEMA or manifest.get("sizes") != sizes:
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
        facts = {} if records.find_reason_to_distrust(path) else records.read_file(path / _MANIFEST) or {}
    except OSError:
        facts = {}
    return facts if facts.get("key") == path.name else {}


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
            logger.warning("%s is not usable, and is made again: %s", folder, error)
            discard(folder)
            return None

    opened = open_saved()
    if opened is not None:
        return opened
    with records.lock(folder.name, check) as is_alone:
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

    The caller holds `records.lock` for the folder's name. An earlier folder is removed.

    Raises:
        OSError: the disk refuses, or the path is in use, or not this package's.
    """
    if os.path.lexists(path) and not _read_manifest(path) and any(path.iterdir()):
        raise FileExistsError(
            f"{path} is kept, because it has no manifest of winml-py. Remove it if you do not need it."
        )
    if _read_manifest(path) and not _remove(path):
        raise FileExistsError(f"{path} is in use and cannot be made again.")
    records.make_private(path)
    records.write_file(path / _MANIFEST, {"key": path.name, "model": model})


def seal(path: Path) -> None:
    """Records the files of a folder; then removes old saved models beyond the limit.

    Raises:
        OSError: the disk refuses, or the folder is gone.
    """
    for file in path.rglob("*"):
        file.chmod(records.FOLDER_MODE if file.is_dir() else records.FILE_MODE)
    records.write_file(path / _MANIFEST, {**_read_manifest(path), "sizes": _read_sizes(path)})
    _make_room(path)


def discard(path: Path) -> None:
    """Removes an unusable folder, if it is this package's."""
    if _read_manifest(path):
        _remove(path)


def list_saved_models() -> list[CachedFolder]:
    """All saved models, the least recently used first; no folders of other programs."""
    saved_models = []
    for path in records.list_files(""):
        manifest = _read_manifest(path)
        with suppress(OSError):
            if manifest:
                size = sum(file.lstat().st_size for file in path.rglob("*"))
                used = (path / _MANIFEST).stat().st_mtime
                saved_models.append(CachedFolder(path, size, used, str(manifest.get("model", ""))))
    return sorted(saved_models, key=lambda saved: saved.used)


def clear() -> int:
    """Removes all saved models; returns their number. Sessions that use them are not affected."""
    count = sum(_remove(saved.path) for saved in list_saved_models())
    _remove_leftovers()
    return count


class CacheContents(NamedTuple):
    """The contents of the cache: its folder, the saved models, and how many bytes these may take."""

    folder: Path | None
    models: list[CachedFolder]
    limit: int


def read_contents() -> CacheContents:
    """The contents of the user's cache folder."""
    return CacheContents(records.find_folder(), list_saved_models(), read_limit())


def clear_all() -> int:
    """Clears the cache; returns the number of saved models."""
    count = clear()
    records.clear_locks()
    return count


def _remove(path: Path) -> bool:
    """Removes a saved model at once or not at all. Sessions keep the files they map; on Windows it then remains."""
    removed = path.parent / f".{path.name}.{os.urandom(8).hex()}{records.OURS}"
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
    for path in records.list_files(rf"\.[0-9a-f]+{re.escape(records.OURS)}", r"\."):
        shutil.rmtree(path, ignore_errors=True)


def _read_sizes(folder: Path) -> dict[str, int]:
    """The sizes in bytes of the files in a folder and its subfolders, except the manifest."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != _MANIFEST)
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}
