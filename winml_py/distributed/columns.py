"""Batches of columns: an input's value for each cell, and new columns for a model's outputs."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.base.agreement import as_numpy
from ..core.base.arrays import Array, DType
from ..core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.pictures import ImageFeatureValue
from ..core.features.tables import convert_cells
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..enums import BitmapPixelFormat, TensorKind
from ..errors import EvaluationError, InvalidBindingError

ERROR = "error"
"""The column with the reason why a row has no outputs; None if it has."""

_FORMATS = {1: BitmapPixelFormat.GRAY8, 3: BitmapPixelFormat.RGB8, 4: BitmapPixelFormat.RGBA8}


def convert_cell(feature: FeatureDescriptor, cell: Any) -> Any:
    """A cell as a value that binds to an input.

    Args:
        feature: the input.
        cell: a picture's file or its bytes, an array, a number, a text, or what else the input takes.

    Raises:
        InvalidBindingError: the cell is missing, or its numbers do not fit the input.
    """
    takes_text = isinstance(feature, TensorFeatureDescriptor) and feature.tensor_kind is TensorKind.STRING
    is_file = isinstance(cell, (str, bytes, bytearray, os.PathLike)) and not takes_text
    if is_file or not isinstance(feature, ShapedDescriptor):
        return cell
    if cell is None:
        raise InvalidBindingError(f"The row has no value for {feature.name}.")
    array = np.asarray(cell, object if takes_text else None)  # among texts, numpy makes a text of a missing one
    if isinstance(feature, ImageFeatureDescriptor) and array.dtype == np.uint8 and array.ndim in (2, 3):
        channels = array.shape[2] if array.ndim == 3 else 1
        return ImageFeatureValue.from_array(array, _FORMATS.get(channels, BitmapPixelFormat.RGB8))
    return _convert_numbers(feature, array)


def _convert_numbers(feature: ShapedDescriptor, array: Array) -> Array:
    """A row in the input's type and shape, with the elements that a table would give."""
    missing_axes = max(0, len(feature.shape) - array.ndim)
    if missing_axes and array.ndim < 2:
        shape: tuple[int, ...] = (1, *feature.shape[1:])
    else:  # not reshaped: axes in another order would be mixed up. Bind refuses sizes that do not fit.
        shape = (1,) * missing_axes + array.shape
    elements = convert_cells(array, TENSOR_CLASSES[feature.tensor_kind].dtype)
    try:
        if elements is None:
            raise ValueError(f"got {', '.join(map(str, array.flat[:9])):.60}")
        return elements.reshape(shape)
    except ValueError as error:
        raise InvalidBindingError(
            f"The row does not fit {feature.name}, which takes {feature.expects()}: {error}.",
            hint="Convert the column, and fill missing cells as in training. Only floats can be missing, as NaN.",
        ) from error


@dataclass(frozen=True)
class OutputColumn:
    """An output as a column.

    Attributes:
        name: the output's name.
        is_batched: whether the output's first dimension is the batch, which a cell does not have.
        dtype: the type of a cell's numbers or texts; None if cells are pictures, maps or lists.
        shape: the shape of a cell; None if it varies, or if cells are not arrays.
    """

    name: str
    is_batched: bool
    dtype: DType | None = None
    shape: tuple[int, ...] | None = None

    def make_cell(self, value: object) -> Any:
        """The cell for an output of one row: an array, a number, a text, a PNG, a dict or a list.

        Raises:
            EvaluationError: the first size counts as the batch, and is not 1.
        """
        if isinstance(value, ImageFeatureValue):
            file = io.BytesIO()
            value.save(file, kind="PNG")
            return file.getvalue()
        array = as_numpy(value)
        if not isinstance(array, np.ndarray):
            return array
        if self.is_batched and len(array) != 1:
            raise EvaluationError(
                f"The output {self.name} has {len(array)} entries for one row, but its first dimension is the batch.",
                hint="If it is not the batch, give that dimension a different name in the model.",
            )
        cell = array[0] if self.is_batched else array
        return cell[()] if isinstance(cell, np.ndarray) else cell

    def make_array(self, cells: Sequence[Any]) -> Array:
        """The column as an array, stacked if the model states the sizes. Failed rows are NaN, 0 or None."""
        dtype, shape = self.dtype, self.shape
        if dtype is None or shape is None or any(np.shape(cell) != shape for cell in cells if cell is not None):
            dtype, shape = np.dtype(object), ()
        missing = {"f": math.nan, "O": None}.get(dtype.kind, 0)
        array = np.full((len(cells), *shape), missing, dtype)
        for row, cell in enumerate(cells):
            if cell is not None:
                array[row] = cell
        return array

    def make_series(self, cells: Sequence[Any], index: Any) -> Any:
        """The column for pandas. Failed rows are null, and the type does not depend on whether there are any."""
        import pandas

        is_number = self.shape == () and self.dtype is not None and self.dtype.kind != "O"
        column = self if is_number else OutputColumn(self.name, self.is_batched)
        values: Any = column.make_array(cells)
        if values.dtype.kind in "biu":  # types that have no null
            values = pandas.array(values)
            values[[cell is None for cell in cells]] = pandas.NA
        return pandas.Series(values, index, values.dtype)


def list_output_columns(model: LearningModel) -> dict[str, OutputColumn]:
    """The outputs as columns, by name."""
    batch_dimensions = {_find_batch_dimension(feature) for feature in model.input_features} - {None}
    columns = {}
    for feature in model.output_features:
        is_batched = _find_batch_dimension(feature) in batch_dimensions
        dtype, shape = None, None
        if isinstance(feature, TensorFeatureDescriptor) and feature.has_type:
            dtype = TENSOR_CLASSES[feature.tensor_kind].dtype
            sizes = tuple(feature.shape)[is_batched:]
            shape = sizes if feature.has_rank and -1 not in sizes else None
        columns[feature.name] = OutputColumn(feature.name, is_batched, dtype, shape)
    return columns


def _find_batch_dimension(feature: FeatureDescriptor) -> tuple[int, str] | None:
    """The first size and its name, which inputs and outputs share if it is the batch; None for other features."""
    if not isinstance(feature, ShapedDescriptor) or not feature.shape:
        return None
    size = feature.shape[0]
    if size not in (-1, 1):
        return None
    return size, feature.dimension_names[0] if size == -1 and feature.dimension_names else ""
