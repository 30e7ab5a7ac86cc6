"""Windows.Foundation: operations, sizes, and the kinds of picture files."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import pytest

from winml_py import BitmapPixelFormat, SoftwareBitmap, VideoFrame
from winml_py.winrt.windows.foundation import (
    IAsyncActionWithProgress,
    IAsyncInfo,
    IAsyncOperationWithProgress,
    IClosable,
    Point,
    Rect,
    Size,
)
from winml_py.winrt.windows.graphics.imaging import BitmapDecoder, BitmapEncoder, BitmapSize
from winml_py.winrt.windows.storage import StorageFile


def test_sizes_points_and_rectangles_are_tuples() -> None:
    assert Size(3, 4) == (3, 4)
    assert Point(1, 2).y == 2
    assert Rect(1, 2, 3, 4).height == 4
    assert (Point(), Size(), Rect()) == ((0, 0), (0, 0), (0, 0, 0, 0))


def test_interfaces_are_the_classes_that_have_them() -> None:
    operation = StorageFile.get_file_from_path_async(__file__)
    for interface in (IAsyncOperationWithProgress, IAsyncActionWithProgress, IAsyncInfo):
        assert isinstance(operation, interface)
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


@pytest.mark.parametrize("name", ["media.faceanalysis", "storage.fileproperties"])
def test_a_part_of_winrt_that_is_not_there_is_a_missing_module(name: str) -> None:
    name = f"winml_py.winrt.windows.{name}"
    with pytest.raises(ModuleNotFoundError) as missing:
        importlib.import_module(name)
    assert missing.value.msg == f"No module named '{name}'"
