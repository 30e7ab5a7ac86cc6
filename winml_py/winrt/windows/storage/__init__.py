"""Windows.Storage: files and folders, as far as programs open pictures and models through them."""

from __future__ import annotations

import os
from enum import IntEnum
from pathlib import Path

from ....core.base.arguments import require_member
from ....core.base.async_operation import AsyncOperation
from ....core.base.winrt_object import Object
from ....errors import InvalidArgumentError, StorageExistsError
from .streams import FileAccessMode, IRandomAccessStream, require_existing, start, start_opening

__all__ = ["CreationCollisionOption", "FileAccessMode", "StorageFile", "StorageFolder"]


class CreationCollisionOption(IntEnum):
    """What to do if a file of that name exists."""

    REPLACE_EXISTING = 1
    FAIL_IF_EXISTS = 2


class IStorageItem(Object):
    """The common part of files and folders."""

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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"


class StorageFile(IStorageItem):
    """A file that exists.

    Example:
        >>> from winml_py.winrt.windows.storage import StorageFile
        >>> StorageFile.get_file_from_path_async("models/digits.onnx").get().name
        'digits.onnx'
    """

    @classmethod
    def get_file_from_path_async(cls, path: str | os.PathLike[str], /) -> AsyncOperation[StorageFile]:
        """Looks up a file. Unlike on Windows, the path may be relative."""
        return start(lambda: cls(require_existing(Path(path).absolute(), "file")))

    def open_async(self, access_mode: FileAccessMode, /) -> AsyncOperation[IRandomAccessStream]:
        """Opens the file; with `READ_WRITE`, its contents stay until overwritten. Others may open it, too."""
        return start_opening(self._path, access_mode, IRandomAccessStream)

    def open_read_async(self) -> AsyncOperation[IRandomAccessStream]:
        """Opens the file for reading."""
        return self.open_async(FileAccessMode.READ)

    def read(self) -> bytes:
        """All bytes: a file can be passed wherever a binary stream can."""
        return require_existing(self._path, "file").read_bytes()


class StorageFolder(IStorageItem):
    """A folder that exists."""

    @classmethod
    def get_folder_from_path_async(cls, path: str | os.PathLike[str], /) -> AsyncOperation[StorageFolder]:
        """Looks up a folder. Unlike on Windows, the path may be relative."""
        return start(lambda: cls(require_existing(Path(path).absolute(), "folder")))

    def create_file_async(
        self, name: str, option: CreationCollisionOption = CreationCollisionOption.FAIL_IF_EXISTS, /
    ) -> AsyncOperation[StorageFile]:
        """An empty file in the folder, which replaces an existing one if `option` says so."""
        return start(lambda: self._create(name, require_member(CreationCollisionOption, option, "The option")))

    def _create(self, name: str, option: CreationCollisionOption) -> StorageFile:
        path = self._path / name
        if name in ("", "..") or path.parent != self._path:
            hint = "Pass a name without folders."
            raise InvalidArgumentError(f"{name!r} is not the name of a file in {self._path}.", hint=hint)
        try:
            path.open("wb" if option == CreationCollisionOption.REPLACE_EXISTING else "xb").close()
        except FileExistsError as error:
            hint = "Pass CreationCollisionOption.REPLACE_EXISTING to overwrite it."
            raise StorageExistsError(f"The file {path} already exists.", hint=hint) from error
        return StorageFile(path)
