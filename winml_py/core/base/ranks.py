"""Do rows keep their largest element? Of scores that is the answer."""

from __future__ import annotations

import numpy as np

from .differences import Array, channel_axis

ROWS_KEPT = 0.9
"""The share of all rows that must, decided or not. Float32 tells their elements apart, so half precision may not mix
most of them up."""

ENOUGH = 16
"""Rows from which a share of them says something."""


def top1_kept(expected: Array, came: Array, tolerance: float) -> float | None:
    """The share of the rows that keep their largest element; None where nothing is ranked.

    Rows run across the channels, and along the last of three axes. Nothing is ranked in one axis, and in pictures of up
    to four channels. See `Agreement.top1` for the rows that count.
    """
    while expected.ndim > 2 and expected.shape[-1] == 1 and expected.shape == came.shape:
        expected, came = expected[..., 0], came[..., 0]
    axis = channel_axis(expected.shape)
    if expected.shape != came.shape or axis is None or not expected.size or not np.isfinite(expected).all():
        return None
    axes = {axis} if expected.ndim != 3 else {axis, 2}
    if expected.ndim > 3 and expected.shape[axis] <= 4:
        return None
    shares = [
        _kept(expected.take(alike, axis), came.take(alike, axis), axis, tolerance)
        for axis in axes
        for alike in _alike(np.abs(np.moveaxis(expected, axis, 0)).reshape(expected.shape[axis], -1).max(axis=1))
    ]
    return min(shares, default=None)


def _alike(scales: Array) -> list[Array]:
    """Groups of at least two channels of like magnitude: a score is not ranked against a coordinate."""
    order = np.argsort(scales)
    ordered = scales[order].astype(np.float64)  # 16 times a float16 may be too large for a float16
    breaks = np.flatnonzero(ordered[1:] > 16 * ordered[:-1]) + 1
    return [np.sort(group) for group in np.split(order, breaks) if len(group) > 1 and scales[group].max() > 0]


def _kept(expected: Array, came: Array, axis: int, tolerance: float) -> float:
    two = np.partition(expected.astype(np.float64), -2, axis=axis).take([-2, -1], axis)
    second, largest = two.take(0, axis), two.take(1, axis)
    scale = float(np.abs(expected).max())
    # What is small beside the rest, such as scores of the background, is in no order worth keeping.
    leads = (largest - second) / np.maximum(np.abs(largest), scale / 20)
    is_kept = expected.argmax(axis) == came.argmax(axis)
    apart = leads > 1e-5  # float32 itself tells them apart
    share = float(is_kept[apart].mean()) if apart.sum() >= ENOUGH else 1.0
    decided = leads > 2 * tolerance
    if share < ROWS_KEPT:
        return share
    return float(is_kept[decided].mean()) if decided.any() else 1.0
