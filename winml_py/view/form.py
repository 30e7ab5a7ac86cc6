"""The page's form: contracts as in a model's metadata, and texts as values of other inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._examples import make_example
from .._values import CONTRACTS
from ..core.base.messages import Facts
from ..core.features.descriptors import (
    FeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.tensor_classes import FLOAT_KINDS, TENSOR_CLASSES
from ..core.imaging.contract import METADATA_FIELDS, METADATA_KEYS, ImageContract
from ..core.session.sources import convert_numbers
from ..enums import TensorKind
from ..errors import InvalidArgumentError


def list_contract_fields() -> list[Facts]:
    """The metadata key of each field of a contract, its default, and its choices, if it has some."""
    fields = []
    for key, (name, words) in METADATA_FIELDS.items():
        default = getattr(ImageContract(), name)
        default_words = (word for word, meaning in words.items() if meaning == default)
        fields.append({"key": key, "choices": list(words), "default": next(default_words, "")})
    return fields


def list_named_contracts() -> dict[str, dict[str, str]]:
    """The named contracts, each as metadata."""
    return {name: make().to_metadata() for name, make in CONTRACTS.items()}


def parse_contract(words: object) -> ImageContract:
    """The contract that the fields state; an empty field states nothing.

    Raises:
        InvalidArgumentError: not an object of texts, an unknown key, or a word that a contract cannot have.
    """
    if not isinstance(words, Mapping) or not all(isinstance(word, str) for pair in words.items() for word in pair):
        raise InvalidArgumentError("Expected an object of texts as contract.", hint='Such as {"Image.Mean": "0.5"}.')
    if unknown := sorted(set(words) - set(METADATA_KEYS)):
        raise InvalidArgumentError(f"Unknown contract key {unknown[0]}.", hint=f"Known: {', '.join(METADATA_KEYS)}.")
    return ImageContract.from_metadata({key: word for key, word in words.items() if word})


def make_example_value(feature: FeatureDescriptor) -> Any:
    """An example value, always the same."""
    if isinstance(feature, ShapedDescriptor) and feature.tensor_kind not in {TensorKind.STRING, *TENSOR_CLASSES}:
        raise InvalidArgumentError(f"The page cannot give the input {feature.name}, {feature.expects()}, a value.")
    return make_example(feature, np.random.default_rng(0))


def parse_value(feature: FeatureDescriptor, text: str) -> Any:
    """An input's value from its field: JSON, or numbers separated by spaces or commas; also a plain text.

    Raises:
        InvalidArgumentError: the text does not fit the input.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text if _takes_texts(feature) else text.replace(",", " ").split()
    try:
        return _convert(feature, value)
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{text[:60]!r} does not fit the input {feature.name}, which takes {feature.expects()}: {error}."
        ) from error


def _takes_texts(feature: FeatureDescriptor) -> bool:
    return isinstance(feature, TensorFeatureDescriptor) and feature.tensor_kind is TensorKind.STRING


def _convert(feature: FeatureDescriptor, value: Any) -> Any:
    if isinstance(feature, MapFeatureDescriptor):
        return _convert_map(feature, value)
    if isinstance(feature, SequenceFeatureDescriptor):
        return [_convert(feature.element_descriptor, item) for item in value]
    array = np.array(value, object)
    if not isinstance(feature, ShapedDescriptor) or feature.tensor_kind not in TENSOR_CLASSES:
        raise TypeError("no text can give such a value")
    if _takes_texts(feature):
        if not all(isinstance(word, str) for word in array.flat):
            raise TypeError("expected a text, or a JSON list of texts")
        return array if array.ndim else array.reshape([1] * len(feature.shape))
    if None in array.flat:  # numpy would make it NaN
        raise TypeError("null is not a number")
    shape = array.shape if array.ndim == len(feature.shape) else ()
    return convert_numbers(feature, array.reshape(-1).tolist(), feature.name, shape)


def _convert_map(feature: MapFeatureDescriptor, value: Mapping[str, Any]) -> dict[Any, Any]:
    convert_key = int if feature.key_kind is TensorKind.INT64 else str
    convert_value: Callable[[Any], Any] = _convert_to_whole_number
    if isinstance(feature.value_descriptor, TensorFeatureDescriptor):
        kind = feature.value_descriptor.tensor_kind
        if kind is TensorKind.STRING:
            convert_value = str
        elif kind in FLOAT_KINDS:
            convert_value = float
    return {convert_key(key): convert_value(item) for key, item in value.items()}


def _convert_to_whole_number(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{value} is not a whole number")
    return int(value)
