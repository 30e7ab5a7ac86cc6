"""Values from files: pictures, and arrays that NumPy saved. Only a program's own values are read from files."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from ...enums import TensorKind
from ...errors import InvalidArgumentError
from ..base.arguments import is_stream, read_bytes, refuse_address, suggest_path
from ..base.arrays import Array
from ..base.messages import require_no_pointer
from .descriptors import FeatureDescriptor, ShapedDescriptor
from .pictures import ImageFeatureValue

NPY = b"\x93NUMPY"
"""The first bytes of a .npy file."""


def is_file(value: object, feature: FeatureDescriptor) -> bool:
    """Whether a value is a file for a tensor of numbers: the path or bytes of a picture or an array, or an open file.

    For an input of a picture's rank, every path and all bytes are.
    """
    if not isinstance(feature, ShapedDescriptor) or feature.tensor_kind == TensorKind.STRING:
        return False
    if isinstance(value, (np.ndarray, Mapping)):
        return False
    if isinstance(value, (str, os.PathLike, bytes, bytearray)):
        return len(feature.shape) == 4 or is_npy(value)
    return is_stream(value)


def require_content(value: Any) -> str | os.PathLike[str] | bytes | bytearray:
    """The path or the bytes of such a file. An open file is read now, while the program keeps it open.

    Raises:
        InvalidArgumentError: the open file cannot be read.
    """
    content: str | os.PathLike[str] | bytes | bytearray = value
    return read_bytes(value, "The open file", InvalidArgumentError) if is_stream(value) else content


def is_npy(source: str | os.PathLike[str] | bytes | bytearray) -> bool:
    """Whether a path or bytes are those of an array that NumPy saved."""
    if isinstance(source, (bytes, bytearray)):
        return source.startswith(NPY)
    return os.fsdecode(source).lower().endswith(".npy")


def read_file(
    source: str | os.PathLike[str] | bytes | bytearray | BinaryIO, *, fast_decode: bool = False
) -> ImageFeatureValue | Array | float:
    """The picture or the array in a file, or in its bytes; a number where a .npy file holds a single one.

    Args:
        source: the path, the bytes, or an open file.
        fast_decode: as for `ImageFeatureValue.load`.

    Raises:
        PictureError: it is not a picture.
        InvalidArgumentError: a .npy file that holds no array, or an open file that cannot be read.
    """
    content = require_content(source)
    if not is_npy(content):
        return ImageFeatureValue.load(content, fast_decode=fast_decode)
    array = read_array(content)
    return array if array.ndim else array.item()  # a Python number takes the feature's type


def read_array(source: str | os.PathLike[str] | bytes | bytearray) -> Array:
    """The array in a .npy file, or in its bytes; InvalidArgumentError where it does not hold exactly one."""
    name = "The bytes" if isinstance(source, (bytes, bytearray)) else os.fsdecode(source)
    if not isinstance(source, (bytes, bytearray)):
        refuse_address(source)
        if not os.path.exists(source):
            raise InvalidArgumentError(f"{name}: The file does not exist.", hint=suggest_path(source))
    try:
        with io.BytesIO(source) if isinstance(source, (bytes, bytearray)) else open(source, "rb") as file:
            seekable = file if file.seekable() else io.BytesIO(file.read())
            require_no_pointer(seekable.read(64), name, "an array", InvalidArgumentError)
            seekable.seek(0)
            return np.lib.format.read_array(seekable, allow_pickle=False)
    except InvalidArgumentError:
        raise
    except (OSError, ValueError, EOFError, MemoryError) as error:
        # NumPy's message varies between versions, and advises trusting the file.
        raise InvalidArgumentError(
            f"{name}: Expected one array in NumPy's .npy format.", hint="Write it with numpy.save."
        ) from error
