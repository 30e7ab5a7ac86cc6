"""Values for a model's inputs that lie in files: pictures, arrays, tables of numbers."""

from __future__ import annotations

import os
import zipfile
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError, PictureError, PictureNotFoundError
from ..base.arrays import Array
from ..base.file_kinds import find_similar_file, missing_file_hint
from ..features.descriptors import FeatureDescriptor, ShapedDescriptor, TensorFeatureDescriptor
from ..features.pictures import ImageFeatureValue
from ..features.tensor_classes import TENSOR_CLASSES
from ..imaging.video_writer import HEAD, is_video, is_video_content

Path = str | os.PathLike[str]


def read_value(feature: FeatureDescriptor, source: Path | bytes | bytearray, fast_decode: bool = False) -> Any:
    """The value for a feature: an array from .npy or .csv, else a picture, from its file or its bytes.

    Args:
        feature: what it is for.
        source: the path of a file, or the bytes of a picture.
        fast_decode: as for `ImageFeatureValue.load`.

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
        problem, similar = "this is neither an array (.npy) nor a table of numbers (.csv)", ""
        if isinstance(error, PictureNotFoundError):
            problem, similar = "there is no such file", find_similar_file(path)
        raise InvalidArgumentError(
            f"{path}: The input {feature.name} takes {feature.describe()}, and {problem}.",
            hint=f"Did you mean {similar}?" if similar else _array_hint(feature, path),
        ) from error


def _array_hint(feature: TensorFeatureDescriptor, path: str) -> str:
    tensor_class = TENSOR_CLASSES.get(feature.tensor_kind)
    if tensor_class is None or tensor_class.dtype.kind not in "iu" or not os.path.isfile(path):
        return "Write an array with numpy.save. On the command line, write a few numbers without brackets: 1,2,3."
    shape = ", ".join(
        str(size) if size > 0 else "bytes.size" if axis else "1" for axis, size in enumerate(feature.shape)
    )
    return (
        f"To pass the bytes of the file, padded with 0, make an array: bytes = numpy.fromfile({path!r}, numpy.uint8); "
        f"array = numpy.zeros([{shape}], numpy.{tensor_class.dtype.name}); "
        'array.flat[: bytes.size] = bytes[: array.size]; numpy.save("bytes.npy", array). Check how the model\'s makers '
        "pad."
    )


def _load_picture(source: str | bytes, fast_decode: bool) -> ImageFeatureValue:
    try:
        return ImageFeatureValue.load(source, fast_decode=fast_decode)
    except PictureNotFoundError:
        raise
    except PictureError:
        if isinstance(source, bytes) and is_video_content(source[:HEAD]):
            raise PictureError(
                "The bytes are those of a video, and videos are read from files.", hint="Write them to a file first."
            ) from None
        if isinstance(source, str) and is_video(source):
            raise _one_value(source) from None
        raise


def _one_value(path: str) -> PictureError:
    return PictureError(
        f"{path}: This is a video, and one picture is expected.",
        hint="Read its frames with VideoReader, or pass its path to evaluate_many.",
    )


def read_array(path: str) -> Array:
    """The array in a .npy file.

    Raises:
        InvalidArgumentError: the file does not hold exactly one array.
    """
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
    """Numbers in a feature's shape and type.

    Raises:
        InvalidArgumentError: if there are more or fewer numbers, or fractions for a feature of whole numbers.
    """
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
