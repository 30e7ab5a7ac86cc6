"""The gap between two values of a tensor: the largest difference."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

BLOCK = 1 << 15
"""Elements that are compared at once, as float64."""


class Gap(NamedTuple):
    """How two values of a tensor differ.

    Attributes:
        difference: the largest difference; infinite between shapes, and between numbers of which one is not finite.
        magnitude: the largest finite magnitude in the first value.
    """

    difference: float = 0.0
    magnitude: float = 0.0


def measure_gap(expected: Any, actual: Any) -> Gap:
    """Compares two values, block by block: wider copies of large tensors would exceed the memory."""
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return max(map(measure_gap, expected, actual), key=lambda gap: gap.difference, default=Gap())
    if not all(isinstance(value, np.ndarray) and value.dtype.kind in "fiub" for value in (expected, actual)):
        return Gap(0.0 if np.array_equal(expected, actual) else math.inf)
    if expected.shape != actual.shape:
        return Gap(math.inf)
    expected_flat, actual_flat = expected.reshape(-1), actual.reshape(-1)
    largest = magnitude = 0.0
    for start in range(0, expected.size, BLOCK):
        left = expected_flat[start : start + BLOCK].astype(np.float64)
        right = actual_flat[start : start + BLOCK].astype(np.float64)
        with np.errstate(invalid="ignore"):
            differences = np.nan_to_num(np.abs(left - right), nan=math.inf, posinf=math.inf)
        differences[(left == right) | (np.isnan(left) & np.isnan(right))] = 0
        magnitude = max(magnitude, float(np.abs(left[np.isfinite(left)]).max(initial=0)))
        largest = max(largest, float(differences.max()))
    return Gap(largest, magnitude)
