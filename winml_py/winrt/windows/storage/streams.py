"""Windows.Storage.Streams: bytes with a position, in memory or in a file, and what reads and writes them."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from ....core.base.arguments import require_member, require_whole_number
from ....core.base.async_operation import AsyncOperation
from ....core.base.buffers import Buffer as Buffer
from ....core.base.buffers import view_as_bytes, view_used_bytes
from ....core.base.winrt_object import Closeable
from ....errors import (
    E_BOUNDS,
    ClosedError,
    InvalidArgumentError,
    StorageAccessError,
    StorageNotFoundError,
    WinMLError,
)

__all__ = [
    "Buffer",
    "DataReader",
    "DataWriter",
    "FileRandomAccessStream",
    "IBuffer",
    "IInputStream",
    "IOutputStream",
    "IRandomAccessStream",
    "IRandomAccessStreamReference",
    "InMemoryRandomAccessStream",
    "RandomAccessStream",
    "RandomAccessStreamReference",
]

T = TypeVar("T")


class FileAccessMode(IntEnum):
    """What a file is opened for."""

    READ = 0
    READ_WRITE = 1


def start(work: Callable[[], T]) -> AsyncOperation[T]:
    """Starts work on files; translates the system's errors to ours."""

    def run() -> T:
        try:
            return work()
        except WinMLError:
            raise
        except FileNotFoundError as error:
            raise StorageNotFoundError(f"The file {error.filename} does not exist.", hint="Check the path.") from error
        except OSError as error:
            raise StorageAccessError(f"{error.filename or 'The file'}: {error.strerror or error}.") from error

    return AsyncOperation(lambda _: run())


def require_existing(path: Path, kind: str) -> Path:
    """The path itself, if the file or folder exists; StorageNotFoundError otherwise."""
    if not (path.is_file() if kind == "file" else path.is_dir()):
        raise StorageNotFoundError(f"The {kind} {path} does not exist.", hint="Check the path.")
    return path


def start_opening(path: Path, access_mode: FileAccessMode, make: Callable[[BinaryIO], T]) -> AsyncOperation[T]:
    """Opens an existing file, and makes a stream of it."""
    is_read = require_member(FileAccessMode, access_mode, "The access mode") == FileAccessMode.READ
    return start(lambda: make(require_existing(path, "file").open("rb" if is_read else "r+b")))


class _SharedFile:
    """An open file that several streams read and write; it is closed with the last of them."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.lock = threading.Lock()

    def __del__(self) -> None:
        self.file.close()


class IRandomAccessStream(Closeable):
    """Bytes with a position. Streams over the same file or memory share the bytes, but not the position.

    It has `read`, like Python's binary streams, so models and pictures load from it.
    """

    def __init__(self, file: BinaryIO | _SharedFile) -> None:
        """Over an open binary file, which is closed with the last stream that shares it."""
        self._shared: _SharedFile | None = file if isinstance(file, _SharedFile) else _SharedFile(file)
        self._position = 0

    def _open(self, to_write: bool = False) -> _SharedFile:
        shared = self._shared
        if shared is None:
            raise ClosedError("The stream has been closed.", hint="Open it again.")
        if to_write and not shared.file.writable():
            raise InvalidArgumentError("The stream cannot be written to.", hint="Open it with READ_WRITE.")
        return shared

    @property
    def size(self) -> int:
        """Bytes in the stream; setting it truncates them, or adds zeros."""
        shared = self._open()
        with shared.lock:
            return shared.file.seek(0, io.SEEK_END)

    @size.setter
    def size(self, size: int) -> None:
        size = require_whole_number(size, "The size")
        shared = self._open(to_write=True)
        with shared.lock:
            current = shared.file.seek(0, io.SEEK_END)
            shared.file.write(bytes(max(0, size - current)))
            shared.file.truncate(size)
            shared.file.flush()

    def seek(self, position: int, /) -> None:
        """Moves to a position."""
        self._position = require_whole_number(position, "The position")

    def read(self, count: int = -1, /) -> bytes:
        """The next bytes, or all that remain."""
        shared = self._open()
        with shared.lock:
            shared.file.seek(self._position)
            data = shared.file.read(count)
            self._position += len(data)
        return data

    def write(self, data: object, /) -> int:
        """Writes bytes at the position, of a `Buffer` those in use; returns how many."""
        shared = self._open(to_write=True)
        with shared.lock:
            shared.file.seek(self._position)
            written = shared.file.write(view_used_bytes(data))
            shared.file.flush()
            self._position += written
        return written

    def clone_stream(self) -> IRandomAccessStream:
        """Another stream over the same bytes, at the start."""
        return IRandomAccessStream(self._open())

    def get_input_stream_at(self, position: int, /) -> IRandomAccessStream:
        """Another stream over the same bytes, at a position."""
        stream = self.clone_stream()
        stream.seek(position)
        return stream

    def close(self) -> None:
        """Closes it; other streams over the same bytes stay open. A second call does nothing."""
        self._shared = None


class InMemoryRandomAccessStream(IRandomAccessStream):
    """A stream over new memory, empty at first."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())


class FileRandomAccessStream(IRandomAccessStream):
    """A stream over a file, opened by its path."""

    @classmethod
    def open_async(
        cls, file_path: str | os.PathLike[str], access_mode: FileAccessMode, /
    ) -> AsyncOperation[FileRandomAccessStream]:
        """Opens an existing file, which others may open, too. Unlike on Windows, the path may be relative."""
        return start_opening(Path(file_path).absolute(), access_mode, cls)


class RandomAccessStream:
    """Copies bytes from one stream to another, each from its position."""

    @staticmethod
    def copy_async(source: IRandomAccessStream, destination: IRandomAccessStream, /) -> AsyncOperation[int]:
        """Copies the rest of a stream, and returns the number of bytes."""
        return AsyncOperation(lambda _: destination.write(source.read()))


class _Readable(Protocol):
    def read(self) -> bytes: ...


class RandomAccessStreamReference:
    """Refers to bytes that are read later; `LearningModel.load_from_stream` takes it.

    Example:
        >>> from winml_py import LearningModel
        >>> from winml_py.winrt.windows.storage import StorageFile
        >>> from winml_py.winrt.windows.storage.streams import RandomAccessStreamReference
        >>> file = StorageFile.get_file_from_path_async("models/digits.onnx").get()
        >>> LearningModel.load_from_stream(RandomAccessStreamReference.create_from_file(file)).name
        'digits'
    """

    def __init__(self, source: _Readable) -> None:
        """Use `create_from_file` or `create_from_stream`."""
        self._source = source

    @classmethod
    def create_from_file(cls, source: _Readable, /) -> RandomAccessStreamReference:
        """A reference to a `StorageFile`, which is opened for each read, or to a stream's bytes, from its start."""
        return cls(source)

    create_from_stream = create_from_file

    def read(self) -> bytes:
        """All bytes."""
        source = self._source
        return source.clone_stream().read() if isinstance(source, IRandomAccessStream) else source.read()


class DataReader:
    """Reads from a stream, in two steps: `load_async` fetches bytes, `read_bytes` takes them."""

    def __init__(self, input_stream: IRandomAccessStream, /) -> None:
        self._stream = input_stream
        self._loaded = b""

    @property
    def unconsumed_buffer_length(self) -> int:
        """Bytes loaded and not taken yet."""
        return len(self._loaded)

    def load_async(self, count: int, /) -> AsyncOperation[int]:
        """Fetches bytes, and returns their number."""
        return AsyncOperation(lambda _: self._load(count))

    def _load(self, count: int) -> int:
        data = self._stream.read(require_whole_number(count, "The number of bytes"))
        self._loaded += data
        return len(data)

    def read_bytes(self, value: object, /) -> None:
        """Fills a writable buffer with the next bytes."""
        room = view_as_bytes(value)
        if len(room) > len(self._loaded):
            raise InvalidArgumentError(
                f"Expected {len(room)} bytes, but {len(self._loaded)} are loaded.",
                hint="Await load_async(count) first.",
                hresult=E_BOUNDS,
            )
        room[:] = self._loaded[: len(room)]
        if isinstance(value, Buffer):
            value.length = len(room)
        self._loaded = self._loaded[len(room) :]


class DataWriter:
    """Writes to a stream, in two steps: `write_...` collects bytes, `store_async` writes them.

    Example:
        >>> from winml_py.winrt.windows.storage.streams import DataWriter, InMemoryRandomAccessStream
        >>> stream = InMemoryRandomAccessStream()
        >>> writer = DataWriter(stream)
        >>> writer.write_bytes(b"ONNX")
        >>> writer.store_async().get(), stream.size
        (4, 4)
    """

    def __init__(self, output_stream: IRandomAccessStream, /) -> None:
        self._stream = output_stream
        self._collected = bytearray()

    def write_bytes(self, value: object, /) -> None:
        """Collects the bytes of a buffer."""
        self._collected += view_used_bytes(value)

    def write_string(self, value: str, /) -> int:
        """Collects a text in UTF-8, and returns the number of bytes."""
        try:
            data = value.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(f"The text cannot be written: {error}.") from error
        self._collected += data
        return len(data)

    def store_async(self) -> AsyncOperation[int]:
        """Writes the collected bytes, and returns their number."""
        data, self._collected = self._collected, bytearray()
        return AsyncOperation(lambda _: self._stream.write(data))

    def flush_async(self) -> AsyncOperation[bool]:
        """Always True: nothing waits once it is stored."""
        return AsyncOperation(lambda _: True)

    def detach_stream(self) -> IRandomAccessStream:
        """The stream. A writer never closes it."""
        return self._stream


IBuffer = Buffer
IInputStream = IOutputStream = IRandomAccessStream
IRandomAccessStreamReference = RandomAccessStreamReference
