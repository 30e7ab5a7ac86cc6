"""What an engine's process needs of Linux or macOS: memory without a name, limits, and to see another process end.

Windows has none of it: `wire.require_system` refuses Windows before anything here is called.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO


def make_memory(size: int) -> FileIO:
    """An open file of so many bytes that is memory, and has no name: nothing of it stays when its users have ended.

    Raises:
        OSError: there is no room.
    """
    if sys.platform == "linux" and hasattr(os, "memfd_create"):  # builds of Python for an old C library lack it
        import fcntl

        # An object at once: a number would be lost in an exception out of nowhere, and the file would stay open.
        file = FileIO(os.memfd_create("winml-py", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+")
        file.truncate(size)
        # A process that has gone wrong could make it shorter, and the session's own process would end as it reads.
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return file
    return _make_named_memory(size)


def _make_named_memory(size: int) -> FileIO:
    """The same where memory must have a name, of 31 characters at most on macOS: it loses it at once."""
    import _posixshmem  # type: ignore[import-not-found, unused-ignore]  # as multiprocessing.shared_memory does
    import secrets

    name = f"/winml-py-{secrets.token_hex(8)}"
    file = FileIO(_posixshmem.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600), "r+")
    try:
        file.truncate(size)
    except OSError:
        file.close()
        raise
    finally:
        _posixshmem.shm_unlink(name)
    return file


# Processes that end.


def open_end_of(process: int) -> int:
    """A file that can be read once a process has ended; -1 where the system has none, or this process no more files."""
    if sys.platform == "linux":
        with suppress(AttributeError, OSError):
            return os.pidfd_open(process)
    return -1


def wait_until_readable(files: Sequence[int]) -> list[int]:
    """Waits until one of the files can be read; gives those that can."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll()]


def end_with_starter() -> None:
    """Has Linux kill this process when the thread that started it ends; other systems do not offer that."""
    if sys.platform == "linux":
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # the first argument is PR_SET_PDEATHSIG


# Limits.


def set_limits(memory: int, cpu_seconds: int) -> None:
    """Sets the limits of this process. What it had in memory when it died is for nobody, and no file of it stays.

    Args:
        memory: bytes that it may allocate; 0 without a limit. macOS takes the number, and does not heed it.
        cpu_seconds: of processor time that it may use; 0 without a limit.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        # What it allocates, and not what it maps: address space is no memory, and shared memory is the parent's.
        _set_limit(resource.RLIMIT_DATA, memory, memory)
    if cpu_seconds:
        _set_limit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)


def _set_limit(kind: int, soft: int, hard: int) -> None:
    import resource

    most = resource.getrlimit(kind)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))
