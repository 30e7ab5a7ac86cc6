"""What differs between Linux, macOS and Windows is asked in a few places, which have a branch for each."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from helpers.paths import ROOT
from systems.sitecustomize import GONE

PACKAGE = ROOT / "winml_py"

MODULES = {
    "_posixshmem",
    "ctypes",
    "fcntl",
    "grp",
    "mmap",
    "msvcrt",
    "multiprocessing",
    "pwd",
    "resource",
    "select",
    "selectors",
    "shlex",
    "signal",
    "termios",
    "tty",
    "winreg",
}
"""Modules that a system lacks, or that do something else there."""

DIFFERENT = {
    "os": "access chmod dup2 get_handle_inheritable getppid kill link name rename replace startfile symlink",
    "platform": "processor",
    "sys": "platform getwindowsversion",
}
"""What is there on all systems, and does something else on each."""

PLACES = {
    # Which system it is.
    "sys.platform": {
        "cli/doctor.py",  # where drivers are looked for
        "core/base/atomic_files.py",
        "core/base/child_process.py",
        "core/base/machine.py",
        "core/runtime/isolated/system.py",
        "core/runtime/runs.py",
    },
    # The machine: `core/base/machine.py`.
    "'/proc/": {"core/base/machine.py"},
    "'/sys/": {"core/base/machine.py"},
    "'/usr/": {"core/base/machine.py"},
    "os.sched_getaffinity": {"core/base/machine.py"},
    "platform.processor": {"core/base/machine.py"},
    "winreg": {"core/base/machine.py"},
    # Files that are replaced, and their modes: `core/base/atomic_files.py`.
    "os.replace": {"core/base/atomic_files.py", "_graphs/model_file.py"},
    "os.rename": {
        "core/cache/folders.py",  # of a saved model that may be in use: it stays then
    },
    "os.chmod": {"core/base/atomic_files.py"},
    "os.geteuid": {"core/cache/records.py"},
    # Files that are mapped: Windows replaces and removes none. `madvise` is asked for where it is there.
    "mmap": {
        "core/onnx_file/protobuf.py",
        "core/onnx_file/source.py",
        "core/runtime/isolated/child.py",
        "core/runtime/isolated/isolated_engine.py",
        "core/runtime/isolated/system.py",
        "core/runtime/isolated/wire.py",
        "core/runtime/openvino/compile.py",
    },
    "mmap.MADV_RANDOM": {"core/onnx_file/source.py"},
    # Processes, signals and forks: `core/base/child_process.py`.
    "os.dup2": {"core/base/child_process.py"},
    "os.register_at_fork": {"core/base/child_process.py"},
    "signal": {
        "core/base/child_process.py",
        "view/server.py",
    },
    "signal.SIGHUP": {"view/server.py"},
    # Libraries of the system.
    "ctypes": {
        "cli/doctor.py",
        "core/base/child_process.py",  # Python's own
        "core/runtime/runs.py",
    },
    "msvcrt": {"core/base/child_process.py"},
    "multiprocessing": {
        "core/base/child_process.py",
        "core/runtime/isolated/child.py",
        "core/runtime/isolated/isolated_engine.py",
        "core/runtime/isolated/system.py",
    },
    # Memory that an engine's process shares, and its limits.
    "_posixshmem": {"core/runtime/isolated/system.py"},
    "fcntl": {"core/runtime/isolated/system.py"},
    "fcntl.F_ADD_SEALS": {"core/runtime/isolated/system.py"},
    "fcntl.F_SEAL_GROW": {"core/runtime/isolated/system.py"},
    "fcntl.F_SEAL_SEAL": {"core/runtime/isolated/system.py"},
    "fcntl.F_SEAL_SHRINK": {"core/runtime/isolated/system.py"},
    "os.MFD_ALLOW_SEALING": {"core/runtime/isolated/system.py"},
    "os.MFD_CLOEXEC": {"core/runtime/isolated/system.py"},
    "os.memfd_create": {"core/runtime/isolated/system.py"},
    "resource": {"core/runtime/isolated/system.py"},
}
"""Where each of them is used. Before you add a place: is there a function that answers the question already?"""


def uses(source: str) -> Iterator[str]:
    """What a file uses that differs between systems."""
    lacking = {
        module: " ".join(GONE[system].get(module, "") for system in GONE) + " " + DIFFERENT.get(module, "")
        for module in {*GONE["windows"], *GONE["macos"], *DIFFERENT}
    }
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ({alias.name.partition(".")[0] for alias in node.names} & MODULES)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = str(node.module).partition(".")[0]
            yield from ({module} & MODULES)
            yield from _named(lacking, module, [alias.name for alias in node.names])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from _named(lacking, node.value.id, [node.attr])
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("hasattr", "getattr"):
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
            yield from _named(lacking, ast.unparse(node.args[0]), [str(name)])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.match(r"/(proc|sys|usr|etc|dev|tmp|var|home)/", node.value)
            if found is not None:
                yield f"'{found[0]}"


def _named(lacking: dict[str, str], module: str, names: list[str]) -> Iterator[str]:
    patterns = [each for each in lacking.get(module, "").split() if each != "*"]
    for name in names:
        if any(fnmatchcase(name, each) for each in patterns):
            yield f"{module}.{name}"


def test_each_use_is_where_it_is_known() -> None:
    found = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for use in uses(path.read_text(encoding="utf-8")):
            found[use].add(path.relative_to(PACKAGE).as_posix())
    assert found == PLACES


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("import os\nos.geteuid()", "os.geteuid"),
        ("import os\nhasattr(os, 'fork')", "os.fork"),
        ("from os import replace", "os.replace"),
        ("import fcntl", "fcntl"),
        ("def late():\n    from multiprocessing import shared_memory", "multiprocessing"),
        ("import ctypes.util", "ctypes"),
        ("import sys\nif sys.platform == 'win32': pass", "sys.platform"),
        ("import signal\nsignal.SIGHUP", "signal.SIGHUP"),
        ("open('/proc/self/status')", "'/proc/"),
        ("import mmap\nmmap.MADV_RANDOM", "mmap.MADV_RANDOM"),
    ],
)
def test_a_use_is_found(line: str, use: str) -> None:
    assert use in set(uses(line))


@pytest.mark.parametrize("line", ["import os\nos.getpid()", "'a /proc/ b'", "from . import select"])
def test_what_is_the_same_everywhere_is_no_use(line: str) -> None:
    assert set(uses(line)) == set()


@pytest.mark.parametrize("call", ["open(path)", "path.read_text()", "path.write_text('')", "TextIOWrapper(file)"])
def test_a_text_file_without_an_encoding_is_found(tmp_path: Path, call: str) -> None:
    """On Windows it would be read and written in the code page."""
    pytest.importorskip("ruff")
    start = "from pathlib import Path\nfrom io import TextIOWrapper\npath = Path()"
    (tmp_path / "module.py").write_text(f"{start}\n{call}\n")
    assert check_encodings(tmp_path / "module.py") == ["module.py:4"]


def test_text_files_have_an_encoding() -> None:
    pytest.importorskip("ruff")
    assert check_encodings(PACKAGE) == []


def check_encodings(path: Path) -> list[str]:
    """Where a text file is opened without one: each file and line."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--preview", "--select", "PLW1514", "--no-cache"]
    command += ["--output-format", "json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [f"{Path(one['filename']).name}:{one['location']['row']}" for one in json.loads(done.stdout)]
