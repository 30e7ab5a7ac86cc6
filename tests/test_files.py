"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from winml_py.base.atomic_files import write_whole, written_whole
from winml_py.errors import StorageAccessError


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "answer.txt"
    target.write_text("old")
    with written_whole(str(target)) as file:
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
    with pytest.raises(TypeError), written_whole(str(target)) as file:
        file.write("text where bytes belong")  # type: ignore[arg-type]
    assert (target.read_text(), os.listdir(tmp_path)) == ("old", ["answer.txt"])


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    target = str(tmp_path / "nowhere" / "answer.txt")
    with pytest.raises(FileNotFoundError) as info, written_whole(target):
        pass
    assert info.value.filename == target


def test_what_cannot_be_written_is_an_error_that_says_why(tmp_path: Path) -> None:
    write_whole(tmp_path / "answer.txt", b"42")
    assert (tmp_path / "answer.txt").read_bytes() == b"42"
    with pytest.raises(StorageAccessError, match=r"answer\.txt cannot be written: No such file"):
        write_whole(tmp_path / "nowhere" / "answer.txt", b"42")
