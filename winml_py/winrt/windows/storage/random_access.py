"""How files are opened; streams: bytes with a position, in memory or in a file; and references to bytes."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from ....core.base.arguments import require_member, require_whole_number
from ....core.base.async_operation import AsyncOperation
from ....core.base.buffers import Buffer, view_as_bytes
from ....core.base.winrt_object import Closeable
from ....errors import ClosedError, InvalidArgumentError, StorageAccessError, StorageNotFoundError, WinMLError

T = TypeVar("T")


class FileAccessMode(IntEnum):
    """What a file is opened for."""

    READ = 0
    READ_WRITE = 1


class CreationCollisionOption(IntEnum):
    """What to do if a file of that name exists."""

    REPLACE_EXISTING = 1
    FAIL_IF_EXISTS = 2
    OPEN_IF_EXISTS = 3


def start(work: Callable[[], T]) -> AsyncOperation[T]:
    """Starts work on files; translates the system's errors to ours."""

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


def require_existing(path: Path, kind: str) -> Path:
    """The path itself, if the file or folder exists; StorageNotFoundError otherwise."""
    if not (path.is_file() if kind == "file" else path.is_dir()):
        raise StorageNotFoundError(f"There is no {kind} {path}.", hint="Check the path.")
    return path


def start_opening(path: Path, access_mode: FileAccessMode, make: Callable[[BinaryIO], T]) -> AsyncOperation[T]:
    """Opens an existing file, and makes a stream of it."""
    is_read = require_member(FileAccessMode, access_mode, "The access mode") == FileAccessMode.READ
    return start(lambda: make(require_existing(path, "file").open("rb" if is_read else "r+b")))


# The bytes passed to a stream.


def view_used_bytes(buffer: object) -> memoryview:
    """The bytes of a buffer; for a `Buffer`, those in use."""
    memory = view_as_bytes(buffer)
    return memory[: buffer.length] if isinstance(buffer, Buffer) else memory


def view_bytes(value: object) -> memoryview:
    """The bytes of a buffer, for a `Buffer` those in use; or of a list of numbers, as older programs pass them."""
    if not isinstance(value, (list, tuple)):
        return view_used_bytes(value)
    try:
        return memoryview(bytes(value))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"Expected bytes: {error}.") from error


class InputStreamOptions(IntFlag):
    """How eagerly a stream reads: here, always as much as requested."""

    NONE = 0
    PARTIAL = 1
    READ_AHEAD = 2


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
    def can_read(self) -> bool:
        """Whether it can be read from."""
        return self._open().file.readable()

    @property
    def can_write(self) -> bool:
        """Whether it can be written to."""
        return self._open().file.writable()

    @property
    def position(self) -> int:
        """The position at which the next byte is read or written."""
        return self._position

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
        """Writes bytes at the position; returns how many."""
        shared = self._open(to_write=True)
        with shared.lock:
            shared.file.seek(self._position)
            written = shared.file.write(view_as_bytes(data))
            shared.file.flush()
            self._position += written
        return written

    def read_async(
        self, buffer: object, count: int, options: InputStreamOptions = InputStreamOptions.NONE, /
    ) -> AsyncOperation[Any]:
        """Reads into a buffer, and returns the buffer; the length of a `Buffer` is then the number of bytes read."""
        return AsyncOperation(lambda _: self._read_into(buffer, count))

    def _read_into(self, buffer: object, count: int) -> Any:
        room = view_as_bytes(buffer)
        data = self.read(require_whole_number(count, "The number of bytes", most=len(room)))
        room[: len(data)] = data
        if isinstance(buffer, Buffer):
            buffer.length = len(data)
        return buffer

    def write_async(self, buffer: object, /) -> AsyncOperation[int]:
        """Writes a buffer at the position; for a `Buffer`, the bytes in use."""
        return AsyncOperation(lambda _: self.write(view_used_bytes(buffer)))

    def flush_async(self) -> AsyncOperation[bool]:
        """Always True: nothing waits to be written."""
        self._open()
        return AsyncOperation(lambda _: True)

    def clone_stream(self) -> IRandomAccessStream:
        """Another stream over the same bytes, at the start."""
        return IRandomAccessStream(self._open())

    def get_input_stream_at(self, position: int, /) -> IRandomAccessStream:
        """Another stream over the same bytes, at a position."""
        stream = self.clone_stream()
        stream.seek(position)
        return stream

    get_output_stream_at = get_input_stream_at

    def close(self) -> None:
        """Closes it; other streams over the same bytes stay open. A second call does nothing."""
        self._shared = None


class InMemoryRandomAccessStream(IRandomAccessStream):
    """A stream over new memory, empty at first."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())


class IRandomAccessStreamWithContentType(IRandomAccessStream):
    """A stream that states what kind of file its bytes are.

    Attributes:
        content_type: the MIME type, or "".
    """

    def __init__(self, file: BinaryIO, content_type: str) -> None:
        """Over an open binary file."""
        super().__init__(file)
        self.content_type = content_type


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
    def copy_async(
        source: IRandomAccessStream, destination: IRandomAccessStream, bytes_to_copy: int | None = None, /
    ) -> AsyncOperation[int]:
        """Copies the rest of a stream, or this many bytes of it, and returns their number."""
        count = -1 if bytes_to_copy is None else require_whole_number(bytes_to_copy, "The number of bytes")
        return AsyncOperation(lambda _: destination.write(source.read(count)))

    copy_size_async = copy_async  # pywinrt 3's name


class _Readable(Protocol):
    def read(self) -> bytes: ...


class RandomAccessStreamReference:
    """Refers to bytes that are opened later; `LearningModel.load_from_stream` takes it.

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

    def open_read_async(self) -> AsyncOperation[IRandomAccessStreamWithContentType]:
        """A stream over a copy of the bytes."""
        kind = getattr(self._source, "content_type", "")
        return start(lambda: IRandomAccessStreamWithContentType(io.BytesIO(self.read()), kind))
