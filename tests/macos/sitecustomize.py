"""macOS by substitute: Linux's Python, as the package and its tests would find that of macOS.

    PYTHONPATH=tests/macos pytest tests/core/base tests/winml

Python imports a module of this name when it starts, in child processes too. It changes what the package and the tests
import, and nothing for the libraries, which hold code for Linux:

* `sys.platform` and what `platform` tells are those of macOS;
* names that its modules lack are missing;
* /proc and /sys are empty.
"""

from __future__ import annotations

import builtins
import errno
import os
import sys
from fnmatch import fnmatchcase
from functools import cache
from types import ModuleType
from typing import Any

MISSING_NAMES = {
    "fcntl": "F_ADD_SEALS F_SEAL_*",
    "os": "MFD_* memfd_create sched_*affinity",
}
"""Patterns of names that somebody asks a module for. Of what the package uses unasked, mypy says that it is missing."""

TOLD = {"system": "Darwin", "release": "25.0.0", "machine": "arm64", "processor": "arm"}


class Substitute(ModuleType):
    """A module as macOS has it; what is written to it, the module itself gets.

    Args:
        module: the module of Linux.
        missing: patterns of the names that are not there.
        changed: names that stand for something else there.
    """

    def __init__(self, module: ModuleType, missing: str, changed: dict[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        vars(self).update(_module=module, _missing=tuple(missing.split()), _before={})
        vars(self).update(changed)

    def __getattr__(self, name: str) -> Any:
        if any(fnmatchcase(name, pattern) for pattern in vars(self)["_missing"]):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on macOS, by substitute")
        return getattr(vars(self)["_module"], name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self):
            vars(self)[name] = value
            return
        module, before = vars(self)["_module"], vars(self)["_before"]
        if hasattr(module, name):
            before.setdefault(name, getattr(module, name))
        setattr(module, name, value)

    def __delattr__(self, name: str) -> None:
        # This is how pytest's monkeypatch takes back what it wrote, as the name is not in the substitute's dictionary.
        module, before = vars(self)["_module"], vars(self)["_before"]
        if name in before:
            setattr(module, name, before[name])
        else:
            delattr(module, name)


@cache
def substitute(module: ModuleType) -> ModuleType:
    """Gives a module as macOS has it; itself where it is the same."""
    changed: dict[str, Any] = {}
    if module.__name__ == "sys":
        changed = {"platform": "darwin"}
    elif module.__name__ == "platform":
        changed = {name: lambda text=text: text for name, text in TOLD.items()}
    missing = MISSING_NAMES.get(module.__name__, "")
    return Substitute(module, missing, changed) if missing or changed else module


TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _sees_macos(names: dict[str, Any]) -> bool:
    """Whether these are the global names of a module of the package or of the tests."""
    if str(names.get("__name__", "")).partition(".")[0] == "winml_py":
        return True
    file = str(names.get("__file__") or "")
    return file.startswith(TESTS) and not file.endswith("sitecustomize.py")


def install() -> None:
    """Changes what this process imports and opens."""
    native_import, native_open = builtins.__import__, builtins.open

    def import_as_there(
        name: str,
        globals: Any = None,  # noqa: A002 - as Python calls them
        locals: Any = None,  # noqa: A002
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        module = native_import(name, globals, locals, fromlist, level)
        names = sys._getframe(1).f_globals if globals is None else globals
        return substitute(module) if not level and _sees_macos(names) else module

    def open_as_there(file: Any, *arguments: Any, **more: Any) -> Any:
        path = os.fsdecode(file) if isinstance(file, (str, os.PathLike)) else ""
        if path.startswith(("/proc/", "/sys/")) and _sees_macos(sys._getframe(1).f_globals):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        return native_open(file, *arguments, **more)

    builtins.__import__, builtins.open = import_as_there, open_as_there  # type: ignore[assignment]


if __name__ == "sitecustomize":  # and not where a test reads what is above
    install()
