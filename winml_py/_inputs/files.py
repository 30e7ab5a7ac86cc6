"""Values for a model's inputs: read from files (pictures, folders of them, arrays, tables of numbers), or examples."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, TypeGuard

import numpy as np

from ..core.base.messages import did_you_mean
from ..core.features.descriptors import (
    FeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.pictures import ImageFeatureValue, PreprocessPlan
from ..core.features.tensor_classes import FLOAT_KINDS, TENSOR_CLASSES
from ..core.imaging.formats import INTERLEAVED_FORMATS, find_layout
from ..core.model.contracts import MissingContracts
from ..core.model.model import LearningModel
from ..core.streams.sources import convert_numbers, find_files, list_files, read_value
from ..enums import BitmapPixelFormat, TensorKind
from ..errors import InvalidArgumentError
from .examples import NOTHING_STATED, StatedSizes, example_shape, example_value, has_example, require_size

ZEROS = "zeros"
"""Written instead of a file for zeros in the shape of an input, with free sizes as 1."""


class WrongInputsError(InvalidArgumentError):
    """The inputs do not match the model's, or a folder has none."""


def jobs(
    model: LearningModel, inputs: Sequence[str], *, is_complete: bool = True
) -> Iterator[tuple[str, dict[str, str]]]:
    """For each evaluation, a name to show, and the file for each feature.

    A folder means every picture in it, and a pattern the files that match it.

    Args:
        model: the model with these inputs.
        inputs: files, patterns, folders, and NAME=FILE.
        is_complete: whether every input of the model is required.

    Raises:
        WrongInputsError: an input is unnamed (with several inputs) or missing, or a folder has no picture.
    """
    features = {feature.name.casefold(): feature.name for feature in model.input_features}
    named = [text.partition("=") for text in inputs]
    if all(equals and name.casefold() in features for name, equals, _ in named):
        if len({name.casefold() for name, _, _ in named}) < len(named):
            raise WrongInputsError("An input is named twice; a model with named inputs is evaluated only once.")
        if is_complete:
            _require_all(model, {features[name.casefold()] for name, _, _ in named})
        yield " ".join(inputs), {features[name.casefold()]: path for name, _, path in named}
        return
    _require_known(named, features)
    if len(features) != 1:
        wanted = " ".join(f"{name}=FILE" for name in features.values())
        raise WrongInputsError(f"The model has {len(features)} inputs: write {wanted}.")
    for path in inputs:
        try:
            found = find_files(path) or [path]
        except InvalidArgumentError as error:
            raise WrongInputsError(error.message, hint=error.hint) from error
        for file in found:
            yield file, {next(iter(features.values())): file}


def _require_all(model: LearningModel, names: Set[str]) -> None:
    missing = [feature for feature in model.input_features if feature.name not in names]
    if missing:
        words = ", ".join(f"{feature.name} ({feature.expects()})" for feature in missing)
        hint = f"Add {' '.join(f'{feature.name}=FILE' for feature in missing)}."
        if stateful := [feature.name for feature in missing if _takes_zeros(feature)]:
            hint += f" A state can begin with zeros: {' '.join(f'{name}={ZEROS}' for name in stateful)}."
        raise WrongInputsError(f"Values are missing for {words}.", hint=hint)


def _takes_zeros(feature: FeatureDescriptor) -> TypeGuard[TensorFeatureDescriptor]:
    """Whether an input may be a state that begins with zeros."""
    return isinstance(feature, TensorFeatureDescriptor) and feature.has_rank and feature.tensor_kind in FLOAT_KINDS


def _require_known(named: Sequence[tuple[str, str, str]], features: Mapping[str, str]) -> None:
    """Refuses NAME=FILE if the model has no input NAME; a file name may contain "="."""
    for name, equals, path in named:
        if equals and name.casefold() not in features and os.path.exists(path):
            hint = did_you_mean(name, features.values())
            raise WrongInputsError(f"{name}={path}: The model has no input {name!r}.", hint=hint)


def models_of(path: str) -> list[str]:
    """The models in a folder of several, in natural order; or the path itself, of a model or its folder."""
    models: list[str] = []
    with suppress(InvalidArgumentError):
        models = list_files(path, "model", (".onnx",)) if os.path.isdir(path) else []
    return models if len(models) > 1 else [path]


def read(model: LearningModel, files: Mapping[str, str]) -> dict[str, Any]:
    """Like `read_pictures`, with bytes instead of pictures where a contract is built in."""
    return with_bytes(model, read_pictures(model, files))


def read_pictures(model: LearningModel, files: Mapping[str, str]) -> dict[str, Any]:
    """The value of each feature: an array from .npy or .csv, a map from .json, for a string input the text of any other
    file, the text written instead of a file (a text, numbers, `zeros`), else a picture.

    Raises:
        PictureError: a file is not a picture.
        InvalidArgumentError: a file has no array, or not as many numbers as the feature takes.
    """
    features = {feature.name: feature for feature in model.input_features}
    return {name: _read_feature(features[name], path) for name, path in files.items()}


def _read_feature(feature: FeatureDescriptor, path: str) -> Any:
    if isinstance(feature, MapFeatureDescriptor):
        return _read_map(feature, path)
    if isinstance(feature, SequenceFeatureDescriptor):
        raise InvalidArgumentError(
            f"The input {feature.name} takes a list, {feature.expects()}, which no file can give.",
            hint=f'Evaluate it from Python: session.evaluate_features({{"{feature.name}": [...]}}).',
        )
    is_text = isinstance(feature, TensorFeatureDescriptor) and feature.tensor_kind is TensorKind.STRING
    if is_text and os.path.isfile(path) and not path.lower().endswith((".npy", ".csv")):
        return _read_text(path)
    written = None if os.path.exists(path) else _read_written(feature, path)
    return read_value(feature, path) if written is None else written


def _read_map(feature: MapFeatureDescriptor, text: str) -> dict[Any, Any]:
    """A map from a JSON file, or from text written instead of one: `a=3,b=4`."""
    try:
        if os.path.isfile(text):
            with open(text, encoding="utf-8-sig") as file:
                return as_map(feature, json.load(file).items())
        return as_map(feature, [_split_pair(pair) for pair in text.split(",")])
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{text}: Expected a map for {feature.name}, which takes {feature.expects()}: {error}.",
            hint=f"Write {feature.name}=a=3,b=4, or name a JSON file with such an object.",
        ) from error


def as_map(feature: MapFeatureDescriptor, pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A map of the feature's types from keys and values of texts or numbers; ValueError or TypeError for others."""
    values = feature.value_descriptor
    kind = values.tensor_kind if isinstance(values, TensorFeatureDescriptor) else TensorKind.UNDEFINED
    convert_key = int if feature.key_kind is TensorKind.INT64 else str
    convert = str if kind is TensorKind.STRING else float if kind in FLOAT_KINDS else _as_whole_number
    return {convert_key(key): convert(value) for key, value in pairs}


def _as_whole_number(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{value} is not a whole number")
    return int(value)


def _split_pair(pair: str) -> tuple[str, str]:
    key, equals, value = pair.partition("=")
    if not equals:
        raise ValueError(f"{pair!r} has no =")
    return key, value


def _read_text(path: str) -> str:
    """The text of a file, without its final line end."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{path}: Cannot read it as UTF-8 text: {error}.") from error


def _read_written(feature: FeatureDescriptor, text: str) -> Any:
    """The text or numbers written instead of a file; None if the text cannot mean either."""
    if not isinstance(feature, TensorFeatureDescriptor) or feature.tensor_kind not in TENSOR_CLASSES:
        return None
    if text == ZEROS and _takes_zeros(feature):
        return np.zeros([1 if size < 0 else size for size in feature.shape], TENSOR_CLASSES[feature.tensor_kind].dtype)
    if len(feature.shape) > 3 or text.lower().endswith((".npy", ".csv")):  # a picture, or a missing file
        return None
    if feature.tensor_kind is TensorKind.STRING:
        if " " not in text and text.endswith((".txt", ".json", ".md")):
            raise InvalidArgumentError(f"{text}: There is no such file.", hint="Check the working directory.")
        return text
    words = text.replace(",", " ").split()
    try:
        np.array(words, np.float64)
    except ValueError:
        return None
    return convert_numbers(feature, words, text) if words else None


def generated(model: LearningModel, sizes: StatedSizes = NOTHING_STATED) -> dict[str, Any]:
    """Example values for all inputs, suitable for measuring.

    Floats and pictures are random, with a fixed seed. Integers, booleans and strings are zero or empty: they may be
    indices, and random ones may be out of range.

    Raises:
        InvalidArgumentError: an input is a map or a sequence, or has no rank; or a stated size is not free.
    """
    rng = np.random.default_rng(0)
    return {feature.name: make_example(feature, rng) for feature in sizes.applied(model.input_features)}


def make_example(feature: FeatureDescriptor, rng: np.random.Generator) -> Any:
    """An example value for one input, as in `generated`."""
    if has_example(feature):
        return example_value(feature, rng)
    if not isinstance(feature, ShapedDescriptor) or (
        isinstance(feature, TensorFeatureDescriptor) and not feature.has_rank
    ):
        raise InvalidArgumentError(
            f"The input {feature.name} ({feature.expects()}) has no example values.",
            hint=f"Name a file: {feature.name}=FILE.npy.",
        )
    shape = example_shape(feature).shape
    require_size(feature, shape)
    if feature.tensor_kind is TensorKind.STRING:
        return np.full(shape, "0", object)
    return np.zeros(shape, TENSOR_CLASSES[feature.tensor_kind].dtype)


# Models whose inputs take the bytes of pictures, by a contract that is built in.


BUILT_IN = "winml_py.built_in"
"""The metadata key of the format of these pictures, which `build_in` writes."""


def bytes_format(model: LearningModel, feature: FeatureDescriptor) -> BitmapPixelFormat | None:
    """The format of the pictures whose bytes an input takes by a contract that is built in; None for other inputs."""
    formats = {known.name: known for known in INTERLEAVED_FORMATS}
    is_bytes = isinstance(feature, TensorFeatureDescriptor) and feature.tensor_kind is TensorKind.UINT8
    return formats.get(model.metadata.get(BUILT_IN, "")) if is_bytes else None


def with_bytes(model: LearningModel, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by input, with pictures as bytes where a contract is built in."""
    found = dict(values)
    for feature in model.input_features:
        value, pictures = values.get(feature.name), bytes_format(model, feature)
        if pictures is None or not isinstance(value, ImageFeatureValue) or not isinstance(feature, ShapedDescriptor):
            continue
        layout = find_layout(pictures)
        image = value.video_frame.software_bitmap.to_pil()  # Pillow's gray, as in other programs that decode pictures
        pixels = np.asarray(image.convert({1: "L", 3: "RGB", 4: "RGBA"}[layout.channels]))
        pixels = np.atleast_3d(pixels)[..., [*layout.rgb, 3][: layout.channels]]
        batch = (1,) * (len(feature.shape) - 3)
        found[feature.name] = pixels.reshape(*batch, *pixels.shape)
    return found


# Values for a check: the user's values for a model's inputs, as arrays.


def given_values(model: LearningModel, inputs: Sequence[str]) -> dict[str, Any]:
    """The values of one evaluation, by input name; pictures as the model's tensors.

    Args:
        model: the model; contracts attached to it count.
        inputs: files, as for `Case`; with several inputs, some may be missing.

    Raises:
        WrongInputsError: the files do not match the model's inputs, or are for several evaluations.
        WinMLError: a file cannot be used.
    """
    found = list(jobs(model, inputs, is_complete=False)) if inputs else []
    if len(found) > 1:
        raise WrongInputsError(f"Expected the inputs of one evaluation, got those of {len(found)}.")
    features = {feature.name: feature for feature in model.input_features}
    values = read(model, found[0][1]) if found else {}
    return {name: _as_bound(features[name], value) for name, value in values.items()}


def _as_bound(feature: FeatureDescriptor, value: object) -> Any:
    """A picture as bind's tensor, with bind's warnings; other values as they are."""
    if not isinstance(value, ImageFeatureValue):
        return value
    plan = PreprocessPlan(value.sizes, feature)
    MissingContracts(is_silent=False).warn(plan)
    return plan.make_tensor(value)
