"""LearningModelEvaluationResult: what an evaluation gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .collections import NameMap
from .objects import Object


class LearningModelEvaluationResult(Object):
    """The outputs of one evaluation.

    A failed evaluation raises, so a result in hand has always succeeded.
    """

    __slots__ = ("_correlation_id", "_outputs")

    def __init__(self, correlation_id: str, outputs: Mapping[str, Any]) -> None:
        self._correlation_id = correlation_id
        self._outputs = outputs

    @property
    def correlation_id(self) -> str:
        """What was passed to `evaluate`."""
        return self._correlation_id

    @property
    def error_status(self) -> int:
        """0."""
        return 0

    @property
    def succeeded(self) -> bool:
        """True."""
        return True

    @property
    def outputs(self) -> NameMap[Any]:
        """All outputs by name, found in any case.

        A bound output is the very object that was bound. The others are new: a tensor of the matching class;
        an `ImageFeatureValue`, or a list of `VideoFrame`s for a batch; a list or a dict.
        """
        return NameMap(self._outputs)

    def __repr__(self) -> str:
        return f"<LearningModelEvaluationResult {dict(self._outputs)!r}>"
