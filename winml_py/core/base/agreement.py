"""Compares two results: differences channel by channel, and whether ranked rows keep their largest element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array

FLOAT_TOLERANCE = 1e-3
"""The largest allowed relative error between two ways to compute in float32."""

HALF_TOLERANCE = 2e-2
"""The largest allowed relative error of half precision, whose mantissa has ten bits, against float32."""

TOP1_KEPT = 0.99
"""The share of the decided rows that must keep their largest element."""


class Agreement(NamedTuple):
    """How two results compare.

    Attributes:
        error: the largest difference, divided by the largest magnitude of its channel; infinite if nothing can be
            compared, as in empty results, and if whole numbers or texts differ.
        top1: the share of the decided rows that keep their largest element; None if no row is decided. A row is decided
            if that element leads by more than the tolerance.
        tolerance: the allowed error.
        near_ties: the number of undecided rows whose largest element changes. They do not count as disagreement.
    """

    error: float
    top1: float | None
    tolerance: float
    near_ties: int = 0

    @property
    def is_good(self) -> bool:
        """Whether the error is within the tolerance, and rows keep their largest element."""
        return self.error <= self.tolerance and self.is_ranked_alike

    @property
    def is_ranked_alike(self) -> bool:
        """Whether rows keep their largest element, if they are ranked."""
        return self.top1 is None or self.top1 >= TOP1_KEPT

    def __str__(self) -> str:
        if not self.is_good and self.error <= self.tolerance and self.top1 is not None:
            return f"the largest element changes in {100 * (1 - self.top1):.3g} % of the rows"
        if np.isinf(self.error):
            return "the results are empty, or differ in shape, whole numbers, texts, or the places of NaN or infinity"
        return f"the results differ by {self.error:.1e}; the tolerance is {self.tolerance:g}"


def compare_outputs(expected: Mapping[str, object], actual: Mapping[str, object], tolerance: float) -> Agreement:
    """The worst of `compare_values` over two evaluations' outputs, by name; a missing output's error is infinite."""
    agreements = [
        compare_values(value, actual[name], tolerance) if name in actual else Agreement(float("inf"), None, tolerance)
        for name, value in expected.items()
    ]
    return _take_worst(agreements, tolerance)


def compare_values(expected: object, actual: object, tolerance: float) -> Agreement:
    """Compares one output (an array, a tensor, a list or a mapping of these): floats by error and rank, whole numbers
    and other types for equality. An empty output is no evidence: its error is infinite.
    """
    expected, actual = as_numpy(expected), as_numpy(actual)
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return _take_worst([compare_values(*pair, tolerance) for pair in zip(expected, actual, strict=True)], tolerance)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping) and list(expected) == list(actual):
        return compare_values(np.array(list(expected.values())), np.array(list(actual.values())), tolerance)
    if isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray):
        if expected.dtype.kind == "f" and actual.dtype.kind in "fiub":
            top1, near_ties = compare_top1(expected, actual, tolerance)
            return Agreement(compute_error(expected, actual), top1, tolerance, near_ties)
        is_equal = expected.size > 0 and np.array_equal(expected, actual)
    else:
        is_equal = type(expected) is type(actual) and bool(expected == actual)
    return Agreement(0.0 if is_equal else float("inf"), None, tolerance)


def _take_worst(agreements: list[Agreement], tolerance: float) -> Agreement:
    ranked = [agreement.top1 for agreement in agreements if agreement.top1 is not None]
    error = max((agreement.error for agreement in agreements), default=float("inf"))
    near_ties = sum(agreement.near_ties for agreement in agreements)
    return Agreement(error, min(ranked, default=None), tolerance, near_ties)


# The relative error of a result, channel by channel.


MIN_SCALE = 1e-3
"""The least magnitude of a channel, as a share of the output's: anything smaller is lost in rounding errors."""

ENOUGH = 16
"""The least size for which a channel has a separate magnitude."""


def compute_error(expected: Array, actual: Array) -> float:
    """The relative error; infinite if whole numbers differ, which may be classes: 3127 is not nearly 3128."""
    error = compute_relative_error(expected, actual)
    return float("inf") if np.isfinite(error) and _has_other_whole_numbers(expected, actual) else error


def compute_relative_error(expected: Array, actual: Array) -> float:
    """The largest difference divided by its channel's largest magnitude; infinite if values became NaN or infinite, and
    if there are none.
    """
    if expected.shape != actual.shape or expected.size == 0:
        return float("inf")
    expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    is_finite = np.isfinite(expected)
    if not np.isfinite(actual[is_finite]).all() or not np.array_equal(
        expected[~is_finite], actual[~is_finite], equal_nan=True
    ):
        return float("inf")
    if not is_finite.any():
        return float("inf")  # nothing was compared
    differences = np.abs(np.where(is_finite, expected, 0) - np.where(is_finite, actual, 0))
    return float((differences / compute_channel_scales(expected)).max())


ENOUGH_BITS = 8
"""A channel has whole numbers if so many bits after the point are 0: large floats have none, and are always whole."""


def _has_other_whole_numbers(expected: Array, actual: Array) -> bool:
    """Whether whole numbers, the only ones in their channel, are others when they are rounded."""
    is_other = (np.rint(expected) == expected) & (np.rint(actual) != expected) & np.isfinite(expected)
    if not is_other.any():
        return False
    is_whole = (np.rint(expected) == expected) | np.isnan(expected)
    mantissa = min(23, np.finfo(expected.dtype).nmant)  # a float64 may hold a float32
    has_point = np.isfinite(expected) & (expected != 0)
    bits = np.where(has_point, (mantissa + 1 - np.frexp(expected)[1]).clip(0), 0)
    for axis in (None, *range(expected.ndim)):
        others = tuple(other for other in range(expected.ndim) if other != axis)
        is_channel = is_whole.all(others) & (bits.sum(others) >= ENOUGH_BITS)
        if axis is not None and expected.size == expected.shape[axis]:
            continue  # a single number: a box that is cut off at 640 is no class
        if (is_channel & is_other.any(others)).any():
            return True
    return False


def compute_channel_scales(array: Array) -> Array:
    """What differences are relative to: the largest finite magnitude of the channel, or of all if channels are too
    small; 1 if all are 0. It broadcasts to the array's shape.
    """
    magnitudes = np.abs(np.where(np.isfinite(array), array, 0).astype(np.float64))
    largest = magnitudes.max(initial=0)
    axis = find_channel_axis(array.shape)
    if largest == 0 or axis is None or array.size < ENOUGH * array.shape[axis]:
        return np.asarray(largest or 1.0)
    other_axes = tuple(other for other in range(array.ndim) if other != axis)
    return np.asarray(np.maximum(magnitudes.max(axis=other_axes, keepdims=True), MIN_SCALE * largest))


def find_channel_axis(shape: tuple[int, ...]) -> int | None:
    """The axis of the channels, or None: the last of two axes; of more, the shorter of the second and the last, because
    frameworks disagree on the order, and positions outnumber channels.
    """
    if len(shape) < 2:
        return None
    return len(shape) - 1 if len(shape) == 2 or shape[-1] < shape[1] else 1


# Whether rows keep their largest element, which for scores is the answer.


BACKGROUND = 20
"""Below this share of the output's largest number, a row is background, and its tolerance shrinks no further."""


def compare_top1(expected: Array, actual: Array, tolerance: float) -> tuple[float | None, int]:
    """`Agreement.top1` and `Agreement.near_ties` of one output."""
    if expected.shape != actual.shape or not np.isfinite(expected).all():
        return None, 0
    by_axis = [_compare_axis(expected, actual, axis, tolerance) for axis in _find_class_axes(expected.shape)]
    shares = [share for share, _ in by_axis if share is not None]
    return min(shares, default=None), max((near_ties for _, near_ties in by_axis), default=0)


def _find_class_axes(shape: tuple[int, ...]) -> set[int]:
    """The axes that may be the axis of classes; empty if nothing is ranked, as in small pictures."""
    if 0 in shape:
        return set()
    wide = [axis for axis, size in enumerate(shape) if size > 1 and (axis or len(shape) == 1)]
    if len(wide) < 2:
        return set(wide)
    axis = find_channel_axis(shape) or 0
    return {axis, 2} if len(shape) == 3 else {axis} if shape[axis] > 4 else set()


def _compare_axis(expected: Array, actual: Array, axis: int, tolerance: float) -> tuple[float | None, int]:
    rows = np.moveaxis(expected.astype(np.float64), axis, -1)
    top_two = np.partition(rows, -2)[..., -2:]
    leads, magnitudes = top_two[..., 1] - top_two[..., 0], np.abs(rows).max(-1)
    is_decided = leads > tolerance * np.maximum(magnitudes, magnitudes.max() / BACKGROUND)
    is_kept = expected.argmax(axis) == actual.argmax(axis)
    near_ties = int((~is_kept & ~is_decided & (leads > 0)).sum())
    return float(is_kept[is_decided].mean()) if is_decided.any() else None, near_ties


# The outputs of an evaluation as numpy and Python values.


def is_empty(value: object) -> bool:
    """Whether an output has no numbers, texts or entries, as that of a detector that finds nothing."""
    value = as_numpy(value)
    if isinstance(value, list):
        return all(map(is_empty, value))
    return not (len(value) if isinstance(value, Mapping) else np.asarray(value).size)


def is_same(expected: object, actual: object) -> bool:
    """Whether two outputs are both empty, or arrays of equal numbers, NaN included. There may be nothing to compare."""
    if is_empty(expected) and is_empty(actual):
        return True
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return False
    return np.array_equal(expected, actual, equal_nan=expected.dtype.kind == "f" and actual.dtype.kind == "f")


def as_numpy(value: object) -> Any:
    """Converts an output to numpy or Python: a tensor or a picture to an array, which may share its memory; a sequence
    to a list of arrays. Other values are returned as they are.
    """
    if isinstance(value, list):
        return [as_numpy(element) for element in value]
    to_numpy = getattr(value, "to_numpy", None)
    return value if to_numpy is None else to_numpy()
