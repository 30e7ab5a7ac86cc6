"""Folders of files that a model was made into: kept in the cache folder, checked before use, bounded in size."""

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
from . import answers

T = TypeVar("T")

LIMIT_VARIABLE = "WINML_PY_CACHE_LIMIT"
"""The environment variable that sets another bound, in bytes."""

LIMIT = 4 << 30
"""Bytes that all saved models may take together; the ones that have not been used for longest are removed first."""

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


def opened_or_made(
    folder: Path,
    model: str,
    open_it: Callable[[Path], T],
    make: Callable[[Path], T | None],
    check: Callable[[], None],
    *,
    may_change: bool = False,
) -> T | None:
    """What a saved model's folder holds, or what is made in it now, by one process while the others wait.

    Args:
        folder: from `folder_for`.
        model: the path of the model's file.
        open_it: opens what is in the folder.
        make: makes it in the folder, which is empty; gives it, or None where `open_it` is to open it.
        check: is called while this waits for another process, and may raise.
        may_change: whether a provider writes to its files by itself.

    Returns:
        None where neither is possible. The log says why, and an error of the model comes again without the folder.

    Raises:
        CanceledError: from `open_it`, `make` or `check`; what was begun is removed.
    """

    def opened() -> T | None:
        if not is_intact(folder, may_change):
            return None
        try:
            made = open_it(folder)
        except CanceledError:
            raise
        except (OSError, ValueError, WinMLError) as error:
            logger.warning("%s cannot be used and is made again: %s", folder, error)
            discard(folder)
            return None
        _try_to_seal(folder)
        return made

    made = opened()
    if made is not None:
        return made
    with answers.asking(folder.name, check) as is_alone:
        made = opened()  # another process may have made it while this one waited
        if made is not None or not is_alone:
            return made
        try:
            start(folder, model)
            made = make(folder)
            if made is None:
                for name in _sizes(folder):
                    with open(folder / name, "rb+") as file:
                        os.fsync(file.fileno())  # a power cut leaves no file of zeros under a manifest
                seal(folder)
                made = open_it(folder)
        except CanceledError:
            raise
        except (OSError, ValueError, WinMLError) as error:  # a full disk, say, or an error of the model
            logger.info("Nothing is kept in %s: %s", folder, error)
            return None
        finally:
            if made is None:
                discard(folder)
        _try_to_seal(folder)
        return made


def _try_to_seal(folder: Path) -> None:
    try:
        seal(folder)
    except OSError as error:
        logger.info("what is in %s is not used again: %s", folder, error)


def start(path: Path, model: str = "") -> None:
    """Makes an empty folder, which is not believed before `seal`.

    Whoever calls holds `answers.asking` of the folder's name. What was there before is removed.

    Raises:
        OSError: the disk refuses, or there is something under that name which is not ours, or which is in use.
    """
    if os.path.lexists(path) and not _manifest(path) and any(path.iterdir()):
        raise FileExistsError(
            f"{path} stays as it is, because it has no manifest of winml-py. Remove it if you need none of it."
        )
    if _manifest(path) and not _remove(path):
        raise FileExistsError(f"{path} is in use, and cannot be made again.")
    answers.make_private(path)
    answers.write_file(path / _MANIFEST, {"key": path.name, "model": model})


def seal(path: Path) -> None:
    """Notes which files a folder has, if they are others than before; then makes room for them.

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
    """Removes a folder that cannot be used, if it is ours."""
    if _manifest(path):
        _remove(path)


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
    _remove_leftovers()
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
    """Removes a saved model at once or not at all. Sessions that map its files keep them; on Windows it stays whole."""
    removed = path.parent / f".{path.name}.{os.urandom(8).hex()}{answers.OURS}"
    try:
        os.rename(path, removed)  # what has this name is removed later, should this process die
    except OSError:
        return False
    shutil.rmtree(removed, ignore_errors=True)
    return True


def _make_room(newest: Path) -> None:
    saved_models = entries()
    total = sum(saved.size for saved in saved_models)
    for saved in saved_models:
        if total > limit() and saved.path != newest and _remove(saved.path):
            total -= saved.size
    _remove_leftovers()


def _remove_leftovers() -> None:
    for path in answers.list_files(rf"\.[0-9a-f]+{re.escape(answers.OURS)}", r"\."):
        shutil.rmtree(path, ignore_errors=True)


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of the files of a folder and of those in it, without the manifest."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != _MANIFEST)
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}
