"""resolve: finds out what a caller binds. This is the only place that looks at the value.

Windows ML's kinds of values (`FeatureValues.h`) and Python's become one of five classes. The code after this point
dispatches on the class alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..base.device_array import DeviceArray, as_device_array, is_cuda_array
from ..enums import BitmapPixelFormat
from ..errors import InvalidArgumentError, InvalidBindingError
from ..imaging.contract import ImageContract
from ..imaging.geometry import BitmapBounds, Placement, compute_placement
from .bind_properties import BindProperties
from .compatibility import (
    PictureDescriptor,
    check_tensor,
    container_for_engine,
    contract_of,
    fitting_picture,
    takes_picture,
)
from .conversion import feature_value, pixel_format_of
from .descriptors import FeatureDescriptor
from .float16_cast import is_cast
from .pictures import ImageFeatureValue
from .tensor import Tensor, on_device, storage_of
from .tensor_classes import CLASSES_BY_DTYPE, TensorFloat16Bit


class HostTensor(NamedTuple):
    """A tensor in the host's memory, or a placeholder without memory.

    Attributes:
        tensor: it fits the feature.
        is_cast: it is float32, and the feature is float16: its numbers are cast on their way.
    """

    tensor: Tensor
    is_cast: bool = False


class DeviceTensor(NamedTuple):
    """A tensor in a device's memory: ours, or an array of another library on a CUDA device."""

    tensor: Tensor
    array: DeviceArray


class Pictures:
    """Pictures, and where each of them goes in the feature's tensor.

    Attributes:
        value: the pictures.
        descriptor: the feature.
        contract: how they become its tensor.
        bounds: the part of each to use; None for what the crop mode leaves.
        shape: of the tensor.
    """

    def __init__(
        self,
        value: ImageFeatureValue,
        descriptor: PictureDescriptor,
        contract: ImageContract,
        bounds: BitmapBounds | None,
    ) -> None:
        self.value, self.descriptor, self.contract, self.bounds = value, descriptor, contract, bounds

    @cached_property  # only inputs ask: an output is stretched over the bitmaps that are bound to it
    def shape(self) -> tuple[int, ...]:
        """See above."""
        return tensor_shape(self.descriptor, self.contract, self.value.sizes)

    def placement_of(self, size: tuple[int, int]) -> Placement:
        """Which part of a picture of this width and height goes to which part of the tensor."""
        return _placement(size, self.contract, self.shape, self.bounds)


class DevicePixels(NamedTuple):
    """The bytes of one picture in a CUDA device's memory: height x width, or height x width x channels."""

    array: DeviceArray
    pixel_format: BitmapPixelFormat
    descriptor: PictureDescriptor
    contract: ImageContract
    shape: tuple[int, ...]
    placement: Placement


class Container(NamedTuple):
    """A map or a sequence, as the engine takes it."""

    converted: dict[Any, Any] | list[Any]


Bindable = HostTensor | DeviceTensor | Pictures | DevicePixels | Container


def resolve(value: Any, descriptor: FeatureDescriptor, properties: BindProperties) -> Bindable:
    """Finds out what a caller's value is, and checks it against the feature that it is bound to.

    Raises:
        InvalidBindingError: nothing that can be bound, a value that does not fit, or pixels whose order nobody said.
        SizeMismatchError: a tensor of another shape, or pictures for a tensor that holds none.
        InvalidArgumentError: a list that does not fill the descriptor's shape.
    """
    if is_cuda_array(value):
        return _resolve_cuda(as_device_array(value), descriptor, properties)
    feature, properties = feature_value(value, descriptor, properties)
    if isinstance(feature, ImageFeatureValue):
        return Pictures(feature, *fitting_picture(feature, descriptor, properties), properties.bounds)
    if not isinstance(feature, Tensor):
        return Container(container_for_engine(feature, descriptor))
    if is_cast(feature, descriptor):
        check_tensor(TensorFloat16Bit.create(feature.shape or None), descriptor)
        return HostTensor(feature, is_cast=True)
    check_tensor(feature, descriptor)
    device_array = storage_of(feature).device_array
    return HostTensor(feature) if device_array is None else DeviceTensor(feature, device_array)


def _resolve_cuda(array: DeviceArray, descriptor: FeatureDescriptor, properties: BindProperties) -> Bindable:
    if array.dtype == np.uint8 and len(array.shape) in (2, 3) and takes_picture(descriptor):
        pixel_format = pixel_format_of(array.shape, descriptor, properties)
        contract = contract_of(descriptor, properties._replace(pixel_format=None))
        size = (array.shape[1], array.shape[0])
        shape = tensor_shape(descriptor, contract, [size])
        placement = _placement(size, contract, shape, properties.bounds)
        return DevicePixels(array, pixel_format, descriptor, contract, shape, placement)
    if array.dtype not in CLASSES_BY_DTYPE:
        raise InvalidBindingError(f"There is no tensor of {array.dtype}.", hint="Cast the array on the device.")
    tensor = on_device(CLASSES_BY_DTYPE[array.dtype], array)
    check_tensor(tensor, descriptor)
    return DeviceTensor(tensor, array)


def _placement(
    size: tuple[int, int], contract: ImageContract, shape: tuple[int, ...], bounds: BitmapBounds | None
) -> Placement:
    _, height_axis, width_axis = contract.axes()
    return compute_placement(*size, shape[width_axis], shape[height_axis], contract.crop_mode, bounds)


def tensor_shape(
    descriptor: PictureDescriptor, contract: ImageContract, sizes: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """The shape of the tensor for pictures of these widths and heights.

    Raises:
        InvalidArgumentError: the model leaves a side free, and the pictures of the batch do not agree on it.
    """
    channels_axis, height_axis, width_axis = contract.axes()
    shape = [len(sizes)] * 4
    shape[channels_axis] = contract.channels
    for axis, side, index in ((height_axis, "height", 1), (width_axis, "width", 0)):
        shape[axis] = _model_size(descriptor, axis, side, [size[index] for size in sizes])
    return tuple(shape)


def _model_size(descriptor: PictureDescriptor, axis: int, side: str, sizes: Sequence[int]) -> int:
    """The model's height or width; where it is free, that of the pictures, which must then agree."""
    fixed = descriptor.shape[axis]
    if fixed >= 0:
        return fixed
    if len(set(sizes)) > 1:
        raise InvalidArgumentError(
            f"The model variable {descriptor.name} takes any {side}, but pictures of one batch must agree on it; "
            f"these have {', '.join(map(str, sizes))}.",
            hint="Scale or crop them to one size first.",
        )
    return sizes[0]
