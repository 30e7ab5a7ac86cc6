"""Comparing what two models give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...base.agreement import Array, relative_error
from .report import OutputReport


def compare(expected: Mapping[str, Any], came: Mapping[str, Any], tolerance: float) -> list[OutputReport]:
    """Reports on each output of the float32 model, in its order."""
    return [_output(name, _flat(value), _flat(came[name]), tolerance) for name, value in expected.items()]


def _output(name: str, expected: Array, came: Array, tolerance: float) -> OutputReport:
    if expected.dtype.kind != "f":
        differs = 1.0 if expected.shape != came.shape else float(np.mean(expected != came)) if expected.size else 0.0
        return OutputReport(name, differs, 0, None, differs == 0)
    error = relative_error(expected, came)
    if expected.shape != came.shape:
        return OutputReport(name, error, 0, None, False)
    not_finite = int((np.isfinite(expected) & ~np.isfinite(came)).sum())
    top1 = _top1(expected, came, tolerance)
    return OutputReport(name, error, not_finite, top1, error <= tolerance and not_finite == 0 and top1 in (None, 1.0))


def _top1(expected: Array, came: Array, tolerance: float) -> float | None:
    """How many rows agree on their largest element, of those where it leads by more than the tolerance allows."""
    shape = expected.shape
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    if len(shape) not in (2, 3) or shape[-1] < 2 or not expected.size or not np.isfinite(expected).all():
        return None
    rows = expected.reshape(shape)
    two = np.sort(rows, axis=-1)[..., -2:]
    decided = two[..., 1] - two[..., 0] > 2 * tolerance * np.abs(rows).max()
    agree = rows.argmax(axis=-1) == came.reshape(shape).argmax(axis=-1)
    return float(agree[decided].mean()) if decided.any() else 1.0


def _flat(value: Any) -> Array:
    """An array as it is; a list of dicts or of arrays, or a dict, as one row of its numbers."""
    if isinstance(value, list):
        return np.concatenate([_flat(element).reshape(-1) for element in value] or [np.zeros(0, np.float32)])
    return np.array(list(value.values())) if isinstance(value, Mapping) else np.atleast_1d(value)
