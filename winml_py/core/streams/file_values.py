"""Values for a model's inputs that lie in files: pictures, arrays, tables of numbers."""

from __future__ import annotations

import os
import zipfile
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError, PictureError, PictureNotFoundError
from ..base.arrays import Array
from ..base.messages import find_similar_file, missing_file_hint
from ..features.descriptors import FeatureDescriptor, ShapedDescriptor, TensorFeatureDescriptor
from ..features.pictures import ImageFeatureValue
from ..features.tensor_classes import TENSOR_CLASSES
from ..imaging.video_writer import is_video

Path = str | os.PathLike[str]

_WHOLE = [kind for kind, tensor_class in TENSOR_CLASSES.items() if tensor_class.dtype.kind in "iu"]


def read_value(feature: FeatureDescriptor, source: Path | bytes | bytearray, fast_decode: bool = False) -> Any:
    """The value for a feature: an array from .npy or .csv, else a picture, from its file or its bytes.

    Raises:
        PictureError: it is not a picture.
        InvalidArgumentError: a file holds no array, or not as many numbers as the feature takes; or it is none of
            these, and the feature takes no picture.
    """
    if isinstance(source, (bytes, bytearray)):
        return _load_picture(bytes(source), fast_decode)
    path = os.fspath(source)
    if path.endswith(".npy"):
        array = read_array(path)
        return array if array.ndim else array.item()  # a number of Python is of whichever type the feature is
    if path.endswith(".csv"):
        return _read_table(feature, path)
    try:
        return _load_picture(path, fast_decode)
    except PictureError as error:
        if not isinstance(feature, TensorFeatureDescriptor) or len(feature.shape) == 4:
            raise
        if isinstance(error, PictureNotFoundError):
            problem, similar = "there is no such file", find_similar_file(path)
        else:
            problem, similar = "this is neither an array (.npy) nor a table of numbers (.csv)", ""
        hint = "Write an array with numpy.save. On the command line, write a few numbers without brackets: 1,2,3."
        if feature.tensor_kind in _WHOLE:
            hint += f" For a file's bytes: numpy.fromfile({path!r}, numpy.uint8), padded as the model's makers pad."
        raise InvalidArgumentError(
            f"{path}: The input {feature.name} takes {feature.describe()}, and {problem}.",
            hint=f"Did you mean {similar}?" if similar else hint,
        ) from error


def _load_picture(source: str | bytes, fast_decode: bool) -> ImageFeatureValue:
    try:
        return ImageFeatureValue.load(source, fast_decode=fast_decode)
    except PictureNotFoundError:
        raise
    except PictureError:
        if isinstance(source, str) and is_video(source):
            raise PictureError(
                f"{source}: Expected one picture, got a video.",
                hint="Read its frames with VideoReader, or pass its path to evaluate_many.",
            ) from None
        raise


def read_array(path: str) -> Array:
    """The array in a .npy file; InvalidArgumentError where it does not hold exactly one."""
    try:
        with open(path, "rb") as file:  # given a path, numpy leaves the file open where it is an archive
            array = np.load(file, allow_pickle=False)
            if isinstance(array, np.ndarray):
                return array
        raise ValueError("it is an archive of several")
    except FileNotFoundError as error:
        raise InvalidArgumentError(f"{path}: There is no such file.", hint=missing_file_hint(path)) from error
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        # NumPy's own words differ from version to version, and advise to trust the file.
        raise InvalidArgumentError(f"{path}: It holds no array.", hint="Write one with numpy.save.") from error


def _read_table(feature: FeatureDescriptor, path: str) -> Array:
    if not isinstance(feature, ShapedDescriptor):
        raise InvalidArgumentError(f"{feature.name} takes {feature.expects()}, which a .csv file cannot hold.")
    try:
        with open(path, encoding="utf-8-sig") as file:
            numbers = np.array(file.read().replace(",", " ").split(), np.float64)
    except FileNotFoundError as error:
        raise InvalidArgumentError(f"{path}: There is no such file.", hint=missing_file_hint(path)) from error
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(
            f"{path}: It holds no numbers: {error}.", hint="Separate numbers by commas."
        ) from error
    return as_feature(feature, numbers, path)


def as_feature(feature: ShapedDescriptor, numbers: Array, path: str) -> Array:
    """Numbers in a feature's shape and type; refuses more, fewer, and fractions for whole numbers."""
    shape = [1 if size < 0 else size for size in feature.shape]
    row = int(np.prod(shape[1:]))
    if feature.shape[:1] == (-1,) and row and numbers.size and numbers.size % row == 0:
        shape[0] = numbers.size // row  # as many rows as there are
    if numbers.size != np.prod(shape):
        raise InvalidArgumentError(
            f"{path}: It holds {numbers.size} numbers, and {feature.name} takes {int(np.prod(shape))} "
            f"({' x '.join(map(str, shape))}).",
            hint="Write as many, separated by commas.",
        )
    dtype = TENSOR_CLASSES[feature.tensor_kind].dtype
    if dtype.kind != "f" and not np.array_equal(numbers, np.rint(numbers)):
        raise InvalidArgumentError(f"{path}: It holds fractions, and {feature.name} takes {feature.expects()}.")
    return numbers.reshape(shape).astype(dtype)
