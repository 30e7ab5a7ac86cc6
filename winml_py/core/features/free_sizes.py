"""The sizes that a model leaves free: what the user states of them, and what examples take for the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...errors import InvalidArgumentError
from ..base.collections import Vector
from ..base.suggestions import did_you_mean
from ..imaging.scaling import Size
from .descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor

FREE = 64
"""The size of a free dimension in examples, where nothing states it; of the first one, the batch, it is 1."""

Shaped = TensorFeatureDescriptor | ImageFeatureDescriptor


@dataclass(frozen=True)
class StatedSizes:
    """What the user says of sizes that a model leaves free.

    Attributes:
        dimensions: sizes by the names of dimensions.
        picture: height and width of inputs that are pictures, or look like pictures; None where nothing is said.

    Example:
        >>> from winml_py.perf import Case, StatedSizes, measure
        >>> case = Case("models/edges.onnx", sizes=StatedSizes(picture=(48, 64)))
        >>> measure(case, iterations=2).sizes["image"].shape
        (1, 3, 48, 64)
    """

    dimensions: Mapping[str, int] = field(default_factory=dict)
    picture: Size | None = None

    def applied(self, features: Iterable[FeatureDescriptor]) -> list[FeatureDescriptor]:
        """The features with these sizes.

        Raises:
            InvalidArgumentError: no input has the dimension, or a free height or width.
        """
        before = list(features)
        self._require_known(before)
        after = [self._applied(feature) for feature in before]
        if self.picture is not None and not any(map(_takes_size, before)):
            raise InvalidArgumentError(
                "No input of the model is a picture with a free height or width.",
                hint="Leave the size out; `winml-py info` shows the sizes.",
            )
        return after

    def shapes(self, features: Iterable[FeatureDescriptor]) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs that these sizes are about, by name; -1 where a size stays free."""
        features = list(features)
        pairs = zip(features, self.applied(features), strict=True)
        return {one.name: tuple(one.shape) for before, one in pairs if isinstance(one, Shaped) and one != before}

    def _require_known(self, features: list[FeatureDescriptor]) -> None:
        known = {name: None for one in features if isinstance(one, Shaped) for name in one.dimension_names if name}
        for name in self.dimensions:
            if name not in known:
                raise InvalidArgumentError(
                    f"No input of the model has a dimension {name!r}.", hint=did_you_mean(name, known)
                )

    def _applied(self, feature: FeatureDescriptor) -> FeatureDescriptor:
        if not isinstance(feature, Shaped):
            return feature
        names = feature.dimension_names or ("",) * len(feature.shape)
        pairs = zip(feature.shape, names, strict=True)
        sizes = [self.dimensions.get(name, -1) if size < 0 else size for size, name in pairs]
        for axis, side in zip(_sides(feature), self.picture or (), strict=False):
            sizes[axis] = side if sizes[axis] < 0 else sizes[axis]
        return feature if tuple(sizes) == tuple(feature.shape) else replace(feature, shape=Vector(sizes))


NOTHING_STATED = StatedSizes()


class ExampleShape(NamedTuple):
    """The shape of an example.

    Attributes:
        shape: all sizes.
        assumed: the names of dimensions, or their numbers, whose size nothing states; the batch is none of them.
    """

    shape: tuple[int, ...]
    assumed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The shape, ready for JSON."""
        return {"shape": list(self.shape), "assumed": list(self.assumed)}


def example_shape(feature: Shaped) -> ExampleShape:
    """The shape that an example of a feature has: what the model and its contract state, 1 for the batch, else 64."""
    shape, assumed = list(feature.shape), []
    if isinstance(feature, ImageFeatureDescriptor) and feature.contract.size is not None:
        for axis, side in zip(_sides(feature), feature.contract.size, strict=True):
            shape[axis] = side if shape[axis] < 0 else shape[axis]
    names = feature.dimension_names or ("",) * len(shape)
    for axis, size in enumerate(shape):
        if size < 0:
            shape[axis] = FREE if axis else 1
            assumed += [names[axis] or str(axis)] if axis else []
    return ExampleShape(tuple(shape), tuple(assumed))


def _takes_size(feature: FeatureDescriptor) -> bool:
    return isinstance(feature, Shaped) and any(feature.shape[axis] < 0 for axis in _sides(feature))


def _sides(feature: Shaped) -> tuple[int, ...]:
    """Where height and width stand in a picture's shape; none in the shape of anything else."""
    if isinstance(feature, ImageFeatureDescriptor):
        return feature.contract.axes()[1:]
    if len(feature.shape) != 4:
        return ()
    return (2, 3) if feature.shape[1] in (1, 3, 4) else (1, 2) if feature.shape[3] in (1, 3, 4) else ()
