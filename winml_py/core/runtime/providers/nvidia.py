"""Facts about NVIDIA's GPUs from the driver's program `nvidia-smi`."""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

from ....errors import InvalidDeviceError
from .provider import BUILT_IN, ProviderDevice

VENDOR = 0x10DE
"""NVIDIA's vendor id on the PCI bus."""

_FACTS = "index,name,memory.total,pci.bus_id,driver_version,uuid"


class NvidiaGpu(NamedTuple):
    """A GPU: `memory` in bytes, `identity` from its address on the PCI bus."""

    number: int
    name: str
    memory: int
    identity: tuple[int, int]
    driver: str
    uuid: str = ""


@cache
def gpus() -> tuple[NvidiaGpu, ...]:
    """The GPUs that CUDA may use, in CUDA's order; empty without a driver."""
    return _visible([_gpu(row) for row in _query(f"gpu={_FACTS}") if len(row) == 6])


def process_memory() -> int | None:
    """The bytes that this process uses on all NVIDIA GPUs together; None if unknown."""
    rows = _query("compute-apps=pid,used_memory")
    megabytes = [int(row[1]) for row in rows if row[0] == str(os.getpid()) and row[1].isdigit()]
    return sum(megabytes) << 20 if megabytes else None


def _query(fields: str) -> list[list[str]]:
    """The rows that `nvidia-smi` prints; empty without a driver."""
    import subprocess

    command = ["nvidia-smi", f"--query-{fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]


def devices(provider: str) -> list[ProviderDevice]:
    """The GPUs as devices of a provider in the runtime's package.

    Raises:
        InvalidDeviceError: there is no such GPU.
    """
    if not gpus():
        if "CUDA_VISIBLE_DEVICES" in os.environ and _query("gpu=index"):
            raise InvalidDeviceError(
                "CUDA_VISIBLE_DEVICES hides every GPU.", hint="Unset it, or list whole GPUs by index or UUID: 0,1."
            )
        raise InvalidDeviceError("nvidia-smi lists no GPU.", hint="Install the NVIDIA driver.")
    device = ProviderDevice(provider, BUILT_IN, "", 0, "gpu", "", "NVIDIA", float16=True, is_discrete=True)
    return [
        device._replace(number=gpu.number, name=gpu.name, identity=gpu.identity, memory=gpu.memory) for gpu in gpus()
    ]


@cache
def preload() -> None:
    """Loads CUDA's libraries from the packages that the runtime's extras install, before its provider needs them."""
    import onnxruntime

    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # the order of nvidia-smi
    if hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()


def _visible(gpus: list[NvidiaGpu]) -> tuple[NvidiaGpu, ...]:
    """The GPUs in CUDA_VISIBLE_DEVICES, numbered from 0, as in CUDA."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return tuple(gpus)
    left: list[NvidiaGpu] = []
    for word in map(str.strip, visible.split(",")):  # each is an index, or the beginning of a UUID
        found = [gpu for gpu in gpus if str(gpu.number) == word or (word and gpu.uuid.startswith(word))]
        if len(found) != 1 or found[0].identity in [gpu.identity for gpu in left]:  # CUDA ignores it, and all after it
            break
        left.append(found[0]._replace(number=len(left)))
    return tuple(left)


def _gpu(row: list[str]) -> NvidiaGpu:
    index, name, megabytes, bus, driver, uuid = row
    memory = int(megabytes) << 20 if megabytes.isdigit() else 0
    return NvidiaGpu(int(index), name, memory, bus_identity(bus), driver, uuid)


def bus_identity(address: str) -> tuple[int, int]:
    """High and low part of a PCI address such as 0000:3b:00.0: the domain, and bus, device and function combined."""
    domain, bus, slot = address.split(":")
    device, _, function = slot.partition(".")
    return int(domain, 16), int(bus, 16) << 16 | int(device, 16) << 8 | int(function or "0", 16)
