"""Casting float32 values for float16 features. Like Windows ML, we cast picture tensors, and nothing else."""

from __future__ import annotations

import numpy as np

from ...enums import TensorKind
from ...errors import InvalidBindingError
from .descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from .tensor import Tensor
from .tensor_classes import TensorFloat, TensorFloat16Bit


def is_cast(value: Tensor, descriptor: FeatureDescriptor) -> bool:
    """Whether a tensor is float32, and the feature a float16 tensor of the shape of pictures."""
    return isinstance(value, TensorFloat) and _takes_pictures(descriptor)


def _takes_pictures(descriptor: FeatureDescriptor) -> bool:
    if isinstance(descriptor, ImageFeatureDescriptor):
        return descriptor.tensor_kind is TensorKind.FLOAT16
    if not isinstance(descriptor, TensorFeatureDescriptor) or descriptor.tensor_kind is not TensorKind.FLOAT16:
        return False
    return len(descriptor.shape) == 4 and descriptor.shape[1] in (1, 3)


def as_half(value: Tensor, descriptor: FeatureDescriptor) -> Tensor:
    """A float16 copy of a float32 tensor, rounded half to even.

    Raises:
        InvalidBindingError: a number that float16 does not reach.
        IllegalCallError: the tensor is closed.
    """
    if value.is_placeholder:
        return TensorFloat16Bit.create(value.shape or None)
    numbers = value.to_numpy()
    with np.errstate(over="ignore"):
        halves = numbers.astype(np.float16)
    lost = np.isinf(halves) & np.isfinite(numbers)
    if lost.any():
        worst = numbers[lost][np.abs(numbers[lost]).argmax()]
        raise InvalidBindingError(
            f"The model variable {descriptor.name} is float16, and {worst:g} leaves its range of -65504 to 65504.",
            hint="Scale the numbers as the model expects them.",
        )
    return TensorFloat16Bit.from_numpy(halves)
