"""Python lists, and lists of buffers, as tensors: the list has the elements, the descriptor the shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError
from ..base.buffers import ByteArray
from .containers import is_element
from .descriptors import TensorFeatureDescriptor
from .tensor import Tensor, over
from .tensor_classes import TENSOR_CLASSES


def is_buffer(value: Any) -> bool:
    """Whether a value offers its memory: bytes, bytearray, memoryview, array.array and the like."""
    if isinstance(value, ByteArray):
        return True
    if isinstance(value, (str, np.ndarray, Tensor)):
        return False
    try:
        memoryview(value).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


def from_vector(values: Sequence[Any], descriptor: TensorFeatureDescriptor) -> Tensor | None:
    """A tensor with a copy of a list's elements in the descriptor's shape, or None where they do not fit its kind.

    Raises:
        InvalidArgumentError: the shape has more than one free size, or another number of elements.
    """
    tensor_class = TENSOR_CLASSES.get(descriptor.tensor_kind)
    if tensor_class is None or not all(is_element(value, descriptor.tensor_kind) for value in values):
        return None
    shape = _shape(descriptor, len(values))
    with np.errstate(over="ignore"):  # see Tensor._elements
        array = np.array(values, tensor_class.dtype)
    return over(tensor_class, array.reshape(shape))


def from_scalar(value: float | str, descriptor: TensorFeatureDescriptor) -> Tensor | None:
    """A tensor of one element, or None where the feature holds more, or elements of another kind."""
    tensor_class = TENSOR_CLASSES.get(descriptor.tensor_kind)
    if tensor_class is None or not is_element(value, descriptor.tensor_kind):
        return None
    if any(size not in (1, -1) for size in descriptor.shape):
        return None
    with np.errstate(over="ignore"):  # see Tensor._elements
        return over(tensor_class, np.full((1,) * len(descriptor.shape), value, tensor_class.dtype))


def from_typed_buffer(buffer: Any, descriptor: TensorFeatureDescriptor) -> Tensor | None:
    """A tensor over a buffer that says its element type, or None where that is another one than the descriptor's."""
    tensor_class = TENSOR_CLASSES.get(descriptor.tensor_kind)
    array = np.asarray(memoryview(buffer))
    if tensor_class is None or array.dtype not in (tensor_class.dtype, tensor_class.view_dtype):
        return None
    if array.dtype != tensor_class.dtype:
        return tensor_class.create_from_array(_shape(descriptor, array.size), array)
    return tensor_class.create_from_buffer(_shape(descriptor, array.size), buffer)


def from_buffers(buffers: Sequence[Any], descriptor: TensorFeatureDescriptor) -> Tensor | None:
    """A tensor with a copy of several buffers' bytes one after the other, or None for strings.

    Raises:
        InvalidArgumentError: the bytes are not those of a tensor of the descriptor's shape.
    """
    tensor_class = TENSOR_CLASSES.get(descriptor.tensor_kind)
    if tensor_class is None or tensor_class.dtype == object:
        return None
    whole = bytearray().join(memoryview(buffer).cast("B") for buffer in buffers)
    count = len(whole) // tensor_class.dtype.itemsize
    return tensor_class.create_from_buffer(_shape(descriptor, count), whole)


def _shape(descriptor: TensorFeatureDescriptor, count: int) -> tuple[int, ...]:
    """The descriptor's shape, with its one free size taken from the number of elements."""
    sizes = descriptor.shape
    fixed = math.prod(size for size in sizes if size != -1)
    free = sizes.count(-1)
    if free > 1 or not descriptor.has_rank:
        raise InvalidArgumentError(
            f"The model variable {descriptor.name} expects {descriptor.expects()}: a plain list of {count} elements "
            "does not say the free sizes.",
            hint="Bind an array or a tensor, which has a shape.",
        )
    if (free and (fixed == 0 or count % fixed)) or (not free and count != fixed):
        raise InvalidArgumentError(
            f"The model variable {descriptor.name} expects {descriptor.expects()}, and {count} elements came.",
            hint=f"It takes {'a multiple of ' if free else ''}{fixed}.",
        )
    return tuple(count // fixed if size == -1 else size for size in sizes)
