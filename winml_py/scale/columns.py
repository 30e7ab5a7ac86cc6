"""Batches of engines: a model's inputs as their rows, and its outputs as columns."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.base.arrays import Array, DType
from ..core.base.messages import did_you_mean, type_name
from ..core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.pictures import ImageFeatureValue
from ..core.features.tensor import Tensor
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..enums import BitmapPixelFormat, TensorKind
from ..errors import EvaluationError, InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError

ERROR = "error"
"""The column with the reason why a row has no outputs; None if it has."""

Cells = Sequence[Any]
"""The cells of a column, from the first row to the last."""


@dataclass(frozen=True)
class OutputColumn:
    """An output as a column. If `is_batched`, its first size is the batch, which a cell omits."""

    feature: FeatureDescriptor
    is_batched: bool

    @property
    def dtype(self) -> DType | None:
        """The type of the numbers or texts in a cell; None if cells are pictures, maps or lists."""
        feature = self.feature
        return TENSOR_CLASSES[feature.tensor_kind].dtype if isinstance(feature, TensorFeatureDescriptor) else None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The sizes of a cell, -1 if they vary; None if the model does not state them, or a cell is not an array."""
        feature = self.feature
        if not isinstance(feature, TensorFeatureDescriptor) or not feature.has_rank:
            return None
        return tuple(feature.shape)[1:] if self.is_batched else tuple(feature.shape)

    def cell(self, value: object) -> Any:
        """The cell for an output of one item: an array, a number, a text, a PNG, a dict or a list.

        Raises:
            EvaluationError: the first size counts as the batch, and is not 1.
        """
        if isinstance(value, ImageFeatureValue):
            return _png(value)
        if not isinstance(value, Tensor):
            return _plain(value)
        array = value.to_numpy()
        if self.is_batched and len(array) != 1:
            raise EvaluationError(
                f"The output {self.feature.name} has {len(array)} entries for one row, but its first size counts "
                "as the batch.",
                hint="If it is not the batch, give that size a different name in the model.",
            )
        cell = array[0] if self.is_batched else array
        return cell[()] if isinstance(cell, np.ndarray) else cell


FilledColumns = Sequence[tuple[OutputColumn, Cells]]
"""The output columns."""


def output_columns(model: LearningModel, names: tuple[str, ...] | None) -> list[OutputColumn]:
    """The requested outputs as columns; all of them for None. Refuses unknown names."""
    features = {feature.name: feature for feature in model.output_features}
    for name in names or ():
        if name not in features:
            raise InvalidArgumentError(f"The model has no output {name!r}.", hint=did_you_mean(name, features))
    batch_dimensions = {_batch_dimension(feature) for feature in model.input_features}
    return [
        OutputColumn(features[name], _batch_dimension(features[name]) in batch_dimensions - {None})
        for name in (features if names is None else names)
    ]


def _batch_dimension(feature: FeatureDescriptor) -> tuple[int, str] | None:
    """The first size and its name, which are the same in inputs and outputs if they are the batch."""
    if not isinstance(feature, ShapedDescriptor) or not feature.shape:
        return None
    size = feature.shape[0]
    if size not in (-1, 1):
        return None
    return size, feature.dimension_names[0] if size == -1 and feature.dimension_names else ""


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.to_numpy() if isinstance(value, Tensor) else value


def _png(picture: ImageFeatureValue) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind="PNG")
    return file.getvalue()


# Rows: the cells of a batch as values of a model's inputs.


Columns = Mapping[str, str | Sequence[str]]
"""For each input its column, or several columns of numbers that become one row."""

_FORMATS = {1: BitmapPixelFormat.GRAY8, 3: BitmapPixelFormat.RGB8, 4: BitmapPixelFormat.RGBA8}


class Reader:
    """Turns cells into values.

    Args:
        features: the model's inputs, by name.
        columns: the inputs' columns; by default the column of their name, or the only column for the only input.
        contract: the contract of the inputs that it fits, or None.
    """

    def __init__(
        self, features: Mapping[str, FeatureDescriptor], columns: Columns, contract: ImageContract | None
    ) -> None:
        for name in columns:
            if name not in features:
                raise InvalidArgumentError(f"The model has no input {name!r}.", hint=did_you_mean(name, features))
        self._features, self._columns, self._contract = features, columns, contract

    def items(self, batch: Batch) -> list[Mapping[str, Any] | WinMLError]:
        """The values of each row by input name, or the reason why there are none. Refuses a batch without a column."""
        columns = {name: self._cells(batch, self._source(name, batch.names)) for name in self._features}
        return [self._item({name: cells[row] for name, cells in columns.items()}) for row in range(batch.rows)]

    def _source(self, name: str, columns: Sequence[str]) -> str | Sequence[str]:
        alone = len(self._features) == len(columns) == 1
        source = self._columns.get(name) or (columns[0] if alone else name)
        for column in [source] if isinstance(source, str) else source:
            if column not in columns:
                raise InvalidArgumentError(
                    f"The input {name} needs the column {column!r}, which is not among {', '.join(columns)}.",
                    hint=f"Name its column: columns={{{name!r}: {columns[0]!r}}}." if columns else "",
                )
        return source

    def _cells(self, batch: Batch, source: str | Sequence[str]) -> Sequence[Any]:
        if isinstance(source, str):
            return batch.cells(source)
        return [np.array(cells) for cells in zip(*map(batch.cells, source), strict=True)]

    def _item(self, cells: Mapping[str, object]) -> Mapping[str, Any] | WinMLError:
        try:
            return {name: self._value(self._features[name], cell) for name, cell in cells.items()}
        except WinMLError as error:
            return error

    def _value(self, feature: FeatureDescriptor, cell: object) -> Any:
        takes_text = isinstance(feature, TensorFeatureDescriptor) and feature.tensor_kind is TensorKind.STRING
        if isinstance(cell, (str, bytes, bytearray, os.PathLike)) and not takes_text:
            return cell  # a picture's file or its bytes
        array = np.asarray(cell)
        is_missing = array.dtype == object and any(each is None for each in array.flat)
        if is_missing or (isinstance(cell, float) and np.isnan(cell) and self._is_picture(feature)):
            raise InvalidBindingError(f"This row has no value for {feature.name}.")
        if self._is_picture(feature) and array.dtype == np.uint8 and array.ndim in (2, 3):
            channels = 1 if array.ndim == 2 else array.shape[2]
            return ImageFeatureValue.from_array(array, _FORMATS.get(channels, BitmapPixelFormat.RGB8))
        return _tensor(feature, array) if isinstance(feature, ShapedDescriptor) else cell

    def _is_picture(self, feature: FeatureDescriptor) -> bool:
        contract = self._contract
        return isinstance(feature, ImageFeatureDescriptor) or (contract is not None and feature.fits(contract))


def _tensor(feature: ShapedDescriptor, array: Array) -> Any:
    """Numbers as the input takes them, with the batch added in front if the row lacks it."""
    dtype = TENSOR_CLASSES[feature.tensor_kind].dtype
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            converted = array.astype(dtype)
        if dtype.kind == "f":
            is_kept = not np.isfinite(array.astype(np.float64)[np.isinf(converted)]).any()
        else:
            is_kept = dtype.kind not in "iub" or np.array_equal(converted, array)
    except (TypeError, ValueError) as error:
        raise InvalidBindingError(f"The column of {feature.name} does not contain numbers: {error}.") from error
    if not is_kept:
        raise InvalidBindingError(f"The input {feature.name} takes {feature.expects()}, but a row has {array.dtype}.")
    shape = tuple(feature.shape)
    if converted.ndim >= len(shape):
        return converted
    is_flat = converted.ndim < 2 or _without_ones(converted.shape) == _without_ones(shape[1:])
    if not is_flat or shape[1:].count(-1) > 1:
        return converted[None]  # a reshape would scramble another order of dimensions: the bind refuses it
    try:
        return converted.reshape((1, *shape[1:]))
    except ValueError as error:
        raise SizeMismatchError(
            f"A row has {converted.size} numbers of the shape {converted.shape} for {feature.name}, which takes "
            f"{feature.expects()}."
        ) from error


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


# Batches of engines: dicts of arrays, frames of pandas, tables of Arrow.


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


Batch = ArrayBatch | FrameBatch | ArrowBatch


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
