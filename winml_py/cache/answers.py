"""What is remembered from one process to the next: small facts in files, one a question.

A file is written whole or not at all, and one that cannot be read counts as missing. So processes that run at once, a
full disk, or a process that is killed lose no more than the answer that was being written.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.atomic_files import written_whole

if TYPE_CHECKING:
    from filelock import FileLock

SCHEMA = 1
KEY_LENGTH = 40
ENVIRONMENT = "WINML_PY_CACHE"
"""The environment variable that names another folder; empty, nothing is remembered."""

WAIT_SECONDS = 120.0
SLICE_SECONDS = 0.1  # between two looks at whether to go on waiting


class Entry(NamedTuple):
    """A remembered answer: its file, its size in bytes, and what it says."""

    path: Path
    size: int
    facts: dict[str, Any]


def folder() -> Path | None:
    """Where answers are kept: the user's cache folder, or what WINML_PY_CACHE says; None where nothing is kept."""
    named = os.environ.get(ENVIRONMENT)
    if named is not None:
        return Path(named) if named else None
    from platformdirs import user_cache_path

    with suppress(RuntimeError):  # a user without a home has no cache folder; old platformdirs would name it "~"
        found = user_cache_path("winml-py", appauthor=False)
        return found if found.is_absolute() else None
    return None


@contextmanager
def apart() -> Iterator[None]:
    """Within the block, the whole process keeps its answers in a temporary folder."""
    before = os.environ.get(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="winml-py-", ignore_cleanup_errors=True) as where:
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


def read(key: str) -> dict[str, Any] | None:
    """The answer under a key, or None: never given, damaged, or written by another version."""
    where = folder()
    return None if where is None else read_file(where / f"{key}.json")


def read_file(path: Path) -> dict[str, Any] | None:
    """The facts in a file, or None: not there, damaged, or written by another version."""
    try:
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and facts.get("schema_version") == SCHEMA else None


def write(key: str, facts: dict[str, Any]) -> None:
    """Keeps an answer. A folder that cannot be written to is no error: the question is asked again next time."""
    where = folder()
    with suppress(OSError):
        if where is not None:
            where.mkdir(parents=True, exist_ok=True)
            write_file(where / f"{key}.json", facts)


def write_file(path: Path, facts: dict[str, Any]) -> None:
    """Writes facts for `read_file`, whole or not at all."""
    with written_whole(str(path)) as file:
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
    from filelock import Timeout

    lock = _lock(key)
    until = time.monotonic() + WAIT_SECONDS
    while lock is not None and not lock.is_locked:
        try:
            lock.acquire()
        except OSError as error:  # a timeout; or it is another user's file, or there is no room for one
            check()
            if not isinstance(error, Timeout) or time.monotonic() >= until:
                lock = None
    if lock is None:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _lock(key: str) -> FileLock | None:
    from filelock import FileLock

    where = folder()
    with suppress(OSError):
        if where is not None:
            where.mkdir(parents=True, exist_ok=True)
            return FileLock(where / f"{key}.lock", timeout=SLICE_SECONDS)
    return None


def entries() -> list[Entry]:
    """All answers, oldest first."""
    found = []
    for path in own(r"\.json"):
        with suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime, Entry(path, status.st_size, read_file(path) or {})))
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]


def own(ending: str, start: str = "") -> list[Path]:
    """Our files among whatever else is in the folder: a key between a start and an ending, given as patterns."""
    where = folder()
    if where is None or not where.is_dir():
        return []
    pattern = re.compile(f"{start}[0-9a-f]{{{KEY_LENGTH}}}{ending}")
    return [path for path in where.iterdir() if pattern.fullmatch(path.name)]


def clear() -> int:
    """Forgets everything; gives the number of answers that were there."""
    from filelock import FileLock, Timeout

    count = 0
    for path in [*own(r"\.json"), *own(r"\.json\.[0-9a-f]+", r"\.")]:
        with suppress(OSError):
            path.unlink()
            count += path.suffix == ".json"
    for path in own(r"\.lock"):
        with suppress(OSError, Timeout), FileLock(path, timeout=0):  # not one that somebody holds
            path.unlink()
    return count
