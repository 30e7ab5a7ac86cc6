"""What tells one machine, and what is installed on it, from another."""

from __future__ import annotations

import platform
from functools import cache

from . import plugins


def runtime_version() -> str:
    """The version of ONNX Runtime."""
    import onnxruntime

    return str(onnxruntime.__version__)


def versions() -> dict[str, str]:
    """The versions of ONNX Runtime and of the plugins."""
    return {"onnxruntime": runtime_version()} | {name: plugins.version(name) for name in plugins.installed()}


@cache
def processor() -> str:
    """The processor's name and abilities, which tell one machine from another."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file]
    except OSError:
        lines = []
    facts = {line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "flags", "Features"))}
    return " ".join(sorted(facts)) or f"{platform.machine()} {platform.processor()}"
