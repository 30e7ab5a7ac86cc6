"""Runs one of our modules in a Python process of its own, which answers with one line of JSON.

Code that may crash, such as a driver, runs there: a crash ends that process, and not the caller's.
"""

from __future__ import annotations

import os
import sys
from typing import Any


class ChildProcess:
    """A module that has been started.

    Args:
        module: its full name; it writes a line of JSON, an object, to standard output.
        arguments: what it finds on its command line.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        import subprocess

        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment(),
        )

    def answer(self, seconds: float) -> dict[str, Any] | str:
        """Waits for the process to end, so many seconds at most.

        Returns:
            The object of its last line; or, as text, how it ended without one.
        """
        import json
        import subprocess

        process = self._process
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return f"it did not answer within {seconds:.0f} s"
        try:
            facts: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        except (ValueError, IndexError):
            said = errors.strip().splitlines()[-1:] or ["it said nothing"]
            return f"it ended with {ending(process.returncode)}: {said[0][:300]}"
        return facts


def is_available() -> bool:
    """Whether there is a Python to start: a frozen application has none."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def environment() -> dict[str, str]:
    """Of a child that imports from where this process does, and from nowhere else: not from its working directory."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"}


def ending(status: int) -> str:
    """How a process ended: "SIGSEGV", or "status 1"."""
    import signal

    return signal.Signals(-status).name if status < 0 else f"status {status}"
