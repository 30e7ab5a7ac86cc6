"""System-specific support for an engine's process: short messages, shared memory, and limits."""

from __future__ import annotations

import mmap
import os
import socket
import sys
from io import FileIO
from multiprocessing import reduction
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from ...base.child_process import Connection


MESSAGE_BYTES = 32
"""The size of a short message; the longest has a size in it."""


def send(connection: Connection, message: bytes) -> None:
    """Sends a short message. Raises OSError if the other end is closed."""
    if sys.platform == "win32":
        connection.send_bytes(message)
    else:
        os.write(connection.fileno(), message.ljust(MESSAGE_BYTES))


def receive(connection: Connection) -> bytes:
    """Waits for a message from `send`; b"", EOFError or OSError if the other end is closed."""
    if sys.platform == "win32":
        return connection.recv_bytes(MESSAGE_BYTES)
    # Not `recv_bytes`, which reads the length first: that takes some microseconds more.
    return os.read(connection.fileno(), MESSAGE_BYTES).rstrip()


def send_handle(connection: Connection, message: bytes, handle: int, process: int) -> None:
    """Sends a message and a file handle to the process at the other end, which calls `reduction.recv_handle`.

    Raises:
        OSError: the other end is closed.
    """
    send(connection, message)
    if sys.platform == "win32":
        import _winapi

        # Not `send_handle`, whose copy of a pipe's handle can only be written to:
        # https://github.com/python/cpython/issues/82369
        rights = _winapi.GENERIC_READ | _winapi.GENERIC_WRITE
        connection.send(reduction.DupHandle(handle, rights, process))
        return
    # Not `send_handle`: if this process can open no more files, that fails with half of it sent.
    channel = socket.socket(fileno=connection.fileno())
    try:
        reduction.sendfds(channel, [handle])
    finally:
        os.set_blocking(channel.detach(), True)  # the sockets of gevent and eventlet do not block


def send_memory(connection: Connection, message: bytes, size: int) -> mmap.mmap:
    """Makes shared memory of so many bytes, and sends it to the other process after a message.

    The system frees it when both processes have ended.

    Raises:
        OSError: not enough memory.
    """
    if sys.platform == "win32":
        import secrets

        name = f"winml-py-{secrets.token_hex(16)}"
        memory = mmap.mmap(-1, size, tagname=name)
        send(connection, message)
        connection.send_bytes(name.encode())
        return memory
    with _make_file(size) as file:
        memory = mmap.mmap(file.fileno(), size)
        send_handle(connection, message, file.fileno(), 0)
        return memory


def receive_memory(connection: Connection, size: int) -> mmap.mmap:
    """Receives the memory from `send_memory`."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size, tagname=connection.recv_bytes().decode())
    with FileIO(reduction.recv_handle(connection), "r+") as file:
        return mmap.mmap(file.fileno(), size)


def _make_file(size: int) -> IO[bytes]:
    """An open file without a name: on Linux in memory, on macOS a temporary one.

    On Linux not `shared_memory`, whose size Docker limits.
    """
    if sys.platform != "linux" or not hasattr(os, "memfd_create"):  # Python built for an old C library lacks it
        import tempfile

        temporary: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the caller closes it
        temporary.truncate(size)
        return temporary
    import fcntl

    file = FileIO(os.memfd_create("winml-py", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+")
    file.truncate(size)
    # A faulty process could shrink the file, and reading it would then crash the session's process.
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return file


def set_limits(memory: int, cpu_seconds: int) -> None:
    """Sets the limits of this process, on Linux and macOS, and disables core dumps.

    Args:
        memory: bytes that it may allocate; 0 for no limit. macOS accepts the limit, but does not enforce it.
        cpu_seconds: CPU seconds that it may use; 0 for no limit.
    """
    if sys.platform == "win32":
        return
    import resource

    # Limits what it allocates, not what it maps: address space is not memory, and shared memory is the parent's.
    limits = [(resource.RLIMIT_CORE, 0, 0)]
    limits += [(resource.RLIMIT_DATA, memory, memory)] if memory else []
    limits += [(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)] if cpu_seconds else []
    for kind, soft, hard in limits:
        most = resource.getrlimit(kind)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))
