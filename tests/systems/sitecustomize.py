"""Windows or macOS by substitute: a Python that lacks what that system's Python lacks, in all processes.

    PYTHONPATH=tests/systems WINML_PY_TEST_SYSTEM=windows pytest tests/core tests/winml

The system is "windows" or "macos". Python imports this module by its name when it starts, child processes too. The
package and the tests see another system; the libraries, which hold code for the system that runs, do not. So `import
os` gives them a substitute for the module, without what is not there and with other answers; a module that is not there
cannot be imported; and /proc and /sys are empty. As Windows does, "windows" also refuses everybody to replace, rename
or remove a file that this process has open or mapped, and to rename onto what is there.

What it does not show: paths with drives and backslashes, names that Windows reserves, other programs that hold a file,
what the libraries do there.
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

# What modules lack on each system, as the stubs of the standard library (typeshed) have it, for Python 3.11. A word may
# be a pattern.
GONE = {
    "windows": {
        "fcntl": "*",
        "grp": "*",
        "pwd": "*",
        "resource": "*",
        "termios": "*",
        "tty": "*",
        "_posixshmem": "*",
        "mmap": "MADV_* MAP_* PROT_*",
        "os": """
            CLD_* EFD_* EX_* F_LOCK F_TEST F_TLOCK F_ULOCK GRND_* MFD_* NGROUPS_MAX O_ACCMODE O_ASYNC O_CLOEXEC
            O_DIRECT* O_DSYNC O_FSYNC O_LARGEFILE O_N* O_PATH O_RSYNC O_SYNC O_TMPFILE POSIX_* PRIO_* P_ALL P_PGID
            P_PID P_PIDFD RTLD_* RWF_* SCHED_* SEEK_DATA SEEK_HOLE SPLICE_* ST_* WCONTINUED WCOREDUMP WEXIT* WIF* WNO*
            WSTOP* WTERMSIG WUNTRACED XATTR_* chown chroot confstr* copy_file_range ctermid environb eventfd* fchdir
            fchmod fchown fdatasync fork* fpathconf fstatvfs fwalk get_blocking getegid getenvb geteuid getgid
            getgrouplist getgroups getloadavg getpg* getpriority getrandom getresgid getresuid getsid getuid getxattr
            initgroups killpg lchown listxattr lockf major makedev memfd_create minor mkfifo mknod nice openpty
            pathconf* pidfd_open pipe2 posix_* pread* pwrite* readv register_at_fork removexattr sched_* sendfile
            set_blocking sete* setgid setgroups setp* setre* setsid setuid setxattr spawnlp* spawnvp* splice statvfs
            sync sysconf* tcgetpgrp tcsetpgrp ttyname uname wait wait3 wait4 waitid* writev
        """,
        "select": "EPOLL* PIPE_BUF POLL* epoll poll",
        "signal": """
            ITIMER_* ItimerError SIGALRM SIGBUS SIGC* SIGHUP SIGIO SIGIOT SIGKILL SIGP* SIGQUIT SIGRT* SIGSTKFLT
            SIGSTOP SIGSYS SIGT[RST]* SIGURG SIGUSR* SIGVTALRM SIGWINCH SIGX* SIG_BLOCK SIG_SETMASK SIG_UNBLOCK
            Sigmasks alarm getitimer pause pidfd_send_signal pthread_* setitimer siginterrupt sigpending sigtimedwait
            sigwait*
        """,
        "socket": "AF_UNIX CMSG_* MSG_CMSG_CLOEXEC MSG_DONTWAIT MSG_NOSIGNAL SCM_* SOCK_CLOEXEC recv_fds send_fds",
        "sys": "abiflags getdlopenflags setdlopenflags",
        "time": "CLOCK_* clock_* pthread_getcpuclockid tzset",
    },
    "macos": {
        "fcntl": "DN_* F_ADD_SEALS F_GET_SEALS F_SEAL_* F_SETPIPE_SZ F_GETPIPE_SZ LOCK_MAND",
        "mmap": "MADV_DO* MADV_HUGEPAGE MADV_REMOVE MAP_POPULATE MAP_STACK",
        "os": """
            EFD_* GRND_* MFD_* O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_RSYNC O_TMPFILE POSIX_FADV_* P_PIDFD
            RTLD_DEEPBIND RWF_* SCHED_BATCH SCHED_IDLE SPLICE_* XATTR_* copy_file_range eventfd* fdatasync getrandom
            getresgid getresuid getxattr listxattr memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate
            removexattr sched_*affinity sched_*param sched_*scheduler sched_rr_get_interval setresgid setresuid
            setxattr splice waitid*
        """,
        "resource": "RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RT* RLIMIT_SIGPENDING RUSAGE_THREAD prlimit",
        "select": "EPOLL* POLLMSG POLLRDHUP epoll",
        "signal": "SIGCLD SIGPOLL SIGPWR SIGRT* SIGSTKFLT pidfd_send_signal sigtimedwait sigwaitinfo",
        "socket": "AF_NETLINK AF_PACKET AF_VSOCK MSG_CMSG_CLOEXEC SOCK_CLOEXEC SOCK_NONBLOCK SO_PEERCRED",
        "time": "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
    },
}


class Substitute(ModuleType):
    """A module as another system has it; what is written to it, the module itself gets.

    Args:
        module: the module of the system that runs.
        gone: patterns of the names that are not there.
        others: what is another thing there.
    """

    def __init__(self, module: ModuleType, gone: str, others: dict[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        vars(self).update(_module=module, _gone=tuple(gone.split()), _before={})
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and any(fnmatchcase(name, each) for each in vars(self)["_gone"]):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on {SYSTEM}, by substitute")
        return getattr(vars(self)["_module"], name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self):
            vars(self)[name] = value
        else:
            if hasattr(vars(self)["_module"], name):
                vars(self)["_before"].setdefault(name, getattr(vars(self)["_module"], name))
            setattr(vars(self)["_module"], name, value)

    def __delattr__(self, name: str) -> None:
        # What pytest's monkeypatch has written, it takes back so: the name is not in the substitute's own dictionary.
        if name in vars(self)["_before"]:
            setattr(vars(self)["_module"], name, vars(self)["_before"][name])
        else:
            delattr(vars(self)["_module"], name)


def _others(name: str) -> dict[str, Any]:
    """What is another thing in a module."""
    is_windows = SYSTEM == "windows"
    if name == "sys":
        return {"platform": "win32" if is_windows else "darwin"}
    if name == "os":
        return {"name": "nt"} if is_windows else {}
    if name == "platform":
        words = ("Windows", "11", "AMD64", "Intel64 Family 6 Model 85 Stepping 7, GenuineIntel")
        words = words if is_windows else ("Darwin", "25.0.0", "arm64", "arm")
        names = ("system", "release", "machine", "processor")
        return {each: lambda word=word: word for each, word in zip(names, words, strict=True)}
    if name == "psutil":
        return _psutil(is_windows)
    return _pipes_and_mappings(name) if is_windows else {}


def _pipes_and_mappings(name: str) -> dict[str, Any]:
    """What an engine's process uses on Windows: pipes by their handles, and memory by its name."""
    import mmap
    from multiprocessing import connection, reduction

    class Mapping(mmap.mmap):
        """Memory that may have a name."""

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

    others: dict[str, dict[str, Any]] = {
        "mmap": {"mmap": Mapping},
        "multiprocessing": {"reduction": Substitute(reduction, "", {"duplicate": os.dup})},
        "multiprocessing.connection": {"PipeConnection": connection.Connection},
    }
    return others.get(name, {})


def _psutil(is_windows: bool) -> dict[str, Any]:
    import psutil

    fields = ("user", "system", "idle", "interrupt", "dpc") if is_windows else ("user", "nice", "system", "idle")

    def cpu_times(interval: float | None = None, percpu: bool = False) -> Any:
        each = psutil.cpu_times(percpu=True)
        times = [SimpleNamespace(**{field: getattr(one, field, 0.0) for field in fields}) for one in each]
        if percpu:
            return times
        return SimpleNamespace(**{field: sum(getattr(one, field) for one in times) for field in fields})

    class Process(psutil.Process):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if name == "cpu_affinity" and not is_windows:
                raise AttributeError(name)
            return super().__getattribute__(name)

    return {"cpu_times": cpu_times, "Process": Process}


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
def substitute(name: str, module: ModuleType) -> ModuleType:
    """The module as that system has it."""
    gone, others = GONE[SYSTEM].get(name, ""), _others(name)
    return Substitute(module, gone, others) if gone or others else module


HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _sees_another_system(names: dict[str, Any] | None) -> bool:
    """Whether the names are a module's of the package or of the tests."""
    if names is None:
        return False
    if str(names.get("__name__", "")).partition(".")[0] == "winml_py":
        return True
    file = str(names.get("__file__") or "")
    return file.startswith(HERE) and not file.endswith("sitecustomize.py")


def install() -> None:
    """Changes what this process sees."""
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
        if GONE[SYSTEM].get(name) == "*":
            raise ModuleNotFoundError(f"No module named {name!r} on {SYSTEM}, by substitute", name=name)
        if SYSTEM == "windows" and name == "winreg":
            return sys.modules.get(name) or _winreg()  # what a test has put there
        if SYSTEM == "windows" and name == "msvcrt":
            return SimpleNamespace(open_osfhandle=lambda handle, _: handle, get_osfhandle=lambda file: file)
        module = native_import(name, globals, locals, fromlist, level)
        return substitute(module.__name__, module)

    def open_as_there(file: Any, *arguments: Any, **more: Any) -> Any:
        frame = sys._getframe(1)
        is_there = isinstance(file, (str, os.PathLike)) and _sees_another_system(frame.f_globals)
        if is_there and os.fsdecode(file).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        return native_open(file, *arguments, **more)

    builtins.__import__, builtins.open = import_as_there, open_as_there  # type: ignore[assignment]
    if SYSTEM == "windows":
        _refuse_as_windows()


# What Windows refuses, whoever asks.


def _paths_in_use() -> set[str]:
    """The files that this process has open or mapped."""
    used = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            used.add(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # the one of this list
            continue
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        used.update(line.split(maxsplit=5)[-1].rstrip("\n") for line in file if "/" in line)
    return used


def _require_unused(path: Any, is_whole: bool = False) -> None:
    """Refuses a file that is in use; of a folder that is renamed also what is in it."""
    real = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    # On Windows, filelock removes its file as it lets go of it; here, where it does not, whoever holds it may.
    if os.path.islink(real) or not os.path.exists(real) or real.endswith("lock"):
        return
    inside = os.path.join(real, "")
    if any(used == real or (is_whole and used.startswith(inside)) for used in _paths_in_use()):
        raise PermissionError(errno.EACCES, "The file is in use by another process, by substitute", path)


def _refuse_as_windows() -> None:
    def is_read_only(path: Any) -> bool:
        return os.path.isfile(path) and not os.path.islink(path) and not os.stat(path).st_mode & stat.S_IWUSR

    def checked(native: Any, *, is_rename: bool, replaces: bool = False) -> Any:
        @wraps(native)
        def call(path: Any, *others: Any, **more: Any) -> Any:
            if more.get("dir_fd") is None and isinstance(path, (str, bytes, os.PathLike)):
                path = os.fsdecode(path)
                _require_unused(path, is_whole=is_rename)
                target = os.fsdecode(others[0]) if is_rename else path
                if is_rename and os.path.lexists(target) and not os.path.samefile(path, target):
                    if not replaces:
                        raise FileExistsError(errno.EEXIST, "There is such a file, by substitute", path, 183, target)
                    _require_unused(target)
                    if os.path.isdir(target):
                        raise PermissionError(errno.EACCES, "A folder is not replaced, by substitute", path, 5, target)
                if is_read_only(target):
                    raise PermissionError(errno.EACCES, "The file is read-only, by substitute", path)
            return native(path, *others, **more)

        return call

    for name, is_rename in (("unlink", False), ("remove", False), ("rename", True), ("replace", True)):
        setattr(os, name, checked(getattr(os, name), is_rename=is_rename, replaces=name == "replace"))
    native_chmod = os.chmod

    def chmod(path: Any, mode: int, **more: Any) -> None:
        """Takes the mode for "read-only" or not."""
        if os.path.isfile(path):
            native_chmod(path, 0o666 if mode & stat.S_IWUSR else 0o444, **more)

    os.chmod = chmod  # type: ignore[assignment]


if SYSTEM and __name__ == "sitecustomize":  # and not where a test reads what is above
    install()
