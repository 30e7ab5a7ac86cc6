"""Facts about NVIDIA's GPUs from the driver's program `nvidia-smi`, and about the runtime that uses them."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import NamedTuple

from ....errors import InvalidDeviceError
from .provider import BUILT_IN, ProviderDevice

VENDOR = 0x10DE
"""NVIDIA's vendor id on the PCI bus."""

_FACTS = "name,memory.total,pci.bus_id,driver_version"


class NvidiaGpu(NamedTuple):
    """A GPU: its number in CUDA, `memory` in bytes, `identity` from its address on the PCI bus."""

    number: int
    name: str
    memory: int
    identity: tuple[int, int]
    driver: str


@cache
def find_gpus() -> tuple[NvidiaGpu, ...]:
    """The GPUs that CUDA may use, in CUDA's order; empty without a driver."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    choices = [()] if visible is None else [(f"--id={name.strip()}",) for name in visible.split(",")]
    rows = [row for choice in choices for row in _query(f"gpu={_FACTS}", *choice) if len(row) == 4]
    return tuple(_parse_gpu(number, row) for number, row in enumerate(rows))


def _query(fields: str, *options: str) -> list[list[str]]:
    """The rows that `nvidia-smi` prints; empty without a driver, or if there is no such GPU."""
    import subprocess

    program = _find_program()
    if not program:
        return []
    command = [program, f"--query-{fields}", "--format=csv,noheader,nounits", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]


def _find_program() -> str:
    """The path to the program, or "". By a name alone, Windows would first find one in the working directory."""
    name = "nvidia-smi.exe" if sys.platform == "win32" else "nvidia-smi"
    folders = filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep))
    return next(filter(os.path.isfile, (os.path.join(folder, name) for folder in folders)), "")


def list_devices(provider: str) -> list[ProviderDevice]:
    """The GPUs as devices of a provider in the runtime's package.

    Raises:
        InvalidDeviceError: there is no such GPU.
    """
    if not find_gpus():
        raise InvalidDeviceError(
            "nvidia-smi lists no GPUs.", hint="Install the NVIDIA driver, and check CUDA_VISIBLE_DEVICES."
        )
    device = ProviderDevice(provider, BUILT_IN, "", 0, "gpu", "", "NVIDIA", float16=True, is_discrete=True)
    return [
        device._replace(number=gpu.number, name=gpu.name, identity=gpu.identity, memory=gpu.memory)
        for gpu in find_gpus()
    ]


@cache
def preload() -> None:
    """Loads CUDA's libraries from the packages that the runtime's extras install, before its provider needs them."""
    import onnxruntime

    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # the order of nvidia-smi
    onnxruntime.preload_dlls()


def _parse_gpu(number: int, row: list[str]) -> NvidiaGpu:
    name, megabytes, bus, driver = row
    memory = int(megabytes) << 20 if megabytes.isdigit() else 0
    return NvidiaGpu(number, name, memory, parse_bus_address(bus), driver)


def parse_bus_address(address: str) -> tuple[int, int]:
    """High and low part of a PCI address such as 0000:3b:00.0: the domain, and bus, device and function combined."""
    domain, bus, slot = address.split(":")
    device, _, function = slot.partition(".")
    return int(domain, 16), int(bus, 16) << 16 | int(device, 16) << 8 | int(function or "0", 16)


def read_built_versions() -> str:
    """The versions of CUDA and cuDNN that the installed ONNX Runtime was built for; "" if none."""
    from onnxruntime.capi import build_and_package_info as build

    names = (("CUDA", "cuda_version"), ("cuDNN", "cudnn_version"))
    return " and ".join(f"{what} {value}" for what, name in names if (value := getattr(build, name, "")))
