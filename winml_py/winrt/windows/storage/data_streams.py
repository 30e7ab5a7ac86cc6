"""DataReader and DataWriter: read bytes and text from a stream, and write them to one."""

from __future__ import annotations

from enum import IntEnum

from ....core.base.arguments import require_member, require_whole_number
from ....core.base.async_operation import AsyncOperation
from ....core.base.buffers import Buffer, view_as_bytes
from ....core.base.winrt_object import Closeable
from ....errors import E_BOUNDS, ClosedError, InvalidArgumentError
from .random_access import (
    InMemoryRandomAccessStream,
    InputStreamOptions,
    IRandomAccessStream,
    view_bytes,
    view_used_bytes,
)


class UnicodeEncoding(IntEnum):
    """How text is encoded as bytes."""

    UTF8 = 0
    UTF16_L_E = 1
    UTF16_B_E = 2


_CODECS = {
    UnicodeEncoding.UTF8: "utf-8",
    UnicodeEncoding.UTF16_L_E: "utf-16-le",
    UnicodeEncoding.UTF16_B_E: "utf-16-be",
}


def encode_text(text: str, encoding: UnicodeEncoding) -> bytes:
    """A text as bytes."""
    try:
        return text.encode(_CODECS[require_member(UnicodeEncoding, encoding, "The encoding")])
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"The text cannot be written: {error}.") from error


def decode_text(data: bytes, encoding: UnicodeEncoding) -> str:
    """The text in bytes; InvalidArgumentError if they are not of that encoding."""
    codec = _CODECS[require_member(UnicodeEncoding, encoding, "The encoding")]
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"The bytes are not {codec.upper()}: {error}.") from error


class _StreamUser(Closeable):
    """Holds a stream until it is detached, and states how text is encoded there."""

    __slots__ = ("_stream", "_unicode_encoding")

    def __init__(self, stream: IRandomAccessStream | None) -> None:
        self._stream = stream
        self._unicode_encoding = UnicodeEncoding.UTF8

    @property
    def unicode_encoding(self) -> UnicodeEncoding:
        """How text is encoded: initially UTF-8."""
        return self._unicode_encoding

    @unicode_encoding.setter
    def unicode_encoding(self, encoding: UnicodeEncoding) -> None:
        self._unicode_encoding = require_member(UnicodeEncoding, encoding, "The encoding")

    def _require_stream(self, message: str, hint: str) -> IRandomAccessStream:
        if self._stream is None:
            raise ClosedError(message, hint=hint)
        return self._stream

    def detach_stream(self) -> IRandomAccessStream | None:
        """The stream, which `close` then leaves open."""
        stream, self._stream = self._stream, None
        return stream

    def close(self) -> None:
        """Closes the stream, unless it has been detached. A second call does nothing."""
        if self._stream is not None:
            self._stream.close()


class DataReader(_StreamUser):
    """Reads from a stream, in two steps: `load_async` fetches bytes, `read_...` takes them.

    Example:
        >>> from winml_py.winrt.windows.storage.streams import DataReader
        >>> reader = DataReader.from_buffer(b"Windows" + bytes([11]))
        >>> reader.read_string(7), reader.read_byte()
        ('Windows', 11)
    """

    __slots__ = ("_loaded", "input_stream_options")

    def __init__(self, input_stream: IRandomAccessStream, /) -> None:
        super().__init__(input_stream)
        self.input_stream_options = InputStreamOptions.NONE
        self._loaded = b""

    @classmethod
    def from_buffer(cls, buffer: object, /) -> DataReader:
        """A reader of a buffer, loaded with all of it."""
        reader = cls(InMemoryRandomAccessStream())
        reader._loaded = bytes(view_used_bytes(buffer))
        return reader

    @property
    def unconsumed_buffer_length(self) -> int:
        """Bytes loaded and not taken yet."""
        return len(self._loaded)

    def load_async(self, count: int, /) -> AsyncOperation[int]:
        """Fetches bytes, and returns their number."""
        return AsyncOperation(lambda _: self._load(count))

    def _load(self, count: int) -> int:
        stream = self._require_stream("The reader has no stream.", "Make another.")
        data = stream.read(require_whole_number(count, "The number of bytes"))
        self._loaded += data
        return len(data)

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._loaded):
            raise InvalidArgumentError(
                f"Expected {count} bytes, but {len(self._loaded)} are loaded.",
                hint="Await load_async(count) first.",
                hresult=E_BOUNDS,
            )
        taken, self._loaded = self._loaded[:count], self._loaded[count:]
        return taken

    def detach_buffer(self) -> Buffer:
        """The bytes loaded and not taken yet, which the reader then releases."""
        return Buffer.from_bytes(self._take(len(self._loaded)))

    def read_bytes(self, value: object, /) -> None:
        """Fills a writable buffer with the next bytes."""
        room = view_as_bytes(value)
        room[:] = self._take(len(room))

    def read_buffer(self, length: int, /) -> Buffer:
        """The next bytes, as a buffer."""
        return Buffer.from_bytes(self._take(length))

    def read_byte(self) -> int:
        """The next byte."""
        return self._take(1)[0]

    def read_string(self, code_unit_count: int, /) -> str:
        """The next bytes as text: this many bytes in UTF-8, or pairs of bytes in UTF-16."""
        width = 1 if self._unicode_encoding == UnicodeEncoding.UTF8 else 2
        return decode_text(self._take(code_unit_count * width), self._unicode_encoding)


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
        """Collects the bytes of a buffer, or a list of them."""
        self._collected += view_bytes(value)

    def write_buffer(self, buffer: object, start: int = 0, count: int | None = None, /) -> None:
        """Collects `count` bytes of a buffer from `start` on; by default all, for a `Buffer` those in use."""
        data = view_used_bytes(buffer)
        first = require_whole_number(start, "The start", most=len(data))
        rest = len(data) - first
        wanted = rest if count is None else require_whole_number(count, "The number of bytes", most=rest)
        self._collected += data[first : first + wanted]

    write_buffer_range = write_buffer  # pywinrt 3's name

    def write_byte(self, value: int, /) -> None:
        """Collects a byte."""
        self._collected.append(require_whole_number(value, "The byte", most=255))

    def measure_string(self, value: str, /) -> int:
        """The number of bytes of a text."""
        return len(encode_text(value, self._unicode_encoding))

    def write_string(self, value: str, /) -> int:
        """Collects a text, and returns the number of bytes."""
        data = encode_text(value, self._unicode_encoding)
        self._collected += data
        return len(data)

    def store_async(self) -> AsyncOperation[int]:
        """Writes the collected bytes, and returns their number."""
        return AsyncOperation(lambda _: self._store())

    def _store(self) -> int:
        stream = self._require_stream("The writer has no stream.", "Make one with a stream, or use detach_buffer().")
        return stream.write(self.detach_buffer())

    def flush_async(self) -> AsyncOperation[bool]:
        """Always True: nothing waits once it is stored."""
        return AsyncOperation(lambda _: True)

    def detach_buffer(self) -> Buffer:
        """The collected bytes, which the writer then releases."""
        data, self._collected = self._collected, bytearray()
        return Buffer.from_bytes(data)
