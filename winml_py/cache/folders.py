"""Folders of files that a model was made into: kept in the cache folder, checked before use, bounded in size."""

from __future__ import annotations

import os
import shutil
import stat
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..base.cpu_cores import usable_cores
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
    folder = answers.folder()
    size = int(weights * _GROWTH)
    if folder is None or size > limit():
        return None
    found = folder / key
    try:
        if not found.is_dir():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if shutil.disk_usage(folder).free < 2 * size:
                return None
    except OSError:  # another user's folder, say: nothing is kept
        return None
    return found


def is_whole(path: Path) -> bool:
    """Whether a saved model is there, ours, and as it was written under this name; notes that it was used."""
    manifest = answers.read_file(path / _MANIFEST) or {}
    try:
        if manifest.get("key") != path.name or not _is_ours(path) or manifest.get("files") != _described(path):
            return False
    except OSError:
        return False
    with suppress(OSError):  # a read-only cache can be used as well
        os.utime(path / _MANIFEST)
    return True


def _is_ours(path: Path) -> bool:
    """Whether it is a folder, not a link to one, and its owner this user, or the system's."""
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and (not hasattr(os, "geteuid") or status.st_uid in (os.geteuid(), 0))


@contextmanager
def written(path: Path, model: str = "") -> Iterator[str]:
    """A new folder to put files into, which becomes the saved model when the block ends without an error.

    Whoever writes holds `answers.asking` of the saved model's name. What is left of another try is removed, and so is a
    saved model that was there, because it was damaged.

    Raises:
        OSError: the disk refuses.
    """
    for left in path.parent.glob(f".{path.name}.*"):
        shutil.rmtree(left, ignore_errors=True)
    temporary = path.parent / f".{path.name}.{os.urandom(8).hex()}"
    temporary.mkdir(mode=0o700)
    try:
        yield str(temporary)
        manifest = {"key": path.name, "model": model, "files": _described(temporary)}
        answers.write_file(temporary / _MANIFEST, manifest)
        _remove(path)
        os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _make_room(path)


def entries() -> list[CachedFolder]:
    """All saved models, the one that has not been used for longest first."""
    found = []
    for path in answers.own(""):
        with suppress(OSError):
            files = {file.name: file.stat() for file in path.iterdir()}
            size = sum(status.st_size for status in files.values())
            used = files[_MANIFEST].st_mtime if _MANIFEST in files else 0.0  # nobody uses one without its manifest
            manifest = answers.read_file(path / _MANIFEST) or {}
            found.append(CachedFolder(path, size, used, str(manifest.get("model", ""))))
    return sorted(found, key=lambda saved: saved.used)


def clear() -> int:
    """Removes all saved models; gives how many there were. Sessions that use them go on."""
    count = sum(_remove(saved.path) for saved in entries())
    for path in _unfinished():
        shutil.rmtree(path, ignore_errors=True)
    return count


def _remove(path: Path) -> bool:
    """Removes a saved model at once or not at all. Sessions that map its files keep them; on Windows it stays whole.

    First it gets the name of an unfinished one: nobody opens that, and it is removed later if this process dies.
    """
    left = path.parent / f".{path.name}.{os.urandom(8).hex()}"
    try:
        os.rename(path, left)
    except OSError:
        return False
    shutil.rmtree(left, ignore_errors=True)
    return True


def _unfinished() -> list[Path]:
    """Saved models that are being written, or were when their process was killed."""
    return answers.own(r"\.[0-9a-f]+", r"\.")


def _make_room(newest: Path) -> None:
    for path in _unfinished():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
    found = entries()
    total = sum(saved.size for saved in found)
    for saved in found:
        if total > limit() and saved.path != newest and _remove(saved.path):
            total -= saved.size


def _described(folder: Path) -> dict[str, list[int]]:
    """Of each file its size and the checksums of its parts: against accidents, not against attacks."""
    names = sorted(file.name for file in folder.iterdir() if file.name != _MANIFEST)
    return {name: [(folder / name).stat().st_size, *_checksums(folder / name)] for name in names}


def _checksums(path: Path) -> list[int]:
    def part(offset: int) -> int:
        checksum, buffer = 0, bytearray(_READ)
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            for _ in range(_PART // _READ):
                checksum = zlib.crc32(memoryview(buffer)[: file.readinto(buffer)], checksum)
        return checksum

    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(part, range(0, path.stat().st_size, _PART)))
