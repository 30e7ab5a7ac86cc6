"""Windows.Security.Cryptography: `CryptographicBuffer`, which makes the buffers that pictures are made of."""

from __future__ import annotations

import base64
import binascii

from ....core.base.buffers import Buffer
from ....errors import InvalidArgumentError
from ...system import Array, UInt8
from ..storage.data_streams import UnicodeEncoding, decoded, encoded
from ..storage.random_access import given_bytes, used_bytes

BinaryStringEncoding = UnicodeEncoding


class CryptographicBuffer:
    """Buffers out of bytes and texts, and back.

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
        return Buffer.of(given_bytes(value))

    @staticmethod
    def copy_to_byte_array(buffer: object, /) -> Array:
        """The bytes of a buffer; of a `Buffer`, those in use."""
        return Array(UInt8, bytes(used_bytes(buffer)))

    @staticmethod
    def compare(object1: object, object2: object, /) -> bool:
        """Whether two buffers hold the same bytes."""
        return bytes(used_bytes(object1)) == bytes(used_bytes(object2))

    @staticmethod
    def convert_string_to_binary(value: str, encoding: BinaryStringEncoding, /) -> Buffer:
        """A buffer with a text."""
        return Buffer.of(encoded(value, encoding))

    @staticmethod
    def convert_binary_to_string(encoding: BinaryStringEncoding, buffer: object, /) -> str:
        """The text in a buffer.

        Raises:
            InvalidArgumentError: it holds none.
        """
        return decoded(bytes(used_bytes(buffer)), encoding)

    @staticmethod
    def encode_to_base64_string(buffer: object, /) -> str:
        """The bytes of a buffer in base 64."""
        return base64.b64encode(used_bytes(buffer)).decode()

    @staticmethod
    def decode_from_base64_string(value: str, /) -> Buffer:
        """A buffer with bytes that are written in base 64.

        Raises:
            InvalidArgumentError: the text is nothing of the kind.
        """
        try:
            return Buffer.of(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError) as error:
            raise InvalidArgumentError(f"The text is not base 64: {error}.") from error

    @staticmethod
    def encode_to_hex_string(buffer: object, /) -> str:
        """The bytes of a buffer, two digits each."""
        return used_bytes(buffer).hex()

    @staticmethod
    def decode_from_hex_string(value: str, /) -> Buffer:
        """A buffer with bytes that are written with two digits each.

        Raises:
            InvalidArgumentError: the text is nothing of the kind.
        """
        try:
            return Buffer.of(binascii.unhexlify(value))
        except (binascii.Error, ValueError) as error:
            raise InvalidArgumentError(f"The text is not hexadecimal: {error}.") from error
