"""The relative error of a result, channel by channel."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SMALLEST_SCALE = 1e-3
"""A channel's magnitude counts as at least this share of the output's: what is smaller drowns in rounding errors."""

ENOUGH = 16
"""Numbers from which a channel has a magnitude of its own."""


def relative_error(expected: Array, came: Array) -> float:
    """The largest difference over the largest magnitude of its channel; infinite where NaN or infinity came.

    An output can hold boxes in pixels beside scores up to 1, and errors of the scores would vanish beside the boxes.
    """
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
    magnitudes = np.abs(np.where(known, expected, 0))
    differences = np.abs(np.where(known, expected, 0) - np.where(known, came, 0))
    largest = float(magnitudes.max())
    if largest == 0:
        return float(differences.max())
    scales = np.maximum(_of_channels(magnitudes), SMALLEST_SCALE * largest)
    return float((_of_channels(differences) / scales).max())


def _of_channels(values: Array) -> Array:
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
