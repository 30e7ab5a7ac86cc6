"""The sizes that the inputs of an evaluation had, for reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..core.features.bind_properties import BindProperties
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..core.features.free_sizes import ExampleShape, example_shape
from ..core.features.pictures import ImageFeatureValue
from ..core.features.resolve import PictureFit

_PROPERTIES = BindProperties()


def input_sizes(features: Iterable[FeatureDescriptor], given: Mapping[str, Any]) -> dict[str, ExampleShape]:
    """The shape of each input that is a tensor or a picture, by name.

    Args:
        features: the inputs, with the sizes that are stated.
        given: the values that were given; the others are examples.
    """
    return {
        feature.name: ExampleShape(_shape(feature, given[feature.name]))
        if feature.name in given
        else example_shape(feature)
        for feature in features
        if isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor))
    }


def _shape(feature: FeatureDescriptor, value: Any) -> tuple[int, ...]:
    """The shape of the tensor that a value becomes."""
    if isinstance(value, ImageFeatureValue):
        return PictureFit(value, feature, _PROPERTIES).shape
    return tuple(np.shape(value))


def to_json(sizes: Mapping[str, ExampleShape]) -> dict[str, Any]:
    """Sizes, ready for JSON."""
    return {name: size.to_json() for name, size in sizes.items()}
