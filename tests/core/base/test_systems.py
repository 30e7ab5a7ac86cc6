"""Linux, macOS and Windows: each branch, with the system by substitute; programs as they run on each."""

from __future__ import annotations

import errno
import locale
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import reduction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest

from helpers.paths import MODELS
from helpers.processes import KILLED
from winml_py import LearningModel, LearningModelDevice, LearningModelSession, LearningModelSessionOptions
from winml_py.core import cache
from winml_py.core.base import atomic_files, child_process, machine
from winml_py.core.base.atomic_files import move_into_place, write_atomically
from winml_py.core.runtime.isolated import system


@pytest.fixture
def on_system(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Makes the package believe that it runs there; what the system's Python lacks, it lacks."""

    def set_system(system: str) -> None:
        monkeypatch.setattr(sys, "platform", system)
        if system != "linux":
            monkeypatch.delattr(os, "sched_getaffinity", raising=False)
        if system == "win32":
            monkeypatch.delattr(os, "geteuid", raising=False)
            monkeypatch.delattr(os, "register_at_fork", raising=False)
        machine.read_processor_id.cache_clear()

    yield set_system
    monkeypatch.undo()
    machine.read_processor_id.cache_clear()


# The machine


class SomeCores:
    """The process as psutil shows it on Windows, bound to cores."""

    def __init__(self, cores: list[int]) -> None:
        self._cores = cores

    def __call__(self) -> SomeCores:
        return self

    def cpu_affinity(self) -> list[int]:
        return self._cores


@pytest.mark.parametrize(
    ("system", "machines", "bound", "expected"),
    [
        ("win32", 8, [1, 3], [1, 3]),
        ("win32", 8, [], list(range(8))),  # threads in several groups
        ("win32", 128, [1, 3], list(range(128))),  # it tells of one group alone
        ("darwin", 8, [1, 3], list(range(8))),
    ],
)
def test_the_cores_of_this_process(
    system: str,
    machines: int,
    bound: list[int],
    expected: list[int],
    on_system: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_system(system)
    monkeypatch.setattr(os, "cpu_count", lambda: machines)
    monkeypatch.setattr(psutil, "Process", SomeCores(bound))
    assert list(machine.list_allowed_cores()) == expected
    assert machine.count_allowed_cores() == len(expected)


@pytest.mark.posix("Windows has no os.sched_getaffinity")
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux binds processes so")
def test_the_cores_of_this_process_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5})
    assert machine.list_allowed_cores() == {2, 5}
    assert machine.count_allowed_cores() == 2


@pytest.mark.parametrize(
    ("system", "description", "vendor"),
    [
        ("win32", "AMD64 Family 25 Model 97 Stepping 2, AuthenticAMD", "AMD"),
        ("win32", "Intel64 Family 6 Model 154 Stepping 3, GenuineIntel", "Intel"),
        ("darwin", "arm", ""),
    ],
)
def test_the_processor_elsewhere(
    system: str,
    description: str,
    vendor: str,
    on_system: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_system(system)
    monkeypatch.setattr(machine, "read_processor_facts", dict)
    monkeypatch.setattr(machine.platform, "processor", lambda: description)
    assert (machine.read_processor_name(), machine.read_processor_vendor()) == (description, vendor)
    assert machine.read_processor_id().endswith(description)
    assert LearningModelDevice().name == description


def test_the_memory_of_the_machine() -> None:
    assert 1 << 28 < LearningModelDevice().memory == machine.read_total_memory() <= psutil.virtual_memory().total


# Processes


def test_a_handle_that_is_sent_can_be_read_and_written(
    on_system: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_system("win32")
    sent: list[Any] = []
    connection: Any = SimpleNamespace(send_bytes=sent.append, send=sent.append)
    winapi: Any = ModuleType("_winapi")
    winapi.GENERIC_READ, winapi.GENERIC_WRITE = 1 << 31, 1 << 30
    monkeypatch.setitem(sys.modules, "_winapi", winapi)
    monkeypatch.setattr(reduction, "DupHandle", lambda *arguments: arguments, raising=False)
    system.send_handle(connection, b"LANE", 7, 1234)
    assert sent == [b"LANE", (7, 3 << 30, 1234)]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "status 0"),
        (3, "status 3"),
        (0xC0000005, "status 0xC0000005"),
        (-signal.SIGSEGV, "SIGSEGV"),
        (-500, "signal 500"),
    ],
)
def test_how_a_process_ended(status: int, words: str) -> None:
    assert child_process.describe_status(status) == words


def test_a_call_whose_process_has_ended() -> None:
    child = child_process.ChildProcess()
    child.send(time.sleep, 60)
    child.kill()
    for ask in (child.receive, lambda: child.send(len, "abc"), child.receive):
        with pytest.raises(child_process.ProcessEndedError, match=KILLED):
            ask()
    assert not child.is_alive


WIDE = "2026-11-28 [E:onnxruntime] \u4e0a\u6d77\\a.dll cannot be loaded\n"
"""A line of ONNX Runtime's log, which is in UTF-16 on Windows; the first Chinese character has a byte of "\\n"."""

OUTPUTS = [
    (b"one\ntwo\n", "one\ntwo\n", "two"),
    (b"one\r\ntw\xc3\xb6", "one\ntw\u00f6", "tw\u00f6"),
    (WIDE.encode("utf-16-le"), WIDE, WIDE.strip()),
    (b"1\r\n" + (WIDE + WIDE).encode("utf-16-le") + b"2\n\r\n", f"1\n{WIDE}{WIDE}2\n\n", "2"),
    ("1\n\n2\n".encode("utf-16-le") + b"3\n", "1\n\n2\n3\n", "3"),
]


def write_last_words(output: bytes) -> None:
    os.write(2, output)
    os._exit(1)


@pytest.mark.parametrize(("output", "text", "last"), OUTPUTS)
def test_what_a_process_writes(output: bytes, text: str, last: str) -> None:
    child = child_process.ChildProcess()
    assert child_process.decode_output(output) == text
    child.send(write_last_words, output)
    with pytest.raises(child_process.ProcessEndedError, match="status 1"):
        child.receive()
    assert child.last_words == last


def test_a_line_in_the_code_page_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locale, "getencoding", lambda: "cp1252")
    assert child_process.decode_output("p\u00e4th\r\n".encode("cp1252") + b"\xc3\xa4") == "p\u00e4th\n\u00e4"


def test_output_that_was_cut() -> None:
    cut = (WIDE * 2 + "last\n").encode("utf-16-le")
    for start in range(1, 60):
        assert child_process.decode_output(cut[start:]).endswith("be loaded\nlast\n"), start


class Unreadable:
    """What cannot be pickled, because a file is missing."""

    def __reduce__(self) -> Any:
        raise FileNotFoundError(errno.ENOENT, "There is no such file", "model.onnx")


def test_an_error_of_what_is_pickled_is_none_of_the_connection() -> None:
    child = child_process.ChildProcess()
    with pytest.raises(FileNotFoundError, match=r"model\.onnx"):
        child.send(len, Unreadable())
    child.send(len, "abc")
    assert child.receive() == (True, 3)
    child.close()
    child.close()


def test_forks_where_there_are_none(on_system: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_register", child_process._register.__wrapped__)
    on_system("win32")
    child_process.watch_forks(Unforked())


class Unforked:
    def handle_fork(self) -> None:
        raise AssertionError("there was no fork")


# Files


def refuse_replacing(times: int, tries: list[str]) -> Callable[..., None]:
    """`os.replace`, refused so many times, as where a virus scanner looks at the file."""
    native = os.replace

    def replace(source: Any, target: Any) -> None:
        tries.append(os.path.basename(target))
        if len(tries) <= times:
            raise PermissionError(errno.EACCES, "Access is denied", source)
        native(source, target)

    return replace


@pytest.mark.parametrize(("system", "count"), [("linux", 1), ("darwin", 1), ("win32", 3)])
def test_a_file_that_is_open_for_a_moment(
    system: str, count: int, tmp_path: Path, on_system: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows refuses to replace it, and is asked again; elsewhere a refusal is one."""
    tries: list[str] = []
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    monkeypatch.setattr(os, "replace", refuse_replacing(2, tries))
    monkeypatch.setattr(atomic_files, "WINDOWS_WAITS", (0.0,) * 5)
    on_system(system)
    if system == "win32":
        move_into_place(tmp_path / "new", tmp_path / "old")
        assert (tmp_path / "old").read_text() == "new"
    else:
        with pytest.raises(PermissionError):
            move_into_place(tmp_path / "new", tmp_path / "old")
    assert len(tries) == count


def test_a_file_that_stays_open(
    tmp_path: Path, on_system: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there stays, nothing is left over, and the error says so."""
    target = tmp_path / "answer.txt"
    target.write_text("old")
    monkeypatch.setattr(os, "replace", refuse_replacing(100, tries := []))
    monkeypatch.setattr(atomic_files, "WINDOWS_WAITS", (0.0,) * 5)
    on_system("win32")
    with pytest.raises(OSError, match=r"answer\.txt: Cannot write the file: Access is denied"):
        write_atomically(target, b"new")
    assert tries == ["answer.txt"] * 6
    assert (target.read_text(), os.listdir(tmp_path)) == ("old", ["answer.txt"])


@pytest.mark.posix("Windows replaces no read-only file")
def test_a_read_only_file_is_replaced_as_the_system_does(tmp_path: Path, on_system: Callable[[str], None]) -> None:
    """On Windows, a copy of its mode would make the new file one that cannot be renamed or removed."""
    for name, mode in (("linux", 0o444), ("win32", 0o644)):
        target = tmp_path / name
        target.write_text("old")
        target.chmod(0o444)
        on_system(name)
        umask = os.umask(0o022)
        try:
            write_atomically(target, b"new")
        finally:
            os.umask(umask)
        assert target.stat().st_mode & 0o777 == mode


def test_whom_a_cache_folder_is_believed(tmp_path: Path, on_system: Callable[[str], None]) -> None:
    """Windows has no modes and no user numbers: the user's folder is private by its place."""
    place = tmp_path / "cache"
    place.mkdir()
    place.chmod(0o777)
    if os.name == "posix":
        assert cache.find_reason_to_distrust(place).startswith("other users can write to it")
    on_system("win32")
    assert cache.find_reason_to_distrust(place) == ""
    (tmp_path / "file").write_text("")
    assert cache.find_reason_to_distrust(tmp_path / "file") == "it is not a folder"


def test_spinning_is_off_where_the_process_is_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    from winml_py.core.session import options

    for confined in (True, False):
        monkeypatch.setattr(options, "is_confined", lambda confined=confined: confined)
        assert LearningModelSessionOptions().intra_op_thread_spinning is not confined
        opened = LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))
        assert opened.get_intra_op_thread_spinning() is not confined
    monkeypatch.setattr(machine, "read_cgroup_quota", lambda: None)
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(machine, "count_allowed_cores", lambda: 8)
    assert not machine.is_confined()
    monkeypatch.setattr(machine, "count_allowed_cores", lambda: 3)
    assert machine.is_confined()
    monkeypatch.setattr(machine, "count_allowed_cores", lambda: 8)
    monkeypatch.setattr(machine, "read_cgroup_quota", lambda: 2.5)
    assert machine.is_confined()
