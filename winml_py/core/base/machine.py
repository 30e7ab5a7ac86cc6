"""What the machine gives this process: processor cores, memory, and which processor it is."""

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
"""The file that says in which groups this process is."""


def control_groups(
    controller: str, root: str | os.PathLike[str] = CONTROL_GROUPS, groups_file: str | os.PathLike[str] = OWN_GROUPS
) -> Iterator[str]:
    """The folders of this process's groups, and of those above them: each may have a limit.

    Args:
        controller: what is limited, "cpu" or "memory".
        root: where control groups are mounted.
        groups_file: says in which groups this process is.
    """
    for line in read_group_file(groups_file).splitlines():
        hierarchy, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        if hierarchy == "0" and not controllers:
            yield from _upwards(os.fspath(root), path)
        elif controller in controllers.split(","):
            for mount in dict.fromkeys((controllers, controller)):
                yield from _upwards(os.path.join(root, mount), path)


def _upwards(root: str, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return [os.path.join(root, *parts[:count]) for count in range(len(parts), -1, -1)]


def read_group_file(*path: str | os.PathLike[str]) -> str:
    """What a file says, or "" where there is none."""
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def usable_cores() -> int:
    """The cores this process may use: its affinity, and what its control group grants; at least 1."""
    quota = cgroup_quota()
    cores = affinity()
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def is_confined() -> bool:
    """Whether this process may use only a part of the machine: spinning threads then take time from its other work."""
    return cgroup_quota() is not None or affinity() < (os.cpu_count() or 1)


def affinity() -> int:
    """How many cores this process may run on, where the system tells, or all there are."""
    return len(allowed_cores())


WINDOWS_GROUP = 64
"""Windows tells of the cores of one group alone, which has no more than these."""


def allowed_cores() -> Collection[int]:
    """The numbers of the cores this process may run on, where the system tells, or of all there are."""
    cores: Collection[int] = range(os.cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):
        cores = os.sched_getaffinity(0)
    elif sys.platform == "win32" and len(cores) <= WINDOWS_GROUP:
        import psutil

        cores = psutil.Process().cpu_affinity() or cores  # it gives none where threads run in several groups
    return cores  # macOS binds no process to cores


def cgroup_quota(root: str | Path = CONTROL_GROUPS, groups_file: str | Path = OWN_GROUPS) -> float | None:
    """How many cores the limit of a container allows this process; None where there is no limit."""
    limits = []
    for folder in control_groups("cpu", root, groups_file):
        quota, _, period = read_group_file(folder, "cpu.max").partition(" ")
        if not quota:  # control groups of version 1
            quota, period = (read_group_file(folder, f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota.isdigit() and period.isdigit():  # no limit is "max", or -1
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


# How much memory there is for us.


_VERSIONS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""For control groups of version 2 and 1: the limit, what is used, and what of that is given back when it is needed."""


def total_memory() -> int:
    """Bytes of memory that the machine has."""
    import psutil

    return int(psutil.virtual_memory().total)


def free_memory(root: str | Path = CONTROL_GROUPS, groups_file: str | Path = OWN_GROUPS) -> int:
    """Bytes that this process may still take: what the machine has available, and what its control groups grant."""
    import psutil

    free = [int(psutil.virtual_memory().available)]
    for folder in control_groups("memory", root, groups_file):
        for limit_file, used_file, cache_key in _VERSIONS:
            limit, used = read_group_file(folder, limit_file), read_group_file(folder, used_file)
            if limit.isdigit() and used.isdigit():  # no limit is "max"
                words = read_group_file(folder, "memory.stat").split()
                cached = int(words[words.index(cache_key) + 1]) if cache_key in words else 0
                free.append(int(limit) - int(used) + cached)
    return max(0, min(free))


# What the system says of the processor.


_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}


@cache
def processor_facts() -> dict[str, str]:
    """What the system says of the first processor, by the keys of Linux's `/proc/cpuinfo`."""
    if sys.platform == "win32":
        return _facts_of_registry()
    if sys.platform == "darwin":
        return _facts_of_sysctl()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        return {}
    # Of equal keys a dict keeps the last one: backwards, that is the first processor's.
    return {key.strip(): value.strip() for key, _, value in reversed(lines)}


def _facts_of_registry() -> dict[str, str]:
    if sys.platform != "win32":  # a type checker knows no registry elsewhere
        return {}
    import winreg

    names = {"model name": "ProcessorNameString", "vendor_id": "VendorIdentifier", "identifier": "Identifier"}
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as place:
            return {key: str(winreg.QueryValueEx(place, name)[0]).strip() for key, name in names.items()}
    except OSError:
        return {}


def _facts_of_sysctl() -> dict[str, str]:
    import subprocess

    command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    name = done.stdout.strip()
    return {"model name": name, "vendor_id": "Apple" if name.startswith("Apple") else "GenuineIntel"}


def processor_name() -> str:
    """What its maker calls it, or its architecture."""
    return processor_facts().get("model name") or platform.processor() or platform.machine()


def processor_vendor() -> str:
    """Who made it: "Intel", "AMD", the system's word for another maker, or ""."""
    vendor_id = processor_facts().get("vendor_id", "")
    return _VENDORS.get(vendor_id, vendor_id)


@cache
def processor_fingerprint() -> str:
    """Its name and abilities, which tell one machine from another."""
    facts = [processor_facts().get(key, "") for key in ("model name", "identifier", "flags", "Features")]
    return " ".join(sorted(filter(None, facts))) or f"{platform.machine()} {platform.processor()}"
