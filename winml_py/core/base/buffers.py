"""Memory as bytes: WinRT's buffers, and its handle to the memory of a tensor or a bitmap."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from ...enums import BitmapBufferAccessMode
from ...errors import ClosedError, InvalidArgumentError
from .arrays import Array
from .winrt_object import Closeable


def view_as_bytes(buffer: Any) -> memoryview:
    """The bytes of a C-contiguous buffer, not copied; raises InvalidArgumentError if the object has none."""
    try:
        memory = memoryview(buffer)
        return memory.cast("B") if memory.nbytes else memoryview(b"")
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"Expected a C-contiguous buffer: {error}.", hint="Pass bytes, a bytearray or a numpy array."
        ) from error


class ByteArray(np.ndarray[Any, np.dtype[np.uint8]]):
    """An array of bytes that binds as a buffer, and not as a tensor of uint8."""

    __slots__ = ()


class Buffer(ByteArray):
    """Bytes, of which the first `length` are in use: an array of uint8, so `memoryview(buffer)` works everywhere."""

    __slots__ = ("_length",)
    _length: int

    def __new__(cls, capacity: int, /) -> Self:  # noqa: D102
        if capacity < 0:
            raise InvalidArgumentError(f"Expected a capacity of 0 bytes or more, got {capacity}.")
        buffer = np.ndarray.__new__(cls, capacity, np.uint8, bytearray(capacity))
        buffer.length = 0
        return buffer

    def __array_finalize__(self, array: Array | None) -> None:
        self._length = self.size

    @classmethod
    def from_bytes(cls, data: object) -> Self:
        """A buffer with a copy of bytes, all in use."""
        memory = view_used_bytes(data)
        buffer = cls(len(memory))
        buffer[:] = memory
        buffer.length = len(memory)
        return buffer

    @property
    def capacity(self) -> int:
        """The size in bytes."""
        return int(self.size)

    @property
    def length(self) -> int:
        """The number of bytes in use."""
        return self._length

    @length.setter
    def length(self, length: int) -> None:
        if not 0 <= length <= self.capacity:
            raise InvalidArgumentError(f"Expected a length from 0 to {self.capacity} bytes, got {length}.")
        self._length = length

    def __bytes__(self) -> bytes:
        return self[: self._length].tobytes()


def view_used_bytes(buffer: object) -> memoryview:
    """As `view_as_bytes`; of a `Buffer`, only the bytes in use."""
    return view_as_bytes(buffer)[: buffer.length if isinstance(buffer, Buffer) else None]


class MemoryBufferReference(ByteArray, Closeable):
    """Access to memory until it is closed: an array of the bytes, so `memoryview(reference)` works on every Python."""

    is_closed: bool
    __slots__ = ("is_closed",)

    def __new__(cls, buffer: memoryview | None) -> Self:
        """Makes a reference; with None, a closed one."""
        memory = view_as_bytes(b"" if buffer is None else buffer)
        reference = np.ndarray.__new__(cls, len(memory), np.uint8, memory)
        reference.is_closed = buffer is None
        return reference

    def __array_finalize__(self, array: Array | None) -> None:
        self.is_closed = getattr(array, "is_closed", False)

    @property
    def capacity(self) -> int:
        """The size in bytes, or 0 once it is closed."""
        return 0 if self.is_closed else self.nbytes

    def get_buffer(self) -> memoryview:
        """The memory, as bytes; raises ClosedError once the reference has been closed."""
        if self.is_closed:
            raise ClosedError("The memory buffer reference has been closed.", hint="Create another reference.")
        return self.data

    def close(self) -> None:
        """Ends the access. Earlier views remain valid. Calling it twice is harmless."""
        self.is_closed = True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __repr__(self) -> str:
        return f"<MemoryBufferReference {'closed' if self.is_closed else f'{self.nbytes} bytes'}>"


# BitmapBuffer: WinRT's handle to the memory of a bitmap.


class BitmapPlaneDescription(NamedTuple):
    """The layout of a plane: its first byte, its size in pixels, and the bytes per row."""

    start_index: int
    width: int
    height: int
    stride: int


class BitmapBuffer(Closeable):
    """A bitmap's memory, from `SoftwareBitmap.lock_buffer`.

    Despite its name, that method does not keep others from using the bitmap.

    Example:
        >>> from winml_py import BitmapPixelFormat, SoftwareBitmap
        >>> from winml_py.winrt.windows.graphics.imaging import BitmapBufferAccessMode
        >>> bitmap = SoftwareBitmap(BitmapPixelFormat.BGRA8, 4, 2)
        >>> with bitmap.lock_buffer(BitmapBufferAccessMode.WRITE) as buffer:
        ...     memoryview(buffer.create_reference())[0] = 255
        >>> bitmap.to_numpy()[0, 0]
        array([255,   0,   0,   0], dtype=uint8)
    """

    def __init__(self, pixels: Array, mode: BitmapBufferAccessMode) -> None:
        if not pixels.flags.c_contiguous:
            raise InvalidArgumentError(
                "The bitmap is a view of an array whose rows are not contiguous.",
                hint="Lock a copy from SoftwareBitmap.copy(), or use to_numpy().",
            )
        if mode != BitmapBufferAccessMode.READ and not pixels.flags.writeable:
            raise InvalidArgumentError("The bitmap is read-only.", hint="Lock it with BitmapBufferAccessMode.READ.")
        self._pixels: Array | None = pixels
        self._mode = mode

    def _open(self) -> Array:
        pixels = self._pixels
        if pixels is None:
            raise ClosedError("The bitmap buffer has been closed.", hint="Lock the bitmap again.")
        return pixels

    def get_plane_count(self) -> int:
        """1: all supported formats have one plane."""
        self._open()
        return 1

    def get_plane_description(self, index: int, /) -> BitmapPlaneDescription:
        """The layout of plane 0, the only one."""
        pixels = self._open()
        if index != 0:
            raise InvalidArgumentError(f"Plane {index} is out of range: the bitmap has only plane 0.")
        return BitmapPlaneDescription(0, pixels.shape[1], pixels.shape[0], pixels.strides[0])

    def create_reference(self) -> MemoryBufferReference:
        """The bytes, as an array that shares the bitmap's memory."""
        memory = self._open().data
        return MemoryBufferReference(memory.toreadonly() if self._mode == BitmapBufferAccessMode.READ else memory)

    def __buffer__(self, flags: int, /) -> memoryview:
        return self.create_reference().data

    def close(self) -> None:
        """Releases the memory; existing references remain valid. Calling it twice is harmless."""
        self._pixels = None
