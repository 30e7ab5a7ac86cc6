"""The control groups of this process, which limit what containers may use: version 2 or 1 of Linux's."""

from __future__ import annotations

import os
from collections.abc import Iterator

ROOT = "/sys/fs/cgroup"
"""Where control groups are mounted."""

OWN = "/proc/self/cgroup"
"""The file that says in which groups this process is."""


def groups(controller: str, root: str | os.PathLike[str] = ROOT, own: str | os.PathLike[str] = OWN) -> Iterator[str]:
    """The folders of this process's groups, and of those above them: each may have a limit.

    Args:
        controller: what is limited, "cpu" or "memory".
        root: where control groups are mounted.
        own: the file that says in which groups this process is.
    """
    for line in read(own).splitlines():
        number, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        if number == "0" and not controllers:
            yield from _upwards(os.fspath(root), path)
        elif controller in controllers.split(","):
            for mount in dict.fromkeys((controllers, controller)):
                yield from _upwards(os.path.join(root, mount), path)


def _upwards(root: str, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return [os.path.join(root, *parts[:count]) for count in range(len(parts), -1, -1)]


def read(*path: str | os.PathLike[str]) -> str:
    """What a file says, or "" where there is none."""
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def number(*path: str | os.PathLike[str]) -> int | None:
    """The number in a file; None where there is none, or another word such as `max`."""
    text = read(*path)
    return int(text) if text.isdigit() else None
