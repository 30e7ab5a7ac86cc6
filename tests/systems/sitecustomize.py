"""Windows or macOS by substitute: Linux's Python, as the package and its tests would find that system's.

    PYTHONPATH=tests/systems WINML_PY_TEST_SYSTEM=windows pytest tests/core/base tests/winml

The system is "windows" or "macos". Python imports a module of this name when it starts, in child processes too. It
changes what the package and the tests import, and nothing for the libraries, which hold code for the system that runs:

* `sys.platform`, `os.name` and what `platform` tells are that system's;
* modules and names that it lacks are missing;
* /proc and /sys are empty;
* on "windows", an engine's process is reached by handles and named memory, and the system refuses what Windows
  refuses: to replace, rename or remove a file that this process has open or mapped, or to rename onto one.

It cannot show what paths with drives and backslashes do, names that Windows reserves, files that other programs hold
open, or what the libraries do there.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import stat
import sys
from fnmatch import fnmatchcase
from functools import cache, wraps
from types import ModuleType, SimpleNamespace
from typing import Any

native_unlink = os.unlink
SYSTEM = os.environ.get("WINML_PY_TEST_SYSTEM", "")
IS_WINDOWS = SYSTEM == "windows"

MISSING_MODULES = {
    "windows": {"fcntl", "grp", "pwd", "resource", "termios", "tty", "_posixshmem"},
    "macos": set[str](),
}
MISSING_NAMES = {
    "windows": {
        "mmap": "MADV_*",
        "os": "MFD_* fork geteuid memfd_create mkfifo register_at_fork sched_*affinity",
        "signal": "SIGHUP pthread_* setitimer",
    },
    "macos": {
        "fcntl": "F_ADD_SEALS F_SEAL_*",
        "os": "MFD_* memfd_create sched_*affinity",
    },
}
"""Patterns of names that somebody asks a module for. Of what the package uses unasked, mypy says that it is missing."""


class Substitute(ModuleType):
    """A module as another system has it; what is written to it, the module itself gets.

    Args:
        module: the module of the system that runs.
        missing: patterns of the names that are not there.
        changed: names that stand for something else there.
    """

    def __init__(self, module: ModuleType, missing: str, changed: dict[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        vars(self).update(_module=module, _missing=tuple(missing.split()), _before={})
        vars(self).update(changed)

    def __getattr__(self, name: str) -> Any:
        if any(fnmatchcase(name, pattern) for pattern in vars(self)["_missing"]):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on {SYSTEM}, by substitute")
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


def changed_names(module: str) -> dict[str, Any]:
    """What the names of a module stand for on that system, where that is something else."""
    if module == "sys":
        return {"platform": "win32" if IS_WINDOWS else "darwin"}
    if module == "platform":
        told = {"system": "Darwin", "release": "25.0.0", "machine": "arm64", "processor": "arm"}
        if IS_WINDOWS:
            processor = "Intel64 Family 6 Model 85 Stepping 7, GenuineIntel"
            told = {"system": "Windows", "release": "11", "machine": "AMD64", "processor": processor}
        return {name: lambda text=text: text for name, text in told.items()}
    if not IS_WINDOWS:
        return {}
    if module == "os":
        return {"name": "nt"}
    if module == "mmap":
        return {"mmap": make_named_memory()}
    if module == "multiprocessing":
        from multiprocessing import reduction

        return {"reduction": Substitute(reduction, "", {"duplicate": os.dup})}
    if module == "multiprocessing.connection":
        from multiprocessing import connection

        return {"PipeConnection": connection.Connection}
    return {}


def make_named_memory() -> type:
    """Makes the class for memory that two processes share by its name, as Windows has it."""
    import mmap

    class Mapping(mmap.mmap):
        def __new__(cls, file: int, size: int, *arguments: Any, tagname: str = "", **more: Any) -> Mapping:
            if not tagname:
                return super().__new__(cls, file, size, *arguments, **more)
            path = f"/dev/shm/{tagname}"
            with open(path, "a+b") as named:
                if named.tell():  # the other process has made it, and nobody else is to see it
                    native_unlink(path)
                else:
                    named.truncate(size)
                return super().__new__(cls, named.fileno(), size)

    return Mapping


def _winreg() -> ModuleType:
    """The registry, with what it says of a processor."""
    values = {
        "ProcessorNameString": "Intel(R) Xeon(R) by substitute ",
        "VendorIdentifier": "GenuineIntel",
        "Identifier": "Intel64 Family 6 Model 85 Stepping 7",
    }
    module: Any = ModuleType("winreg")
    module.HKEY_LOCAL_MACHINE = 0x80000002
    module.OpenKey = lambda _, path: io.StringIO(path)
    module.QueryValueEx = lambda _, name: (values[name], 1)
    return module


@cache
def substitute(module: ModuleType) -> ModuleType:
    """Gives a module as that system has it; itself where it is the same."""
    missing, changed = MISSING_NAMES[SYSTEM].get(module.__name__, ""), changed_names(module.__name__)
    return Substitute(module, missing, changed) if missing or changed else module


TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _sees_another_system(names: dict[str, Any]) -> bool:
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
        if level or not _sees_another_system(sys._getframe(1).f_globals if globals is None else globals):
            return native_import(name, globals, locals, fromlist, level)
        if name in MISSING_MODULES[SYSTEM]:
            raise ModuleNotFoundError(f"No module named {name!r} on {SYSTEM}, by substitute", name=name)
        if IS_WINDOWS and name == "winreg":
            return sys.modules.get(name) or _winreg()  # what a test has put there
        if IS_WINDOWS and name == "msvcrt":
            return SimpleNamespace(open_osfhandle=lambda handle, _: handle, get_osfhandle=lambda file: file)
        return substitute(native_import(name, globals, locals, fromlist, level))

    def open_as_there(file: Any, *arguments: Any, **more: Any) -> Any:
        path = os.fsdecode(file) if isinstance(file, (str, os.PathLike)) else ""
        if path.startswith(("/proc/", "/sys/")) and _sees_another_system(sys._getframe(1).f_globals):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        return native_open(file, *arguments, **more)

    builtins.__import__, builtins.open = import_as_there, open_as_there  # type: ignore[assignment]
    if IS_WINDOWS:
        _refuse_as_windows()


# What Windows refuses, whoever asks.


def _paths_in_use() -> set[str]:
    """The files that this process has open or mapped."""
    paths = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            paths.add(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # the one of this list
            continue
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        paths.update(line.split(maxsplit=5)[-1].rstrip("\n") for line in file if "/" in line)
    return paths


def _require_unused(path: str, with_content: bool = False) -> None:
    """Refuses a file that is in use; `with_content`, also a folder with such a file in it."""
    real = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    # On Windows, filelock removes its file as it lets go of it; here, where it does not, whoever holds it may.
    if os.path.islink(real) or not os.path.exists(real) or real.endswith("lock"):
        return
    inside = os.path.join(real, "")
    if any(used == real or (with_content and used.startswith(inside)) for used in _paths_in_use()):
        raise PermissionError(errno.EACCES, "The file is in use by another process, by substitute", path)


def _require_writable(path: str) -> None:
    is_file = os.path.isfile(path) and not os.path.islink(path)
    if is_file and not os.stat(path).st_mode & stat.S_IWUSR:
        raise PermissionError(errno.EACCES, "The file is read-only, by substitute", path)


def _refuse_as_windows() -> None:
    """Has `os` refuse what Windows refuses, whoever asks."""

    def removing(native: Any) -> Any:
        @wraps(native)
        def remove(path: Any, *, dir_fd: int | None = None) -> None:
            if dir_fd is None:
                _require_unused(os.fsdecode(path))
                _require_writable(os.fsdecode(path))
            native(path, dir_fd=dir_fd)

        return remove

    def moving(native: Any, replaces: bool) -> Any:
        @wraps(native)
        def move(source: Any, target: Any, **more: Any) -> None:
            path, new_path = os.fsdecode(source), os.fsdecode(target)
            _require_unused(path, with_content=True)
            if os.path.lexists(new_path) and not os.path.samefile(path, new_path):
                if not replaces:
                    raise FileExistsError(errno.EEXIST, "There is such a file, by substitute", path, 183, new_path)
                _require_unused(new_path)
                if os.path.isdir(new_path):
                    raise PermissionError(errno.EACCES, "A folder is not replaced, by substitute", path, 5, new_path)
            _require_writable(new_path)
            native(source, target, **more)

        return move

    os.unlink, os.remove = removing(os.unlink), removing(os.remove)  # type: ignore[assignment]
    os.rename, os.replace = moving(os.rename, replaces=False), moving(os.replace, replaces=True)
    native_chmod = os.chmod

    def chmod(path: Any, mode: int, **more: Any) -> None:
        """Takes the mode for "read-only" or not."""
        if os.path.isfile(path):
            native_chmod(path, 0o666 if mode & stat.S_IWUSR else 0o444, **more)

    os.chmod = chmod  # type: ignore[assignment]


if SYSTEM and __name__ == "sitecustomize":  # and not where a test reads what is above
    install()
