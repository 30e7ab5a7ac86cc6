"""Streams: bytes with a position, in memory or in a file; and what reads and writes them."""

from __future__ import annotations

import io
import threading
from enum import IntEnum
from typing import Any, BinaryIO, Protocol

from ....core.base.arguments import whole_number
from ....core.base.async_operation import AsyncOperation
from ....core.base.buffers import Buffer, byte_view
from ....core.base.winrt_object import Closeable
from ....errors import E_BOUNDS, ClosedError, InvalidArgumentError


def used_bytes(buffer: object) -> memoryview:
    """The bytes of a buffer; of a `Buffer`, those in use."""
    memory = byte_view(buffer)
    return memory[: buffer.length] if isinstance(buffer, Buffer) else memory


class InputStreamOptions(IntEnum):
    """How eagerly a stream reads: here, always as much as was asked for."""

    NONE = 0
    PARTIAL = 1
    READ_AHEAD = 2


class _SharedFile:
    """An open file that several streams read and write; it is closed when the last of them is."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.lock = threading.Lock()

    def __del__(self) -> None:
        self.file.close()


class IRandomAccessStream(Closeable):
    """Bytes with a position. Streams over the same file or memory share the bytes, and have a position each.

    It has `read`, as Python's binary streams have, so models and pictures load from it.
    """

    def __init__(self, file: BinaryIO | _SharedFile) -> None:
        """Over an open binary file, which is closed with the last stream that shares it."""
        self._shared: _SharedFile | None = file if isinstance(file, _SharedFile) else _SharedFile(file)
        self._position = 0

    def _open(self) -> _SharedFile:
        shared = self._shared
        if shared is None:
            raise ClosedError("The stream has been closed.", hint="Open it again.")
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
        """Bytes in the stream; setting it cuts them off, or adds zeros."""
        shared = self._open()
        with shared.lock:
            return shared.file.seek(0, io.SEEK_END)

    @size.setter
    def size(self, size: int) -> None:
        self._require_writable()
        shared = self._open()
        with shared.lock:
            current = shared.file.seek(0, io.SEEK_END)
            shared.file.write(bytes(max(0, size - current)))
            shared.file.truncate(size)
            shared.file.flush()

    def seek(self, position: int, /) -> None:
        """Goes to a position."""
        self._position = whole_number(position, "The position")

    def read(self, count: int = -1, /) -> bytes:
        """The next bytes, or all that are left."""
        shared = self._open()
        with shared.lock:
            shared.file.seek(self._position)
            data = shared.file.read(count)
            self._position += len(data)
        return data

    def write(self, data: object, /) -> int:
        """Writes bytes at the position, and says how many.

        Raises:
            InvalidArgumentError: the stream was opened for reading.
        """
        self._require_writable()
        shared = self._open()
        with shared.lock:
            shared.file.seek(self._position)
            written = shared.file.write(byte_view(data))
            shared.file.flush()
            self._position += written
        return written

    def _require_writable(self) -> None:
        if not self.can_write:
            raise InvalidArgumentError("The stream cannot be written to.", hint="Open it with READ_WRITE.")

    def read_async(
        self, buffer: object, count: int, options: InputStreamOptions = InputStreamOptions.NONE, /
    ) -> AsyncOperation[Any]:
        """Reads into a buffer, and gives the buffer; the length of a `Buffer` is then the number of bytes read."""
        return AsyncOperation(lambda _: self._read_into(buffer, count))

    def _read_into(self, buffer: object, count: int) -> Any:
        room = byte_view(buffer)
        if count > len(room):
            raise InvalidArgumentError(f"The buffer has room for {len(room)} bytes, not for {count}.")
        data = self.read(count)
        room[: len(data)] = data
        if isinstance(buffer, Buffer):
            buffer.length = len(data)
        return buffer

    def write_async(self, buffer: object, /) -> AsyncOperation[int]:
        """Writes a buffer at the position; of a `Buffer`, the bytes in use."""
        return AsyncOperation(lambda _: self.write(used_bytes(buffer)))

    def flush_async(self) -> AsyncOperation[bool]:
        """True: nothing waits to be written."""
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
        """Closes it; the others over the same bytes stay open. Twice is harmless."""
        self._shared = None


class InMemoryRandomAccessStream(IRandomAccessStream):
    """A stream over memory of its own, empty at first."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())


class _Readable(Protocol):
    def read(self) -> bytes: ...


class RandomAccessStreamReference:
    """Refers to bytes that are opened later: what `LearningModel.load_from_stream` takes.

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

    def open_read_async(self) -> AsyncOperation[IRandomAccessStream]:
        """A stream over a copy of the bytes."""
        return AsyncOperation(lambda _: IRandomAccessStream(io.BytesIO(self.read())))


# DataReader and DataWriter: numbers, texts and bytes, from a stream and to one.


class _StreamUser(Closeable):
    """Holds a stream until it is detached."""

    __slots__ = ("_stream",)

    def __init__(self, stream: IRandomAccessStream | None) -> None:
        self._stream = stream

    def _attached(self, message: str, hint: str) -> IRandomAccessStream:
        if self._stream is None:
            raise ClosedError(message, hint=hint)
        return self._stream

    def detach_stream(self) -> IRandomAccessStream | None:
        """The stream, which is then no longer closed from here."""
        stream, self._stream = self._stream, None
        return stream

    def close(self) -> None:
        """Closes the stream, unless it has been detached. Twice is harmless."""
        if self._stream is not None:
            self._stream.close()


class DataReader(_StreamUser):
    """Reads from a stream, in two steps: `load_async` fetches bytes, `read_...` takes them.

    Example:
        >>> from winml_py.winrt.windows.storage.streams import DataReader
        >>> DataReader.from_buffer(b"Windows").read_string(3)
        'Win'
    """

    __slots__ = ("_loaded",)

    def __init__(self, input_stream: IRandomAccessStream, /) -> None:
        super().__init__(input_stream)
        self._loaded = b""

    @classmethod
    def from_buffer(cls, buffer: object, /) -> DataReader:
        """A reader of a buffer, loaded with all of it."""
        reader = cls(InMemoryRandomAccessStream())
        reader._loaded = bytes(used_bytes(buffer))
        return reader

    @property
    def unconsumed_buffer_length(self) -> int:
        """Bytes loaded and not taken yet."""
        return len(self._loaded)

    def load_async(self, count: int, /) -> AsyncOperation[int]:
        """Fetches bytes, and gives their number."""
        return AsyncOperation(lambda _: self._load(count))

    def _load(self, count: int) -> int:
        stream = self._attached("The reader has no stream.", "Make another.")
        data = stream.read(whole_number(count, "The number of bytes"))
        self._loaded += data
        return len(data)

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._loaded):
            raise InvalidArgumentError(
                f"{count} bytes are asked for, and {len(self._loaded)} loaded.",
                hint="Await load_async(count) first.",
                hresult=E_BOUNDS,
            )
        taken, self._loaded = self._loaded[:count], self._loaded[count:]
        return taken

    def read_bytes(self, value: object, /) -> None:
        """Fills a writable buffer.

        Raises:
            InvalidArgumentError: fewer bytes are loaded.
        """
        room = byte_view(value)
        room[:] = self._take(len(room))

    def read_buffer(self, length: int, /) -> Buffer:
        """The next bytes, as a buffer."""
        return Buffer.of(self._take(length))

    def read_byte(self) -> int:
        """The next byte."""
        return self._take(1)[0]

    def read_string(self, length: int, /) -> str:
        """The next bytes, as UTF-8."""
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(f"The bytes are not UTF-8: {error}.") from error


class DataWriter(_StreamUser):
    """Writes to a stream, in two steps: `write_...` collects bytes, `store_async` writes them.

    Example:
        >>> from winml_py.winrt.windows.storage.streams import DataWriter, InMemoryRandomAccessStream
        >>> stream = InMemoryRandomAccessStream()
        >>> writer = DataWriter(stream)
        >>> writer.write_bytes(b"ONNX")
        >>> writer.store_async().get(), stream.size
        (4, 4)
    """

    __slots__ = ("_collected",)

    def __init__(self, output_stream: IRandomAccessStream | None = None, /) -> None:
        super().__init__(output_stream)
        self._collected = bytearray()

    @property
    def unstored_buffer_length(self) -> int:
        """Bytes collected and not written yet."""
        return len(self._collected)

    def write_bytes(self, value: object, /) -> None:
        """Collects the bytes of a buffer."""
        self._collected += byte_view(value)

    def write_buffer(self, buffer: object, /) -> None:
        """Collects the bytes of a buffer; of a `Buffer`, those in use."""
        self._collected += used_bytes(buffer)

    def write_byte(self, value: int, /) -> None:
        """Collects a byte."""
        self._collected.append(whole_number(value, "The byte", most=255))

    def write_string(self, value: str, /) -> int:
        """Collects a text as UTF-8, and gives the number of bytes."""
        data = value.encode()
        self._collected += data
        return len(data)

    def store_async(self) -> AsyncOperation[int]:
        """Writes the collected bytes, and gives their number."""
        hint = "Make one with a stream, or use detach_buffer()."
        return AsyncOperation(lambda _: self._attached("The writer has no stream.", hint).write(self.detach_buffer()))

    def flush_async(self) -> AsyncOperation[bool]:
        """True: nothing waits once it is stored."""
        return AsyncOperation(lambda _: True)

    def detach_buffer(self) -> Buffer:
        """The collected bytes, which the writer then lets go of."""
        data, self._collected = self._collected, bytearray()
        return Buffer.of(data)
