"""Values for a model's inputs from files: pictures, folders of them, arrays, tables of numbers, texts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, TypeGuard

import numpy as np

from .._examples import takes_any_numbers
from .._values import convert_pictures_to_bytes, find_bytes_format, parse_value
from ..core.base.arguments import suggest_path
from ..core.base.messages import did_you_mean
from ..core.base.winrt_object import private_state
from ..core.features.descriptors import (
    FeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.files import read_file
from ..core.features.pictures import ImageFeatureValue, PreprocessPlan
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.session.sources import find_files, list_files, read_value
from ..enums import TensorKind
from ..errors import InvalidArgumentError

ZEROS = "zeros"
"""Written instead of a file for zeros in the shape of an input, with free sizes as 1."""


class WrongInputsError(InvalidArgumentError):
    """The inputs do not match the model's, or a folder has none."""


def assign_files(
    model: LearningModel, inputs: Sequence[str], *, is_complete: bool = True
) -> Iterator[tuple[str, dict[str, str]]]:
    """Assigns files to a model's inputs: for each evaluation a name to show, and the file for each input.

    A folder stands for every picture in it, and a pattern for the files that match it.

    Args:
        model: the model.
        inputs: files, patterns, folders, or NAME=FILE.
        is_complete: whether every input of the model must have a file.

    Raises:
        WrongInputsError: an input is unnamed (with several inputs) or missing, or a folder has no picture.
    """
    features = {feature.name.casefold(): feature.name for feature in model.input_features}
    parts = [text.partition("=") for text in inputs]
    if all(equals and name.casefold() in features for name, equals, _ in parts):
        files = {features[name.casefold()]: path for name, _, path in parts}
        if len(files) < len(parts):
            raise WrongInputsError("An input is specified twice, but with NAME=FILE the model is evaluated only once.")
        if is_complete:
            _require_all(model, files.keys())
        yield " ".join(inputs), files
        return
    _require_known(parts, features)
    if len(features) != 1:
        usage = " ".join(f"{name}=FILE" for name in features.values())
        raise WrongInputsError(f"The model has {len(features)} inputs. Specify each by name: {usage}.")
    (feature,) = model.input_features
    takes_words = not isinstance(feature, ShapedDescriptor) or feature.tensor_kind is TensorKind.STRING
    for path in inputs:
        try:
            matches = find_files(path) or [path]
        except InvalidArgumentError as error:
            if not takes_words and not path.startswith("["):
                raise WrongInputsError(error.message, hint=error.hint) from error
            matches = [path]  # "How are you?" and [[1, 2], [3]] are no patterns
        for file in matches:
            yield file, {feature.name: file}


def _require_all(model: LearningModel, names: Set[str]) -> None:
    missing = [feature for feature in model.input_features if feature.name not in names]
    if missing:
        inputs = ", ".join(f"{feature.name} ({feature.expects()})" for feature in missing)
        hint = f"Add {' '.join(f'{feature.name}=FILE' for feature in missing)}."
        if states := [feature.name for feature in missing if _may_be_state(feature)]:
            hint += f" To start a state with zeros, use {' '.join(f'{name}={ZEROS}' for name in states)}."
        raise WrongInputsError(f"Values are missing for {inputs}.", hint=hint)


def _may_be_state(feature: FeatureDescriptor) -> TypeGuard[TensorFeatureDescriptor]:
    return isinstance(feature, TensorFeatureDescriptor) and takes_any_numbers(feature)


def _require_known(parts: Sequence[tuple[str, str, str]], features: Mapping[str, str]) -> None:
    """Refuses NAME=FILE if the model has no input NAME. A file's name may contain "=", too."""
    for name, equals, path in parts:
        if equals and name.casefold() not in features and os.path.exists(path):
            hint = did_you_mean(name, features.values())
            raise WrongInputsError(f"{name}={path}: The model has no input {name!r}.", hint=hint)


def list_models(path: str) -> list[str]:
    """The models in a folder that has several, in natural order; else the path itself."""
    models: list[str] = []
    if os.path.isdir(path):
        with suppress(InvalidArgumentError):  # the folder has none
            models = list_files(path, "model", (".onnx",))
    return models if len(models) > 1 else [path]


def read_inputs(model: LearningModel, files: Mapping[str, str]) -> dict[str, Any]:
    """Like `read_files`, but pictures become bytes where a contract is built in."""
    return convert_pictures_to_bytes(model, read_files(model, files))


def read_files(model: LearningModel, files: Mapping[str, str]) -> dict[str, Any]:
    """Reads the value of each input: an array from .npy or .csv, otherwise a picture.

    For a text input, any other file is its text. Numbers, a text or `zeros` may be written instead of a file's name.

    Raises:
        PictureError: a file is not a picture.
        InvalidArgumentError: a file has no array, or not as many numbers as the feature takes.
    """
    features = {feature.name: feature for feature in model.input_features}
    return {name: _read_feature(model, features[name], path) for name, path in files.items()}


def _read_feature(model: LearningModel, feature: FeatureDescriptor, path: str) -> Any:
    if isinstance(feature, MapFeatureDescriptor | SequenceFeatureDescriptor):
        return parse_value(feature, path)
    is_text = isinstance(feature, TensorFeatureDescriptor) and feature.tensor_kind is TensorKind.STRING
    if is_text and os.path.isfile(path) and not path.lower().endswith(".npy"):
        return _read_text(path)
    literal = None if os.path.exists(path) else _read_literal(feature, path)
    if literal is not None:
        return literal
    is_file = path.lower().endswith(".npy") or find_bytes_format(model, feature)
    return read_file(path) if is_file else read_value(feature, path)


def _read_text(path: str) -> str:
    """The text of a file, without its final line end."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{path}: The file cannot be read as UTF-8 text: {error}.") from error


def _read_literal(feature: FeatureDescriptor, text: str) -> Any:
    """The value that is written instead of a file's name; None if the text is none."""
    if not isinstance(feature, TensorFeatureDescriptor) or feature.tensor_kind not in TENSOR_CLASSES:
        return None
    if text == ZEROS and _may_be_state(feature):
        return np.zeros([1 if size < 0 else size for size in feature.shape], TENSOR_CLASSES[feature.tensor_kind].dtype)
    if len(feature.shape) > 3 or text.lower().endswith((".npy", ".csv")):  # a picture, or a missing file
        return None
    if feature.tensor_kind is TensorKind.STRING:
        if " " not in text and text.endswith((".txt", ".json", ".md")):
            raise InvalidArgumentError(f"{text}: The file does not exist.", hint=suggest_path(text))
    elif not text.startswith(tuple("[+-.0123456789")):  # a missing file
        return None
    return parse_value(feature, text)


def read_single_evaluation(model: LearningModel, inputs: Sequence[str]) -> dict[str, Any]:
    """The values of a single evaluation, by input name. Pictures are the model's tensors.

    Args:
        model: the model; contracts attached to it count.
        inputs: files, as for `winml-py run`; with several inputs, some may be missing.

    Raises:
        WrongInputsError: the files do not match the model's inputs, or are for several evaluations.
        WinMLError: a file cannot be used.
    """
    if not inputs:
        return {}
    evaluations = list(assign_files(model, inputs, is_complete=False))
    if len(evaluations) > 1:
        raise WrongInputsError(f"Expected inputs for one evaluation, got inputs for {len(evaluations)}.")
    values = read_inputs(model, evaluations[0][1])
    for feature in model.input_features:
        picture = values.get(feature.name)
        if isinstance(picture, ImageFeatureValue):
            plan = PreprocessPlan(picture.sizes, feature)
            private_state(model).missing_contracts.warn(plan)
            values[feature.name] = plan.make_tensor(picture)
    return values
