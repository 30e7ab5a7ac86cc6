"""What is installed and what works: the facts that `winml-py doctor` prints."""

from __future__ import annotations

import ctypes.util
import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.base.child_process import ChildProcess
from ..core.base.cpu_cores import affinity, cgroup_quota, usable_cores
from ..core.cache import answers
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.providers import nvidia
from ..core.runtime.providers.plugins import probe
from ..core.runtime.providers.provider import BUILT_IN

PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxruntime-gpu", "pillow", "opencv-python-headless", "simplejpeg")
CLASHES = (
    (
        "onnxruntime",
        "onnxruntime-gpu",
        "onnxruntime-directml",
        "onnxruntime-openvino",
        "onnxruntime-qnn",
        "onnxruntime-training",
    ),
    ("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless"),
)
"""Packages that write to the same files: the last one installed overwrites the others, and removing one breaks them."""

EXTRAS = {
    "onnxruntime-ep-webgpu": "any GPU with a Vulkan, Metal or Direct3D 12 driver: pip install 'winml-py[gpu]'",
    "openvino": "a second engine for CPUs of any maker: pip install 'winml-py[openvino]'",
    "onnxruntime-ep-openvino": "Intel's GPUs and NPUs: pip install 'winml-py[intel]'",
}
TRY_SECONDS = 30.0


def diagnose() -> dict[str, Any]:
    """Collects the facts, ready for JSON.

    Every device runs a small model for a moment, in a process of its own: a driver that crashes takes only that process
    down.
    """
    plugins = probe(again=True)
    return {
        "winml_py": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": _versions((*PACKAGES, *(plugin.package for plugin in plugins if plugin.package != BUILT_IN))),
        "problems": [_clash(found) for group in CLASHES if len(found := list(_versions(group))) > 1],
        "cores": {
            "machine": os.cpu_count(),
            "affinity": affinity(),
            "control_group": cgroup_quota(),
            "usable": usable_cores(),
        },
        "providers": [
            {
                "package": plugin.package,
                "version": plugin.version or _versions((BUILT_IN,)).get(BUILT_IN, ""),
                "devices": [f"{device.name} ({device.provider})" for device in plugin.devices],
                "problem": plugin.problem,
            }
            for plugin in plugins
        ],
        "not_installed": {
            name: use for name, use in EXTRAS.items() if name not in {plugin.package for plugin in plugins}
        },
        "drivers": {
            "nvidia": [f"{gpu.name}, driver {gpu.driver}" for gpu in nvidia.gpus()],
            "vulkan_loader": ctypes.util.find_library("vulkan") or "",
            "vulkan_drivers": _vulkan_drivers(),
        },
        "cache": str(answers.folder() or ""),
        "devices": [tried(number) for number in range(len(LearningModelDevice.find_all()))],
    }


def _versions(names: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _clash(names: list[str]) -> str:
    return (
        f"{' and '.join(names)} are installed side by side, and write to the same files: "
        f"pip uninstall -y {' '.join(names)}, then install one of them again."
    )


def _vulkan_drivers() -> list[str]:
    named = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if named:
        return [path if Path(path).exists() else f"{path} (not there)" for path in named.split(os.pathsep)]
    folders = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
    return sorted(str(path) for folder in folders for path in Path(folder).glob("*.json"))


def tried(number: int) -> dict[str, Any]:
    """Runs a small model for a moment on the device with that number in `find_all`; gives times, or what went wrong."""
    facts = ChildProcess("winml_py.cli.doctor_child", str(number)).answer(TRY_SECONDS)
    return {"device": f"device {number}", "problem": facts} if isinstance(facts, str) else facts
