"""Do two results agree? The difference of two arrays, and of the outputs of two evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .numpy_values import as_numpy

Array = np.ndarray[Any, Any]

FLOAT_TOLERANCE = 1e-3
"""The largest relative error between two ways to compute in float32."""

HALF_TOLERANCE = 2e-2
"""The largest relative error of half precision against float32: it has ten bits of mantissa, and errors add up."""


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


def value_error(expected: Any, came: Any) -> float:
    """The error of one output: the relative error of floats; 0 or infinity for other types, which must be equal.

    Args:
        expected: an array, a tensor with `to_numpy`, a list or a mapping of such.
        came: the same kind of value.
    """
    expected, came = as_numpy(expected), as_numpy(came)
    if isinstance(expected, list) and isinstance(came, list) and len(expected) == len(came):
        return max(map(value_error, expected, came), default=0.0)
    if isinstance(expected, Mapping) and isinstance(came, Mapping) and list(expected) == list(came):
        return value_error(np.array(list(expected.values())), np.array(list(came.values())))
    if not (isinstance(expected, np.ndarray) and isinstance(came, np.ndarray)):
        return 0.0 if type(expected) is type(came) and expected == came else float("inf")
    if expected.dtype.kind == "f":
        return relative_error(expected, came)
    return 0.0 if np.array_equal(expected, came) else float("inf")


def outputs_error(expected: Mapping[str, Any], came: Mapping[str, Any]) -> float:
    """The largest `value_error` of the outputs of two evaluations, by name; infinite where a name is missing."""
    return max(
        (value_error(value, came[name]) if name in came else np.inf for name, value in expected.items()), default=0.0
    )
