"""Values for a model's inputs: read from files (pictures, folders of them, arrays, tables of numbers), or examples."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..enums import TensorKind
from ..errors import InvalidArgumentError
from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..features.example_inputs import FREE, example_value, has_example, require_size
from ..features.pictures import ImageFeatureValue
from ..features.tensor_classes import TENSOR_CLASSES
from ..session.model import LearningModel

PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


def jobs(model: LearningModel, inputs: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """For each evaluation, a name to show, and the file for each feature. A folder stands for every picture in it.

    Raises:
        InvalidArgumentError: the model has several inputs, and not all files name one; or a folder has no picture.
    """
    features = {feature.name.casefold(): feature.name for feature in model.input_features}
    named = [text.partition("=") for text in inputs]
    if all(equals and name.casefold() in features for name, equals, _ in named):
        if len({name.casefold() for name, _, _ in named}) < len(named):
            raise InvalidArgumentError("An input is named twice; a model with named inputs is evaluated once.")
        yield " ".join(inputs), {features[name.casefold()]: path for name, _, path in named}
    elif len(features) == 1:
        for path in inputs:
            for file in files(path, "picture", PICTURES):
                yield file, {next(iter(features.values())): file}
    else:
        wanted = " ".join(f"{name}=FILE" for name in features.values())
        raise InvalidArgumentError(f"The model has {len(features)} inputs; write them as: {wanted}")


def files(path: str, kind: str, endings: tuple[str, ...]) -> list[str]:
    """The files of a kind in a folder, by name; or the path itself, where it is no folder.

    Raises:
        InvalidArgumentError: the folder has none.
    """
    if not os.path.isdir(path):
        return [path]
    names = sorted(name for name in os.listdir(path) if name.lower().endswith(endings))
    if not names:
        raise InvalidArgumentError(
            f"There is no {kind} in the folder {path}.", hint=f"Its name must end in {', '.join(endings)}."
        )
    return [os.path.join(path, name) for name in names]


def read(model: LearningModel, files: Mapping[str, str], fast_decode: bool = False) -> dict[str, Any]:
    """The value of each feature: an array from .npy or .csv, else a picture, decoded.

    Raises:
        PictureError: a file is not a picture.
        InvalidArgumentError: a file holds no array, or not as many numbers as the feature takes.
    """
    features = {feature.name: feature for feature in model.input_features}
    return {name: _value(features[name], path, fast_decode) for name, path in files.items()}


def _value(feature: FeatureDescriptor, path: str, fast_decode: bool) -> Any:
    if path.endswith(".npy"):
        return read_array(path)
    if path.endswith(".csv"):
        return _read_table(feature, path)
    return ImageFeatureValue.load(path, fast_decode=fast_decode)


def read_array(path: str) -> np.ndarray[Any, Any]:
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
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise InvalidArgumentError(f"{path} holds no array: {error}.", hint="Write it with numpy.save.") from error


def _read_table(feature: FeatureDescriptor, path: str) -> np.ndarray[Any, Any]:
    if not isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
        raise InvalidArgumentError(f"{feature.name} takes {feature.expects()}, which a .csv file cannot hold.")
    shape = [1 if size < 0 else size for size in feature.shape]
    try:
        with open(path, encoding="utf-8") as file:
            numbers = np.array(file.read().replace(",", " ").split(), np.float64)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{path} holds no numbers: {error}.", hint="Separate them by commas.") from error
    if numbers.size != np.prod(shape):
        raise InvalidArgumentError(
            f"{path} holds {numbers.size} numbers, and {feature.name} takes {int(np.prod(shape))} "
            f"({' x '.join(map(str, shape))}).",
            hint="Write as many, separated by commas.",
        )
    dtype = TENSOR_CLASSES[feature.tensor_kind].dtype
    if dtype.kind != "f" and not np.array_equal(numbers, np.rint(numbers)):
        raise InvalidArgumentError(f"{path} holds fractions, and {feature.name} takes {feature.expects()}.")
    return numbers.reshape(shape).astype(dtype)


def generated(model: LearningModel) -> dict[str, Any]:
    """Example values for all inputs, good enough for measuring.

    Floats and pictures are random, always the same. Whole numbers, truths and words are zeros: they may be indices, and
    random ones may be out of range.

    Raises:
        InvalidArgumentError: an input is a map or a sequence, or has no rank.
    """
    rng = np.random.default_rng(0)
    return {feature.name: _generated(feature, rng) for feature in model.input_features}


def _generated(feature: FeatureDescriptor, rng: np.random.Generator) -> Any:
    if has_example(feature):
        return example_value(feature, rng)
    if not isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)) or (
        isinstance(feature, TensorFeatureDescriptor) and not feature.has_rank
    ):
        raise InvalidArgumentError(
            f"Values of the input {feature.name} ({feature.expects()}) cannot be made up.",
            hint=f"Name a file: {feature.name}=FILE.npy.",
        )
    shape = [size if size >= 0 else (1 if axis == 0 else FREE) for axis, size in enumerate(feature.shape)]
    require_size(feature, shape)
    if feature.tensor_kind is TensorKind.STRING:
        return np.full(shape, "0", object)
    return np.zeros(shape, TENSOR_CLASSES[feature.tensor_kind].dtype)
