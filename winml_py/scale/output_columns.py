"""A model's outputs as columns, with one cell for each row."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.base.arrays import DType
from ..core.base.messages import did_you_mean
from ..core.features.descriptors import (
    FeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.pictures import ImageFeatureValue
from ..core.features.tensor import Tensor
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..errors import EvaluationError, InvalidArgumentError


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


Cells = Sequence[Any]
"""The cells of a column, from the first row to the last."""

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
