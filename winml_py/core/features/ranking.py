"""The classes with the highest scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import EvaluationError, InvalidArgumentError
from ..base.arrays import Array


@dataclass(frozen=True, slots=True)
class Prediction:
    """A class, its score, and its name, or "" if no label was given."""

    index: int
    score: float
    label: str = ""


def is_row(array: Array) -> bool:
    """Whether an array is one row of scores: floats, all dimensions but one of size 1."""
    return array.dtype.kind == "f" and array.size > 1 and array.size == max(array.shape)


def can_rank(scores: Array) -> bool:
    """Whether the scores can be ranked: none is NaN or +inf. Models use -inf to exclude a class."""
    return not (np.isnan(scores).any() or np.isposinf(scores).any())


def select_fitting_labels(labels: Sequence[str], array: Array) -> Sequence[str]:
    """The labels, if there is one for each score of the row; else none."""
    return labels if len(labels) == array.size else ()


def find_best_classes(array: Array, count: int, labels: Sequence[str] = ()) -> list[Prediction]:
    """The best of an output that may be a row of scores, with labels if they fit; empty for any other output."""
    return rank_classes(array, count, select_fitting_labels(labels, array)) if is_row(array) and can_rank(array) else []


def rank_classes(array: Array, count: int, labels: Sequence[str] = ()) -> list[Prediction]:
    """The best of a row, highest first; equal scores by the lower index.

    Raises:
        InvalidArgumentError: there are labels, but not one for each score.
        EvaluationError: scores that are NaN or infinite.
    """
    scores = array.reshape(-1)
    if len(labels) not in (0, scores.size):
        raise InvalidArgumentError(
            f"Expected {scores.size} labels, one for each score of the model, got {len(labels)}.",
            hint="Pass one label for each class, in the order the model was trained with.",
        )
    if not can_rank(scores):
        raise EvaluationError(
            "The model returned scores that are NaN or infinite and cannot be ranked.",
            hint="Check the inputs. A float16 model may have overflowed.",
        )
    best = np.argsort(-scores, kind="stable")[:count]
    return [Prediction(int(i), float(scores[i]), str(labels[i]) if len(labels) else "") for i in best]
