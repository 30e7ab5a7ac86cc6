"""Windows.Storage: files and folders, as far as programs open pictures and models through them."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

from ....core.base.arguments import member
from ....core.base.async_operation import AsyncOperation
from ....core.base.atomic_files import written_whole
from ....core.base.buffers import Buffer
from ....core.base.winrt_object import Object
from ....errors import InvalidArgumentError, StorageAccessError, StorageExistsError, StorageNotFoundError, WinMLError
from ..foundation import Uri
from .random_access import IRandomAccessStream

T = TypeVar("T")


class FileAccessMode(IntEnum):
    """What a file is opened for."""

    READ = 0
    READ_WRITE = 1


class CreationCollisionOption(IntEnum):
    """What to do where a file of the name exists."""

    GENERATE_UNIQUE_NAME = 0
    REPLACE_EXISTING = 1
    FAIL_IF_EXISTS = 2
    OPEN_IF_EXISTS = 3


class StorageDeleteOption(IntEnum):
    """Whether a deleted file goes to a recycle bin: here it never does."""

    DEFAULT = 0
    PERMANENT_DELETE = 1


class _StorageItem(Object):
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


def _application_path(uri: Uri) -> Path:
    if uri.scheme_name != "ms-appx" or uri.host:
        raise InvalidArgumentError(f"{uri} is no file of the application.", hint="Write ms-appx:///model.onnx.")
    script = getattr(sys.modules["__main__"], "__file__", None)  # an interactive Python has none
    folder = Path(script).absolute().parent if script else Path.cwd()
    return folder / unquote(uri.path).lstrip("/")


class StorageFile(_StorageItem):
    """A file that exists.

    Example:
        >>> from winml_py.winrt.windows.storage import StorageFile
        >>> StorageFile.get_file_from_path_async("models/digits.onnx").get().file_type
        '.onnx'
    """

    @classmethod
    def get_file_from_path_async(cls, path: str | os.PathLike[str], /) -> AsyncOperation[StorageFile]:
        """Looks a file up. Unlike on Windows, the path may be relative.

        Raises:
            StorageNotFoundError: there is no such file; raised by the operation.
        """
        return _start(lambda: cls(_existing(Path(path).absolute(), "file")))

    @classmethod
    def get_file_from_application_uri_async(cls, uri: Uri, /) -> AsyncOperation[StorageFile]:
        """Looks a file of the program's own up: `ms-appx:///` is the folder of the script that runs.

        Raises:
            InvalidArgumentError: the URI has another scheme; raised by the operation.
            StorageNotFoundError: there is no such file; raised by the operation.
        """
        return _start(lambda: cls(_existing(_application_path(uri), "file")))

    @property
    def display_name(self) -> str:
        """The name without its ending."""
        return self._path.stem

    @property
    def file_type(self) -> str:
        """The ending, with its dot."""
        return self._path.suffix

    @property
    def is_available(self) -> bool:
        """Whether the file is still there."""
        return self._path.is_file()

    def open_async(self, access_mode: FileAccessMode, /) -> AsyncOperation[IRandomAccessStream]:
        """Opens the file; with `READ_WRITE`, its contents stay until they are overwritten."""
        is_read = member(FileAccessMode, access_mode, "The access mode") == FileAccessMode.READ
        mode: Literal["rb", "r+b"] = "rb" if is_read else "r+b"
        return _start(lambda: IRandomAccessStream(_existing(self._path, "file").open(mode)))

    def open_read_async(self) -> AsyncOperation[IRandomAccessStream]:
        """Opens the file for reading."""
        return self.open_async(FileAccessMode.READ)

    def read(self) -> bytes:
        """All bytes: a file can be passed wherever a binary stream can."""
        return _existing(self._path, "file").read_bytes()

    def delete_async(self, option: StorageDeleteOption = StorageDeleteOption.DEFAULT, /) -> AsyncOperation[None]:
        """Deletes the file."""
        return _start(lambda: self._path.unlink())

    def get_parent_async(self) -> AsyncOperation[StorageFolder]:
        """The folder it lies in."""
        return StorageFolder.get_folder_from_path_async(self._path.parent)


class StorageFolder(_StorageItem):
    """A folder that exists."""

    @classmethod
    def get_folder_from_path_async(cls, path: str | os.PathLike[str], /) -> AsyncOperation[StorageFolder]:
        """Looks a folder up. Unlike on Windows, the path may be relative.

        Raises:
            StorageNotFoundError: there is no such folder; raised by the operation.
        """
        return _start(lambda: cls(_existing(Path(path).absolute(), "folder")))

    def get_file_async(self, name: str, /) -> AsyncOperation[StorageFile]:
        """A file in the folder."""
        return _start(lambda: StorageFile(_existing(self._inside(name), "file")))

    def get_files_async(self) -> AsyncOperation[list[StorageFile]]:
        """The files in the folder, by name."""
        return _start(lambda: [StorageFile(path) for path in sorted(self._path.iterdir()) if path.is_file()])

    def create_file_async(
        self, name: str, option: CreationCollisionOption = CreationCollisionOption.FAIL_IF_EXISTS, /
    ) -> AsyncOperation[StorageFile]:
        """An empty file in the folder, or the one that is there, as `option` says.

        Raises:
            StorageExistsError: there is one, and that is not wanted; raised by the operation.
        """
        return _start(lambda: self._create(name, CreationCollisionOption(option)))

    def _inside(self, name: str) -> Path:
        path = self._path / name
        if not name or path.parent != self._path:
            raise InvalidArgumentError(f"{name!r} is not the name of a file in {self.path}.", hint="Leave folders out.")
        return path

    def _create(self, name: str, option: CreationCollisionOption) -> StorageFile:
        path = self._inside(name)
        if option == CreationCollisionOption.GENERATE_UNIQUE_NAME:
            return StorageFile(_first_free(path))
        if option == CreationCollisionOption.FAIL_IF_EXISTS and not _created(path):
            raise StorageExistsError(f"There is a file {path} already.", hint="Say REPLACE_EXISTING to overwrite it.")
        path.open("wb" if option == CreationCollisionOption.REPLACE_EXISTING else "ab").close()
        return StorageFile(path)


class FileIO:
    """Whole files at once, as text in UTF-8 or as bytes."""

    @staticmethod
    def read_text_async(file: StorageFile, /) -> AsyncOperation[str]:
        """The file's text."""
        return _start(lambda: _text(file))

    @staticmethod
    def read_lines_async(file: StorageFile, /) -> AsyncOperation[list[str]]:
        """The lines of the file's text, without their ends."""
        return _start(lambda: _text(file).splitlines())

    @staticmethod
    def read_buffer_async(file: StorageFile, /) -> AsyncOperation[Buffer]:
        """The file's bytes."""
        return _start(lambda: Buffer.of(file.read()))

    @staticmethod
    def write_text_async(file: StorageFile, contents: str, /) -> AsyncOperation[None]:
        """Replaces the contents of the file by a text."""
        return _start(lambda: _write(file, contents.encode()))

    @staticmethod
    def write_bytes_async(file: StorageFile, contents: Any, /) -> AsyncOperation[None]:
        """Replaces the contents of the file by bytes."""
        return _start(lambda: _write(file, bytes(contents)))

    write_buffer_async = write_bytes_async


def _text(file: StorageFile) -> str:
    try:
        return file.read().decode("utf-8-sig")  # programs on Windows often put a mark before UTF-8
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{file.path} is not text in UTF-8: {error}.") from error


def _write(file: StorageFile, data: bytes) -> None:
    with written_whole(file.path) as target:
        target.write(data)


def _start(work: Callable[[], T]) -> AsyncOperation[T]:
    """Starts work on files; the system's errors become ours."""

    def run() -> T:
        try:
            return work()
        except WinMLError:
            raise
        except FileNotFoundError as error:
            raise StorageNotFoundError(f"There is no file {error.filename}.", hint="Check the path.") from error
        except OSError as error:
            raise StorageAccessError(f"{error.filename or 'The file'}: {error.strerror or error}.") from error

    return AsyncOperation(lambda _: run())


IStorageFile = StorageFile
IStorageFolder = StorageFolder


def _existing(path: Path, kind: str) -> Path:
    if not (path.is_file() if kind == "file" else path.is_dir()):
        raise StorageNotFoundError(f"There is no {kind} {path}.", hint="Check the path.")
    return path


def _created(path: Path) -> bool:
    try:
        # Asked and made in one step: another process may be about to make it, too.
        path.open("xb").close()
    except FileExistsError:
        return False
    return True


def _first_free(path: Path) -> Path:
    """`seven.png`, or `seven (2).png` where there is one, as Windows counts."""
    names = (path if n == 1 else path.with_stem(f"{path.stem} ({n})") for n in itertools.count(1))
    return next(name for name in names if _created(name))
