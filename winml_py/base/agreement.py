"""How far two arrays are apart."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def relative_error(expected: Array, came: Array) -> float:
    """The largest difference over the largest magnitude that was expected; infinite where NaN or infinity came."""
    if expected.shape != came.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    expected, came = expected.astype(np.float64), came.astype(np.float64)
    known = np.isfinite(expected)
    if not np.isfinite(came[known]).all() or not np.array_equal(expected[~known], came[~known], equal_nan=True):
        return float("inf")
    if not known.any():
        return float("inf")  # nothing was compared
    scale = float(np.abs(expected[known]).max())
    difference = float(np.abs(expected[known] - came[known]).max())
    return difference / scale if scale > 0 else difference
