"""Gray of colours in linear light, as Windows makes it where it converts pictures.

The bytes of a picture are brightness under sRGB's curve. Windows' conversions take the curve away, mix red, green and
blue by ITU-R BT.709's weights, and put the curve back. Windows ML's tensorizer mixes the bytes themselves: that is
`formats.gray_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

GRAY_WEIGHTS = (0.2126, 0.7152, 0.0722)
"""What red, green and blue give to gray: ITU-R BT.709's weights, as Windows ML has them (`CpuTensorizer.h`)."""

_ONE = (1 << 31) - 4
"""The light of white, as a whole number: three rounded terms stay below 1 << 31."""
_BUCKET = 19
"""Bits of a light that are dropped to find its bucket: there are 4096, and none holds two limits between levels."""
_PIXELS_AT_ONCE = 1 << 15
"""Pixels that are mixed together, few enough for the processor's cache."""


@cache
def _terms() -> tuple[Array, ...]:
    """What each byte of red, of green and of blue gives to the light of a pixel."""
    light = _light_of(np.arange(256) / 255)
    return tuple(np.rint(light * weight * _ONE).astype(np.int32).reshape(1, 256) for weight in GRAY_WEIGHTS)


@cache
def _buckets() -> tuple[Array, Array]:
    """For each bucket of lights the level where it begins, and the light from which the next level is nearer."""
    limits = np.append(np.ceil(_light_of((np.arange(255) + 0.5) / 255) * _ONE), 2**31 - 1).astype(np.int32)
    begins = np.arange(1 << 31 - _BUCKET, dtype=np.int64) << _BUCKET
    levels = np.searchsorted(limits[:255], begins, side="right").astype(np.uint8)
    return levels, limits[levels]


def _light_of(levels: Array) -> Array:
    """The light of levels from 0 to 1: the curve of sRGB (IEC 61966-2-1) taken away."""
    return np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)


def linear_gray(colours: Sequence[Array]) -> Array:
    """The gray of red, green and blue, uint8 of two dimensions, rounded to the nearest level: a new array."""
    height, width = colours[0].shape
    gray = np.empty((height, width), np.uint8)
    step = max(1, _PIXELS_AT_ONCE // width)
    for top in range(0, height, step):
        rows = slice(top, top + step)
        _mix([plane[rows] for plane in colours], gray[rows])
    return gray


def _mix(colours: Sequence[Array], gray: Array) -> None:
    import cv2

    levels, limits = _buckets()
    light: Array = np.zeros(gray.shape, np.int32)
    for plane, term in zip(colours, _terms(), strict=True):
        np.add(light, cv2.LUT(np.ascontiguousarray(plane), term), out=light)
    bucket = (light >> _BUCKET).astype(np.intp)
    np.add(levels.take(bucket, mode="clip"), light >= limits.take(bucket, mode="clip"), out=gray, casting="unsafe")
