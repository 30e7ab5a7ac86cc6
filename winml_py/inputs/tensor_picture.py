"""A picture that a model gives as a plain tensor, which nothing says is one."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

import numpy as np

from ..core.base.arrays import Array
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.features.tensor import Tensor
from ..core.imaging.bitmap import SoftwareBitmap
from ..core.imaging.contract import ImageContract
from ..core.imaging.detensorize import detensorize
from ..core.model.model import LearningModel
from ..enums import BitmapPixelFormat, LearningModelPixelRange, TensorLayout

_SMALLEST = 4
"""Pixels of a side: what is smaller is no picture."""

_LONGEST = 8
"""How many times as long as the other a side may be, where nobody knows a picture that went in."""


class PictureSeen(NamedTuple):
    """What a model saw, which says how a picture that it gives as a plain tensor is to be read.

    Attributes:
        order: of its colours.
        sizes: height and width of what went in; none where that were no pictures.
    """

    order: BitmapPixelFormat
    sizes: frozenset[tuple[int, int]]

    @classmethod
    def of(
        cls, result: LearningModelEvaluationResult, model: LearningModel, values: Mapping[str, object]
    ) -> PictureSeen:
        """By the contract of the model's first image, stated or assumed; of arrays, red comes first."""
        contracts = [image.contract for image in model.input_features if isinstance(image, ImageFeatureDescriptor)]
        orders = [contract.pixel_format for contract in contracts if contract.channels == 3]
        is_assumed = not contracts and any(isinstance(value, ImageFeatureValue) for value in values.values())
        assumed = BitmapPixelFormat.BGR8 if is_assumed else BitmapPixelFormat.RGB8  # Windows ML's rule for pictures
        places = [place for pictures in result.placements.values() for place in pictures]
        sizes = {(place.tensor_height, place.tensor_width) for place in places}
        arrays = [value.shape for value in values.values() if isinstance(value, np.ndarray) and value.ndim == 4]
        sizes |= {shape[start : start + 2] for shape in arrays for start in (1, 2)}
        return cls(orders[0] if orders else assumed, frozenset(sizes))


class TensorPicture(NamedTuple):
    """A picture, the name of the output, and the contract that its numbers were read by."""

    name: str
    bitmap: SoftwareBitmap
    contract: ImageContract


def tensor_picture(outputs: Mapping[str, object], seen: PictureSeen) -> TensorPicture | None:
    """The first output that looks like a picture: of 1 or 3 channels, and as long for its width as what went in; or
    None.

    Nothing states the range of its numbers. It is taken from them: above 1.5, they are levels up to 255; below -0.1,
    they go from -1 to 1; else from 0 to 1.
    """
    for name, value in outputs.items():
        array = value.to_numpy() if isinstance(value, Tensor) else None
        layout = None if array is None else _layout(array, seen.sizes)
        if array is not None and layout is not None:
            return _read(name, array[0] if array.ndim == 4 else array, layout, seen.order)
    return None


def _layout(array: Array, sizes: Set[tuple[int, int]]) -> TensorLayout | None:
    """Where the channels of one picture are; None where it is none."""
    shape = array.shape[-3:]
    is_one = array.ndim == 3 or (array.ndim == 4 and array.shape[0] == 1)
    if not is_one or array.dtype not in (np.float32, np.float16, np.uint8):
        return None
    if shape[0] in (1, 3) and _may_be_picture(shape[1], shape[2], sizes):
        return TensorLayout.NCHW
    return TensorLayout.NHWC if shape[2] in (1, 3) and _may_be_picture(shape[0], shape[1], sizes) else None


def _may_be_picture(height: int, width: int, sizes: Set[tuple[int, int]]) -> bool:
    """Whether these are a picture's sides, and not those of a table of boxes: 6 x 3549, say."""
    if min(height, width) < _SMALLEST:
        return False
    if not sizes:
        return max(height, width) <= _LONGEST * min(height, width)
    # A model that scales pictures may round each side: by a pixel of the smaller picture.
    return any(abs(height * across - width * down) <= max(height, width, down, across) for down, across in sizes)


def _read(name: str, array: Array, layout: TensorLayout, colours: BitmapPixelFormat) -> TensorPicture:
    channels, *sides = array.shape if layout is TensorLayout.NCHW else (array.shape[2], *array.shape[:2])
    order = BitmapPixelFormat.GRAY8 if channels == 1 else colours
    contract = ImageContract(order, _range(array), layout=layout)
    bitmap = SoftwareBitmap(BitmapPixelFormat.GRAY8 if channels == 1 else BitmapPixelFormat.BGRA8, sides[1], sides[0])
    detensorize(np.ascontiguousarray(array), contract, bitmap)
    return TensorPicture(name, bitmap, contract)


def _range(array: Array) -> LearningModelPixelRange:
    numbers = array[np.isfinite(array)]
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)
    if array.dtype == np.uint8 or high > 1.5 or low < -1.5:
        return LearningModelPixelRange.ZERO_TO255
    return LearningModelPixelRange.MINUS_ONE_TO_ONE if low < -0.1 else LearningModelPixelRange.ZERO_TO_ONE
