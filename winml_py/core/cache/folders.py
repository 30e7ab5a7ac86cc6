"""Folders of files that a model was made into: kept in the cache folder, checked before use, bounded in size."""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..base.atomic_files import move_into_place
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


def is_intact(path: Path, may_change: bool = False) -> bool:
    """Whether a saved model is there, ours, and complete; notes that it was used.

    Args:
        path: its folder.
        may_change: whether a provider writes to its files by itself: then they need not have the sizes of before.
    """
    try:
        manifest, found = _manifest(path), _sizes(path)
    except OSError:  # another process removes it
        return False
    noted = manifest.get("sizes")
    if manifest.get("schema_version") != answers.SCHEMA or not isinstance(noted, dict):
        return False
    if not (noted.keys() <= found.keys() if may_change else noted == found):
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
            with open(file, "rb+") as written_file:
                os.fsync(written_file.fileno())  # a power cut leaves no file of zeros under a manifest
        # Last, because a folder is believed by its manifest.
        answers.write_file(temporary / _MANIFEST, {"key": path.name, "model": model, "sizes": _sizes(temporary)})
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
    manifest, sizes = _manifest(path), _sizes(path)
    if not manifest or manifest.get("sizes") == sizes:
        return
    for file in path.rglob("*"):
        file.chmod(answers.FOLDER_MODE if file.is_dir() else answers.FILE_MODE)
    answers.write_file(path / _MANIFEST, {**manifest, "sizes": sizes})
    _make_room(path)


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
    """All that is kept about models: in which folder, the choices, the models, and how many bytes these may take."""

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

    First it gets the name of an unfinished one, which is removed later if this process dies.
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


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of the files of a folder and of those in it, without the manifest."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != _MANIFEST)
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}
