"""How much memory there is for us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .control_groups import OWN, ROOT, groups, number, read

if TYPE_CHECKING:
    from pathlib import Path

_VERSIONS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""For control groups of version 2 and 1: the limit, what is used, and what of that is given back when it is needed."""


def free_memory(root: str | Path = ROOT, own: str | Path = OWN) -> int:
    """Bytes that this process may still take: what the machine has available, and what its control groups grant.

    Args:
        root: where control groups are mounted, version 2 or 1.
        own: the file that says in which groups this process is.
    """
    import psutil

    granted = [_granted(folder) for folder in groups("memory", root, own)]
    return max(0, min(free for free in (int(psutil.virtual_memory().available), *granted) if free is not None))


def _granted(folder: str) -> int | None:
    for limit_file, used_file, cache_key in _VERSIONS:
        limit, used = number(folder, limit_file), number(folder, used_file)
        if limit is not None and used is not None:
            return limit - used + _entry(read(folder, "memory.stat"), cache_key)
    return None


def _entry(statistics: str, key: str) -> int:
    words = statistics.split()
    return int(words[words.index(key) + 1]) if key in words else 0
