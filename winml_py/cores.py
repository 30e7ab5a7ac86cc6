"""How many processor cores there are for us."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The cores this process may run on: its affinity, where the system tells, or all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
