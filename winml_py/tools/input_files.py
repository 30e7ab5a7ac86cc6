"""Values for a model's inputs: read from files (pictures, folders of them, arrays, tables of numbers), or examples."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..enums import TensorKind
from ..errors import InvalidArgumentError
from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..features.example_inputs import FREE, example_value, has_example, require_size
from ..features.tensor_classes import TENSOR_CLASSES
from ..session.file_values import as_feature, read_value
from ..session.model import LearningModel
from ..session.source_files import files_in, files_of


def jobs(model: LearningModel, inputs: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """For each evaluation, a name to show, and the file for each feature.

    A folder stands for every picture in it, and a pattern for the files that match it.

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
            for file in files_of(path) or [path]:
                yield file, {next(iter(features.values())): file}
    else:
        wanted = " ".join(f"{name}=FILE" for name in features.values())
        raise InvalidArgumentError(f"The model has {len(features)} inputs; write them as: {wanted}")


def files(path: str, kind: str, endings: tuple[str, ...]) -> list[str]:
    """The files of a kind in a folder, in natural order; or the path itself, where it is no folder.

    Raises:
        InvalidArgumentError: the folder has none.
    """
    return files_in(path, kind, endings) if os.path.isdir(path) else [path]


def read(model: LearningModel, files: Mapping[str, str], fast_decode: bool = False) -> dict[str, Any]:
    """The value of each feature: an array from .npy or .csv, what was written in the place of a file, else a picture.

    Raises:
        PictureError: a file is not a picture.
        InvalidArgumentError: a file holds no array, or not as many numbers as the feature takes.
    """
    features = {feature.name: feature for feature in model.input_features}
    return {name: _value(features[name], path, fast_decode) for name, path in files.items()}


def _value(feature: FeatureDescriptor, path: str, fast_decode: bool) -> Any:
    written = None if os.path.exists(path) else _written(feature, path)
    return read_value(feature, path, fast_decode) if written is None else written


def _written(feature: FeatureDescriptor, text: str) -> Any:
    """What stands in the place of a file: a text or numbers, or None where it cannot be meant so."""
    if not isinstance(feature, TensorFeatureDescriptor) or feature.tensor_kind not in TENSOR_CLASSES:
        return None
    if len(feature.shape) > 3 or text.endswith((".npy", ".csv")):  # a picture's, or a file that is not there
        return None
    if feature.tensor_kind is TensorKind.STRING:
        return text
    try:
        numbers = np.array(text.replace(",", " ").split(), np.float64)
    except ValueError:
        return None
    return as_feature(feature, numbers, text) if numbers.size else None


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
