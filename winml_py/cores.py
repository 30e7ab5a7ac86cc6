"""How many processor cores there are for us."""

from __future__ import annotations

import math
import os
from pathlib import Path


def usable_cores() -> int:
    """The cores this process may use: its affinity, and what its control group grants; at least 1."""
    quota = cgroup_quota()
    cores = affinity()
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def affinity() -> int:
    """The cores this process may run on, where the system tells, or all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """The cores' worth of time that a container's limit leaves this process; None where there is none.

    Args:
        root: where control groups are mounted, version 2 or 1.
        own: the file that says in which groups this process is.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    limits = []
    for line in lines:
        number, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        if number == "0" and not controllers:
            limits += [_version2(folder) for folder in _upwards(root, path)]
        elif "cpu" in controllers.split(","):
            for mount in (root / controllers, root / "cpu"):
                limits += [_version1(folder) for folder in _upwards(mount, path)]
    return min((limit for limit in limits if limit is not None), default=None)


def _upwards(root: Path, path: str) -> list[Path]:
    """The group's folder and those above it: each may have a limit."""
    folder = root / path.lstrip("/")
    return [folder, *(parent for parent in folder.parents if parent == root or root in parent.parents)]


def _version2(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _version1(folder: Path) -> float | None:
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
