"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from winml_py.core.base.atomic_files import open_atomically, write_atomically
from winml_py.errors import StorageAccessError


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "answer.txt"
    target.write_text("old")
    with open_atomically(str(target)) as file:
        file.write(b"new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["answer.txt"]
    plain = tmp_path / "plain.txt"
    plain.write_text("by hand")
    assert target.stat().st_mode == plain.stat().st_mode


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "answer.txt"
    target.write_text("old")
    with pytest.raises(TypeError), open_atomically(str(target)) as file:
        file.write("text where bytes belong")  # type: ignore[arg-type]
    assert (target.read_text(), os.listdir(tmp_path)) == ("old", ["answer.txt"])


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    target = str(tmp_path / "nowhere" / "answer.txt")
    with pytest.raises(FileNotFoundError) as info, open_atomically(target):
        pass
    assert info.value.filename == target


def test_what_cannot_be_written_is_an_error_that_says_why(tmp_path: Path) -> None:
    write_atomically(tmp_path / "answer.txt", b"42")
    assert (tmp_path / "answer.txt").read_bytes() == b"42"
    with pytest.raises(StorageAccessError, match=r"answer\.txt: Cannot write the file: No such file"):
        write_atomically(tmp_path / "nowhere" / "answer.txt", b"42")


@pytest.mark.posix("Windows lets few users make symbolic links, and Wine makes none")
def test_a_link_is_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target.name)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    dangling = tmp_path / "dangling.txt"
    dangling.symlink_to("made.txt")
    write_atomically(dangling, b"made")
    assert dangling.is_symlink()
    assert (tmp_path / "made.txt").read_bytes() == b"made"
    assert sorted(os.listdir(tmp_path)) == ["dangling.txt", "link.txt", "made.txt", "target.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_that_is_written_again_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "answer.txt"
    target.write_text("old")
    target.chmod(mode)
    write_atomically(target, b"new")
    assert target.read_bytes() == b"new"
    if os.name == "posix":  # on Windows, a file is read-only or not
        assert target.stat().st_mode & 0o777 == mode


@pytest.mark.posix("files are no pipes on Windows")
def test_a_pipe_and_a_device_are_written_and_stay(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, b"42")
        assert os.read(reader, 10) == b"42"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    device = tmp_path / "null"
    device.symlink_to(os.devnull)  # never the device itself: a test that fails must not remove it
    write_atomically(device, b"42")
    assert device.is_symlink()
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert sorted(os.listdir(tmp_path)) == ["null", "pipe"]


def test_contents_are_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (calls.append("fsync"), fsync(number))[1])
    monkeypatch.setattr(os, "replace", lambda old, new: (calls.append("replace"), replace(old, new))[1])
    write_atomically(tmp_path / "answer.txt", b"42")
    assert calls == ["fsync", "replace"]
