"""Embeddings: a picture as a direction, which lies near those of similar pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.evaluation.result import LearningModelEvaluationResult
from ..errors import InvalidArgumentError
from .outputs import Array, floats


def embedding(result: LearningModelEvaluationResult, *, output: str | None = None) -> Array:
    """An output as a vector of length 1.

    Args:
        result: of a model that gives one row of numbers for a picture.
        output: the name of the output; by default the only one that is a row of floats.

    Returns:
        float32, one dimension; a new array.

    Raises:
        InvalidArgumentError: no such output, none or several rows, or a row of zeros or of no numbers.

    Example:
        >>> import numpy as np
        >>> from winml_py import LearningModel, LearningModelSession, vision
        >>> session = LearningModelSession(LearningModel.load("models/digits.onnx"))
        >>> result = session.evaluate_features({"image": np.ones((1, 1, 28, 28), np.float32)})
        >>> vision.embedding(result).shape
        (10,)
    """
    found = floats(result) if output is None else {output: floats(result).get(output, np.empty(0))}
    rows = {name: array for name, array in found.items() if array.size > 1 and array.size == max(array.shape)}
    if len(rows) != 1:
        raise InvalidArgumentError(
            f"Of the outputs {', '.join(found) or 'of floats'} {'none' if not rows else 'more than one'} is one row.",
            hint="Name one: embedding(result, output=...).",
        )
    return _of_length_1(next(iter(rows.values())).reshape(-1))


def cosine_similarity(first: Any, second: Any) -> float:
    """How near two embeddings are: 1 for the same direction, 0 for none in common, -1 for the opposite.

    Args:
        first: a row of numbers, of any length above 0.
        second: as many numbers.

    Raises:
        InvalidArgumentError: rows of different sizes, or one of zeros or of no numbers.

    Example:
        >>> from winml_py import vision
        >>> vision.cosine_similarity([1, 0], [1, 1])
        0.7071067...
    """
    one, other = (np.asarray(row, np.float64).reshape(-1) for row in (first, second))
    if one.size != other.size:
        raise InvalidArgumentError(
            f"The embeddings have {one.size} and {other.size} numbers.", hint="Both come from the same model."
        )
    return float(np.clip(_of_length_1(one) @ _of_length_1(other), -1, 1))


def _of_length_1(row: Array) -> Array:
    length = np.linalg.norm(row.astype(np.float64))
    if not np.isfinite(length) or length == 0:
        raise InvalidArgumentError(
            f"An embedding of length {length} has no direction.", hint="Check the picture and its image contract."
        )
    return np.asarray(row / length, row.dtype)
