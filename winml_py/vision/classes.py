"""The classes that a classifier finds."""

from __future__ import annotations

from collections.abc import Sequence

from ..session.ranking import Prediction
from ..session.result import LearningModelEvaluationResult


def classes(
    result: LearningModelEvaluationResult, n: int = 5, *, labels: Sequence[str] = (), output: str | None = None
) -> list[Prediction]:
    """The classes with the highest scores, the highest first: `result.top_k`, beside its siblings.

    Args:
        result: of a model that gives a row of scores.
        n: how many, at most.
        labels: the names of the classes, by their index; by default the model's own.
        output: the name of the output; by default the only one that is a row of floats.

    Raises:
        InvalidArgumentError: as `LearningModelEvaluationResult.top_k` raises it.
    """
    return result.top_k(n, labels, output=output)
