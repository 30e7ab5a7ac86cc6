"""How many processor cores there are for us."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from .control_groups import OWN, ROOT, groups, number, read

if TYPE_CHECKING:
    from pathlib import Path


def usable_cores() -> int:
    """The cores this process may use: its affinity, and what its control group grants; at least 1."""
    quota = cgroup_quota()
    cores = affinity()
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def is_confined() -> bool:
    """Whether this process may use only a part of the machine: spinning threads then take time from its other work."""
    return cgroup_quota() is not None or affinity() < (os.cpu_count() or 1)


def affinity() -> int:
    """The cores this process may run on, where the system tells, or all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_quota(root: str | Path = ROOT, own: str | Path = OWN) -> float | None:
    """How many cores the limit of a container allows this process; None where there is no limit.

    Args:
        root: where control groups are mounted, version 2 or 1.
        own: the file that says in which groups this process is.
    """
    limits = (_version2(folder) or _version1(folder) for folder in groups("cpu", root, own))
    return min((limit for limit in limits if limit is not None), default=None)


def _version2(folder: str) -> float | None:
    quota, _, period = read(folder, "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _version1(folder: str) -> float | None:
    quota, period = number(folder, "cpu.cfs_quota_us"), number(folder, "cpu.cfs_period_us")
    return quota / period if quota is not None and period else None
