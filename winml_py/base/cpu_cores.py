"""How many processor cores there are for us."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

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


def cgroup_quota(root: str | Path = "/sys/fs/cgroup", own: str | Path = "/proc/self/cgroup") -> float | None:
    """How many cores the limit of a container allows this process; None where there is no limit.

    Args:
        root: where control groups are mounted, version 2 or 1.
        own: the file that says in which groups this process is.
    """
    root, lines = os.fspath(root), _read(os.fspath(own)).splitlines()
    limits = []
    for line in lines:
        number, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        if number == "0" and not controllers:
            limits += [_version2(folder) for folder in _upwards(root, path)]
        elif "cpu" in controllers.split(","):
            for mount in (os.path.join(root, controllers), os.path.join(root, "cpu")):
                limits += [_version1(folder) for folder in _upwards(mount, path)]
    return min((limit for limit in limits if limit is not None), default=None)


def _upwards(root: str, path: str) -> list[str]:
    """The group's folder and those above it: each may have a limit."""
    parts = [part for part in path.split("/") if part]
    return [os.path.join(root, *parts[:count]) for count in range(len(parts), -1, -1)]


def _version2(folder: str) -> float | None:
    quota, _, period = _read(os.path.join(folder, "cpu.max")).partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _version1(folder: str) -> float | None:
    quota = _read(os.path.join(folder, "cpu.cfs_quota_us"))
    period = _read(os.path.join(folder, "cpu.cfs_period_us"))
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
