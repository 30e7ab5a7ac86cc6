"""A model's inputs as rows of a batch, and its outputs as columns."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..core.base.arrays import Array, DType
from ..core.base.messages import did_you_mean
from ..core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
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
    """The requested outputs as columns; all of them if no names are given. Refuses unknown names."""
    features = {feature.name: feature for feature in model.output_features}
    for name in names or ():
        if name not in features:
            raise InvalidArgumentError(f"The model has no output {name!r}.", hint=did_you_mean(name, features))
    batch_dimensions = {_batch_dimension(feature) for feature in model.input_features}
    return [
        OutputColumn(features[name], _batch_dimension(features[name]) in batch_dimensions - {None})
        for name in names or features
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


class Batch(Protocol):
    """A batch of columns."""

    names: list[str]
    rows: int

    def cells(self, name: str) -> Cells:
        """The cells of a column."""

    def with_outputs(self, kept_columns: Iterable[str], outputs: FilledColumns, errors: Cells) -> Any:
        """A new batch of the same kind: columns of this one, the outputs, and the errors."""


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
