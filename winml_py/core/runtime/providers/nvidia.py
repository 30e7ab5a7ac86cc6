"""What NVIDIA's driver says of its GPUs, by its program `nvidia-smi`: nothing is loaded into this process."""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

from ....errors import InvalidDeviceError
from .provider import BUILT_IN, ProviderDevice

VENDOR = 0x10DE
"""NVIDIA's number on the PCI bus."""

_FACTS = "index,name,memory.total,pci.bus_id,driver_version,compute_cap,uuid"


class NvidiaGpu(NamedTuple):
    """A GPU: `memory` in bytes, `identity` from its address on the PCI bus, `capability` such as 9.0."""

    number: int
    name: str
    memory: int
    identity: tuple[int, int]
    driver: str
    capability: str
    uuid: str = ""


@cache
def gpus() -> tuple[NvidiaGpu, ...]:
    """The GPUs that CUDA may use, by its numbers; none where there is no driver."""
    return _visible([_gpu(row) for row in _query(f"gpu={_FACTS}") if len(row) == 7])


def process_memory() -> int | None:
    """The bytes that this process has on all NVIDIA GPUs together; None where the driver does not say."""
    rows = _query("compute-apps=pid,used_memory")
    megabytes = [int(row[1]) for row in rows if row[0] == str(os.getpid()) and row[1].isdigit()]
    return sum(megabytes) << 20 if megabytes else None


def _query(fields: str) -> list[list[str]]:
    """The rows that `nvidia-smi` answers; none where there is no driver."""
    import subprocess

    command = ["nvidia-smi", f"--query-{fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]


def devices(provider: str) -> list[ProviderDevice]:
    """The GPUs as devices of a provider in the runtime's own package.

    Raises:
        InvalidDeviceError: if there is no such GPU.
    """
    if not gpus():
        raise InvalidDeviceError("nvidia-smi lists no GPU.", hint="Install the NVIDIA driver.")
    device = ProviderDevice(provider, BUILT_IN, "", 0, "gpu", "", "NVIDIA", float16=True, is_discrete=True)
    return [
        device._replace(number=gpu.number, name=gpu.name, identity=gpu.identity, memory=gpu.memory) for gpu in gpus()
    ]


@cache
def preload() -> None:
    """Loads CUDA's libraries from the packages that the runtime's extras install, before its provider asks for them."""
    import onnxruntime

    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # as nvidia-smi numbers the GPUs
    if hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()


def _visible(gpus: list[NvidiaGpu]) -> tuple[NvidiaGpu, ...]:
    """Numbered as CUDA numbers those that CUDA_VISIBLE_DEVICES leaves."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return tuple(gpus)
    # CUDA numbers the GPUs that are left from 0 on, and nvidia-smi keeps the numbers of the machine. A word is a number
    # or the beginning of a name that no other GPU has; at the first that is neither, CUDA stops.
    left: list[NvidiaGpu] = []
    for word in map(str.strip, visible.split(",")):
        is_number = word.isdigit()
        found = [gpu for gpu in gpus if (str(gpu.number) == word if is_number else gpu.uuid.startswith(word or "-"))]
        if len(found) != 1:
            break
        left.append(found[0]._replace(number=len(left)))
    return tuple(left)


def _gpu(row: list[str]) -> NvidiaGpu:
    index, name, megabytes, bus, driver, capability, uuid = row
    memory = int(megabytes) << 20 if megabytes.isdigit() else 0
    return NvidiaGpu(int(index), name, memory, bus_identity(bus), driver, capability, uuid)


def bus_identity(address: str) -> tuple[int, int]:
    """High and low part of a PCI address such as 0000:3b:00.0: the domain, and bus, device and function in a row."""
    domain, bus, slot = address.split(":")
    device, _, function = slot.partition(".")
    return int(domain, 16), int(bus, 16) << 16 | int(device, 16) << 8 | int(function or "0", 16)
