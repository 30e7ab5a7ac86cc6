"""What systems do differently for an engine's process: memory that two processes share, and limits."""

from __future__ import annotations

import mmap
import os
import socket
import sys
from io import FileIO
from multiprocessing import reduction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...base.child_process import Connection


def send_handle(connection: Connection, message: bytes, handle: int, process: int) -> None:
    """Sends a message, and the handle of a file to the process at the other end; `recv_handle` of `reduction` takes it.

    Raises:
        OSError: the other end is closed.
    """
    if sys.platform == "win32":
        connection.send_bytes(message)
        reduction.send_handle(connection, handle, process)
        return
    # Not `send_handle`: where this process can open no more files, it would fail with half of it sent.
    channel = socket.socket(fileno=connection.fileno())
    try:
        connection.send_bytes(message)
        reduction.sendfds(channel, [handle])
    finally:
        channel.detach()


def send_memory(connection: Connection, message: bytes, size: int) -> mmap.mmap:
    """Makes shared memory of so many bytes, and sends it to the other process behind a message.

    Nothing of it is left when both have ended.

    Raises:
        OSError: there is no room.
    """
    if sys.platform == "win32":
        import secrets

        name = f"winml-py-{secrets.token_hex(16)}"
        memory = mmap.mmap(-1, size, tagname=name)
        connection.send_bytes(message)
        connection.send_bytes(name.encode())
        return memory
    with _make_file(size) as file:
        memory = mmap.mmap(file.fileno(), size)
        send_handle(connection, message, file.fileno(), 0)
        return memory


def receive_memory(connection: Connection, size: int) -> mmap.mmap:
    """What `send_memory` sent."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size, tagname=connection.recv_bytes().decode())
    with FileIO(reduction.recv_handle(connection), "r+") as file:
        return mmap.mmap(file.fileno(), size)


def _make_file(size: int) -> FileIO:
    """An open file that is memory, without a name: on Linux not `shared_memory`, which Docker caps."""
    if sys.platform == "linux" and hasattr(os, "memfd_create"):  # builds of Python for an old C library lack it
        import fcntl

        file = FileIO(os.memfd_create("winml-py", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+")
        file.truncate(size)
        # A process that has gone wrong could make it shorter, and the session's own process would end as it reads.
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return file
    import _posixshmem  # type: ignore[import-not-found, unused-ignore]  # as multiprocessing.shared_memory does
    import secrets

    name = f"/winml-py-{secrets.token_hex(8)}"  # of 31 characters at most on macOS; it loses it at once
    file = FileIO(_posixshmem.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600), "r+")
    try:
        file.truncate(size)
    except OSError:
        file.close()
        raise
    finally:
        _posixshmem.shm_unlink(name)
    return file


def set_limits(memory: int, cpu_seconds: int) -> None:
    """Sets the limits of this process, on Linux and macOS; it also writes no file with its memory when it dies.

    Args:
        memory: bytes that it may allocate; 0 without a limit. macOS takes the number, and does not heed it.
        cpu_seconds: of processor time that it may use; 0 without a limit.
    """
    if sys.platform == "win32":
        return
    import resource

    # What it allocates, and not what it maps: address space is no memory, and shared memory is the parent's.
    limits = [(resource.RLIMIT_CORE, 0, 0)]
    limits += [(resource.RLIMIT_DATA, memory, memory)] if memory else []
    limits += [(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)] if cpu_seconds else []
    for kind, soft, hard in limits:
        most = resource.getrlimit(kind)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))
