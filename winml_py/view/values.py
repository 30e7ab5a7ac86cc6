"""Field values for inputs that take no picture (numbers, text, JSON), and example values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._inputs.examples import MAX_NUMBERS
from .._inputs.files import as_map, make_example
from ..core.base.agreement import as_numpy
from ..core.base.messages import Facts
from ..core.features.descriptors import (
    FeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.streams.sources import as_feature
from ..enums import TensorKind
from ..errors import InvalidArgumentError

MAX_WRITTEN = 1024
"""The most numbers in a field, and in code."""


def parse_value(feature: FeatureDescriptor, text: str) -> Any:
    """An input's value from its field: JSON, or numbers separated by spaces or commas; also plain texts.

    Raises:
        InvalidArgumentError: the text does not fit the input.
    """
    if isinstance(feature, MapFeatureDescriptor):
        return _read_map(feature, _json(feature, text))
    if isinstance(feature, SequenceFeatureDescriptor):
        items = _json(feature, text)
        if not isinstance(items, list):
            raise _unlike(feature, text, "expected a JSON list")
        element = feature.element_descriptor
        if isinstance(element, MapFeatureDescriptor):
            return [_read_map(element, item) for item in items]
        return [_read_array(element, item, text) for item in items]
    if isinstance(feature, TensorFeatureDescriptor) and feature.tensor_kind is TensorKind.STRING:
        return _read_words(feature, text)
    try:
        numbers = json.loads(text)
    except (ValueError, RecursionError):
        numbers = text.replace(",", " ").split()
    return _read_array(feature, numbers, text)


def _json(feature: FeatureDescriptor, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unlike(feature, text, f"it is not JSON: {error}") from error


def _unlike(feature: FeatureDescriptor, text: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{text[:60]!r} does not fit the input {feature.name}, which takes {feature.expects()}: {why}."
    )


def _read_map(feature: MapFeatureDescriptor, items: object) -> dict[Any, Any]:
    if not isinstance(items, Mapping):
        raise _unlike(feature, str(items), 'expected a JSON object, such as {"1": 0.5}')
    try:
        return as_map(feature, items.items())
    except (TypeError, ValueError) as error:
        raise _unlike(feature, str(items), str(error)) from error


def _read_words(feature: TensorFeatureDescriptor, text: str) -> Any:
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        words = text
    if not isinstance(words, (str, list)):
        words = text  # for example, a number is a text here
    array = np.array(words, object)
    if not all(isinstance(word, str) for word in array.reshape(-1)):
        raise _unlike(feature, text, "expected a text, or a JSON list of texts of one length")
    shape = [1 if size < 0 else size for size in feature.shape]
    if not isinstance(words, list) and feature.has_rank and np.prod(shape) == 1:
        array = array.reshape(shape)
    return array


def _read_array(feature: FeatureDescriptor, numbers: object, text: str) -> Any:
    if not isinstance(feature, ShapedDescriptor) or feature.tensor_kind not in TENSOR_CLASSES:
        raise _unlike(feature, text, "no text can give such a value")
    if "null" in text:  # numpy would make it NaN
        raise _unlike(feature, text, "null is not a number")
    array = np.array(numbers, object)
    has_rank = not isinstance(feature, TensorFeatureDescriptor) or feature.has_rank
    shape = array.shape if not has_rank or array.ndim == len(feature.shape) else ()
    return as_feature(feature, array.reshape(-1).tolist(), repr(text[:60]), shape)


def make_up(feature: FeatureDescriptor) -> Any:
    """An example value, always the same."""
    if isinstance(feature, ShapedDescriptor) and feature.tensor_kind not in {TensorKind.STRING, *TENSOR_CLASSES}:
        raise InvalidArgumentError(f"The page cannot give the input {feature.name}, {feature.expects()}, a value.")
    return make_example(feature, np.random.default_rng(0))


def format_value(value: Any) -> Facts:
    """A value for the page: text for a field, or its description."""
    array = np.asarray(as_numpy(value))
    if array.size <= MAX_WRITTEN and array.size < MAX_NUMBERS:
        return {"text": json.dumps(array.tolist())}
    return {"made_up": f"{array.dtype.name} of {' x '.join(map(str, array.shape))}"}
