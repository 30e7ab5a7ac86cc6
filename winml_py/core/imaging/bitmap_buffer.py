"""BitmapBuffer: WinRT's handle to the memory of a bitmap."""

from __future__ import annotations

from typing import NamedTuple

from ...enums import BitmapBufferAccessMode
from ...errors import ClosedError, InvalidArgumentError
from ..base.buffers import MemoryBufferReference
from ..base.closeable import Closeable
from .formats import Pixels


class BitmapPlaneDescription(NamedTuple):
    """The layout of a plane: its first byte, its size in pixels, and the bytes from one row to the next."""

    start_index: int
    width: int
    height: int
    stride: int


class BitmapBuffer(Closeable):
    """A bitmap's memory: what `SoftwareBitmap.lock_buffer` gives.

    In spite of its name, that method does not keep others from using the bitmap.

    Example:
        >>> from winml_py import BitmapBufferAccessMode, BitmapPixelFormat, SoftwareBitmap
        >>> bitmap = SoftwareBitmap(BitmapPixelFormat.BGRA8, 4, 2)
        >>> with bitmap.lock_buffer(BitmapBufferAccessMode.WRITE) as buffer:
        ...     memoryview(buffer.create_reference())[0] = 255
        >>> bitmap.to_numpy()[0, 0]
        array([255,   0,   0,   0], dtype=uint8)
    """

    def __init__(self, pixels: Pixels, mode: BitmapBufferAccessMode) -> None:
        if not pixels.flags.c_contiguous:
            raise InvalidArgumentError(
                "The bitmap is a view of an array whose rows do not lie one after the other.",
                hint="Lock a SoftwareBitmap.copy() of it, or use to_numpy().",
            )
        if mode != BitmapBufferAccessMode.READ and not pixels.flags.writeable:
            raise InvalidArgumentError("The bitmap is read-only.", hint="Lock it with BitmapBufferAccessMode.READ.")
        self._pixels: Pixels | None = pixels
        self._mode = mode

    def _open(self) -> Pixels:
        pixels = self._pixels
        if pixels is None:
            raise ClosedError("The bitmap buffer has been closed.", hint="Lock the bitmap again.")
        return pixels

    def get_plane_count(self) -> int:
        """1: all formats here lie in one plane."""
        self._open()
        return 1

    def get_plane_description(self, index: int, /) -> BitmapPlaneDescription:
        """The layout of the plane.

        Raises:
            InvalidArgumentError: an index other than 0.
        """
        pixels = self._open()
        if index != 0:
            raise InvalidArgumentError(f"There is no plane {index}: the bitmap has one plane, 0.")
        return BitmapPlaneDescription(0, pixels.shape[1], pixels.shape[0], pixels.strides[0])

    def create_reference(self) -> MemoryBufferReference:
        """The bytes, an array that shares the bitmap's memory."""
        memory = self._open().data
        return MemoryBufferReference(memory.toreadonly() if self._mode == BitmapBufferAccessMode.READ else memory)

    def __buffer__(self, flags: int, /) -> memoryview:
        return self.create_reference().data

    def close(self) -> None:
        """Lets go of the memory; references that were taken stay valid. Twice is harmless."""
        self._pixels = None
