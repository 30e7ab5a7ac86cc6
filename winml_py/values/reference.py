"""MemoryBufferReference: WinRT's handle to the memory of a tensor or a bitmap."""

from __future__ import annotations

from ..errors import ClosedError


class MemoryBufferReference:
    """An open door to memory: `get_buffer()`, or `memoryview(reference)` from Python 3.12 on, until it is closed."""

    def __init__(self, buffer: memoryview | None) -> None:
        """None makes a reference that is closed already."""
        self._buffer = buffer

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        return self._buffer is None

    @property
    def capacity(self) -> int:
        """Bytes of the memory, or 0 once it is closed."""
        return 0 if self._buffer is None else self._buffer.nbytes

    def get_buffer(self) -> memoryview:
        """The memory, as bytes.

        Raises:
            ClosedError: the reference has been closed.
        """
        if self._buffer is None:
            raise ClosedError("The memory buffer reference has been closed.", hint="Create another.")
        return self._buffer.cast("B")

    def __buffer__(self, flags: int, /) -> memoryview:
        return self.get_buffer()

    def close(self) -> None:
        """Closes the door; memoryviews that were taken live on. Twice is harmless."""
        self._buffer = None

    def __enter__(self) -> MemoryBufferReference:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
