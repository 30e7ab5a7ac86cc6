"""A picture that a model gives as a plain tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..core.features.tensor import Tensor
from ..core.imaging.bitmap import SoftwareBitmap
from ..core.imaging.contract import ImageContract
from ..core.imaging.detensorize import detensorize
from ..enums import BitmapPixelFormat, LearningModelPixelRange, TensorLayout

_SMALLEST = 4
"""Pixels of a side: what is smaller is no picture."""


class TensorPicture(NamedTuple):
    """A picture, and how the numbers were read.

    Attributes:
        name: of the output.
        bitmap: the picture.
        contract: what the numbers were taken for.
    """

    name: str
    bitmap: SoftwareBitmap
    contract: ImageContract


def tensor_picture(outputs: Mapping[str, Any]) -> TensorPicture | None:
    """The first output that looks like a picture: one of 1 or 3 channels, red first; or None.

    Nothing states the range of its numbers. It is taken from them: above 1.5, they are levels up to 255; below -0.1,
    they go from -1 to 1; else from 0 to 1.
    """
    for name, value in outputs.items():
        array = value.to_numpy() if isinstance(value, Tensor) else None
        layout = None if array is None else _layout(array)
        if array is not None and layout is not None:
            return _read(name, array[0] if array.ndim == 4 else array, layout)
    return None


def _layout(array: np.ndarray[Any, Any]) -> TensorLayout | None:
    """Where the channels of one picture are; None where it is none."""
    shape = array.shape[-3:]
    is_one = array.ndim == 3 or (array.ndim == 4 and array.shape[0] == 1)
    if not is_one or array.dtype not in (np.float32, np.float16, np.uint8):
        return None
    if shape[0] in (1, 3) and min(shape[1:]) >= _SMALLEST:
        return TensorLayout.NCHW
    return TensorLayout.NHWC if shape[2] in (1, 3) and min(shape[:2]) >= _SMALLEST else None


def _read(name: str, array: np.ndarray[Any, Any], layout: TensorLayout) -> TensorPicture:
    channels, *sides = array.shape if layout is TensorLayout.NCHW else (array.shape[2], *array.shape[:2])
    order = BitmapPixelFormat.GRAY8 if channels == 1 else BitmapPixelFormat.RGB8
    contract = ImageContract(order, _range(array), layout=layout)
    bitmap = SoftwareBitmap(BitmapPixelFormat.GRAY8 if channels == 1 else BitmapPixelFormat.BGRA8, sides[1], sides[0])
    detensorize(np.ascontiguousarray(array), contract, bitmap)
    return TensorPicture(name, bitmap, contract)


def _range(array: np.ndarray[Any, Any]) -> LearningModelPixelRange:
    numbers = array[np.isfinite(array)]
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)
    if array.dtype == np.uint8 or high > 1.5 or low < -1.5:
        return LearningModelPixelRange.ZERO_TO255
    return LearningModelPixelRange.MINUS_ONE_TO_ONE if low < -0.1 else LearningModelPixelRange.ZERO_TO_ONE
