"""The gap between two values of a tensor: the largest difference, and where it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

BLOCK = 1 << 15
"""Elements that are compared at once, as float64."""


class Gap(NamedTuple):
    """How two values of a tensor differ.

    Attributes:
        difference: the largest difference; infinite between shapes, and between numbers of which one is not finite.
        position: where the values differ most.
        values: the two numbers there; empty if the shapes differ.
        magnitude: the largest finite magnitude in the first value.
        kind: the kind of the first value's type, and the bytes of an element: "f4".
    """

    difference: float = 0.0
    position: Sequence[int] = ()
    values: tuple[float, ...] = ()
    magnitude: float = 0.0
    kind: str = ""

    def classify(self) -> tuple[str, str]:
        """`Departure.what` and `Departure.side`."""
        if self.difference < math.inf:
            return "differs", ""
        if not self.values:
            return "shape", ""
        side = "second" if math.isfinite(self.values[0]) else "first"
        return "nan" if np.isnan(self.values).any() else "overflow", side


def measure_gap(expected: Any, actual: Any) -> Gap:
    """Compares two values, block by block: wider copies of large tensors would exceed the memory."""
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return max(map(measure_gap, expected, actual), key=lambda gap: gap.difference, default=Gap())
    if not all(isinstance(value, np.ndarray) and value.dtype.kind in "fiub" for value in (expected, actual)):
        return Gap(0.0 if np.array_equal(expected, actual) else math.inf)
    if expected.shape != actual.shape:
        return Gap(math.inf)
    expected_flat, actual_flat = expected.reshape(-1), actual.reshape(-1)
    largest, place, values = 0.0, 0, tuple[float, ...]()
    magnitude = 0.0
    for start in range(0, expected.size, BLOCK):
        left = expected_flat[start : start + BLOCK].astype(np.float64)
        right = actual_flat[start : start + BLOCK].astype(np.float64)
        with np.errstate(invalid="ignore"):
            differences = np.nan_to_num(np.abs(left - right), nan=math.inf, posinf=math.inf)
        differences[(left == right) | (np.isnan(left) & np.isnan(right))] = 0
        magnitude = max(magnitude, float(np.abs(left[np.isfinite(left)]).max(initial=0)))
        index = int(differences.argmax())
        if differences[index] > largest:
            largest, place = float(differences[index]), start + index
            values = float(left[index]), float(right[index])
    position = np.array(np.unravel_index(place, expected.shape)).tolist() if expected.size else []
    return Gap(largest, position, values, magnitude, expected.dtype.str[1:])
