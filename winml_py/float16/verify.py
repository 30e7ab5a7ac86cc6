"""Comparing what two models give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.base.agreement import Agreement
from ..core.base.differences import Array, relative_error
from ..core.base.ranks import top1_kept
from .report import OutputReport


def compare(expected: Mapping[str, Any], came: Mapping[str, Any], tolerance: float) -> list[OutputReport]:
    """Reports on each output of the float32 model, in its order."""
    return [_output(name, _flat(value), _flat(came[name]), tolerance) for name, value in expected.items()]


def _output(name: str, expected: Array, came: Array, tolerance: float) -> OutputReport:
    if expected.dtype.kind != "f":
        differs = 1.0 if expected.shape != came.shape else float(np.mean(expected != came)) if expected.size else 0.0
        return OutputReport(name, differs, 0, None, differs == 0)
    agreement = Agreement(relative_error(expected, came), top1_kept(expected, came, tolerance), tolerance)
    is_lost = np.isfinite(expected) & ~np.isfinite(came) if expected.shape == came.shape else np.zeros(1)
    return OutputReport(name, agreement.error, int(is_lost.sum()), agreement.top1, agreement.is_good)


def _flat(value: Any) -> Array:
    """An array as it is; a list of dicts or of arrays, or a dict, as one row of its numbers."""
    if isinstance(value, list):
        return np.concatenate([_flat(element).reshape(-1) for element in value] or [np.zeros(0, np.float32)])
    return np.array(list(value.values())) if isinstance(value, Mapping) else np.atleast_1d(value)
