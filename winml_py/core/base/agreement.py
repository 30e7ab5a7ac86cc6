"""Do two results agree? Differences are measured channel by channel, and the order of what is ranked is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array

FLOAT_TOLERANCE = 1e-3
"""The largest relative error between two ways to compute in float32."""

HALF_TOLERANCE = 2e-2
"""The largest relative error of half precision against float32: it has ten bits of mantissa, and errors add up."""

TOP1_KEPT = 0.99
"""The share of the decided rows that must keep their largest element."""


class Agreement(NamedTuple):
    """How two results compare.

    Attributes:
        error: the largest difference, over the largest magnitude of its channel; infinite where types, shapes, words,
            whole numbers or the places of NaN and infinity differ.
        top1: the share of the rows that keep their largest element, of those where it leads by more than the tolerance
            allows, or of all rows where that is below `ROWS_KEPT`; None where nothing is ranked.
        tolerance: the error that is allowed.
    """

    error: float
    top1: float | None
    tolerance: float

    @property
    def is_good(self) -> bool:
        """Whether the error is within the tolerance, and rows keep their largest element."""
        return self.error <= self.tolerance and self.is_ranked_alike

    @property
    def is_ranked_alike(self) -> bool:
        """Whether rows keep their largest element, where they are ranked."""
        return self.top1 is None or self.top1 >= TOP1_KEPT

    def __str__(self) -> str:
        if not self.is_good and self.error <= self.tolerance and self.top1 is not None:
            return f"the largest element changes in {1 - self.top1:.0%} of the rows"
        return f"the results differ by {self.error:.1e}, and {self.tolerance:g} is allowed"


def compare_outputs(expected: Mapping[str, object], actual: Mapping[str, object], tolerance: float) -> Agreement:
    """The worst of `compare_values` over the outputs of two evaluations, by name; one that is missing is infinite."""
    agreements = [
        compare_values(value, actual[name], tolerance) if name in actual else Agreement(float("inf"), None, tolerance)
        for name, value in expected.items()
    ]
    return _worst(agreements, tolerance)


def compare_values(expected: object, actual: object, tolerance: float) -> Agreement:
    """How one output compares: floats by their error and their ranks, other types must be equal.

    Args:
        expected: an array, a tensor with `to_numpy`, a list or a mapping of such.
        actual: the same kind of value.
        tolerance: the error that is allowed.
    """
    expected, actual = as_numpy(expected), as_numpy(actual)
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return _worst([compare_values(*pair, tolerance) for pair in zip(expected, actual, strict=True)], tolerance)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping) and list(expected) == list(actual):
        return compare_values(np.array(list(expected.values())), np.array(list(actual.values())), tolerance)
    if isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray) and expected.dtype.kind == "f":
        return Agreement(relative_error(expected, actual), top1_kept(expected, actual, tolerance), tolerance)
    if isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray):
        is_equal = np.array_equal(expected, actual)
    else:
        is_equal = type(expected) is type(actual) and bool(expected == actual)
    return Agreement(0.0 if is_equal else float("inf"), None, tolerance)


def _worst(agreements: list[Agreement], tolerance: float) -> Agreement:
    ranked = [agreement.top1 for agreement in agreements if agreement.top1 is not None]
    error = max((agreement.error for agreement in agreements), default=0.0)
    return Agreement(error, min(ranked, default=None), tolerance)


# The relative error of a result, channel by channel.


SMALLEST_SCALE = 1e-3
"""A channel's magnitude counts as at least this share of the output's: what is smaller drowns in rounding errors."""

ENOUGH = 16
"""Numbers from which a channel has a magnitude of its own."""


def relative_error(expected: Array, actual: Array) -> float:
    """The largest difference over the largest magnitude of its channel; infinite where NaN or infinity came.

    An output can hold boxes in pixels beside scores up to 1, and errors of the scores would vanish beside the boxes.
    """
    if expected.shape != actual.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    is_finite = np.isfinite(expected)
    if not np.isfinite(actual[is_finite]).all() or not np.array_equal(
        expected[~is_finite], actual[~is_finite], equal_nan=True
    ):
        return float("inf")
    if not is_finite.any():
        return float("inf")  # nothing was compared
    magnitudes = np.abs(np.where(is_finite, expected, 0))
    differences = np.abs(np.where(is_finite, expected, 0) - np.where(is_finite, actual, 0))
    largest = float(magnitudes.max())
    if largest == 0:
        return float(differences.max())
    scales = np.maximum(channel_maxima(magnitudes), SMALLEST_SCALE * largest)
    return float((channel_maxima(differences) / scales).max())


def channel_maxima(values: Array) -> Array:
    """The largest value of each channel, or of all where channels are too small to have one."""
    axis = channel_axis(values.shape)
    if axis is None or values.size < ENOUGH * values.shape[axis]:
        return np.asarray(values.max())
    return np.asarray(np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1).max(axis=1))


def channel_axis(shape: tuple[int, ...]) -> int | None:
    """The axis along which a result holds different things, or None.

    It is the last of two axes. Of more it is the second or the last, whichever is shorter: positions are many, and
    frameworks disagree on the order.
    """
    if len(shape) < 2:
        return None
    return len(shape) - 1 if len(shape) == 2 or shape[-1] < shape[1] else 1


# Do rows keep their largest element? Of scores that is the answer.


ROWS_KEPT = 0.9
"""The share of all rows that must, decided or not. Float32 tells their elements apart, so half precision may not mix
most of them up."""


def top1_kept(expected: Array, actual: Array, tolerance: float) -> float | None:
    """The share of the rows that keep their largest element; None where nothing is ranked.

    Rows run across the channels, and along the last of three axes. Nothing is ranked in one axis, and in pictures of up
    to four channels. See `Agreement.top1` for the rows that count.
    """
    while expected.ndim > 2 and expected.shape[-1] == 1 and expected.shape == actual.shape:
        expected, actual = expected[..., 0], actual[..., 0]
    axis = channel_axis(expected.shape)
    if expected.shape != actual.shape or axis is None or not expected.size or not np.isfinite(expected).all():
        return None
    axes = {axis} if expected.ndim != 3 else {axis, 2}
    if expected.ndim > 3 and expected.shape[axis] <= 4:
        return None
    shares = [
        _share_kept(expected.take(alike, axis), actual.take(alike, axis), axis, tolerance)
        for axis in axes
        for alike in _groups_of_like_scale(
            np.abs(np.moveaxis(expected, axis, 0)).reshape(expected.shape[axis], -1).max(axis=1)
        )
    ]
    return min(shares, default=None)


def _groups_of_like_scale(scales: Array) -> list[Array]:
    """Groups of at least two channels of like magnitude: a score is not ranked against a coordinate."""
    order = np.argsort(scales)
    ordered = scales[order].astype(np.float64)  # 16 times a float16 may be too large for a float16
    breaks = np.flatnonzero(ordered[1:] > 16 * ordered[:-1]) + 1
    return [np.sort(group) for group in np.split(order, breaks) if len(group) > 1 and scales[group].max() > 0]


def _share_kept(expected: Array, actual: Array, axis: int, tolerance: float) -> float:
    top_two = np.partition(expected.astype(np.float64), -2, axis=axis).take([-2, -1], axis)
    second, largest = top_two.take(0, axis), top_two.take(1, axis)
    scale = float(np.abs(expected).max())
    # What is small beside the rest, such as scores of the background, is in no order worth keeping.
    leads = (largest - second) / np.maximum(np.abs(largest), scale / 20)
    is_kept = expected.argmax(axis) == actual.argmax(axis)
    is_distinct = leads > 1e-5  # float32 itself tells them apart
    share = float(is_kept[is_distinct].mean()) if is_distinct.sum() >= ENOUGH else 1.0
    is_decided = leads > 2 * tolerance
    if share < ROWS_KEPT:
        return share
    return float(is_kept[is_decided].mean()) if is_decided.any() else 1.0


# The outputs of an evaluation as values of numpy and of Python.


def as_numpy(value: object) -> Any:
    """An output as numpy and Python have it.

    Args:
        value: what stands in the outputs of a result.

    Returns:
        The array of a tensor or a picture, which may share its memory; a list of arrays for a sequence; all else as
        it is.
    """
    if isinstance(value, list):
        return [as_numpy(element) for element in value]
    to_numpy = getattr(value, "to_numpy", None)
    return value if to_numpy is None else to_numpy()
