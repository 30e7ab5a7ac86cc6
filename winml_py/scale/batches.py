"""Batches of engines: dicts of arrays, frames of pandas, tables of Arrow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.base.arrays import Array
from ..core.base.messages import type_name
from ..core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..errors import InvalidArgumentError
from .columns import ERROR, Batch, Cells, FilledColumns, OutputColumn


def batch_of(value: object) -> Batch:
    """An engine's argument as a batch; refuses unknown types."""
    if isinstance(value, Mapping):
        return ArrayBatch(value)
    if hasattr(value, "column_names") and hasattr(value, "num_rows"):
        return ArrowBatch(value)
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        return FrameBatch(value)
    raise InvalidArgumentError(
        f"Expected a dict of arrays, a pandas.DataFrame or a pyarrow.Table, got {type_name(value)}.",
        hint='In Ray, pass batch_format="pyarrow".',
    )


class ArrayBatch:
    """A dict of arrays whose first size is the number of rows."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns
        self.names = list(columns)
        counts = {len(column) for column in columns.values()}
        if len(counts) > 1:
            raise InvalidArgumentError(f"The columns of the batch have {sorted(counts)} rows.")
        self.rows = counts.pop() if counts else 0

    def cells(self, name: str) -> Cells:
        """The cells of a column."""
        return list(self._columns[name])

    def with_outputs(self, kept_columns: Iterable[str], outputs: FilledColumns, errors: Cells) -> dict[str, Any]:
        """A dict of arrays. Failed rows have NaN, 0 or "" if cells are arrays of one shape; else None."""
        columns = {name: self._columns[name] for name in kept_columns}
        columns |= {column.feature.name: _stack(column, cells) for column, cells in outputs}
        return columns | {ERROR: _objects(errors)}


class FrameBatch:
    """A pandas DataFrame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names, self.rows = list(frame.columns), len(frame)

    def cells(self, name: str) -> Cells:
        """The cells of a column."""
        return list(self._frame[name])

    def with_outputs(self, kept_columns: Iterable[str], outputs: FilledColumns, errors: Cells) -> Any:
        """A DataFrame with the same index. Numbers and booleans are columns of their type, all others are objects."""
        import pandas

        columns = {column.feature.name: _values(column, cells) for column, cells in outputs} | {ERROR: _objects(errors)}
        added = [pandas.Series(v, self._frame.index, v.dtype, name) for name, v in columns.items()]
        return pandas.concat([self._frame[list(kept_columns)], *added], axis=1)


class ArrowBatch:
    """An Arrow Table or RecordBatch."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.names, self.rows = list(table.column_names), table.num_rows

    def cells(self, name: str) -> Cells:
        """The cells of a column."""
        return _arrow_cells(self._table.column(name))

    def with_outputs(self, kept_columns: Iterable[str], outputs: FilledColumns, errors: Cells) -> Any:
        """A Table. Arrays are lists, and failed rows have nulls."""
        import pyarrow as arrow

        columns = {name: self._table.column(name) for name in kept_columns}
        columns |= {column.feature.name: _arrow_column(column.feature, column.shape, c) for column, c in outputs}
        return arrow.table(columns | {ERROR: arrow.array(errors, arrow.string())})


def _objects(cells: Iterable[object]) -> Array:
    """An array of the cells themselves, even if they are arrays."""
    listed = list(cells)
    array = np.empty(len(listed), object)
    for index, cell in enumerate(listed):  # numpy would unpack arrays and lists
        array[index] = cell
    return array


def _stack(column: OutputColumn, cells: Cells) -> Array:
    dtype, shape = column.dtype, column.shape
    if dtype is None or shape is None:
        return _objects(cells)
    shapes = {np.shape(cell) for cell in cells if cell is not None}
    if len(shapes) > 1 or (not shapes and -1 in shape):
        return _objects(cells)
    sizes = shapes.pop() if shapes else shape
    missing: Any = math.nan if dtype.kind == "f" else "" if dtype.kind == "O" else 0
    array = np.full((len(cells), *sizes), missing, dtype)
    for index, cell in enumerate(cells):
        if cell is not None:
            array[index] = cell
    return array


def _values(column: OutputColumn, cells: Cells) -> Any:
    """The values of a pandas column, whose type does not depend on the number of failed rows."""
    import pandas

    dtype = column.dtype
    if column.shape != () or dtype is None or dtype.kind == "O":
        return _objects(cells)
    if dtype.kind == "f":
        return np.array([math.nan if cell is None else cell for cell in cells], dtype)
    name = "boolean" if dtype.kind == "b" else f"{'U' if dtype.kind == 'u' else ''}Int{8 * dtype.itemsize}"
    return pandas.array(list(cells), dtype=name)


# Arrow's types and arrays.


def _arrow_cells(column: Any) -> Sequence[Any]:
    """The cells of a column: numbers and lists as arrays, all others as Python objects."""
    import pyarrow as arrow

    kind = column.type
    if not (arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind)):
        plain: list[Any] = column.to_pylist()
        return plain
    return [None if cell is None else _array(cell) for cell in column.to_numpy(zero_copy_only=False)]


def _array(cell: Any) -> Array:
    return np.stack([_array(part) for part in cell]) if cell.dtype == object and cell.size else np.asarray(cell)


def _arrow_column(feature: FeatureDescriptor, shape: Sequence[int] | None, cells: Sequence[object]) -> Any:
    """A column of outputs. Its type is the same for every batch, unless the model states no rank."""
    import pyarrow as arrow

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
    import pyarrow as arrow

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
    import pyarrow as arrow

    dtype = TENSOR_CLASSES[tensor_kind].dtype
    return arrow.string() if dtype.kind == "O" else arrow.from_numpy_dtype(dtype)
