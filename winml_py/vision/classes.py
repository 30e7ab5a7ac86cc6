"""The classes that a classifier finds."""

from __future__ import annotations

from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.ranking import Prediction
from .outputs import Labels, names_of


def classes(
    result: LearningModelEvaluationResult, n: int = 5, *, labels: Labels = (), output: str | None = None
) -> list[Prediction]:
    """The classes with the highest scores, the highest first: `result.top_k`, beside its siblings.

    Args:
        result: of a model that gives a row of scores.
        n: how many, at most.
        labels: the names of the classes, by their index, or a file with them (see `labels_of`); by default the model's
            own.
        output: the name of the output; by default the only one that is a row of floats.

    Raises:
        InvalidArgumentError: as `LearningModelEvaluationResult.top_k` raises it.
        EvaluationError: as `LearningModelEvaluationResult.top_k` raises it.
    """
    return result.top_k(n, names_of(result, labels) if labels else (), output=output)
