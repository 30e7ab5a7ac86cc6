"""Other processes, as tests end and see them on each system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


# Windows sends Ctrl-C to all programs of a console. So a program gets a console of its own, with another that sends it.
RELAY = """
import ctypes, os, signal, subprocess, sys, threading
signal.signal(signal.SIGINT, signal.SIG_IGN)
program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def send():
    for _ in sys.stdin.buffer:
        ctypes.windll.kernel32.GenerateConsoleCtrlEvent(0, 0)
threading.Thread(target=send, daemon=True).start()
os._exit(program.wait())  # the other thread waits for ever
"""


def write_program(folder: Path, name: str, code: str) -> None:
    """Writes a program in Python that can be started by its name."""
    source = folder / "source" / name
    source.parent.mkdir(exist_ok=True)
    source.write_text(f"#!{'python' if IS_WINDOWS else sys.executable}\n{code}")
    if not IS_WINDOWS:
        source.chmod(0o755)
        source.replace(folder / name)
        return
    from pip._vendor.distlib.scripts import ScriptMaker  # as pip makes programs of scripts

    maker = ScriptMaker(str(source.parent), str(folder))
    maker.force = True
    maker.make(name)


def start_program(command: Sequence[object], **options: Any) -> psutil.Popen:
    """Starts a program that `interrupt` can end; takes the options of `subprocess.Popen`."""
    words = [str(word) for word in command]
    if not IS_WINDOWS:
        return psutil.Popen(words, **options)
    relay = [sys.executable, "-c", RELAY, *words]
    flags = getattr(subprocess, "CREATE_NEW_CONSOLE", 0)
    return psutil.Popen(relay, stdin=subprocess.PIPE, creationflags=flags, **options)


def interrupt(program: psutil.Popen, name: str = "SIGINT") -> None:
    """Ends a program as a user or a system does: by a signal, or on Windows by Ctrl-C."""
    if not IS_WINDOWS:
        program.send_signal(getattr(signal, name))
        return
    with program.stdin:
        getattr(program.stdin, "buffer", program.stdin).write(b"\n")


def set_temporary_folder(folder: Path) -> dict[str, str]:
    """The environment of a program whose temporary files are in a folder."""
    return os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))


def is_alive(pid: int) -> bool:
    """Whether there is such a process, also one that nobody has waited for."""
    return bool(psutil.pid_exists(pid))


def has_ended(process: psutil.Process) -> bool:
    """Whether a process has ended, also if nobody has waited for it."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def count_open() -> int:
    """What this process has open: on Windows, its files, as Wine counts no handles."""
    process = psutil.Process()
    return len(process.open_files()) if IS_WINDOWS else int(process.num_fds())


def find_children(pid: int) -> set[int]:
    """The processes that a process has started."""
    return {child.pid for child in psutil.Process(pid).children()}
