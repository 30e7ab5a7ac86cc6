"""Example inputs: random numbers with a fixed seed, for features where any numbers will do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np

from ...enums import TensorKind
from ...errors import InvalidArgumentError
from ..base.collections import Vector
from .descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from .free_sizes import example_shape
from .tensor_classes import TENSOR_CLASSES

Array = np.ndarray[Any, Any]

MAX_NUMBERS = 1 << 27
"""The most numbers that an example has: half a gigabyte. A damaged model may ask for any size."""


def example_inputs(features: Sequence[FeatureDescriptor], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Values for all inputs: those that are given, and examples for the others. The names of the others come second.

    Raises:
        InvalidArgumentError: an input whose values cannot be made up: ids, words, truths, maps, sequences.
    """
    rng, values, seeded = np.random.default_rng(0), dict(given), []
    names = {feature.name for feature in features}
    unknown = set(given) - names
    if unknown:
        raise InvalidArgumentError(
            f"The model has no input {', '.join(sorted(unknown))}.", hint=f"Its inputs: {', '.join(sorted(names))}."
        )
    for feature in features:
        if feature.name not in values:
            values[feature.name] = example_value(feature, rng)
            seeded.append(feature.name)
    return values, seeded


def has_example(feature: FeatureDescriptor) -> TypeGuard[TensorFeatureDescriptor | ImageFeatureDescriptor]:
    """Whether any numbers will do: for floats; not for ids, words, booleans, maps or sequences."""
    floats = (TensorKind.FLOAT, TensorKind.FLOAT16, TensorKind.DOUBLE)
    if isinstance(feature, TensorFeatureDescriptor):
        return feature.has_rank and feature.tensor_kind in floats
    return isinstance(feature, ImageFeatureDescriptor) and feature.tensor_kind in floats


def example_value(feature: FeatureDescriptor, rng: np.random.Generator, sizes: Sequence[int] | None = None) -> Array:
    """Values for a feature: a picture for a picture, else numbers around 0.

    Args:
        feature: whose values.
        rng: where numbers come from.
        sizes: the shape; by default the feature's, and where that is free the contract's, 1 for the batch, else 64.

    Raises:
        InvalidArgumentError: its values cannot be made up.
    """
    if not has_example(feature):
        raise InvalidArgumentError(
            f"Values of the input {feature.name} ({feature.expects()}) cannot be made up sensibly.",
            hint=f"Give some to check with: inputs={{{feature.name!r}: array}}, "
            f"or {feature.name}=FILE.npy on the command line.",
        )
    dtype = TENSOR_CLASSES[feature.tensor_kind].dtype
    shape = list(example_shape(feature if sizes is None else replace(feature, shape=Vector(sizes))).shape)
    require_size(feature, shape)
    if isinstance(feature, ImageFeatureDescriptor) and _has_channels(feature, shape):
        return _picture(feature, shape, rng)
    return rng.standard_normal(shape).astype(dtype)


def require_size(feature: FeatureDescriptor, shape: Sequence[int]) -> None:
    """Refuses an example that would be too large.

    Raises:
        InvalidArgumentError: there would be too many.
    """
    if math.prod(shape) > MAX_NUMBERS:
        raise InvalidArgumentError(
            f"The input {feature.name} has {math.prod(shape):,} numbers; at most {MAX_NUMBERS:,} are made up.",
            hint="Give its values.",
        )


def _has_channels(feature: ImageFeatureDescriptor, shape: list[int]) -> bool:
    """Whether the shape is one of pictures: a damaged model may say that it takes pictures of two channels."""
    return len(shape) == 4 and shape[feature.contract.axes()[0]] == feature.contract.channels


def _picture(feature: ImageFeatureDescriptor, shape: list[int], rng: np.random.Generator) -> Array:
    """Smooth shapes, a little noise, black beside white, as the contract turns bytes into numbers."""
    channels, height, width = (shape[axis] for axis in feature.contract.axes())
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = [np.sin((3 + 2 * c) * x + c) * np.cos((5 - c) * y) for c in range(channels)]
    levels = np.clip(np.stack(waves) * 100 + 128 + rng.normal(0, 5, (channels, height, width)), 0, 255).astype(np.uint8)
    levels[:, height // 2 :, width // 2 :] = 255 * (np.indices((height - height // 2, width - width // 2)) // 4 % 2)[0]
    levels[:, height // 2 :, : width // 4] = 255 * (x[height // 2 :, : width // 4] > 0.1)
    table = feature.contract.numbers(TENSOR_CLASSES[feature.tensor_kind].dtype)
    planes = np.stack([numbers[plane] for numbers, plane in zip(table, levels, strict=True)])
    picture = planes if feature.contract.axes()[0] == 1 else planes.transpose(1, 2, 0)
    return np.ascontiguousarray(np.broadcast_to(picture, shape))
