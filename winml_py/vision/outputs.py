"""What the answers are read from: a result's arrays, and where its picture lies in the tensor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.contracts.labels import labels_of
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.tensor import Tensor
from ..core.imaging.picture_placement import PicturePlacement
from ..errors import InvalidArgumentError

Array = np.ndarray[Any, Any]
Labels = Sequence[str] | os.PathLike[str]
"""The names of classes, by their index; or a file that holds them: see `labels_of`."""


def names_of(result: LearningModelEvaluationResult, labels: Labels) -> tuple[str, ...]:
    """The labels that the caller passes, or else the model's own."""
    if isinstance(labels, (str, os.PathLike)):
        return labels_of(labels)
    return tuple(labels) or result.labels


def arrays(result: LearningModelEvaluationResult) -> dict[str, Array]:
    """The outputs that are tensors of numbers, by name: views."""
    found = {name: value.to_numpy() for name, value in result.outputs.items() if isinstance(value, Tensor)}
    return {name: array for name, array in found.items() if array.dtype.kind in "fiub"}


def floats(result: LearningModelEvaluationResult) -> dict[str, Array]:
    """The outputs that are tensors of floats, by name, as float32: views where they are float32 already."""
    found = {name: array for name, array in arrays(result).items() if array.dtype.kind == "f"}
    return {name: np.asarray(array, np.float32) for name, array in found.items()}


def placement_of(
    result: LearningModelEvaluationResult, picture: int, placement: PicturePlacement | None
) -> PicturePlacement:
    """Where a picture of the batch lay in the tensor.

    Raises:
        InvalidArgumentError: nobody says it, because arrays were bound; several inputs have pictures; or the batch has
            fewer.
    """
    if placement is not None:
        return placement
    known = result.placements
    if len(known) != 1:
        what = "No picture was bound" if not known else f"Pictures were bound to {', '.join(known)}"
        raise InvalidArgumentError(
            f"{what}, so it is not known where the picture lies in the tensor.",
            hint="Bind a picture, or pass placement=..., such as binding.placements[name][0].",
        )
    batch = next(iter(known.values()))
    if not 0 <= picture < len(batch):
        raise InvalidArgumentError(
            f"There is no picture {picture} in a batch of {len(batch)}.", hint="The first is picture 0."
        )
    return batch[picture]
