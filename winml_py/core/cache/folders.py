"""Folders of files that a model was made into: kept in the cache folder, checked before use, bounded in size."""

from __future__ import annotations

import logging
import os
import re
import shutil
import stat
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..base.atomic_files import move_into_place
from ..base.machine import usable_cores
from ..base.messages import Facts
from . import answers

LIMIT_VARIABLE = "WINML_PY_CACHE_LIMIT"
"""The environment variable that sets another bound, in bytes."""

LIMIT = 4 << 30
"""Bytes that all saved models may take together; the ones that have not been used for longest are removed first."""

ABANDONED_SECONDS = 3600.0
"""After so long without a new file, the process that was writing a saved model counts as dead."""

_GROWTH = 2.2  # a saved model has the weights, and once more as they were rearranged
_MANIFEST = "manifest.json"
_PART = 16 << 20  # bytes under one checksum
_READ = 256 << 10


class CachedFolder(NamedTuple):
    """A folder of files, their size in bytes, when they were last used (seconds since 1970), and the model they are of.

    `model` is the path of the model's file, or "" where nothing says.
    """

    path: Path
    size: int
    used: float
    model: str = ""


def limit() -> int:
    """Bytes that all saved models may take together."""
    try:
        return int(os.environ[LIMIT_VARIABLE])
    except (KeyError, ValueError):
        return LIMIT


def folder_for(key: str, weights: int) -> Path | None:
    """Where the saved model of a model with so many bytes of weights is, or would be.

    None where nothing is kept, it would break the bound, or it would take more than half of what is free on the disk.
    """
    size = int(weights * _GROWTH)
    folder = answers.trusted_folder(make=True) if size <= limit() else None
    if folder is None:
        return None
    cached = folder / key
    try:
        # One that is there takes no more room, however full the disk is.
        if cached.is_dir() or shutil.disk_usage(folder).free >= 2 * size:
            return cached
        reason = f"it takes {size} bytes, and more than half of what is free"
    except OSError as error:
        reason = str(error)
    answers.say_once(logging.INFO, f"No saved graph {cached}: {reason}.")
    return None


def is_intact(path: Path) -> bool:
    """Whether a saved model is there, ours, and as it was written under this name; notes that it was used."""
    try:
        manifest = _manifest(path)
        # Sizes before checksums: a folder that lacks something need not be read whole.
        if manifest.get("schema_version") != answers.SCHEMA or manifest.get("sizes") != _sizes(path):
            return False
        if manifest.get("checksums") != _checksums(path):
            return False
    except OSError:
        return False
    with suppress(OSError):  # a read-only cache can be used as well
        os.utime(path / _MANIFEST)
    return True


def _manifest(path: Path) -> Facts:
    """What a folder's manifest says; nothing where it is not ours.

    Ours is a folder of this user, which nobody else can write to, with a manifest that states the folder's name. It may
    be of another version.
    """
    try:
        facts = {} if answers.reason_to_distrust(path) else answers.read_any_version(path / _MANIFEST) or {}
    except OSError:
        facts = {}
    return facts if facts.get("key") == path.name else {}


@contextmanager
def written(path: Path, model: str = "") -> Iterator[str]:
    """A new folder to put files into, which becomes the saved model when the block ends without an error.

    Whoever writes holds `answers.asking` of the saved model's name. What is left of another try is removed, and so is a
    saved model that was there, because it was damaged.

    Raises:
        OSError: the disk refuses, or there is something under that name which is not ours.
    """
    _require_free(path)
    for leftover in path.parent.glob(f".{path.name}.*{answers.OURS}"):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary = _unfinished_name(path)
    answers.make_private(temporary)
    try:
        yield str(temporary)
        for file in temporary.iterdir():
            file.chmod(answers.FILE_MODE)
        # Last, because a folder is believed by its manifest.
        answers.write_file(temporary / _MANIFEST, {"key": path.name, "model": model, **_describe_files(temporary)})
        if _manifest(path):
            # A rename replaces no folder that holds something.
            _remove(path)
        with suppress(OSError):
            path.rmdir()  # and on Windows not an empty one
        move_into_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _make_room(path)


# Folders that a provider of the runtime writes into by itself: while a session is made, and later, when new sizes come.


def start(path: Path, model: str = "") -> None:
    """Makes an empty folder for a provider; it is not believed before `seal`.

    Whoever calls holds `answers.asking` of the folder's name. What was there before is removed.

    Raises:
        OSError: the disk refuses, or there is something under that name which is not ours, or which is in use.
    """
    _require_free(path)
    if _manifest(path) and not _remove(path):
        raise FileExistsError(f"{path} is in use, and cannot be made again.")
    answers.make_private(path)
    answers.write_file(path / _MANIFEST, {"key": path.name, "model": model})


def seal(path: Path) -> None:
    """Notes what a provider has written so far, if it is not what was noted before; then there is room for the rest.

    Raises:
        OSError: the disk refuses, or the folder is gone.
    """
    manifest = _manifest(path)
    times = {name: status.st_mtime_ns for name, status in _files(path).items()}
    if not manifest or manifest.get("times") == times:
        return
    for file in path.rglob("*"):
        file.chmod(answers.FOLDER_MODE if file.is_dir() else answers.FILE_MODE)
    answers.write_file(path / _MANIFEST, {**manifest, "times": times, **_describe_files(path)})
    _make_room(path)


def is_unharmed(path: Path) -> bool:
    """Whether a provider may have its folder again: ours, and sealed; notes that it was used.

    Each file must be there. Those that the provider has not written since must be as they were; the others are its own
    to check.
    """
    try:
        manifest, found = _manifest(path), _files(path)
        names = [name for name, time in manifest["times"].items() if found[name].st_mtime_ns == time]
        if manifest.get("schema_version") != answers.SCHEMA:
            return False
        if any(manifest["sizes"][name] != found[name].st_size for name in names):
            return False
        if any(manifest["checksums"][name] != _checksums_of(path / name) for name in names):
            return False
    except (OSError, LookupError, AttributeError, TypeError):  # also a manifest that says something else
        return False
    with suppress(OSError):
        os.utime(path / _MANIFEST)
    return True


def discard(path: Path) -> None:
    """Removes what a provider wrote and cannot use, if it is ours."""
    if _manifest(path):
        _remove(path)


def _require_free(path: Path) -> None:
    """Refuses to replace what is not ours, before time is spent on a new one. An empty folder may be replaced."""
    if os.path.lexists(path) and not _manifest(path) and any(path.iterdir()):
        raise FileExistsError(
            f"{path} stays as it is, because it has no manifest of winml-py. Remove it if you need none of it."
        )


def _unfinished_name(path: Path) -> Path:
    return path.parent / f".{path.name}.{os.urandom(8).hex()}{answers.OURS}"


def entries() -> list[CachedFolder]:
    """All saved models, the one that has not been used for longest first; no folder that is not ours."""
    saved_models = []
    for path in answers.list_files(""):
        manifest = _manifest(path)
        with suppress(OSError):
            if manifest:
                size = sum(file.lstat().st_size for file in path.rglob("*"))
                used = (path / _MANIFEST).stat().st_mtime
                saved_models.append(CachedFolder(path, size, used, str(manifest.get("model", ""))))
    return sorted(saved_models, key=lambda saved: saved.used)


def clear() -> int:
    """Removes all saved models; gives how many there were. Sessions that use them go on."""
    count = sum(_remove(saved.path) for saved in entries())
    for path in _unfinished_folders():
        shutil.rmtree(path, ignore_errors=True)
    return count


class Kept(NamedTuple):
    """All that is kept about models from one process to the next.

    Attributes:
        folder: where; None where nothing is kept.
        answers: the choices that are remembered.
        models: those that a runtime has optimised or compiled.
        limit: how many bytes these may take.
    """

    folder: Path | None
    answers: list[answers.Entry]
    models: list[CachedFolder]
    limit: int


def kept() -> Kept:
    """What the user's cache folder holds of ours."""
    return Kept(answers.folder(), answers.entries(), entries(), limit())


def clear_all() -> tuple[int, int]:
    """Removes it; returns how many answers that were, and how many models."""
    models = clear()
    return answers.clear(), models


def _remove(path: Path) -> bool:
    """Removes a saved model at once or not at all. Sessions that map its files keep them; on Windows it stays whole.

    First it gets the name of an unfinished one: nobody opens that, and it is removed later if this process dies.
    """
    unfinished = _unfinished_name(path)
    try:
        os.rename(path, unfinished)
    except OSError:
        return False
    shutil.rmtree(unfinished, ignore_errors=True)
    return True


def _unfinished_folders() -> list[Path]:
    """Saved models that are being written, or were when their process was killed."""
    return answers.list_files(rf"\.[0-9a-f]+{re.escape(answers.OURS)}", r"\.")


def _make_room(newest: Path) -> None:
    for path in _unfinished_folders():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
    saved_models = entries()
    total = sum(saved.size for saved in saved_models)
    for saved in saved_models:
        if total > limit() and saved.path != newest and _remove(saved.path):
            total -= saved.size


def _describe_files(folder: Path) -> dict[str, Facts]:
    return {"sizes": _sizes(folder), "checksums": _checksums(folder)}


def _sizes(folder: Path) -> dict[str, int]:
    return {name: status.st_size for name, status in _files(folder).items()}


def _files(folder: Path) -> dict[str, os.stat_result]:
    """The files of a folder and of those in it; refuses what is neither, such as a pipe that nobody writes to."""
    found = {file.relative_to(folder).as_posix(): file.lstat() for file in sorted(folder.rglob("*"))}
    if not all(stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) for status in found.values()):
        raise FileExistsError(f"{folder} holds something that is not a file")
    return {name: status for name, status in found.items() if stat.S_ISREG(status.st_mode) and name != _MANIFEST}


def _checksums(folder: Path) -> dict[str, list[int]]:
    """The checksums of the parts of each file: against accidents, not against attacks."""
    return {name: _checksums_of(folder / name) for name in _sizes(folder)}


def _checksums_of(path: Path) -> list[int]:
    def part(offset: int) -> int:
        checksum, buffer = 0, bytearray(_READ)
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            for _ in range(_PART // _READ):
                checksum = zlib.crc32(memoryview(buffer)[: file.readinto(buffer)], checksum)
        return checksum

    # Reading and checksums let go of Python's lock, so the threads really share the work.
    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(part, range(0, path.stat().st_size, _PART)))
