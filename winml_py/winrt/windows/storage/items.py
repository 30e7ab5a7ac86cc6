"""StorageFile and StorageFolder: items in the file system."""

from __future__ import annotations

import mimetypes
import os
from pathlib import Path

from ....core.base.arguments import require_member
from ....core.base.async_operation import AsyncOperation
from ....core.base.winrt_object import Object
from ....errors import InvalidArgumentError, StorageExistsError
from .random_access import (
    CreationCollisionOption,
    FileAccessMode,
    IRandomAccessStream,
    IRandomAccessStreamWithContentType,
    require_existing,
    start,
    start_opening,
)


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
        >>> StorageFile.get_file_from_path_async("models/digits.onnx").get().file_type
        '.onnx'
    """

    @classmethod
    def get_file_from_path_async(cls, path: str | os.PathLike[str], /) -> AsyncOperation[StorageFile]:
        """Looks up a file. Unlike on Windows, the path may be relative."""
        return start(lambda: cls(require_existing(Path(path).absolute(), "file")))

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
        """The MIME type for the ending, or ""."""
        return mimetypes.guess_type(self.name)[0] or ""

    def open_async(self, access_mode: FileAccessMode, /) -> AsyncOperation[IRandomAccessStream]:
        """Opens the file; with `READ_WRITE`, its contents stay until overwritten. Others may open it, too."""
        return start_opening(self._path, access_mode, IRandomAccessStream)

    def open_read_async(self) -> AsyncOperation[IRandomAccessStreamWithContentType]:
        """Opens the file for reading."""
        return start_opening(
            self._path, FileAccessMode.READ, lambda file: IRandomAccessStreamWithContentType(file, self.content_type)
        )

    open_sequential_read_async = open_read_async

    def read(self) -> bytes:
        """All bytes: a file can be passed wherever a binary stream can."""
        return require_existing(self._path, "file").read_bytes()


class StorageFolder(IStorageItem):
    """A folder that exists."""

    @classmethod
    def get_folder_from_path_async(cls, path: str | os.PathLike[str], /) -> AsyncOperation[StorageFolder]:
        """Looks up a folder. Unlike on Windows, the path may be relative."""
        return start(lambda: cls(require_existing(Path(path).absolute(), "folder")))

    def get_file_async(self, name: str, /) -> AsyncOperation[StorageFile]:
        """A file in the folder, by its name."""
        return start(lambda: StorageFile(require_existing(self._require_inner_path(name), "file")))

    def create_file_async(
        self, name: str, option: CreationCollisionOption = CreationCollisionOption.FAIL_IF_EXISTS, /
    ) -> AsyncOperation[StorageFile]:
        """An empty file in the folder, or the existing one, as `option` states."""
        return start(lambda: self._create(name, require_member(CreationCollisionOption, option, "The option")))

    create_file_async_overload_default_options = create_file_async  # pywinrt 3's name

    def _create(self, name: str, option: CreationCollisionOption) -> StorageFile:
        path = self._require_inner_path(name)
        modes = {CreationCollisionOption.REPLACE_EXISTING: "wb", CreationCollisionOption.OPEN_IF_EXISTS: "ab"}
        try:
            path.open(modes.get(option, "xb")).close()
        except FileExistsError as error:
            hint = "Pass CreationCollisionOption.REPLACE_EXISTING to overwrite it."
            raise StorageExistsError(f"The file {path} already exists.", hint=hint) from error
        return StorageFile(path)

    def _require_inner_path(self, name: str) -> Path:
        path = self._path / name
        if name in ("", "..") or path.parent != self._path:
            hint = "Leave folders out."
            raise InvalidArgumentError(f"{name!r} is not the name of a file in {self._path}.", hint=hint)
        return path
