"""Windows.Foundation: URIs, sizes, memory; and files of the application."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from winml_py import BitmapPixelFormat, InvalidArgumentError, SoftwareBitmap, StorageNotFoundError, VideoFrame
from winml_py.winrt.system import Array, Int8, box_guid, box_time_span, unbox_guid, unbox_time_span
from winml_py.winrt.windows.foundation import (
    IAsyncActionWithProgress,
    IAsyncInfo,
    IAsyncOperationWithProgress,
    IClosable,
    IMemoryBuffer,
    MemoryBuffer,
    Point,
    PropertyType,
    PropertyValue,
    Rect,
    Size,
    Uri,
)
from winml_py.winrt.windows.graphics.imaging import BitmapDecoder, BitmapEncoder, BitmapSize
from winml_py.winrt.windows.storage import StorageFile


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "https://me:word@www.example.com:8080/a/b.onnx?x=1#top",
            ("https", "www.example.com", "example.com", 8080, "/a/b.onnx", ".onnx", "?x=1", "#top", "me", "word", True),
        ),
        ("ms-appx:///Assets/a b.png", ("ms-appx", "", "", 0, "/Assets/a b.png", ".png", "", "", "", "", False)),
        ("http://host", ("http", "host", "host", 80, "", "", "", "", "", "", False)),
    ],
)
def test_the_parts_of_a_uri(text: str, parts: tuple[Any, ...]) -> None:
    """As Windows.Foundation.Uri documents them."""
    uri = Uri(text)
    found = uri.scheme_name, uri.host, uri.domain, uri.port, uri.path, uri.extension, uri.query, uri.fragment
    assert (*found, uri.user_name, uri.password, uri.suspicious) == parts
    assert uri.raw_uri == text


def test_uris_are_combined_compared_and_escaped() -> None:
    uri = Uri("https://example.com/models/a.onnx")
    assert uri.combine_uri("b.onnx").absolute_uri == "https://example.com/models/b.onnx"
    assert Uri("https://example.com/models/", "b.onnx") == uri.combine_uri("b.onnx")
    assert uri.equals(Uri(uri.raw_uri))
    assert not uri.equals(Uri("https://example.com"))
    assert str(Uri("ms-appx:///a b%20c")) == "ms-appx:///a%20b%20c"
    assert Uri("ms-appx:///a%20b").display_uri == "ms-appx:///a b"
    assert (Uri.escape_component("a b/c"), Uri.unescape_component("a%20b%2Fc")) == ("a%20b%2Fc", "a b/c")
    for wrong in ("model.onnx", "", "http://host:port/"):
        with pytest.raises(InvalidArgumentError, match="is no"):
            Uri(wrong)


def test_sizes_points_and_rectangles_are_tuples() -> None:
    assert Size(3, 4) == (3, 4)
    assert Point(1, 2).y == 2
    assert Rect(1, 2, 3, 4).height == 4
    assert (Point(), Size(), Rect()) == ((0, 0), (0, 0), (0, 0, 0, 0))


def test_more_values_in_boxes() -> None:
    number, when = uuid4(), datetime(2024, 1, 2, tzinfo=UTC)
    assert PropertyValue.create_char16("é") == "é"
    assert PropertyValue.create_guid(number) is number
    assert PropertyValue.create_date_time(when) is when
    assert PropertyValue.create_time_span(timedelta(seconds=1)) == timedelta(seconds=1)
    assert PropertyValue.create_inspectable(when) is when
    assert PropertyValue.create_point((1, 2)) == Point(1.0, 2.0)
    assert PropertyValue.create_size((3, 4)).height == 4.0
    assert PropertyValue.create_rect(Rect(1, 2, 3, 4)).width == 3.0
    assert PropertyType.SINGLE_ARRAY == PropertyType.SINGLE + 1024 == 1032
    assert (PropertyType.GUID, PropertyType.OTHER_TYPE_ARRAY) == (16, 1044)
    for wrong in (
        lambda: PropertyValue.create_char16("ab"),
        lambda: PropertyValue.create_guid("1"),
        lambda: PropertyValue.create_time_span(5),
        lambda: PropertyValue.create_point((1, 2, 3)),
        lambda: PropertyValue.create_rect("abcd"),
    ):
        with pytest.raises(InvalidArgumentError):
            wrong()
    assert unbox_guid(box_guid(number)) is number
    assert unbox_time_span(box_time_span(timedelta(1))) == timedelta(1)
    assert Array(Int8, [-1, 127]).dtype == np.int8


def test_interfaces_are_the_classes_that_have_them() -> None:
    operation = StorageFile.get_file_from_path_async(__file__)
    for interface in (IAsyncOperationWithProgress, IAsyncActionWithProgress, IAsyncInfo):
        assert isinstance(operation, interface)
    assert isinstance(MemoryBuffer(1), IMemoryBuffer)
    assert isinstance(SoftwareBitmap(BitmapPixelFormat.GRAY8, 1, 1), IClosable)


def test_the_kinds_of_picture_files() -> None:
    decoders = {codec.friendly_name: codec for codec in BitmapDecoder.get_decoder_information_enumerator()}
    encoders = BitmapEncoder.get_encoder_information_enumerator()
    assert {"BMP", "GIF", "ICO", "JPEG", "PNG", "TIFF", "WEBP"} <= set(decoders)
    assert decoders["PNG"].codec_id == BitmapDecoder.png_decoder_id
    assert decoders["JPEG"].file_extensions == (".jpeg", ".jpg")
    assert ("HEIF" in decoders) == (find_spec("pillow_heif") is not None)
    assert [codec.codec_id for codec in encoders if codec.friendly_name == "PNG"] == [BitmapEncoder.png_encoder_id]
    assert encoders.size == 5
    assert (BitmapSize(), BitmapSize(3, 4).height) == ((0, 0), 4)
    assert VideoFrame(BitmapPixelFormat.GRAY8, 1, 1).direct3_d_surface is None


def test_a_memory_buffer_is_memory_until_it_is_closed() -> None:
    with MemoryBuffer(4) as buffer:
        reference = buffer.create_reference()
        np.frombuffer(reference, np.uint8)[:] = 7
        assert bytes(buffer.create_reference()) == b"\7\7\7\7"
    assert bytes(reference) == b"\7\7\7\7"
    assert buffer.create_reference().capacity == 0
    with pytest.raises(InvalidArgumentError):
        MemoryBuffer(-1)


def test_files_of_the_application(tmp_path: Path) -> None:
    (tmp_path / "Assets").mkdir()
    (tmp_path / "Assets" / "a b.txt").write_text("x")
    (tmp_path / "main.py").write_text(
        "from winml_py.winrt.windows.foundation import Uri\n"
        "from winml_py.winrt.windows.storage import StorageFile\n"
        "print(StorageFile.get_file_from_application_uri_async(Uri('ms-appx:///Assets/a%20b.txt')).get().path)\n"
    )
    done = subprocess.run([sys.executable, tmp_path / "main.py"], check=True, capture_output=True, text=True)
    assert Path(done.stdout.strip()) == tmp_path / "Assets" / "a b.txt"
    with pytest.raises(StorageNotFoundError):
        StorageFile.get_file_from_application_uri_async(Uri("ms-appx:///missing.onnx")).get()
    with pytest.raises(InvalidArgumentError, match="no file of the application"):
        StorageFile.get_file_from_application_uri_async(Uri("https://example.com/a.onnx")).get()
