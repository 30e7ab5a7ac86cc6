"""Windows.Foundation: URIs, sizes, memory; and files of the application."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from winml_py import InvalidArgumentError, StorageNotFoundError
from winml_py.winrt.windows.foundation import MemoryBuffer, Point, Rect, Size, Uri
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
