"""Windows.Storage.Streams: texts in streams, files as streams, copies; and buffers of Windows.Security."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.paths import PICTURES
from winml_py import BitmapPixelFormat, InvalidArgumentError, SoftwareBitmap
from winml_py.errors import StorageNotFoundError
from winml_py.winrt.windows.graphics.imaging import BitmapDecoder
from winml_py.winrt.windows.security.cryptography import BinaryStringEncoding, CryptographicBuffer
from winml_py.winrt.windows.storage import FileAccessMode, StorageFile
from winml_py.winrt.windows.storage.streams import (
    Buffer,
    DataReader,
    DataWriter,
    FileRandomAccessStream,
    InMemoryRandomAccessStream,
    InputStreamOptions,
    RandomAccessStream,
    RandomAccessStreamReference,
    UnicodeEncoding,
)

# Texts


@pytest.mark.parametrize(
    ("encoding", "codec", "units"),
    [
        (UnicodeEncoding.UTF8, "utf-8", 7),
        (UnicodeEncoding.UTF16_L_E, "utf-16-le", 4),
        (UnicodeEncoding.UTF16_B_E, "utf-16-be", 4),
    ],
)
def test_texts_in_their_encodings(encoding: UnicodeEncoding, codec: str, units: int) -> None:
    text = "é1😀"  # the last is a pair of units in UTF-16
    writer = DataWriter()
    writer.unicode_encoding = encoding
    size = len(text.encode(codec))
    assert (writer.measure_string(text), writer.write_string(text)) == (size, size)
    reader = DataReader.from_buffer(writer.detach_buffer())
    reader.unicode_encoding = encoding
    assert reader.read_string(units) == text
    assert reader.unconsumed_buffer_length == 0
    with pytest.raises(InvalidArgumentError, match="cannot be written"):
        writer.write_string("\ud800")
    with pytest.raises(InvalidArgumentError, match="encoding is 7"):
        writer.unicode_encoding = 7


def test_parts_of_buffers_and_lists_of_bytes() -> None:
    writer = DataWriter()
    writer.write_buffer(b"abcdef", 2, 3)
    writer.write_buffer_range(b"abcdef", 5, 1)
    writer.write_bytes([1, 255])
    assert bytes(writer.detach_buffer()) == b"cdef\1\xff"
    used = Buffer(8)
    used.length = 2
    writer.write_bytes(used)
    assert writer.unstored_buffer_length == 2
    for start, count in [(7, 0), (2, 5), (-1, 1)]:
        with pytest.raises(InvalidArgumentError):
            writer.write_buffer(b"abcdef", start, count)
    with pytest.raises(InvalidArgumentError, match="Expected bytes"):
        writer.write_bytes([256])
    reader = DataReader.from_buffer(b"abc")
    assert reader.read_byte() == 97
    assert bytes(reader.detach_buffer()) == b"bc"
    assert (reader.unconsumed_buffer_length, reader.input_stream_options) == (0, InputStreamOptions.NONE)
    reader.input_stream_options = InputStreamOptions.PARTIAL | InputStreamOptions.READ_AHEAD
    assert reader.input_stream_options == 3


# Files as streams, and copies


def test_a_picture_is_decoded_from_a_stream_over_its_path() -> None:
    stream = FileRandomAccessStream.open_async(str(PICTURES / "seven.png"), FileAccessMode.READ).get()
    assert BitmapDecoder.create_async(stream).get().pixel_width == 200
    assert (stream.can_read, stream.can_write) == (True, False)
    assert stream.size == (PICTURES / "seven.png").stat().st_size
    by_number = FileRandomAccessStream.open_async(str(PICTURES / "seven.png"), 0).get()
    assert by_number.read(4) == b"\x89PNG"


def test_a_file_is_changed_through_a_stream_over_its_path(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    with pytest.raises(StorageNotFoundError, match="no file"):
        FileRandomAccessStream.open_async(path, FileAccessMode.READ_WRITE).get()
    path.write_bytes(b"abc")
    with FileRandomAccessStream.open_async(path, FileAccessMode.READ_WRITE).get() as stream:
        stream.write(b"A")
    assert path.read_bytes() == b"Abc"
    with pytest.raises(InvalidArgumentError, match="access mode is 7"):
        FileRandomAccessStream.open_async(path, 7)


def test_streams_are_copied_from_where_they_stand() -> None:
    data = np.random.default_rng(1).integers(0, 256, (1 << 20) + 17, np.uint8).tobytes()
    source, target = InMemoryRandomAccessStream(), InMemoryRandomAccessStream()
    source.write(data)
    target.write(b"head")
    assert RandomAccessStream.copy_async(source.get_input_stream_at(1), target).get() == len(data) - 1
    assert target.clone_stream().read() == b"head" + data[1:]
    part = source.get_input_stream_at(0)
    end = target.get_output_stream_at(2)
    assert RandomAccessStream.copy_async(part, end, 3).get() == 3
    assert (part.position, end.position) == (3, 5)
    assert target.clone_stream().read(5) == b"he" + data[:3]
    assert RandomAccessStream.copy_size_async(source.get_input_stream_at(len(data)), target, 3).get() == 0
    with pytest.raises(InvalidArgumentError, match="size is -1"):
        target.size = -1
    with pytest.raises(InvalidArgumentError, match="number of bytes is -1"):
        target.read_async(Buffer(1), -1).get()
    with pytest.raises(InvalidArgumentError, match="number of bytes is -1"):
        RandomAccessStream.copy_async(source, target, -1)


def test_streams_say_what_kind_of_file_they_are() -> None:
    file = StorageFile.get_file_from_path_async(PICTURES / "cat.jpg").get()
    assert file.content_type == "image/jpeg"
    assert file.open_read_async().get().content_type == "image/jpeg"
    assert file.open_sequential_read_async().get().read(3) == b"\xff\xd8\xff"
    assert RandomAccessStreamReference.create_from_file(file).open_read_async().get().content_type == "image/jpeg"
    stream = InMemoryRandomAccessStream()
    assert RandomAccessStreamReference.create_from_stream(stream).open_read_async().get().content_type == ""


# CryptographicBuffer


def test_a_picture_out_of_a_buffer_and_back() -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (3, 2, 4), np.uint8)
    buffer = CryptographicBuffer.create_from_byte_array(pixels.tobytes())
    assert (type(buffer), buffer.length, buffer.capacity) == (Buffer, 24, 24)
    bitmap = SoftwareBitmap.create_copy_from_buffer(buffer, BitmapPixelFormat.BGRA8, 2, 3)
    np.testing.assert_array_equal(bitmap.to_numpy(), pixels)
    room = Buffer(30)
    bitmap.copy_to_buffer(room)
    array = CryptographicBuffer.copy_to_byte_array(room)
    assert bytes(array) == pixels.tobytes()
    assert bytes(CryptographicBuffer.create_from_byte_array([1, 2])) == b"\1\2"


def test_buffers_as_texts() -> None:
    for codec, encoding in zip(("utf-8", "utf-16-le", "utf-16-be"), BinaryStringEncoding, strict=True):
        buffer = CryptographicBuffer.convert_string_to_binary("né", encoding)
        assert bytes(buffer) == "né".encode(codec)
        assert CryptographicBuffer.convert_binary_to_string(encoding, buffer) == "né"
    for wrong in (
        lambda: CryptographicBuffer.convert_binary_to_string(BinaryStringEncoding.UTF8, b"\xff"),
        lambda: CryptographicBuffer.convert_string_to_binary("", 3),
    ):
        with pytest.raises(InvalidArgumentError):
            wrong()


def test_buffers_are_compared() -> None:
    partly = Buffer.from_bytes(b"abc")
    partly.length = 2
    assert CryptographicBuffer.compare(partly, b"ab")
    assert not CryptographicBuffer.compare(partly, b"abc")
