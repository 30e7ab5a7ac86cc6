"""Other processes, as tests end and see them on each system."""

from __future__ import annotations

import os
import signal

import psutil

IS_WINDOWS = os.name == "nt"

KILLED = "status 1" if IS_WINDOWS else "SIGKILL"
"""How the package describes the end of a process that it killed, or that `subprocess` did."""

ABORTED = r"status (?:3|0xC0000409)" if IS_WINDOWS else "SIGABRT"
"""A pattern of how it describes the end of a process that called `abort`."""


def drop_line_of_wine(stderr: str) -> str:
    """What a process wrote to stderr, without what ONNX Runtime writes where there is no DXGI, as under Wine."""
    return stderr.replace("Failed to create DXGI factory.\n", "")


def send_signal(pid: int, name: str) -> None:
    """Sends a process a signal that ends it. On Windows, `os.kill` ends it, and the signal's number is its status."""
    os.kill(pid, getattr(signal, name, signal.SIGTERM))


def describe_signal(name: str) -> str:
    """How the package describes the end of a process that was sent a signal."""
    return f"status {int(getattr(signal, name, signal.SIGTERM))}" if IS_WINDOWS else name


def is_alive(pid: int) -> bool:
    """Whether there is such a process, also one that nobody has waited for."""
    return bool(psutil.pid_exists(pid))


def find_children(pid: int) -> set[int]:
    """The processes that a process has started."""
    return {child.pid for child in psutil.Process(pid).children()}
