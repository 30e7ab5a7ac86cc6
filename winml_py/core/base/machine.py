"""The resources of this process: processor cores and memory; and the kind of processor."""

from __future__ import annotations

import math
import os
import platform
import sys
from collections.abc import Collection, Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


CONTROL_GROUPS = "/sys/fs/cgroup"
"""Where control groups are mounted."""

OWN_GROUPS = "/proc/self/cgroup"
"""The file that lists the groups of this process."""


def find_control_groups(
    controller: str, root: str | os.PathLike[str] = CONTROL_GROUPS, groups_file: str | os.PathLike[str] = OWN_GROUPS
) -> Iterator[str]:
    """The folders of this process's control groups and their parents, each of which may set a limit.

    Args:
        controller: the limited resource, "cpu" or "memory".
        root: where control groups are mounted.
        groups_file: lists the groups of this process.
    """
    for line in read_group_file(groups_file).splitlines():
        hierarchy, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        if hierarchy == "0" and not controllers:
            yield from _list_parents(os.fspath(root), path)
        elif controller in controllers.split(","):
            for mount in dict.fromkeys((controllers, controller)):
                yield from _list_parents(os.path.join(root, mount), path)


def _list_parents(root: str, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return [os.path.join(root, *parts[:count]) for count in range(len(parts), -1, -1)]


def read_group_file(*path: str | os.PathLike[str]) -> str:
    """The contents of a file, or "" if there is none."""
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def count_usable_cores() -> int:
    """The number of cores this process may use, by its affinity and its control group; at least 1."""
    quota = read_cgroup_quota()
    cores = count_allowed_cores()
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def is_confined() -> bool:
    """Whether this process may use only a part of the machine, so that spinning threads take time from other work."""
    return read_cgroup_quota() is not None or count_allowed_cores() < (os.cpu_count() or 1)


def count_allowed_cores() -> int:
    """The number of cores this process may run on, or of all cores if the system does not say."""
    return len(list_allowed_cores())


WINDOWS_GROUP = 64
"""The largest number of cores in a processor group; Windows lists the cores of only one group."""


def list_allowed_cores() -> Collection[int]:
    """The indices of the cores this process may run on, or of all cores if the system does not say."""
    cores: Collection[int] = range(os.cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):
        cores = os.sched_getaffinity(0)
    elif sys.platform == "win32" and len(cores) <= WINDOWS_GROUP:
        import psutil

        cores = psutil.Process().cpu_affinity() or cores  # empty if threads run in several groups
    return cores  # macOS has no affinity


@cache  # a bind of a picture asks for it, and these files take longer to read than a small picture
def read_cgroup_quota(root: str | Path = CONTROL_GROUPS, groups_file: str | Path = OWN_GROUPS) -> float | None:
    """The number of cores that a container's limit allows this process; None without a limit."""
    limits = []
    for folder in find_control_groups("cpu", root, groups_file):
        quota, _, period = read_group_file(folder, "cpu.max").partition(" ")
        if not quota:  # control groups of version 1
            quota, period = (read_group_file(folder, f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota.isdigit() and period.isdigit():  # "max" or -1 mean no limit
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


# The memory available to this process.


def read_total_memory(root: str | Path = CONTROL_GROUPS, groups_file: str | Path = OWN_GROUPS) -> int:
    """The bytes of the machine's memory, or of the part that its control groups allow this process."""
    import psutil

    limits = [int(psutil.virtual_memory().total)]
    for folder in find_control_groups("memory", root, groups_file):
        for limit_file in ("memory.max", "memory.limit_in_bytes"):  # control groups of version 2 and 1
            limit = read_group_file(folder, limit_file)
            if limit.isdigit():  # "max" means no limit
                limits.append(int(limit))
    return min(limits)


# The kind of processor.


_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}


@cache
def read_processor_facts() -> dict[str, str]:
    """What Linux says about the first processor in `/proc/cpuinfo`; empty on other systems."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        return {}
    # A dict keeps the last of equal keys; in reverse order, that is the first processor's.
    return {key.strip(): value.strip() for key, _, value in reversed(lines)}


def read_processor_name() -> str:
    """The processor's product name on Linux; elsewhere what Python says about it, or its architecture."""
    return read_processor_facts().get("model name") or platform.processor() or platform.machine()


def read_processor_vendor() -> str:
    """The processor's vendor: "Intel", "AMD", or "" for another one."""
    # On Windows, Python's description ends with the vendor: "Intel64 Family 6 Model 154 Stepping 3, GenuineIntel".
    vendor_id = read_processor_facts().get("vendor_id") or platform.processor().rpartition(", ")[2]
    return _VENDORS.get(vendor_id, "")


@cache
def read_processor_id() -> str:
    """The processor's name and features, which distinguish machines."""
    facts = read_processor_facts()
    known = sorted(filter(None, (facts.get(key) for key in ("model name", "flags", "Features"))))
    return " ".join(known) or f"{platform.machine()} {platform.processor()}"
