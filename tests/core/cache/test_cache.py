"""The cache folder: private to its owner, believed only where it is, and nothing in it touched that is not ours."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from winml_py.cli.main import main
from winml_py.core import cache

KEY = "0123456789" * 4
needs_modes = pytest.mark.posix("Python sees no owners and modes on Windows")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "parent" / "cache"))
    cache.log_once.cache_clear()
    return tmp_path / "parent" / "cache"


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def write_graph(folder: Path) -> None:
    (folder / "graph.onnx").write_bytes(b"graph")


def keep() -> None:
    """A saved model."""
    folder = cache.choose_folder(KEY, 1)
    if folder is not None:
        assert cache.open_or_make(folder, "m.onnx", str, write_graph) == str(folder)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in [folder, *folder.rglob("*")]}


def test_all_of_it_is_private_under_any_umask(place: Path, umask: int) -> None:
    keep()
    if os.name == "posix" and umask & 0o700 and os.geteuid() != 0:
        pytest.skip("only root reads files without the owner's rights")
    expected = {
        "parent": "0o700",
        "cache": "0o700",
        KEY: "0o700",
        "graph.onnx": "0o600",
        cache.MODEL: "0o600",
    }
    if os.name == "posix":
        assert modes(place.parent) == expected
    else:  # the user's folders are private by their place
        assert modes(place.parent).keys() == expected.keys()


def used(place: Path) -> list[bool]:
    """Whether a saved model, and the list of them, can be had."""
    return [cache.choose_folder(KEY, 1) is not None, cache.list_saved_models() != []]


@needs_modes
@pytest.mark.parametrize(
    ("part", "mode", "words"),
    [
        ("cache", 0o777, "other users can write"),
        ("cache", 0o720, "other users can write"),
        ("cache", 0o702, "other users can write"),
        ("cache", 0o755, ""),
        ("parent", 0o777, "anyone can rename"),
        ("parent", 0o1777, ""),
        ("parent", 0o770, ""),
    ],
)
def test_a_folder_that_others_can_change_is_not_used(
    place: Path, part: str, mode: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    keep()
    assert used(place) == [True] * 2
    changed = place if part == "cache" else place.parent
    changed.chmod(mode)
    assert used(place) == [words == ""] * 2
    before = sorted(place.rglob("*"))
    if words:
        keep()
        assert cache.clear() == 0
        assert len([record for record in caplog.records if words in record.message]) == 1  # not once a call
    assert sorted(place.rglob("*")) == before


@needs_modes
def test_a_folder_of_somebody_else_is_not_used(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keep()
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert used(place) == [False] * 2
    assert f"it belongs to user {owner}, but this process runs as user {owner + 1}" in caplog.text


@pytest.mark.posix("Windows lets few users make symbolic links, and Wine makes none")
def test_a_link_to_a_folder_may_be_the_folder(place: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    place.parent.mkdir()
    place.symlink_to(tmp_path / "real")
    keep()
    assert used(place) == [True] * 2
    assert cache.find_folder() == (tmp_path / "real").resolve()


def test_what_others_keep_there_stays(place: Path) -> None:
    """A Hugging Face cache, for one, has folders and locks whose names are forty hexadecimal digits."""
    keep()
    saved = place / KEY
    others = [place / f"{number:040x}" for number in range(1, 5)]
    for folder in others:
        folder.mkdir()
        (folder / "config.json").write_text("{}")
    (others[1] / "manifest.json").write_text('{"files": []}')
    (others[2] / cache.MODEL).mkdir()
    if os.name == "posix":
        others.append(place / ("e" * 40))
        others[-1].symlink_to(saved)
    for name in (f"{KEY}.json", f"{KEY}.lock", f".{KEY}.json.0123456789abcdef", f".{KEY}.0123456789abcdef"):
        others.append(place / name)
        others[-1].write_text("{}")
    before = sorted(path for other in others for path in [other, *other.rglob("*")])
    os.environ[cache.LIMIT_VARIABLE] = "0"
    try:
        cache._make_room(saved)
    finally:
        del os.environ[cache.LIMIT_VARIABLE]
    assert [entry.path for entry in cache.list_saved_models()] == [saved]
    outcome = CliRunner().invoke(main, ["doctor", "--clear-cache", "--json"])
    assert json.loads(outcome.stdout)["cleared"] == {"models": 1}
    before = [path for path in before if path.parent.name != "e" * 40]
    assert sorted(path for path in place.rglob("*")) == before


def test_a_file_in_the_place_of_the_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "file"))
    assert cache.choose_folder(KEY, 1) is None
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_hostile_mark_is_text(place: Path) -> None:
    keep()
    (place / KEY / cache.MODEL).write_bytes(b"\xff\0\x1b[31m")
    (entry,) = cache.list_saved_models()
    assert entry.model == "\ufffd\0\x1b[31m"
    outcome = CliRunner().invoke(main, ["doctor", "--clear-cache", "--json"])
    assert json.loads(outcome.stdout)["cleared"] == {"models": 1}
