"""Examples of inputs: their shapes, with the sizes that a model leaves free, and values; and the example files."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from .core.base.arrays import Array
from .core.base.collections import Vector
from .core.base.messages import Facts, did_you_mean
from .core.base.winrt_object import private_state
from .core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    ShapedDescriptor,
)
from .core.features.pictures import ImageFeatureValue, PreprocessPlan
from .core.features.tensor_classes import FLOAT_KINDS, TENSOR_CLASSES
from .core.imaging.contract import ImageContract, compute_placement
from .core.model.contracts import require_input_names
from .core.model.model import LearningModel
from .core.session.session import LearningModelSession
from .enums import TensorKind
from .errors import InvalidArgumentError, StorageNotFoundError, WinMLError

# Shapes


EXAMPLE = "example inputs"
"""What reports print instead of the name of an input file."""

FREE = 64
"""The size of a free dimension in examples, if none is stated; for the first one, the batch, it is 1."""


@dataclass(frozen=True)
class StatedSizes:
    """The user's values for sizes that a model leaves free.

    Attributes:
        dimensions: sizes by the names of dimensions.
        picture: height and width of inputs that are, or look like, pictures; None if not stated.

    Example:
        >>> import os, tempfile
        >>> from winml_py.float16 import StatedSizes, convert
        >>> target = os.path.join(tempfile.mkdtemp(), "edges.onnx")
        >>> convert("models/edges.onnx", target, sizes=StatedSizes(picture=(48, 64))).sizes["image"].shape
        (1, 3, 48, 64)
    """

    dimensions: Mapping[str, int] = field(default_factory=dict)
    picture: tuple[int, int] | None = None

    def apply(self, features: Iterable[FeatureDescriptor]) -> list[FeatureDescriptor]:
        """The features with these sizes. Refuses sizes that no input has, or that are not free."""
        features = list(features)
        self._require_known(features)
        if self.picture is not None and not any(map(_has_free_side, features)):
            raise InvalidArgumentError(
                "The model has no picture input with a free height or width.",
                hint="Omit the size. To see the sizes of the inputs, run `winml-py info`.",
            )
        return [self._with_sizes(feature) for feature in features]

    def find_shapes(self, features: Iterable[FeatureDescriptor]) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs that these sizes change, by name; -1 for a size that stays free."""
        features = list(features)
        shapes = {}
        for before, after in zip(features, self.apply(features), strict=True):
            if isinstance(after, ShapedDescriptor) and after != before:
                shapes[after.name] = tuple(after.shape)
        return shapes

    def _require_known(self, features: list[FeatureDescriptor]) -> None:
        shaped = [feature for feature in features if isinstance(feature, ShapedDescriptor)]
        known = {name: None for feature in shaped for name in feature.dimension_names if name}
        for name in self.dimensions:
            if name not in known:
                raise InvalidArgumentError(
                    f"No input of the model has a dimension named {name!r}.", hint=did_you_mean(name, known)
                )

    def _with_sizes(self, feature: FeatureDescriptor) -> FeatureDescriptor:
        if not isinstance(feature, ShapedDescriptor):
            return feature
        names = feature.dimension_names or ("",) * len(feature.shape)
        pairs = zip(feature.shape, names, strict=True)
        sizes = [self.dimensions.get(name, -1) if size < 0 else size for size, name in pairs]
        for axis, side in zip(_find_picture_axes(feature), self.picture or (), strict=False):
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


def list_inputs(session: LearningModelSession | LearningModel) -> list[FeatureDescriptor]:
    """The inputs of a session, with the sizes that its options fix; or those of a model."""
    if isinstance(session, LearningModel):
        return list(session.input_features)
    return list(private_state(session).inputs.values())


def find_input_sizes(features: Iterable[FeatureDescriptor], values: Mapping[str, Any]) -> dict[str, ExampleShape]:
    """The shape of each tensor or picture input: that of its value if it has one, else that of its example."""
    sizes = {}
    for feature in features:
        if not isinstance(feature, ShapedDescriptor):
            continue
        value = values.get(feature.name)
        if value is None:
            sizes[feature.name] = find_example_shape(feature)
        elif isinstance(value, ImageFeatureValue):
            sizes[feature.name] = ExampleShape(PreprocessPlan(value.sizes, feature).shape)
        else:
            sizes[feature.name] = ExampleShape(np.shape(value))
    return sizes


def sizes_to_json(sizes: Mapping[str, ExampleShape]) -> dict[str, Any]:
    """Sizes, ready for JSON."""
    return {name: size.to_json() for name, size in sizes.items()}


def find_example_shape(feature: ShapedDescriptor, first: int = 1, other: int = FREE) -> ExampleShape:
    """The example shape of a feature: the sizes of the model or its contract; else 1 for the batch, 64 for others."""
    shape = list(feature.shape)
    if isinstance(feature, ImageFeatureDescriptor) and len(shape) == 4:
        sizes = feature.contract.channels, *_find_contract_size(feature.contract)
        for axis, size in zip(feature.contract.axes(), sizes, strict=False):
            shape[axis] = size if shape[axis] < 0 else shape[axis]
    names = feature.dimension_names or ("",) * len(shape)
    free_axes = [axis for axis, size in enumerate(shape) if size < 0]
    for axis in free_axes:
        shape[axis] = other if axis else first
    return ExampleShape(tuple(shape), tuple(names[axis] or str(axis) for axis in free_axes if axis))


@contextmanager
def tell_assumed_sizes(features: Iterable[FeatureDescriptor], given: Collection[str] = ()) -> Iterator[None]:
    """Adds to an error of an evaluation which sizes were assumed for the examples, those of inputs not given."""
    try:
        yield
    except WinMLError as error:
        missing = [
            feature for feature in features if feature.name not in given and isinstance(feature, ShapedDescriptor)
        ]
        sizes = {feature.name: " and ".join(find_example_shape(feature).assumed) for feature in missing}
        if told := [f"{free} of the input {name}" for name, free in sizes.items() if free]:
            stop = "" if error.message.endswith(".") else "."
            error.message += f"{stop} No size was specified for {', and '.join(told)}, so {FREE} was used."
            error.hint = f"To set one, add --size H,W or --dim NAME=N. In Python, pass the input. {error.hint}".strip()
            error.args = (f"{error.message} {error.hint}",)
        raise


def _find_contract_size(contract: ImageContract) -> tuple[int, ...]:
    """Height and width that a contract states, or that its scaling gives for a large square; else ()."""
    side = max(contract.scaling.sides, default=0)
    if contract.size is not None or not side:
        return contract.size or ()
    return compute_placement(side, side, (None, None), contract.scaling).tensor


def _has_free_side(feature: FeatureDescriptor) -> bool:
    if not isinstance(feature, ShapedDescriptor):
        return False
    return any(feature.shape[axis] < 0 for axis in _find_picture_axes(feature))


def _find_picture_axes(feature: ShapedDescriptor) -> tuple[int, ...]:
    """The positions of height and width in a picture's shape; empty for other shapes."""
    if isinstance(feature, ImageFeatureDescriptor):
        return feature.contract.axes()[1:]
    if len(feature.shape) == 4 and feature.shape[1] in (1, 3, 4):
        return 2, 3
    if len(feature.shape) == 4 and feature.shape[3] in (1, 3, 4):
        return 1, 2
    return ()


# Example values


MAX_NUMBERS = 1 << 27
"""The most numbers in an example: half a gigabyte. A damaged model may ask for any size."""


def make_examples(features: Iterable[FeatureDescriptor]) -> dict[str, Any]:
    """Example values for inputs, suitable for measuring.

    Raises:
        InvalidArgumentError: an input has no example values.
    """
    rng = np.random.default_rng(0)
    return {feature.name: make_example(feature, rng) for feature in features}


def complete_inputs(
    features: Sequence[FeatureDescriptor], inputs: Mapping[str, object]
) -> tuple[dict[str, Any], list[str]]:
    """Adds random values for the missing inputs, suitable for checking results.

    Returns:
        The values of all inputs, and the names of those that were missing.

    Raises:
        InvalidArgumentError: a missing input does not take any numbers, or there is no input of a name.
    """
    require_input_names(features, inputs)
    rng, values = np.random.default_rng(0), dict(inputs)
    missing = [feature for feature in features if feature.name not in inputs]
    for feature in missing:
        if not takes_any_numbers(feature):
            raise make_no_example_error(feature)
        values[feature.name] = make_example(feature, rng)
    return values, [feature.name for feature in missing]


def has_example(feature: FeatureDescriptor) -> TypeGuard[ShapedDescriptor]:
    """Whether the feature is a tensor or a picture, of a known type and rank."""
    is_known = isinstance(feature, ShapedDescriptor) and feature.tensor_kind in TENSOR_CLASSES
    return is_known and getattr(feature, "has_rank", True)


def takes_any_numbers(feature: FeatureDescriptor) -> TypeGuard[ShapedDescriptor]:
    """Whether the feature accepts any numbers: floats do; ids, strings, booleans, maps and sequences do not."""
    return has_example(feature) and feature.tensor_kind in FLOAT_KINDS


def make_no_example_error(feature: FeatureDescriptor) -> InvalidArgumentError:
    """The error for an input whose values nobody can make up."""
    return InvalidArgumentError(
        f"No example values can be generated for the input {feature.name} ({feature.expects()}).",
        hint=f"Pass a value for the input. On the command line, add {feature.name}=FILE.npy.",
    )


def make_example(feature: FeatureDescriptor, rng: np.random.Generator) -> Array:
    """An example value for an input: a picture, or numbers around 0.

    Integers, booleans and strings are zeros: they may be indices, and random ones may be out of range.

    Raises:
        InvalidArgumentError: the input is a map or a sequence, has no rank, or is too large.
    """
    if not has_example(feature):
        raise make_no_example_error(feature)
    shape = find_example_shape(feature).shape
    if math.prod(shape) > MAX_NUMBERS:
        raise InvalidArgumentError(
            f"The input {feature.name} has {math.prod(shape):,} values, but an example has at most {MAX_NUMBERS:,}.",
            hint="Pass a value for the input.",
        )
    if feature.tensor_kind is TensorKind.STRING:
        return np.full(shape, "0", object)
    dtype = TENSOR_CLASSES[feature.tensor_kind].dtype
    if not takes_any_numbers(feature):
        return np.zeros(shape, dtype)
    if isinstance(feature, ImageFeatureDescriptor) and len(shape) == 4:
        channels = shape[feature.contract.axes()[0]]
        if channels == feature.contract.channels:  # not in a damaged model
            return _make_picture(feature, shape, rng)
    return rng.standard_normal(shape).astype(dtype)


def _make_picture(feature: ImageFeatureDescriptor, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Smooth shapes, a little noise, and black next to white, converted from bytes by the contract."""
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


# Example files


def find_examples() -> Path:
    """Finds the folder with `models` and `samples`: inside the package in a wheel, next to it in a checkout.

    Raises:
        StorageNotFoundError: there is neither.
    """
    package = Path(__file__).parent
    for folder in (package / "examples", package.parent):
        if (folder / "models" / "digits.onnx").is_file():
            return folder
    raise StorageNotFoundError(
        f"{package / 'examples'}: This installation has no examples.", hint="Reinstall winml-py from its wheel."
    )
