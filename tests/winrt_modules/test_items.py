"""Windows.Storage: folders in folders, copies and other names, texts added to files."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from winml_py import (
    InvalidArgumentError,
    NotSupportedError,
    StorageAccessError,
    StorageExistsError,
    StorageNotFoundError,
)
from winml_py.winrt.windows.storage import (
    CreationCollisionOption,
    FileAccessMode,
    FileAttributes,
    FileIO,
    IStorageItem,
    NameCollisionOption,
    PathIO,
    StorageFile,
    StorageFolder,
    StorageItemTypes,
    StorageOpenOptions,
)
from winml_py.winrt.windows.storage.streams import Buffer, UnicodeEncoding


def folder_of(path: Path) -> StorageFolder:
    return StorageFolder.get_folder_from_path_async(path).get()


def file_of(path: Path, content: str = "") -> StorageFile:
    path.write_text(content)
    return StorageFile.get_file_from_path_async(path).get()


def names(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


# Looking up


def test_items_are_found_by_their_way_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "Assets" / "inner").mkdir(parents=True)
    (tmp_path / "Assets" / "model.onnx").write_text("model")
    folder = folder_of(tmp_path)
    for way in (r"Assets\model.onnx", "Assets/model.onnx"):
        assert folder.get_file_async(way).get().read() == b"model"
    assert folder.get_folder_async(r"Assets\inner").get().path == str(tmp_path / "Assets" / "inner")
    assert isinstance(folder.get_item_async("Assets").get(), StorageFolder)
    assert isinstance(folder.get_item_async(r"Assets\model.onnx").get(), StorageFile)
    assert folder.try_get_item_async("missing").get() is None
    assert folder.try_get_item_async(r"Assets\model.onnx").get().name == "model.onnx"
    for wrong in ("..", r"..\other", r"Assets\..\..\x", "", r"C:\x", r"\x", "/x"):
        for look in (folder.get_file_async, folder.get_folder_async, folder.get_item_async, folder.try_get_item_async):
            with pytest.raises(InvalidArgumentError, match="is not the name"):
                look(wrong).get()
    for wrong in ("..", "../x"):
        for make in (folder.create_file_async, folder.create_folder_async):
            with pytest.raises(InvalidArgumentError, match="is not the name"):
                make(wrong).get()
    with pytest.raises(StorageNotFoundError, match="no file"):
        folder.get_item_async("missing").get()
    with pytest.raises(StorageNotFoundError, match="no folder"):
        folder.get_folder_async(r"Assets\model.onnx").get()


@pytest.mark.skipif(os.name == "nt", reason="no name has a backslash there")
def test_a_backslash_in_a_name(tmp_path: Path) -> None:
    file_of(tmp_path / r"a\b.txt", "x")
    (tmp_path / "a").mkdir()
    folder = folder_of(tmp_path)
    (found,) = folder.get_files_async().get()
    assert folder.get_file_async(found.name).get().read() == b"x"
    with pytest.raises(InvalidArgumentError):
        folder.get_file_async(r"a\..\b.txt").get()


def test_what_a_folder_holds(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.txt").touch()
    folder = folder_of(tmp_path)
    assert [item.name for item in folder.get_folders_async().get()] == ["a", "b"]
    assert [item.name for item in folder.get_items_async().get()] == ["a", "b", "a.txt", "b.txt"]
    assert [item.name for item in folder.get_items_async(1, 2).get()] == ["b", "a.txt"]
    assert folder.get_items_async(9, 2).get() == []
    assert [item.name for item in folder.get_files_async_overload_default_options_start_and_count().get()] == [
        "a.txt",
        "b.txt",
    ]


def test_facts_about_items(tmp_path: Path) -> None:
    file = file_of(tmp_path / "a.png", "12345")
    folder = folder_of(tmp_path)
    os.utime(file.path, (0, 1_700_000_000))
    facts = file.get_basic_properties_async().get()
    assert (facts.size, facts.date_modified) == (5, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))
    assert facts.item_date == facts.date_modified
    assert folder.get_basic_properties_async().get().size == 0
    assert file.date_created <= datetime.now(UTC)
    assert (file.content_type, folder.display_name) == ("image/png", tmp_path.name)
    assert file.is_of_type(StorageItemTypes.FILE)
    assert folder.is_of_type(StorageItemTypes.FOLDER)
    assert not folder.is_of_type(StorageItemTypes.FILE)
    assert (file.attributes, folder.attributes) == (FileAttributes.NORMAL, FileAttributes.DIRECTORY)
    assert file.is_equal(folder.get_file_async("a.png").get())
    assert not file.is_equal(folder)
    assert folder_of(tmp_path / "..").is_equal(folder.get_parent_async().get())
    assert folder_of(Path(tmp_path.anchor)).get_parent_async().get() is None
    assert isinstance(file, IStorageItem)


# Making, copying, moving


def test_creating_folders(tmp_path: Path) -> None:
    folder, option = folder_of(tmp_path), CreationCollisionOption
    made = folder.create_folder_async("x").get()
    (tmp_path / "x" / "old.txt").touch()
    assert made.path == str(tmp_path / "x")
    with pytest.raises(StorageExistsError, match=r"a folder .* already"):
        folder.create_folder_async("x", option.FAIL_IF_EXISTS).get()
    assert folder.create_folder_async("x", option.GENERATE_UNIQUE_NAME).get().name == "x (2)"
    assert folder.create_folder_async("v1.0").get().name == "v1.0"
    assert folder.create_folder_async("v1.0", option.GENERATE_UNIQUE_NAME).get().name == "v1.0 (2)"
    assert len(folder.create_folder_async("x", option.OPEN_IF_EXISTS).get().get_files_async().get()) == 1
    with pytest.raises(InvalidArgumentError, match="is not the name"):
        folder.create_folder_async("../y").get()
    with pytest.raises(InvalidArgumentError, match="option is 7"):
        folder.create_folder_async("y", 7).get()


def test_copying_files(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    target, option = folder_of(tmp_path / "to"), NameCollisionOption
    file = file_of(tmp_path / "a.txt", "new")
    assert file.copy_async(target).get().path == str(tmp_path / "to" / "a.txt")
    with pytest.raises(StorageExistsError, match="already"):
        file.copy_async(target, "a.txt").get()
    assert file.copy_async(target, "a.txt", option.GENERATE_UNIQUE_NAME).get().name == "a (2).txt"
    other = file_of(tmp_path / "to" / "b.txt", "old")
    assert file.copy_async(target, "b.txt", option.REPLACE_EXISTING).get().read() == b"new"
    third = file_of(tmp_path / "to" / "c.txt", "old")
    file.copy_and_replace_async(third).get()
    assert names(tmp_path / "to") == dict.fromkeys(["a.txt", "a (2).txt", "b.txt", "c.txt"], "new")
    assert other.read() == file.read() == b"new"
    with pytest.raises(StorageAccessError, match="same file"):
        file.copy_async(folder_of(tmp_path), "a.txt", option.REPLACE_EXISTING).get()
    with pytest.raises(InvalidArgumentError, match="is not the name"):
        file.copy_async(target, "../d.txt").get()
    file.delete_async().get()
    with pytest.raises(StorageNotFoundError):
        file.copy_async(target, "d.txt").get()
    assert not (tmp_path / "to" / "d.txt").exists()


def test_moving_files(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    target, option = folder_of(tmp_path / "to"), NameCollisionOption
    file = file_of(tmp_path / "a.txt", "a")
    file.move_async(target).get()
    assert (file.path, file.read()) == (str(tmp_path / "to" / "a.txt"), b"a")
    second = file_of(tmp_path / "a.txt", "b")
    with pytest.raises(StorageExistsError):
        second.move_async(target, "a.txt").get()
    second.move_async(target, "a.txt", option.GENERATE_UNIQUE_NAME).get()
    assert second.name == "a (2).txt"
    third = file_of(tmp_path / "c.txt", "c")
    third.move_and_replace_async(second).get()
    assert names(tmp_path / "to") == {"a.txt": "a", "a (2).txt": "c"}
    assert third.path == second.path
    assert list(tmp_path.glob("*.txt")) == []


def test_other_names_for_files(tmp_path: Path) -> None:
    option = NameCollisionOption
    file = file_of(tmp_path / "a.txt", "a")
    file_of(tmp_path / "b.txt", "b")
    file.rename_async("a.txt").get()
    with pytest.raises(StorageExistsError):
        file.rename_async("b.txt").get()
    file.rename_async("b.txt", option.REPLACE_EXISTING).get()
    assert names(tmp_path) == {"b.txt": "a"}


def test_no_folder_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    file_of(tmp_path / "kept" / "a.txt", "a")
    folder = folder_of(tmp_path)
    with pytest.raises(NotSupportedError, match=r"kept: Folders are not deleted here"):
        folder.create_folder_async("kept", CreationCollisionOption.REPLACE_EXISTING).get()
    assert names(tmp_path / "kept") == {"a.txt": "a"}
    assert not hasattr(folder, "delete_async")


def test_options_of_opening_and_pywinrt_3_s_names(tmp_path: Path) -> None:
    file = file_of(tmp_path / "a.txt", "abc")
    with file.open_async(FileAccessMode.READ_WRITE, StorageOpenOptions.ALLOW_ONLY_READERS).get() as stream:
        stream.write(b"A")
    assert file.open_with_options_async(FileAccessMode.READ, StorageOpenOptions.NONE).get().read() == b"Abc"
    copy = file.copy_overload(folder_of(tmp_path), "b.txt", NameCollisionOption.FAIL_IF_EXISTS).get()
    copy.rename_async_overload_default_options("c.txt").get()
    copy.move_overload_default_options(folder_of(tmp_path), "d.txt").get()
    assert names(tmp_path) == {"a.txt": "Abc", "d.txt": "Abc"}


# Whole files at once


def test_texts_and_lines_are_added_to_files(tmp_path: Path) -> None:
    file = file_of(tmp_path / "a.txt", "zero")
    FileIO.append_text_async(file, "\n").get()
    FileIO.append_lines_async(file, ["one", "two"]).get()
    assert (tmp_path / "a.txt").read_bytes() == b"zero\none\r\ntwo\r\n"
    assert FileIO.read_lines_async(file).get() == ["zero", "one", "two"]
    FileIO.write_lines_async(file, iter(["é"])).get()
    assert (tmp_path / "a.txt").read_bytes() == "é\r\n".encode()
    buffer = Buffer.of(b"abc")
    buffer.length = 1
    FileIO.write_buffer_async(file, buffer).get()
    assert (tmp_path / "a.txt").read_bytes() == b"a"
    file.delete_async().get()
    for write in (FileIO.write_text_async, FileIO.append_text_async):
        with pytest.raises(StorageNotFoundError):
            write(file, "x").get()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("encoding", "codec"), [(UnicodeEncoding.UTF16_L_E, "utf-16-le"), (UnicodeEncoding.UTF16_B_E, "utf-16-be")]
)
def test_texts_of_other_encodings(tmp_path: Path, encoding: UnicodeEncoding, codec: str) -> None:
    file = file_of(tmp_path / "labels.txt")
    FileIO.write_text_async(file, "né\n", encoding).get()
    FileIO.append_lines_async(file, ["x"], encoding).get()
    assert (tmp_path / "labels.txt").read_bytes() == "né\nx\r\n".encode(codec)
    assert FileIO.read_lines_async(file, encoding).get() == ["né", "x"]
    (tmp_path / "labels.txt").write_bytes("\ufeffmarked".encode(codec))
    assert FileIO.read_text_with_encoding_async(file, encoding).get() == "marked"


def test_files_by_their_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import __main__

    path = str(tmp_path / "a.txt")
    with pytest.raises(StorageNotFoundError, match="no file"):
        PathIO.write_text_async(path, "x").get()
    Path(path).touch()
    PathIO.write_lines_async(path, ["a", "b"]).get()
    PathIO.append_text_async(path, "c").get()
    assert PathIO.read_text_async(path).get() == "a\r\nb\r\nc"
    assert PathIO.read_lines_async(path).get() == ["a", "b", "c"]
    PathIO.write_bytes_async(path, b"\xff").get()
    assert bytes(PathIO.read_buffer_async(path).get()) == b"\xff"
    with pytest.raises(InvalidArgumentError, match="not text in UTF-8"):
        PathIO.read_text_async(path).get()
    monkeypatch.setattr(__main__, "__file__", str(tmp_path / "main.py"), raising=False)
    PathIO.write_text_async("ms-appx:///a.txt", "mine").get()
    assert PathIO.read_text_async("ms-appx:///a.txt").get() == "mine"
