"""The model's features with the sizes that session options override."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...errors import InvalidArgumentError
from ..base.collections import Vector
from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..runtime.engine import EngineOptions


def overridden(features: Iterable[FeatureDescriptor], options: EngineOptions) -> list[FeatureDescriptor]:
    """The features, with the named dimensions and the shapes that the options fix.

    Raises:
        InvalidArgumentError: a shape for an input that the model does not have, or one that contradicts it.
    """
    features = list(features)
    shapes, names = dict(options.shapes), [feature.name for feature in features]
    for name in shapes:
        if name not in names:
            raise InvalidArgumentError(
                f"The options override the shape of {name!r}, and the model has no such input.",
                hint=f"Its inputs: {', '.join(names)}.",
            )
    return [_overridden(feature, dict(options.dimensions), shapes.get(feature.name)) for feature in features]


def _overridden(
    feature: FeatureDescriptor, dimensions: dict[str, int], wanted: tuple[int, ...] | None
) -> FeatureDescriptor:
    if not isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
        if wanted is not None:
            raise InvalidArgumentError(f"The input {feature.name} is no tensor, and its shape cannot be overridden.")
        return feature
    named = feature.dimension_names or ("",) * len(feature.shape)
    pairs = zip(feature.shape, named, strict=True)
    shape = tuple(dimensions.get(name, -1) if size < 0 else size for size, name in pairs)
    if wanted is not None:
        shape = _combined(feature, shape, wanted)
    return feature if shape == feature.shape else replace(feature, shape=Vector(shape))


def _combined(
    feature: TensorFeatureDescriptor | ImageFeatureDescriptor, shape: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[int, ...]:
    fits = len(wanted) == len(shape) and all(
        -1 in pair or len(set(pair)) == 1 for pair in zip(shape, wanted, strict=True)
    )
    if not fits:
        raise InvalidArgumentError(
            f"The options override the shape of {feature.name} with {list(wanted)}, and the model says "
            f"{list(feature.shape)}.",
            hint="Give one size for each dimension, and -1 where the model's stays.",
        )
    return tuple(max(pair) for pair in zip(shape, wanted, strict=True))


def with_dimensions(features: Iterable[FeatureDescriptor], options: EngineOptions) -> EngineOptions:
    """The options, with overrides of the named dimensions among those that they fix by position.

    Raises:
        InvalidArgumentError: as `overridden` does.
    """
    dimensions = dict(options.dimensions)
    features = list(features)
    for before, after in zip(features, overridden(features, options), strict=True):
        if isinstance(before, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
            fixed = zip(before.dimension_names, before.shape, getattr(after, "shape", ()), strict=False)
            dimensions |= {name: size for name, free, size in fixed if name and free < 0 <= size}
    return options._replace(dimensions=tuple(sorted(dimensions.items())))
