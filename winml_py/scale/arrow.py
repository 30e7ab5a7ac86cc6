"""Arrow types and arrays for features and their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.base.arrays import Array
from ..core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..errors import MissingPackageError


def import_arrow() -> Any:
    """The package pyarrow; MissingPackageError if it is not installed."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPackageError(
            "The package pyarrow, which reads and writes tables, is not installed.",
            hint="pip install pyarrow. Without it, map writes .csv and .jsonl.",
        ) from error
    return pyarrow


def cells_of(column: Any) -> Sequence[Any]:
    """The cells of a column: numbers and lists as arrays, all others as Python objects."""
    arrow = import_arrow()
    kind = column.type
    if not (arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind)):
        plain: list[Any] = column.to_pylist()
        return plain
    return [None if cell is None else _array(cell) for cell in column.to_numpy(zero_copy_only=False)]


def _array(cell: Any) -> Array:
    return np.stack([_array(part) for part in cell]) if cell.dtype == object and cell.size else np.asarray(cell)


def output_array(feature: FeatureDescriptor, shape: Sequence[int] | None, cells: Sequence[object]) -> Any:
    """A column of outputs. Its type is the same for every batch, unless the model states no rank."""
    arrow = import_arrow()
    return arrow.array([_to_arrow_value(cell) for cell in cells], _type(feature, None if shape is None else len(shape)))


def _to_arrow_value(value: object) -> Any:
    """A list or map in a form that Arrow accepts, which only takes arrays of one dimension."""
    if isinstance(value, dict):
        return [(key, _to_arrow_value(item)) for key, item in value.items()]
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 1):
        return [_to_arrow_value(item) for item in value]
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def _type(feature: FeatureDescriptor, rank: int | None) -> Any:
    """Arrow's type for a feature; None if it depends on the values."""
    arrow = import_arrow()
    if isinstance(feature, ImageFeatureDescriptor):
        return arrow.binary()
    if isinstance(feature, MapFeatureDescriptor):
        return arrow.map_(_scalar(feature.key_kind), _type(feature.value_descriptor, 0))
    if isinstance(feature, SequenceFeatureDescriptor):
        element = feature.element_descriptor
        kind = _type(element, len(element.shape) if isinstance(element, TensorFeatureDescriptor) else None)
        return None if kind is None else arrow.list_(kind)
    if not isinstance(feature, TensorFeatureDescriptor) or rank is None:
        return None
    kind = _scalar(feature.tensor_kind)
    for _ in range(rank):
        kind = arrow.list_(kind)
    return kind


def _scalar(tensor_kind: Any) -> Any:
    arrow = import_arrow()
    dtype = TENSOR_CLASSES[tensor_kind].dtype
    return arrow.string() if dtype.kind == "O" else arrow.from_numpy_dtype(dtype)
