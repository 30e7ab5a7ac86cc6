"""What NVIDIA's driver says of its cards; its own program `nvidia-smi` tells without loading anything here."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import NamedTuple

VENDOR = 0x10DE
"""NVIDIA's number on the PCI bus."""

_QUERY = "index,name,memory.total,pci.bus_id,driver_version,compute_cap"


class Card(NamedTuple):
    """An NVIDIA card: `memory` in bytes, `identity` from its place on the PCI bus, `capability` such as 9.0."""

    number: int
    name: str
    memory: int
    identity: tuple[int, int]
    driver: str
    capability: str


@cache
def cards() -> tuple[Card, ...]:
    """The cards, in the driver's order; none where there is no driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(_card(line) for line in done.stdout.splitlines() if line.count(",") == 5)


def _card(line: str) -> Card:
    index, name, megabytes, bus, driver, capability = (part.strip() for part in line.split(","))
    memory = int(megabytes) << 20 if megabytes.isdigit() else 0
    return Card(int(index), name, memory, bus_identity(bus), driver, capability)


def bus_identity(address: str) -> tuple[int, int]:
    """High and low part of a PCI address such as 0000:3b:00.0: the domain, and bus, device and function in a row."""
    domain, bus, rest = address.split(":")
    device, _, function = rest.partition(".")
    return int(domain, 16), int(bus, 16) << 16 | int(device, 16) << 8 | int(function or "0", 16)
