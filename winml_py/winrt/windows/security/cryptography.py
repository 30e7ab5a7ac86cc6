"""Windows.Security.Cryptography: `CryptographicBuffer`, which makes the buffers that pictures are made of."""

from __future__ import annotations

from ....core.base.buffers import Buffer
from ...system import Array, UInt8
from ..storage.data_streams import UnicodeEncoding, decode_text, encode_text
from ..storage.random_access import view_bytes, view_used_bytes

BinaryStringEncoding = UnicodeEncoding


class CryptographicBuffer:
    """Converts bytes and text to buffers and back.

    Example:
        >>> from winml_py import BitmapPixelFormat, SoftwareBitmap
        >>> from winml_py.winrt.windows.security.cryptography import CryptographicBuffer
        >>> buffer = CryptographicBuffer.create_from_byte_array(bytes(2 * 1 * 4))
        >>> SoftwareBitmap.create_copy_from_buffer(buffer, BitmapPixelFormat.BGRA8, 2, 1)
        <SoftwareBitmap BGRA8 2x1>
    """

    @staticmethod
    def create_from_byte_array(value: object, /) -> Buffer:
        """A buffer with a copy of bytes, or of a list of them."""
        return Buffer.from_bytes(view_bytes(value))

    @staticmethod
    def copy_to_byte_array(buffer: object, /) -> Array:
        """The bytes of a buffer; for a `Buffer`, those in use."""
        return Array(UInt8, bytes(view_used_bytes(buffer)))

    @staticmethod
    def compare(object1: object, object2: object, /) -> bool:
        """Whether two buffers hold the same bytes."""
        return bytes(view_used_bytes(object1)) == bytes(view_used_bytes(object2))

    @staticmethod
    def convert_string_to_binary(value: str, encoding: BinaryStringEncoding, /) -> Buffer:
        """A buffer with a text."""
        return Buffer.from_bytes(encode_text(value, encoding))

    @staticmethod
    def convert_binary_to_string(encoding: BinaryStringEncoding, buffer: object, /) -> str:
        """The text in a buffer."""
        return decode_text(bytes(view_used_bytes(buffer)), encoding)
