"""Rows: the cells of a batch as values of a model's inputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.base.suggestions import did_you_mean
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.imaging.contract import ImageContract
from ..core.model.contract_fit import fits
from ..enums import BitmapPixelFormat, TensorKind
from ..errors import InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError
from .batches import Batch

Columns = Mapping[str, str | Sequence[str]]
"""For each input, the column that it comes from, or several columns of numbers that become one row."""

_FORMATS = {2: BitmapPixelFormat.GRAY8, 3: BitmapPixelFormat.RGB8, 4: BitmapPixelFormat.RGBA8}


class Reader:
    """Makes values of cells.

    Args:
        features: the model's inputs, by name.
        columns: where they come from; inputs that it does not name come from the column of their name. The only column
            of a batch is that of the only input.
        contract: how pictures become the inputs that it fits, or None.
    """

    def __init__(
        self, features: Mapping[str, FeatureDescriptor], columns: Columns, contract: ImageContract | None
    ) -> None:
        for name in columns:
            if name not in features:
                raise InvalidArgumentError(f"The model has no input {name!r}.", hint=did_you_mean(name, features))
        self._features, self._columns, self._contract = features, columns, contract

    def items(self, batch: Batch) -> list[Mapping[str, Any] | WinMLError]:
        """The values of each row by the names of inputs; or why there are none.

        Raises:
            InvalidArgumentError: the batch lacks a column.
        """
        taken = {name: self._cells(batch, self._source(name, batch.names)) for name in self._features}
        return [self._item({name: cells[row] for name, cells in taken.items()}) for row in range(batch.rows)]

    def paths(self, batch: Batch) -> list[str]:
        """The files that the rows' values are read from, in the order of rows and inputs."""
        columns = [
            batch.cells(source)
            for name, feature in self._features.items()
            if not _is_text(feature) and isinstance(source := self._source(name, batch.names), str)
        ]
        cells = (cell for row in zip(*columns, strict=True) for cell in row)
        return [os.fsdecode(cell) for cell in cells if isinstance(cell, (str, os.PathLike))]

    def require(self, columns: Sequence[str]) -> None:
        """Refuses a batch without a column of an input.

        Raises:
            InvalidArgumentError: there is none.
        """
        for name in self._features:
            self._source(name, columns)

    def _source(self, name: str, columns: Sequence[str]) -> str | Sequence[str]:
        """The column, or the columns, of an input."""
        alone = len(self._features) == len(columns) == 1
        source = self._columns.get(name) or (columns[0] if alone else name)
        for column in [source] if isinstance(source, str) else source:
            if column not in columns:
                raise InvalidArgumentError(
                    f"The input {name} comes from the column {column!r}, and there is none among {', '.join(columns)}.",
                    hint=f"Say which one: columns={{{name!r}: {columns[0]!r}}}." if columns else "",
                )
        return source

    def _cells(self, batch: Batch, source: str | Sequence[str]) -> Sequence[Any]:
        if isinstance(source, str):
            return batch.cells(source)
        return [np.array(cells) for cells in zip(*map(batch.cells, source), strict=True)]

    def _item(self, cells: Mapping[str, Any]) -> Mapping[str, Any] | WinMLError:
        try:
            return {name: self._value(self._features[name], cell) for name, cell in cells.items()}
        except WinMLError as error:
            return error

    def _value(self, feature: FeatureDescriptor, cell: Any) -> Any:
        if cell is None or (isinstance(cell, float) and np.isnan(cell) and self._is_picture(feature)):
            raise InvalidBindingError(f"There is no value for {feature.name} in this row.")
        if isinstance(cell, (str, bytes, bytearray, os.PathLike)) and not _is_text(feature):
            return cell
        array = np.asarray(cell)
        if self._is_picture(feature) and array.dtype == np.uint8 and array.ndim in (2, 3):
            return _picture(array)
        return (
            _tensor(feature, array) if isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)) else cell
        )

    def _is_picture(self, feature: FeatureDescriptor) -> bool:
        contract = self._contract
        return isinstance(feature, ImageFeatureDescriptor) or (contract is not None and fits(feature, contract))


def _is_text(feature: FeatureDescriptor) -> bool:
    return isinstance(feature, TensorFeatureDescriptor) and feature.tensor_kind is TensorKind.STRING


def _picture(pixels: np.ndarray[Any, Any]) -> ImageFeatureValue:
    """Pixels as Pillow and Ray have them: red first."""
    channels = 2 if pixels.ndim == 2 else pixels.shape[2]
    return ImageFeatureValue.from_array(pixels, _FORMATS.get(channels, BitmapPixelFormat.RGB8))


def _tensor(feature: TensorFeatureDescriptor | ImageFeatureDescriptor, array: np.ndarray[Any, Any]) -> Any:
    """Numbers as the input has them, with the batch in front where the row is without it.

    Raises:
        InvalidBindingError: numbers that the type of the input does not hold.
        SizeMismatchError: another number of numbers.
    """
    dtype = TENSOR_CLASSES[feature.tensor_kind].dtype
    try:
        converted = array.astype(dtype)
    except (TypeError, ValueError) as error:
        raise InvalidBindingError(f"The column of {feature.name} does not hold numbers: {error}.") from error
    if dtype.kind in "iub" and not np.array_equal(converted, array):
        raise InvalidBindingError(f"The input {feature.name} takes {feature.expects()}, and a row has {array.dtype}.")
    shape = tuple(feature.shape)
    if converted.ndim >= len(shape):
        return converted
    is_flat = converted.ndim < 2 or _without_ones(converted.shape) == _without_ones(shape[1:])
    if not is_flat or shape[1:].count(-1) > 1:
        return converted[None]  # in another order of dimensions it would be scrambled: the bind refuses it
    try:
        return converted.reshape((1, *shape[1:]))
    except ValueError as error:
        raise SizeMismatchError(
            f"A row has {converted.size} numbers of the shape {converted.shape} for {feature.name}, which takes "
            f"{feature.expects()}."
        ) from error


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]
