"""LearningModelEvaluationResult: what an evaluation gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .collections import NameMap
from .errors import WinMLError
from .objects import Object


class LearningModelEvaluationResult(Object):
    """The outputs of one evaluation.

    A failed evaluation raises, so a result in hand has succeeded; but those of `evaluate_many`, where one failure among
    many items must not end the others.
    """

    __slots__ = ("_correlation_id", "_error", "_outputs")

    def __init__(self, correlation_id: str, outputs: Mapping[str, Any], error: WinMLError | None = None) -> None:
        self._correlation_id = correlation_id
        self._outputs = outputs
        self._error = error

    @property
    def correlation_id(self) -> str:
        """What was passed to `evaluate`."""
        return self._correlation_id

    @property
    def error_status(self) -> int:
        """0, or the HRESULT of what went wrong, signed as pywinrt gives it."""
        return 0 if self._error is None else self._error.winerror

    @property
    def error(self) -> WinMLError | None:
        """What went wrong, or None."""
        return self._error

    @property
    def succeeded(self) -> bool:
        """Whether there are outputs."""
        return self._error is None

    @property
    def outputs(self) -> NameMap[Any]:
        """All outputs by name, found in any case.

        A bound output is the very object that was bound. The others are new: a tensor of the matching class;
        an `ImageFeatureValue`, or a list of `VideoFrame` objects for a batch; a list or a dict.

        Raises:
            WinMLError: the evaluation failed; it is `error`.
        """
        if self._error is not None:
            raise self._error
        return NameMap(self._outputs)

    def __repr__(self) -> str:
        if self._error is not None:
            return f"<LearningModelEvaluationResult failed: {self._error}>"
        return f"<LearningModelEvaluationResult {dict(self._outputs)!r}>"
