"""Example inputs: random numbers with a fixed seed, for features that accept any numbers, and their free sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from ..core.base.arrays import Array
from ..core.base.collections import Vector
from ..core.base.messages import Facts, did_you_mean
from ..core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.tensor_classes import FLOAT_KINDS, TENSOR_CLASSES
from ..core.imaging.contract import ImageContract
from ..core.imaging.geometry import compute_placement
from ..errors import InvalidArgumentError

MAX_NUMBERS = 1 << 27
"""The most numbers in an example: half a gigabyte. A damaged model may ask for any size."""


def example_inputs(
    features: Sequence[FeatureDescriptor], given: Mapping[str, object]
) -> tuple[dict[str, Any], list[str]]:
    """Values for all inputs: the given ones, and examples for the others. The names of the others come second.

    Raises:
        InvalidArgumentError: an input cannot have an example: ids, strings, booleans, maps, sequences.
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


def has_example(feature: FeatureDescriptor) -> TypeGuard[ShapedDescriptor]:
    """Whether the feature accepts any numbers: floats do; ids, strings, booleans, maps and sequences do not."""
    if isinstance(feature, TensorFeatureDescriptor):
        return feature.has_rank and feature.tensor_kind in FLOAT_KINDS
    return isinstance(feature, ImageFeatureDescriptor) and feature.tensor_kind in FLOAT_KINDS


def example_value(feature: FeatureDescriptor, rng: np.random.Generator, sizes: Sequence[int] | None = None) -> Array:
    """Values for a feature: for an image a picture, else numbers around 0.

    Args:
        feature: the feature.
        rng: the source of random numbers.
        sizes: the shape; `example_shape` by default.

    Raises:
        InvalidArgumentError: there are no example values for this feature.
    """
    if not has_example(feature):
        raise InvalidArgumentError(
            f"The input {feature.name} ({feature.expects()}) has no example values.",
            hint=f"Give values to check with: inputs={{{feature.name!r}: array}}, "
            f"or {feature.name}=FILE.npy on the command line.",
        )
    dtype = TENSOR_CLASSES[feature.tensor_kind].dtype
    shape = list(example_shape(feature if sizes is None else replace(feature, shape=Vector(sizes))).shape)
    require_size(feature, shape)
    if isinstance(feature, ImageFeatureDescriptor) and _has_channels(feature, shape):
        return _make_picture(feature, shape, rng)
    return rng.standard_normal(shape).astype(dtype)


def require_size(feature: FeatureDescriptor, shape: Sequence[int]) -> None:
    """Refuses an example of more than `MAX_NUMBERS`."""
    if math.prod(shape) > MAX_NUMBERS:
        raise InvalidArgumentError(
            f"The input {feature.name} has {math.prod(shape):,} numbers; an example has at most {MAX_NUMBERS:,}.",
            hint="Give its values.",
        )


def _has_channels(feature: ImageFeatureDescriptor, shape: list[int]) -> bool:
    """Whether the shape fits pictures: a damaged model may state images with two channels."""
    return len(shape) == 4 and shape[feature.contract.axes()[0]] == feature.contract.channels


def _make_picture(feature: ImageFeatureDescriptor, shape: list[int], rng: np.random.Generator) -> Array:
    """Smooth shapes, a little noise, and black beside white, converted from bytes by the contract."""
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


# The sizes that a model leaves free: the user's, and the examples' for the others.


FREE = 64
"""The size of a free dimension in examples, if none is stated; for the first one, the batch, it is 1."""


@dataclass(frozen=True)
class StatedSizes:
    """The user's values for sizes that a model leaves free.

    Attributes:
        dimensions: sizes by the names of dimensions.
        picture: height and width of inputs that are, or look like, pictures; None if not stated.

    Example:
        >>> from winml_py.perf import Case, StatedSizes, measure
        >>> case = Case("models/edges.onnx", sizes=StatedSizes(picture=(48, 64)))
        >>> measure(case, iterations=2).sizes["image"].shape
        (1, 3, 48, 64)
    """

    dimensions: Mapping[str, int] = field(default_factory=dict)
    picture: tuple[int, int] | None = None

    def applied(self, features: Iterable[FeatureDescriptor]) -> list[FeatureDescriptor]:
        """The features with these sizes; refuses sizes that no input has, or that are not free."""
        before = list(features)
        self._require_known(before)
        after = [self._with_sizes(feature) for feature in before]
        if self.picture is not None and not any(map(_takes_size, before)):
            raise InvalidArgumentError(
                "No input of the model is a picture with a free height or width.",
                hint="Omit the size; `winml-py info` shows the sizes.",
            )
        return after

    def shapes(self, features: Iterable[FeatureDescriptor]) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs that have these sizes, by name; -1 for a size that stays free."""
        features = list(features)
        pairs = zip(features, self.applied(features), strict=True)
        return {
            after.name: tuple(after.shape)
            for before, after in pairs
            if isinstance(after, ShapedDescriptor) and after != before
        }

    def _require_known(self, features: list[FeatureDescriptor]) -> None:
        shaped = [feature for feature in features if isinstance(feature, ShapedDescriptor)]
        known = {name: None for feature in shaped for name in feature.dimension_names if name}
        for name in self.dimensions:
            if name not in known:
                raise InvalidArgumentError(
                    f"No input of the model has a dimension {name!r}.", hint=did_you_mean(name, known)
                )

    def _with_sizes(self, feature: FeatureDescriptor) -> FeatureDescriptor:
        if not isinstance(feature, ShapedDescriptor):
            return feature
        names = feature.dimension_names or ("",) * len(feature.shape)
        pairs = zip(feature.shape, names, strict=True)
        sizes = [self.dimensions.get(name, -1) if size < 0 else size for size, name in pairs]
        for axis, side in zip(_picture_axes(feature), self.picture or (), strict=False):
            sizes[axis] = side if sizes[axis] < 0 else sizes[axis]
        return feature if tuple(sizes) == tuple(feature.shape) else replace(feature, shape=Vector(sizes))


NOTHING_STATED = StatedSizes()


class ExampleShape(NamedTuple):
    """The shape of an example.

    Attributes:
        shape: all sizes.
        assumed: the names or numbers of dimensions whose size nothing states, without the batch.
    """

    shape: tuple[int, ...]
    assumed: tuple[str, ...] = ()

    def to_json(self) -> Facts:
        """The shape, ready for JSON."""
        return {"shape": list(self.shape), "assumed": list(self.assumed)}


def example_shape(feature: ShapedDescriptor) -> ExampleShape:
    """The example shape of a feature: the sizes from the model and its contract, 1 for the batch, else 64."""
    shape, assumed = list(feature.shape), []
    if isinstance(feature, ImageFeatureDescriptor):
        for axis, side in zip(_picture_axes(feature), _contract_size(feature.contract), strict=False):
            shape[axis] = side if shape[axis] < 0 else shape[axis]
    names = feature.dimension_names or ("",) * len(shape)
    for axis, size in enumerate(shape):
        if size < 0:
            shape[axis] = FREE if axis else 1
            assumed += [names[axis] or str(axis)] if axis else []
    return ExampleShape(tuple(shape), tuple(assumed))


def _contract_size(contract: ImageContract) -> tuple[int, ...]:
    """Height and width that a contract states, or that its scaling gives for a large square; else ()."""
    scaling = contract.scaling
    if contract.size is not None or scaling is None or scaling.crop_ratio is not None:
        return contract.size or ()
    limits = (scaling.height, scaling.width, scaling.shortest_side, scaling.longest_side)
    side = max(limit or 0 for limit in limits)
    return compute_placement(side, side, None, None, contract.crop_mode, None, scaling).tensor if side else ()


def _takes_size(feature: FeatureDescriptor) -> bool:
    return isinstance(feature, ShapedDescriptor) and any(feature.shape[axis] < 0 for axis in _picture_axes(feature))


def _picture_axes(feature: ShapedDescriptor) -> tuple[int, ...]:
    """The positions of height and width in a picture's shape; empty for other shapes."""
    if isinstance(feature, ImageFeatureDescriptor):
        return feature.contract.axes()[1:]
    if len(feature.shape) != 4:
        return ()
    return (2, 3) if feature.shape[1] in (1, 3, 4) else (1, 2) if feature.shape[3] in (1, 3, 4) else ()
