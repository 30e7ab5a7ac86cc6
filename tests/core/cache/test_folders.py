"""Folders of what a model was made into: made once, opened afterwards, and never believed when they are damaged."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
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
    """

    def __init__(self, key: str = KEY) -> None:
        self.key = key
        self.made = 0
        self.failure: BaseException | None = None
        self.wait = lambda: None

    def get(self) -> str | None:
        """What is opened, "made" where it was made now, or None."""
        before, folder = self.made, cache.choose_folder(self.key, 1)
        assert folder is not None
        path = f"{self.key[0]}.onnx"
        found = cache.open_or_make(folder, path, self.open, self.make, self.wait)
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
    assert files(entry.path) == {"graph", "inner/weights", "manifest.json"}
    if hasattr(os, "geteuid"):
        modes = {file.name: file.stat().st_mode & 0o777 for file in (entry.path, *entry.path.rglob("*"))}
        assert modes == {KEY: 0o700, "inner": 0o700, "graph": 0o600, "weights": 0o600, "manifest.json": 0o600}


@pytest.mark.parametrize(
    "facts",
    [
        {"sizes": {"graph": 5, "inner/weights": 1000, "more": 1}},
        {"sizes": "all right"},
        {"sizes": ["graph", []]},
        {"sizes": None},
        {"schema_version": 0},
        {"schema_version": [1]},
    ],
    ids=str,
)
def test_one_whose_manifest_states_something_else_is_made_again(place: Path, facts: dict[str, object]) -> None:
    model, manifest = Model(), place / KEY / "manifest.json"
    model.get()
    good = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(good | facts))
    assert not cache.is_intact(place / KEY)
    assert (model.get(), model.get(), model.made) == ("made", "opened graph", 2)
    assert json.loads(manifest.read_text()) == good


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "more"])
def test_a_damaged_one_is_made_again(place: Path, damage: str) -> None:
    model = Model()
    model.get()
    weights = place / KEY / "inner" / "weights"
    if damage == "gone":
        weights.unlink()
    elif damage == "more":
        (place / KEY / "more").write_text("")
    else:
        weights.write_bytes(bytes(500) if damage == "cut" else b"")
    assert not cache.is_intact(place / KEY)
    assert (model.get(), model.get()) == ("made", "opened graph")
    assert files(place / KEY) == {"graph", "inner/weights", "manifest.json"}


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000 + "]" * 100_000, '{"schema_version": 1, "key": "another"}'])
def test_one_without_a_manifest_of_ours_stays_as_it_is(
    place: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "winml_py")
    model, manifest = Model(), place / KEY / "manifest.json"
    model.get()
    manifest.write_text(text)
    assert (model.get(), model.made) == (None, 1)
    assert cache.list_saved_models() == []
    assert cache.clear() == 0
    assert manifest.read_text() == text
    assert "is not replaced, because it has no winml-py manifest" in caplog.text


def test_an_empty_folder_under_its_name_is_used(place: Path) -> None:
    """Programs that clean up remove old files, and leave folders."""
    (place / KEY).mkdir(parents=True, mode=0o700)
    assert (Model().get(), Model().get()) == ("made", "opened graph")


def test_one_of_another_name_is_not_used(place: Path) -> None:
    Model().get()
    other = place / ("f" * 40)
    shutil.copytree(place / KEY, other)
    assert not cache.is_intact(other)
    shutil.rmtree(other)
    other.symlink_to(place / KEY)
    assert not cache.is_intact(other)
    assert cache.is_intact(place / KEY)


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
    assert not cache.is_intact(place / KEY)
    if is_writable:
        assert (model.get(), model.made) == (None, 1)


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


def test_many_threads_make_one() -> None:
    model, barrier = Model(), threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: (barrier.wait(), model.get())[1], range(4)))
    assert None not in found
    assert model.made == 1


def test_a_process_killed_while_it_makes_one_leaves_none(place: Path) -> None:
    code = f"""
import os
from pathlib import Path
from winml_py.core import cache

def make(folder):
    (folder / "graph").write_text("gra")
    os._exit(9)

cache.open_or_make(cache.choose_folder("{KEY}", 1), "m.onnx", make, make, lambda: None)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert (place / KEY / "graph").exists()
    assert not cache.is_intact(place / KEY)
    assert (Model().get(), Model().get()) == ("made", "opened graph")


def test_who_has_waited_too_long_neither_makes_nor_removes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WAIT_SECONDS", 0.2)
    model = Model()
    with cache.lock(KEY):
        cache.start(place / KEY)
        assert (model.get(), model.made) == (None, 0)
        assert (place / KEY / "manifest.json").exists()
        cache.clear()
        assert (place / f"{KEY}.winml-py.lock").exists()


def test_waiting_for_another_process_can_be_cancelled() -> None:
    def stop() -> None:
        raise CanceledError("cancelled")

    model = Model()
    model.wait = stop
    with cache.lock(KEY), pytest.raises(CanceledError):
        model.get()  # and not after two minutes


def test_what_was_used_last_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (Model(letter * 40) for letter in "abc")
    for age, model in ((300, first), (200, second)):
        model.get()
        manifest = place / model.key / "manifest.json"
        os.utime(manifest, (manifest.stat().st_mtime - age,) * 2)
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


def test_what_a_killed_process_was_removing_goes(place: Path) -> None:
    Model().get()
    left = place / f".{'f' * 40}.{'0' * 16}.winml-py"
    left.mkdir()
    Model("a" * 40).get()
    assert not left.exists()
    assert len(cache.list_saved_models()) == 2


def test_what_cannot_be_removed_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("busy")

    Model().get()
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        assert cache.clear() == 0
    assert cache.clear() == 1
