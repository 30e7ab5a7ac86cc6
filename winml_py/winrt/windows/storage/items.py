"""StorageFile and StorageFolder: what lies in the file system."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from enum import IntFlag
from pathlib import Path, PureWindowsPath

from ....core.base.arguments import member, whole_number
from ....core.base.async_operation import AsyncOperation
from ....core.base.winrt_object import Object
from ....errors import InvalidArgumentError, NotSupportedError
from ..foundation import Uri
from .fileproperties import BasicProperties, basic_properties
from .files import (
    CreationCollisionOption,
    FileAccessMode,
    NameCollisionOption,
    StorageDeleteOption,
    StorageOpenOptions,
    absolute_path,
    application_path,
    content_type_of,
    existing,
    first_free,
    require_created,
    start,
)
from .random_access import IRandomAccessStream, IRandomAccessStreamWithContentType


class StorageItemTypes(IntFlag):
    """Files, folders, or both."""

    NONE = 0
    FILE = 1
    FOLDER = 2


class FileAttributes(IntFlag):
    """What the system says of a file or folder: here, whether it can be written to, and which of the two it is."""

    NORMAL = 0x0
    READ_ONLY = 0x1
    DIRECTORY = 0x10
    ARCHIVE = 0x20
    TEMPORARY = 0x100
    LOCALLY_INCOMPLETE = 0x200


class IStorageItem(Object):
    """What files and folders have in common."""

    _type = StorageItemTypes.NONE

    def __init__(self, path: Path) -> None:
        """Files and folders come from `StorageFile` and `StorageFolder`."""
        self._path = path

    @property
    def path(self) -> str:
        """The whole path."""
        return str(self._path)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self._path.name

    @property
    def date_created(self) -> datetime:
        """When it was made, in UTC; where the system does not say that, the first date that it has."""
        facts = self._path.stat()
        made = getattr(facts, "st_birthtime", min(facts.st_ctime, facts.st_mtime))
        return datetime.fromtimestamp(made, UTC)

    @property
    def attributes(self) -> FileAttributes:
        """Whether it is a folder, and whether it can be written to."""
        kind = FileAttributes.DIRECTORY if self._path.is_dir() else FileAttributes.NORMAL
        return kind if os.access(self._path, os.W_OK) else kind | FileAttributes.READ_ONLY

    def is_of_type(self, kind: StorageItemTypes, /) -> bool:
        """Whether it is a file, or a folder."""
        return self._type == kind

    def is_equal(self, item: IStorageItem, /) -> bool:
        """Whether both are the same file or folder."""
        return self._path.resolve() == Path(item.path).resolve()

    def get_basic_properties_async(self) -> AsyncOperation[BasicProperties]:
        """Its size, and when it was changed."""
        return start(lambda: basic_properties(self._path))

    def get_parent_async(self) -> AsyncOperation[StorageFolder | None]:
        """The folder it lies in; None for the root."""
        parent = self._path.parent
        return start(lambda: None if parent == self._path else StorageFolder(existing(parent, "folder")))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"


class StorageFile(IStorageItem):
    """A file that exists.

    Example:
        >>> from winml_py.winrt.windows.storage import StorageFile
        >>> StorageFile.get_file_from_path_async("models/digits.onnx").get().file_type
        '.onnx'
    """

    _type = StorageItemTypes.FILE

    @classmethod
    def get_file_from_path_async(cls, path: str | os.PathLike[str], /) -> AsyncOperation[StorageFile]:
        """Looks a file up. Unlike on Windows, the path may be relative.

        Raises:
            StorageNotFoundError: there is no such file; raised by the operation.
        """
        return start(lambda: cls(existing(absolute_path(path), "file")))

    @classmethod
    def get_file_from_application_uri_async(cls, uri: Uri, /) -> AsyncOperation[StorageFile]:
        """Looks a file of the program's own up: `ms-appx:///` is the folder of the script that runs.

        Raises:
            InvalidArgumentError: the URI has another scheme; raised by the operation.
            StorageNotFoundError: there is no such file; raised by the operation.
        """
        return start(lambda: cls(existing(application_path(uri), "file")))

    @property
    def display_name(self) -> str:
        """The name without its ending."""
        return self._path.stem

    @property
    def file_type(self) -> str:
        """The ending, with its dot."""
        return self._path.suffix

    @property
    def content_type(self) -> str:
        """The MIME type that goes with the ending, or ""."""
        return content_type_of(self._path)

    @property
    def is_available(self) -> bool:
        """Whether the file is still there."""
        return self._path.is_file()

    def open_async(
        self, access_mode: FileAccessMode, options: StorageOpenOptions = StorageOpenOptions.NONE, /
    ) -> AsyncOperation[IRandomAccessStream]:
        """Opens the file; with `READ_WRITE`, its contents stay until they are overwritten.

        Args:
            access_mode: what it is opened for.
            options: who else may open it: here everybody always may.
        """
        is_read = member(FileAccessMode, access_mode, "The access mode") == FileAccessMode.READ
        return start(lambda: IRandomAccessStream(existing(self._path, "file").open("rb" if is_read else "r+b")))

    open_with_options_async = open_async  # pywinrt 3's name

    def open_read_async(self) -> AsyncOperation[IRandomAccessStreamWithContentType]:
        """Opens the file for reading."""
        return start(
            lambda: IRandomAccessStreamWithContentType(existing(self._path, "file").open("rb"), self.content_type)
        )

    open_sequential_read_async = open_read_async

    def read(self) -> bytes:
        """All bytes: a file can be passed wherever a binary stream can."""
        return existing(self._path, "file").read_bytes()

    def copy_async(
        self,
        destination_folder: StorageFolder,
        desired_new_name: str | None = None,
        option: NameCollisionOption = NameCollisionOption.FAIL_IF_EXISTS,
        /,
    ) -> AsyncOperation[StorageFile]:
        """Copies the file to a folder, under its name or another.

        Raises:
            StorageExistsError: there is one of that name, and that is not wanted; raised by the operation.
        """
        choice = member(NameCollisionOption, option, "The option")
        name = self.name if desired_new_name is None else desired_new_name
        return start(lambda: StorageFile(self._put(_inside(Path(destination_folder.path), name), choice, _copy_file)))

    copy_overload = copy_async  # pywinrt 3's names
    copy_overload_default_options = copy_async
    copy_overload_default_name_and_options = copy_async

    def copy_and_replace_async(self, file_to_replace: StorageFile, /) -> AsyncOperation[None]:
        """Copies the file over another."""
        return start(lambda: _copy_file(existing(self._path, "file"), Path(file_to_replace.path)))

    def move_async(
        self,
        destination_folder: StorageFolder,
        desired_new_name: str | None = None,
        option: NameCollisionOption = NameCollisionOption.FAIL_IF_EXISTS,
        /,
    ) -> AsyncOperation[None]:
        """Moves the file to a folder, under its name or another; the object then stands for it there.

        Raises:
            StorageExistsError: there is one of that name, and that is not wanted; raised by the operation.
        """
        choice = member(NameCollisionOption, option, "The option")
        name = self.name if desired_new_name is None else desired_new_name
        return start(lambda: self._move(_inside(Path(destination_folder.path), name), choice))

    move_overload = move_async  # pywinrt 3's names
    move_overload_default_options = move_async
    move_overload_default_name_and_options = move_async

    def move_and_replace_async(self, file_to_replace: StorageFile, /) -> AsyncOperation[None]:
        """Moves the file to where another is, which it replaces."""
        return start(lambda: self._move(Path(file_to_replace.path), NameCollisionOption.REPLACE_EXISTING))

    def rename_async(
        self, desired_name: str, option: NameCollisionOption = NameCollisionOption.FAIL_IF_EXISTS, /
    ) -> AsyncOperation[None]:
        """Gives the file another name in its folder.

        Raises:
            StorageExistsError: there is one of that name, and that is not wanted; raised by the operation.
        """
        return self.move_async(StorageFolder(self._path.parent), desired_name, option)

    rename_async_overload_default_options = rename_async  # pywinrt 3's name

    def delete_async(self, option: StorageDeleteOption = StorageDeleteOption.DEFAULT, /) -> AsyncOperation[None]:
        """Deletes the file."""
        return start(lambda: self._path.unlink())

    delete_async_overload_default_options = delete_async  # pywinrt 3's name

    def _move(self, target: Path, option: NameCollisionOption) -> None:
        if _is_same(target, self._path):  # at most, the name's case changes
            self._path = self._path.replace(target)
        else:
            self._path = self._put(target, option, _move_file)

    def _put(self, target: Path, option: NameCollisionOption, act: Callable[[Path, Path], None]) -> Path:
        """Copies or moves the file, and says where to."""
        source = existing(self._path, "file")
        if option == NameCollisionOption.REPLACE_EXISTING:
            act(source, target)
            return target
        # An empty file holds the name, so that no other program takes it meanwhile.
        held = first_free(target) if option == NameCollisionOption.GENERATE_UNIQUE_NAME else require_created(target)
        try:
            act(source, held)
        except OSError:
            held.unlink(missing_ok=True)
            raise
        return held


class StorageFolder(IStorageItem):
    """A folder that exists."""

    _type = StorageItemTypes.FOLDER

    @classmethod
    def get_folder_from_path_async(cls, path: str | os.PathLike[str], /) -> AsyncOperation[StorageFolder]:
        """Looks a folder up. Unlike on Windows, the path may be relative.

        Raises:
            StorageNotFoundError: there is no such folder; raised by the operation.
        """
        return start(lambda: cls(existing(absolute_path(path), "folder")))

    @property
    def display_name(self) -> str:
        """The name."""
        return self._path.name

    def get_file_async(self, name: str, /) -> AsyncOperation[StorageFile]:
        """A file in the folder or below it, by its name or its path from here.

        Raises:
            StorageNotFoundError: there is no such file; raised by the operation.
        """
        return start(lambda: StorageFile(existing(_below(self._path, name), "file")))

    def get_folder_async(self, name: str, /) -> AsyncOperation[StorageFolder]:
        """A folder in the folder or below it, by its name or its path from here.

        Raises:
            StorageNotFoundError: there is no such folder; raised by the operation.
        """
        return start(lambda: StorageFolder(existing(_below(self._path, name), "folder")))

    def get_item_async(self, name: str, /) -> AsyncOperation[StorageFile | StorageFolder]:
        """A file or a folder, by its name or its path from here.

        Raises:
            StorageNotFoundError: there is neither; raised by the operation.
        """

        def look() -> StorageFile | StorageFolder:
            path = _below(self._path, name)
            return StorageFolder(path) if path.is_dir() else StorageFile(existing(path, "file"))

        return start(look)

    def try_get_item_async(self, name: str, /) -> AsyncOperation[StorageFile | StorageFolder | None]:
        """A file or a folder, by its name or its path from here; None where there is neither."""

        def look() -> StorageFile | StorageFolder | None:
            path = _below(self._path, name)
            return _item(path) if path.exists() else None

        return start(look)

    def get_files_async(self) -> AsyncOperation[list[StorageFile]]:
        """The files in the folder, by name."""
        return start(lambda: [StorageFile(path) for path in sorted(self._path.iterdir()) if path.is_file()])

    def get_folders_async(self) -> AsyncOperation[list[StorageFolder]]:
        """The folders in the folder, by name."""
        return start(lambda: [StorageFolder(path) for path in sorted(self._path.iterdir()) if path.is_dir()])

    def get_items_async(
        self, start_index: int = 0, max_items_to_retrieve: int | None = None, /
    ) -> AsyncOperation[list[StorageFile | StorageFolder]]:
        """The folders in the folder, by name, and then the files.

        Args:
            start_index: the first of them that is wanted.
            max_items_to_retrieve: how many, at most; by default, all that follow.
        """
        first = whole_number(start_index, "The start")
        most = None if max_items_to_retrieve is None else whole_number(max_items_to_retrieve, "The number of items")

        def look() -> list[StorageFile | StorageFolder]:
            paths = [path for path in self._path.iterdir() if path.is_dir() or path.is_file()]
            paths.sort(key=lambda path: (path.is_file(), path))
            return [_item(path) for path in paths[first : None if most is None else first + most]]

        return start(look)

    def create_file_async(
        self, name: str, option: CreationCollisionOption = CreationCollisionOption.FAIL_IF_EXISTS, /
    ) -> AsyncOperation[StorageFile]:
        """An empty file in the folder, or the one that is there, as `option` says.

        Raises:
            StorageExistsError: there is one, and that is not wanted; raised by the operation.
        """
        return start(lambda: self._create_file(name, member(CreationCollisionOption, option, "The option")))

    def create_folder_async(
        self, name: str, option: CreationCollisionOption = CreationCollisionOption.FAIL_IF_EXISTS, /
    ) -> AsyncOperation[StorageFolder]:
        """An empty folder in the folder, or the one that is there, as `option` says.

        Raises:
            StorageExistsError: there is one, and that is not wanted; raised by the operation.
            NotSupportedError: there is one, and it should be replaced: here no folder is deleted; raised by the
                operation.
        """
        return start(lambda: self._create_folder(name, member(CreationCollisionOption, option, "The option")))

    # pywinrt 3's names
    get_files_async_overload_default_options_start_and_count = get_files_async
    get_folders_async_overload_default_options_start_and_count = get_folders_async
    get_items_async_overload_default_start_and_count = get_items_async
    create_file_async_overload_default_options = create_file_async
    create_folder_async_overload_default_options = create_folder_async

    def _create_file(self, name: str, option: CreationCollisionOption) -> StorageFile:
        path = _inside(self._path, name)
        if option == CreationCollisionOption.GENERATE_UNIQUE_NAME:
            return StorageFile(first_free(path))
        if option == CreationCollisionOption.FAIL_IF_EXISTS:
            return StorageFile(require_created(path))
        path.open("wb" if option == CreationCollisionOption.REPLACE_EXISTING else "ab").close()
        return StorageFile(path)

    def _create_folder(self, name: str, option: CreationCollisionOption) -> StorageFolder:
        path = _inside(self._path, name)
        if option == CreationCollisionOption.GENERATE_UNIQUE_NAME:
            return StorageFolder(first_free(path, "folder"))
        if option == CreationCollisionOption.FAIL_IF_EXISTS:
            return StorageFolder(require_created(path, "folder"))
        if option == CreationCollisionOption.REPLACE_EXISTING and path.exists():
            raise NotSupportedError(f"{path}: Folders are not deleted here.", hint="Use shutil.rmtree, if it is meant.")
        path.mkdir(exist_ok=True)
        return StorageFolder(path)


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and path.samefile(other)


def _item(path: Path) -> StorageFile | StorageFolder:
    return StorageFolder(path) if path.is_dir() else StorageFile(path)


def _inside(folder: Path, name: str) -> Path:
    """The path of a file or folder that is to be made in a folder."""
    path = folder / name
    if name in ("", "..") or path.parent != folder:
        raise InvalidArgumentError(f"{name!r} is not the name of a file in {folder}.", hint="Leave folders out.")
    return path


def _below(folder: Path, name: str) -> Path:
    """The path of what lies in a folder or below it; its folders may be written as Windows does."""
    way = PureWindowsPath(name)
    if len(way.parts) > 1 and (folder / name).parent == folder and (folder / name).exists():
        return folder / name  # on other systems than Windows, a name may have a backslash
    if not way.parts or way.anchor or ".." in way.parts:
        hint = "Write a path that begins in the folder."
        raise InvalidArgumentError(f"{name!r} is not the name of a file in {folder}.", hint=hint)
    return folder.joinpath(*way.parts)


def _copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def _move_file(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:  # on another disk, it has to be copied
            raise
        shutil.copy2(source, target)
        source.unlink()
