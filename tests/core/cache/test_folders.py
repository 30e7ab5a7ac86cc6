"""Folders of what a model was made into: made once, opened afterwards, and never believed when they are damaged."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import ANY

import pytest

from winml_py import CanceledError, EvaluationError
from winml_py.core import cache

KEY = "0123456789" * 4


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv(cache.ENVIRONMENT, str(folder))
    return folder


class Model:
    """Stands for an engine that makes two files, and opens them.

    Attributes:
        made: how often the files were made.
        failure: is raised when they are made.
        finish: is called when they are made.
    """

    def __init__(self, key: str = KEY) -> None:
        self.key = key
        self.made = 0
        self.failure: BaseException | None = None
        self.finish: Callable[[], None] = lambda: None

    def get(self) -> str | None:
        """What is opened, "made" where it was made now, or None."""
        before, folder = self.made, cache.choose_folder(self.key, 1)
        assert folder is not None
        path = f"{self.key[0]}.onnx"
        found = cache.open_or_make(folder, path, self.open, self.make)
        return "made" if found is not None and self.made > before else found

    def open(self, folder: Path) -> str:
        text = (folder / "graph").read_text()
        if text.startswith("old"):
            raise EvaluationError("another version has written it")
        return f"opened {text}"

    def make(self, folder: Path) -> None:
        self.made += 1
        (folder / "inner").mkdir()
        (folder / "inner" / "weights").write_bytes(bytes(1000))
        if self.failure is not None:
            raise self.failure
        (folder / "graph").write_text("graph")
        self.finish()


def files(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


def test_it_is_made_once_and_opened_afterwards(place: Path) -> None:
    model = Model()
    before = os.umask(0)
    try:
        assert [model.get() for _ in range(3)] == ["made", "opened graph", "opened graph"]
    finally:
        os.umask(before)
    (entry,) = cache.list_saved_models()
    assert entry[:2] == (place / KEY, ANY)
    assert (entry.model, entry.size > 1000) == ("0.onnx", True)
    assert files(entry.path) == {"graph", "inner/weights", cache.MODEL}
    if hasattr(os, "geteuid"):
        modes = {file.name: file.stat().st_mode & 0o777 for file in (entry.path, *entry.path.rglob("*"))}
        assert modes == {KEY: 0o700, "inner": 0o700, "graph": 0o600, "weights": 0o600, cache.MODEL: 0o600}


@pytest.mark.parametrize("text", [None, "", "not ours"])
def test_a_folder_without_our_mark_stays_as_it_is(
    place: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "winml_py")
    (place / KEY).mkdir(parents=True, mode=0o700)
    other = place / KEY / "manifest.json"
    other.mkdir() if text is None else other.write_text(text)
    model = Model()
    assert (model.get(), model.made) == (None, 1)
    assert cache.list_saved_models() == []
    assert cache.clear() == 0
    assert [*place.rglob("*")] == [place / KEY, other]
    assert f"{place / KEY} is not written: " in caplog.text


@pytest.mark.posix("Windows renames no folder over another one, even over an empty one")
def test_an_empty_folder_under_its_name_is_used(place: Path) -> None:
    """Programs that clean up remove old files, and leave folders."""
    (place / KEY).mkdir(parents=True, mode=0o700)
    assert (Model().get(), Model().get()) == ("made", "opened graph")


@pytest.mark.posix("Python sees no owners and modes on Windows")
@pytest.mark.parametrize("is_writable", [True, False])
def test_one_that_another_user_may_have_changed_is_not_used(
    place: Path, is_writable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model()
    model.get()
    if is_writable:
        (place / KEY).chmod(0o777)
    else:
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert cache.list_saved_models() == []
    if is_writable:
        assert model.get() is None  # and it is not replaced either
        assert files(place) == {f"{KEY}/{name}" for name in ("graph", "inner/weights", cache.MODEL)}


def test_a_cache_that_is_read_only_is_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    Model().get()
    monkeypatch.setattr(os, "utime", refuse)
    assert Model().get() == "opened graph"


def test_what_cannot_be_opened_is_made_again(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = Model()
    model.get()
    (place / KEY / "graph").write_text("older")  # of the same size
    assert (model.get(), model.get()) == ("made", "opened graph")
    assert caplog.text.count("another version has written it") == 1


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), EvaluationError("no such operator")])
def test_nothing_is_left_of_what_cannot_be_made(
    place: Path, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "winml_py")
    model = Model()
    model.failure = failure
    assert model.get() is None
    assert str(failure) in caplog.text
    assert [path for path in place.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("failure", [CanceledError("cancelled"), KeyboardInterrupt()])
def test_what_ends_the_making_is_the_programs(place: Path, failure: BaseException) -> None:
    model = Model()
    model.failure = failure
    with pytest.raises(type(failure)):
        model.get()
    assert [path for path in place.iterdir() if path.is_dir()] == []


def list_names(place: Path) -> list[str]:
    """What is saved. On Windows, no folder can be removed while another thread lists it: it goes with the oldest."""
    names = sorted(path.name for path in place.iterdir())
    return [name for name in names if sys.platform != "win32" or not name.endswith(".winml-py")]


def test_threads_that_make_one_at_once_open_the_first(place: Path) -> None:
    model, barrier = Model(), threading.Barrier(4)
    model.finish = lambda: (barrier.wait(), None)[1]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.get(), range(4)))
    assert (found, model.made) == (["made"] * 4, 4)
    assert list_names(place) == [KEY]


PROCESS = """
import random, sys, time
from winml_py.core import cache

number, clears = int(sys.argv[1]), sys.argv[2] == "clears"

def make(folder):
    for name in ("first", "second"):
        with open(folder / name, "wb", buffering=0) as file:
            for _ in range(5):
                file.write(bytes([number]) * 100)
                time.sleep(random.random() / 1000)

def open_it(folder):
    for name in ("first", "second"):
        text = (folder / name).read_bytes()
        assert len(text) == 500 and len(set(text)) == 1, text
    return text

print("ready", flush=True)
sys.stdin.read()  # all begin at once
for turn in range(20):
    opened = cache.open_or_make(cache.choose_folder(f"{turn % 7:040x}", 1), "m.onnx", open_it, make)
    assert opened or clears, turn
    if clears:
        cache.clear()
"""


@pytest.mark.parametrize("words", ["keeps", "clears"])
def test_several_processes_read_whole_ones_only(place: Path, words: str) -> None:
    """They make and open the same ones at once; and while others remove them, which is no error either."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", PROCESS, str(number), words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            )
            for number in range(1, 5)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == b"ready"
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
    assert [process.returncode for process in processes] == [0] * 4
    expected = [] if words == "clears" else [f"{number:040x}" for number in range(7)]
    assert list_names(place) == expected


def test_a_process_killed_while_it_makes_one_leaves_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leaves counts as size, and goes."""
    code = f"""
import os
from winml_py.core import cache

def make(folder):
    (folder / "graph").write_text("gra")
    os._exit(9)

cache.open_or_make(cache.choose_folder("{KEY}", 1), "m.onnx", make, make)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    (left,) = cache.list_saved_models()
    assert (left.path.parent, left.path.suffix, left.model) == (place, ".winml-py", "")
    assert (left.path / "graph").read_text() == "gra"
    assert (Model().get(), Model().get()) == ("made", "opened graph")
    monkeypatch.setenv(cache.LIMIT_VARIABLE, str(cache.list_saved_models()[1].size * 2))
    Model("a" * 40).get()
    assert [entry.path.name for entry in cache.list_saved_models()] == [KEY, "a" * 40]


def test_what_was_used_last_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (Model(letter * 40) for letter in "abc")
    for age, model in ((300, first), (200, second)):
        model.get()
        folder = place / model.key
        os.utime(folder, (folder.stat().st_mtime - age,) * 2)
    first.get()  # used again
    monkeypatch.setenv(cache.LIMIT_VARIABLE, str(int(2.5 * cache.list_saved_models()[0].size)))
    third.get()
    assert {entry.model for entry in cache.list_saved_models()} == {"a.onnx", "c.onnx"}


def test_no_folder_where_it_would_break_the_bound(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.LIMIT_VARIABLE, "1000")
    assert cache.choose_folder(KEY, 1000) is None
    assert cache.choose_folder(KEY, 100) == place / KEY


def test_a_limit_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv(cache.LIMIT_VARIABLE, "1GB")
    assert cache.read_limit() == cache.MAX_BYTES
    assert "WINML_PY_CACHE_LIMIT=1GB: Expected a whole number of bytes" in caplog.text


def test_what_cannot_be_removed_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("busy")

    Model().get()
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        assert cache.clear() == 0
    assert cache.clear() == 1
