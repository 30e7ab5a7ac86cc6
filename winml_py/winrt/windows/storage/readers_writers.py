"""DataReader and DataWriter: numbers, texts and bytes, from a stream and to one."""

from __future__ import annotations

from typing import Any

from ....core.base.arguments import whole_number
from ....core.base.async_operation import AsyncOperation
from ....core.base.buffers import Buffer, byte_view
from ....core.base.closeable import Closeable
from ....errors import E_BOUNDS, ClosedError, InvalidArgumentError
from .random_access import InMemoryRandomAccessStream, IRandomAccessStream, used_bytes


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
    def from_buffer(cls, buffer: Any, /) -> DataReader:
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

    def read_bytes(self, value: Any, /) -> None:
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

    def write_bytes(self, value: Any, /) -> None:
        """Collects the bytes of a buffer."""
        self._collected += byte_view(value)

    def write_buffer(self, buffer: Any, /) -> None:
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
