"""Tables: the columns of pandas, polars and pyarrow as the arrays that inputs take. No such library is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError, InvalidBindingError, MissingInputError, SizeMismatchError
from ..base.arrays import Array, DType
from ..base.messages import did_you_mean, type_name
from .containers import NUMBERS
from .descriptors import FeatureDescriptor, TensorFeatureDescriptor
from .tensor_classes import TENSOR_CLASSES


def is_table(value: object) -> bool:
    """Whether a value is a table of one of these libraries."""
    return hasattr(type(value), "columns") and hasattr(type(value), "__len__")


def is_tabular(value: object) -> bool:
    """Whether a value is a table or a column of one of these libraries."""
    return is_table(value) or any(hasattr(type(value), name) for name in ("isna", "is_null"))


def is_column(value: object) -> bool:
    """Whether a value can be a column of a mapping: a list, an array of one dimension, or a library's column."""
    return isinstance(value, list) or is_tabular(value) or getattr(value, "ndim", 0) == 1


def name_columns(table: Any, inputs: Mapping[str, FeatureDescriptor]) -> dict[str, Any]:
    """A table's values by the names of a model's inputs: a column for each, or for a single matrix all columns.

    Columns for which there is no input are not used.

    Raises:
        MissingInputError: an input has no column.
        InvalidArgumentError: columns of one name, or of different lengths.
        WinMLError: as `read_table` does, for a matrix.
    """
    columns, features = _list_columns(table), list(inputs.values())
    only = features[0] if len(features) == 1 and isinstance(features[0], TensorFeatureDescriptor) else None
    if only is not None and (len(columns) == 1 or only.shape[1:] not in ((), (1,))):
        return {only.name: read_table(table, only)}
    if missing := next((feature for feature in features if feature.name not in columns), None):
        raise MissingInputError(
            f"The table has no column {missing.name!r}, which is an input of the model: {missing.expects()}.",
            hint=did_you_mean(missing.name, columns),
        )
    return {name: columns[name] for name in inputs}


def read_table(value: Any, feature: FeatureDescriptor) -> Array:
    """A table, a mapping of columns, or a column, as an array of a feature's type: rows x columns, or rows alone.

    Numbers are converted if they keep their values but for precision; missing ones are NaN, if the type has it.

    Raises:
        InvalidBindingError: a cell is missing, or does not fit the feature's type.
        SizeMismatchError: more or fewer columns than the feature takes.
        InvalidArgumentError: columns of one name, or of different lengths.
    """
    assert isinstance(feature, TensorFeatureDescriptor)
    tensor_class, shape = TENSOR_CLASSES.get(feature.tensor_kind), tuple(feature.shape)
    if tensor_class is None:  # `prepare` says so, unless the input takes any type
        return np.asarray(value)
    if not is_table(value) and not isinstance(value, Mapping):
        columns = {getattr(value, "name", None) or feature.name: value}
    else:
        columns = _list_columns(value)
        if len(shape) == 2 and shape[1] not in (-1, len(columns)):
            raise SizeMismatchError(
                f"The table has {len(columns)} columns: {', '.join(columns)}. "
                f"The model variable {feature.name} expects {feature.expects()}.",
                hint="Pass the columns that the model was trained on, in the same order.",
            )
    arrays = [_read_column(str(name), column, feature, tensor_class.dtype) for name, column in columns.items()]
    return arrays[0] if len(arrays) == len(shape) == 1 else np.column_stack(arrays)


def _list_columns(table: Any) -> dict[str, Any]:
    if isinstance(table, Mapping):
        names, values = list(table), list(table.values())
    elif hasattr(type(table), "column_names"):  # pyarrow's, whose columns may have one name
        names, values = table.column_names, table.columns
    else:
        names, values = list(table.columns), [table[name] for name in table.columns]
    columns = {str(name): column for name, column in zip(names, values, strict=True)}
    if len(columns) < len(names) or len(set(map(len, columns.values()))) != 1:
        found = ", ".join(f"{name} with {len(column)} values" for name, column in zip(names, values, strict=True))
        raise InvalidArgumentError(f"Expected columns with unique names and equal lengths, got {found or 'none'}.")
    return columns


def _read_column(name: str, column: Any, feature: FeatureDescriptor, dtype: DType) -> Array:
    array = np.asarray(column)
    elements = convert_cells(array, dtype)
    if elements is None:
        row = next(row for row in range(len(array)) if convert_cells(array[row : row + 1], dtype) is None)
        (cell,) = array[row : row + 1].tolist()
        raise InvalidBindingError(
            f"The column {name} contains {cell!r:.60} ({type_name(cell)}) in row {row}, but the model variable "
            f"{feature.name} expects {feature.expects()}.",
            hint=f"Convert the column to {'text' if dtype.kind == 'O' else 'numbers in range'}, and fill in missing "
            "cells the way you did for training. Only float columns can have missing values, represented as NaN.",
        )
    return elements


def convert_cells(cells: Array, dtype: DType) -> Array | None:
    """Cells as elements of a type; None where one cannot be an element, losing nothing but precision."""
    if dtype.kind == "O":
        return cells if all(isinstance(cell, str) for cell in cells.flat) else None
    if cells.dtype.kind == "O":  # with None or pandas' NA for missing numbers
        numbers = [np.nan if cell is None or type(cell).__name__ == "NAType" else cell for cell in cells.flat]
        if not all(isinstance(number, (*NUMBERS, np.bool_)) for number in numbers):
            return None
        if dtype.kind in "iu" and all(number == number // 1 for number in numbers):  # floats would lose digits
            cells = np.array([int(number) for number in numbers], object)
            limits = np.iinfo(dtype)
            return cells.astype(dtype) if all(limits.min <= number <= limits.max for number in cells) else None
        cells = np.array(numbers)
    if cells.dtype.kind not in "biuf":
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        elements = cells.astype(dtype)
    if dtype.kind == "f":
        is_kept = np.array_equal(np.isfinite(elements), np.isfinite(cells))
    else:
        is_kept = np.array_equal(elements, cells)
    return elements if is_kept else None
