"""What the system says of the processor."""

from __future__ import annotations

import platform
from functools import cache

_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}


@cache
def facts() -> dict[str, str]:
    """The first entry of each key in Linux's `/proc/cpuinfo`; nothing on other systems."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in reversed(lines)}


def name() -> str:
    """What its maker calls it, or its architecture."""
    return facts().get("model name") or platform.processor() or platform.machine()


def vendor() -> str:
    """Who made it: "Intel", "AMD", the system's word for another maker, or ""."""
    vendor_id = facts().get("vendor_id", "")
    return _VENDORS.get(vendor_id, vendor_id)


@cache
def fingerprint() -> str:
    """Its name and abilities, which tell one machine from another."""
    known = [facts().get(key, "") for key in ("model name", "flags", "Features")]
    return " ".join(sorted(filter(None, known))) or f"{platform.machine()} {platform.processor()}"
