"""Processes with a home of their own, and what they leave in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KEPT = ("PATH", "VK_ICD_FILENAMES", "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "SYSTEMROOT")


def run_at_home(home: Path, *arguments: str, **variables: str) -> str:
    """Runs Python with an empty home and nothing in the environment by which ONNX Runtime would know a CI."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"HOME": str(home), "LOCALAPPDATA": str(home), "TMPDIR": str(home), "TEMP": str(home)}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "MESA_SHADER_CACHE_DISABLE": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment | variables, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def find_left(home: Path) -> list[Path]:
    """The files that are not in the cache folder of winml-py."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return [path.relative_to(home) for path in files if "winml-py" not in path.relative_to(home).parts]
