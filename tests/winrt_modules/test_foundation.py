"""Windows.Foundation: operations; and the parts of WinRT that are not there."""

from __future__ import annotations

import importlib

import pytest

from winml_py import BitmapPixelFormat, SoftwareBitmap
from winml_py.winrt.windows.foundation import IAsyncAction, IAsyncOperation, IClosable
from winml_py.winrt.windows.storage import StorageFile


def test_interfaces_are_the_classes_that_have_them() -> None:
    operation = StorageFile.get_file_from_path_async(__file__)
    for interface in (IAsyncOperation, IAsyncAction):
        assert isinstance(operation, interface)
    assert isinstance(SoftwareBitmap(BitmapPixelFormat.GRAY8, 1, 1), IClosable)


@pytest.mark.parametrize("name", ["media.faceanalysis", "storage.fileproperties"])
def test_a_part_of_winrt_that_is_not_there_is_a_missing_module(name: str) -> None:
    name = f"winml_py.winrt.windows.{name}"
    with pytest.raises(ModuleNotFoundError) as missing:
        importlib.import_module(name)
    assert missing.value.msg == f"No module named '{name}'"
