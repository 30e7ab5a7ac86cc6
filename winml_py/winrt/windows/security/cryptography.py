"""Windows.Security.Cryptography: `CryptographicBuffer`, which makes the buffers that pictures are made of."""

from __future__ import annotations

from ....core.base.buffers import Buffer, view_used_bytes
from ...system import Array, UInt8

__all__ = ["CryptographicBuffer"]


class CryptographicBuffer:
    """Converts bytes to buffers and back.

    Example:
        >>> from winml_py import BitmapPixelFormat, SoftwareBitmap
        >>> from winml_py.winrt.windows.security.cryptography import CryptographicBuffer
        >>> buffer = CryptographicBuffer.create_from_byte_array(bytes(2 * 1 * 4))
        >>> SoftwareBitmap.create_copy_from_buffer(buffer, BitmapPixelFormat.BGRA8, 2, 1)
        <SoftwareBitmap BGRA8 2x1>
    """

    @staticmethod
    def create_from_byte_array(value: object, /) -> Buffer:
        """A buffer with a copy of bytes."""
        return Buffer.from_bytes(value)

    @staticmethod
    def copy_to_byte_array(buffer: object, /) -> Array:
        """The bytes of a buffer; for a `Buffer`, those in use."""
        return Array(UInt8, view_used_bytes(buffer))
