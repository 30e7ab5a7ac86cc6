"""Windows.Storage.Streams: files as streams, copies, readers and writers; and buffers of Windows.Security."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.paths import PICTURES
from winml_py import BitmapPixelFormat, ClosedError, InvalidArgumentError, SoftwareBitmap
from winml_py.errors import StorageNotFoundError
from winml_py.winrt.windows.graphics.imaging import BitmapDecoder
from winml_py.winrt.windows.security.cryptography import CryptographicBuffer
from winml_py.winrt.windows.storage import FileAccessMode
from winml_py.winrt.windows.storage.streams import (
    Buffer,
    DataReader,
    DataWriter,
    FileRandomAccessStream,
    InMemoryRandomAccessStream,
    RandomAccessStream,
)

# Files as streams, and copies


def test_a_picture_is_decoded_from_a_stream_over_its_path() -> None:
    stream = FileRandomAccessStream.open_async(str(PICTURES / "seven.png"), FileAccessMode.READ).get()
    assert BitmapDecoder.create_async(stream).get().pixel_width == 200
    assert stream.size == (PICTURES / "seven.png").stat().st_size
    by_number = FileRandomAccessStream.open_async(str(PICTURES / "seven.png"), 0).get()
    assert by_number.read(4) == b"\x89PNG"


def test_a_file_is_changed_through_a_stream_over_its_path(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    with pytest.raises(StorageNotFoundError, match=r"file .* does not exist"):
        FileRandomAccessStream.open_async(path, FileAccessMode.READ_WRITE).get()
    path.write_bytes(b"abc")
    with FileRandomAccessStream.open_async(path, FileAccessMode.READ_WRITE).get() as stream:
        stream.write(b"A")
    assert path.read_bytes() == b"Abc"
    with pytest.raises(InvalidArgumentError, match="access mode cannot be 7"):
        FileRandomAccessStream.open_async(path, 7)


def test_streams_over_the_same_bytes_have_a_position_each() -> None:
    stream = InMemoryRandomAccessStream()
    assert stream.write(b"abcdef") == 6
    other = stream.get_input_stream_at(2)
    assert other.read(2) == b"cd"
    assert stream.read() == b""
    stream.seek(1)
    stream.write(b"X")
    assert stream.clone_stream().read() == b"aXcdef"
    for size, data in ((8, b"aXcdef\0\0"), (2, b"aX")):
        stream.size = size
        assert stream.clone_stream().read() == data
    with pytest.raises(InvalidArgumentError):
        stream.seek(-1)
    with pytest.raises(InvalidArgumentError, match="size cannot be -1"):
        stream.size = -1


def test_closed_streams() -> None:
    with InMemoryRandomAccessStream() as stream:
        stream.write(b"a")
    for use in (lambda: stream.size, stream.read, lambda: stream.write(b"")):
        with pytest.raises(ClosedError, match="has been closed"):
            use()
    stream.close()


def test_streams_are_copied_from_where_they_stand() -> None:
    data = np.random.default_rng(1).integers(0, 256, (1 << 20) + 17, np.uint8).tobytes()
    source, target = InMemoryRandomAccessStream(), InMemoryRandomAccessStream()
    source.write(data)
    target.write(b"head")
    assert RandomAccessStream.copy_async(source.get_input_stream_at(1), target).get() == len(data) - 1
    assert target.clone_stream().read() == b"head" + data[1:]


def test_writers_collect_until_they_store_and_readers_take_what_they_loaded() -> None:
    stream = InMemoryRandomAccessStream()
    writer = DataWriter(stream)
    used = Buffer(8)
    used.length = 2
    writer.write_bytes(used)
    assert stream.clone_stream().write(used) == 2
    assert (stream.size, CryptographicBuffer.create_from_byte_array(used).length) == (2, 2)
    stream.size = 0
    with pytest.raises(InvalidArgumentError, match="holds 2 bytes, but the picture needs 4"):
        SoftwareBitmap.create_copy_from_buffer(used, BitmapPixelFormat.BGRA8, 1, 1)
    assert writer.write_string("é") == 2
    with pytest.raises(InvalidArgumentError, match="cannot be written"):
        writer.write_string("\ud800")
    assert stream.size == 0
    assert writer.store_async().get() == 4
    reader = DataReader(stream.get_input_stream_at(0))
    assert reader.load_async(3).get() == 3
    room, target = Buffer(2), bytearray(2)
    reader.read_bytes(room)
    assert bytes(room) == b"\0\0"
    with pytest.raises(InvalidArgumentError, match="Expected 2 bytes, but 1 are loaded") as short:
        reader.read_bytes(target)
    assert short.value.hresult == 0x8000000B
    assert reader.load_async(100).get() == 1
    reader.read_bytes(target)
    assert target == "é".encode()


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
