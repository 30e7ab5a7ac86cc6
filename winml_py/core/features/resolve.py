"""resolve: finds out what a caller binds. This is the only place that looks at the value.

Windows ML's kinds of values (`FeatureValues.h`) and Python's become one of five classes. The code after this point
dispatches on the class alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...enums import BitmapPixelFormat
from ...errors import InvalidArgumentError, InvalidBindingError
from ..base.device_array import DeviceArray, as_device_array, is_cuda_array
from ..imaging.contract import ImageContract
from ..imaging.geometry import Placement, compute_placement
from ..imaging.picture_placement import PicturePlacement
from ..imaging.scaling import Size
from .bind_properties import BindProperties
from .conversion import (
    PictureDescriptor,
    check_tensor,
    container_for_engine,
    contract_of,
    feature_value,
    fitting_picture,
    pixel_format_of,
    takes_picture,
)
from .descriptors import FeatureDescriptor
from .pictures import ImageFeatureValue
from .tensor import Tensor, on_device, storage_of
from .tensor_classes import CLASSES_BY_DTYPE, TensorFloat16Bit, is_cast


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


class PictureFit:
    """How pictures of certain sizes become a feature's tensor. Pictures that follow each other mostly share one.

    Args:
        value: pictures of these sizes.
        descriptor: the feature.
        properties: those of the bind.

    Attributes:
        descriptor: see above.
        contract: how each picture becomes numbers.
        sizes: width and height of each.
        bounds: the part of each to use; None for all of it.

    Raises:
        WinMLError: as `fitting_picture` does.
    """

    def __init__(self, value: ImageFeatureValue, descriptor: FeatureDescriptor, properties: BindProperties) -> None:
        self.descriptor, self.contract = fitting_picture(value, descriptor, properties)
        self.sizes, self.bounds, self._properties = value.sizes, properties.bounds, properties

    def is_for(self, value: ImageFeatureValue, descriptor: FeatureDescriptor, properties: BindProperties) -> bool:
        """Whether it would be worked out to the same."""
        return descriptor is self.descriptor and properties == self._properties and value.sizes == self.sizes

    @cached_property  # only inputs ask: an output is stretched over the bitmaps that are bound to it
    def placements(self) -> list[Placement]:
        """Where each picture goes in the tensor; raises as the function `placements`."""
        return placements(self.descriptor, self.contract, self._properties, self.sizes)

    @cached_property
    def picture_placements(self) -> tuple[PicturePlacement, ...]:
        """The same for the caller."""
        return tuple(map(PicturePlacement, self.placements))

    @cached_property
    def shrink(self) -> float:
        """By how much a JPEG may be decoded smaller, at most; 1 where a part of it is used."""
        return 1.0 if self.bounds else min(self.placements[0].shrink)

    @cached_property
    def keeps_own_size(self) -> bool:
        """Whether nothing states a size, and the model takes any."""
        sides = fixed_sides(self.descriptor, self.contract, self._properties)
        return sides == (None, None) and self.contract.scaling is None

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The tensor's."""
        return tensor_shape(self.contract, len(self.sizes), self.placements[0].tensor)


class Pictures(NamedTuple):
    """Pictures, and how they become the feature's tensor."""

    value: ImageFeatureValue
    fit: PictureFit

    @property
    def descriptor(self) -> PictureDescriptor:
        """The feature."""
        return self.fit.descriptor

    @property
    def contract(self) -> ImageContract:
        """How each picture becomes numbers."""
        return self.fit.contract


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


def resolve(
    value: Any, descriptor: FeatureDescriptor, properties: BindProperties, before: PictureFit | None = None
) -> Bindable:
    """Finds out what a caller's value is, and checks it against the feature that it is bound to.

    Args:
        value: what the caller binds.
        descriptor: the feature.
        properties: those of the bind.
        before: how the pictures became the tensor that were bound before; taken again where it is the same.

    Raises:
        InvalidBindingError: nothing that can be bound, a value that does not fit, or pixels whose order nobody said.
        SizeMismatchError: a tensor of another shape, or pictures for a tensor that holds none.
        InvalidArgumentError: a list that does not fill the descriptor's shape.
    """
    if is_cuda_array(value):
        return _resolve_cuda(as_device_array(value), descriptor, properties)
    feature, properties = feature_value(value, descriptor, properties)
    if isinstance(feature, ImageFeatureValue):
        if before is None or not before.is_for(feature, descriptor, properties):
            before = PictureFit(feature, descriptor, properties)
        return Pictures(feature, before)
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
        contract = contract_of(descriptor, properties.without_pixel_format())
        placement = placements(descriptor, contract, properties, [(array.shape[1], array.shape[0])])[0]
        shape = tensor_shape(contract, 1, placement.tensor)
        return DevicePixels(array, pixel_format, descriptor, contract, shape, placement)
    if array.dtype not in CLASSES_BY_DTYPE:
        raise InvalidBindingError(f"There is no tensor of {array.dtype}.", hint="Cast the array on the device.")
    tensor = on_device(CLASSES_BY_DTYPE[array.dtype], array)
    check_tensor(tensor, descriptor)
    return DeviceTensor(tensor, array)


def placements(
    descriptor: PictureDescriptor,
    contract: ImageContract,
    properties: BindProperties,
    sizes: Sequence[tuple[int, int]],
) -> list[Placement]:
    """Where pictures of these widths and heights go in the feature's tensor.

    Raises:
        InvalidBindingError: bounds that leave a picture, or a stated size that contradicts the model.
        InvalidArgumentError: the model leaves a side free, and the pictures of the batch do not agree on it.
    """
    height, width = fixed_sides(descriptor, contract, properties)
    mode, scaling = contract.crop_mode, contract.scaling
    found = [compute_placement(*size, width, height, mode, properties.bounds, scaling) for size in sizes]
    tensors = {placement.tensor for placement in found}
    if len(tensors) > 1:
        came = ", ".join(sorted(f"{width}x{height}" for height, width in tensors))
        raise InvalidArgumentError(
            f"The model variable {descriptor.name} takes any size, but pictures of one batch must agree on it; these "
            f"become {came}.",
            hint="State a size: ImageContract(size=(height, width)), or scale or crop the pictures first.",
        )
    return found


def tensor_shape(contract: ImageContract, count: int, tensor: Size) -> tuple[int, ...]:
    """The shape of a batch."""
    channels_axis, height_axis, width_axis = contract.axes()
    shape = [count] * 4
    shape[channels_axis], shape[height_axis], shape[width_axis] = contract.channels, *tensor
    return tuple(shape)


def fixed_sides(
    descriptor: PictureDescriptor, contract: ImageContract, properties: BindProperties
) -> tuple[int | None, int | None]:
    """Height and width of the tensor, as the bind, the contract or the model fixes them; None where nothing does.

    Raises:
        InvalidBindingError: the model fixes another.
    """
    _, rows, columns = contract.axes()
    height, width = descriptor.shape[rows], descriptor.shape[columns]
    model = (height if height >= 0 else None, width if width >= 0 else None)
    stated = properties.size or contract.size
    if stated is None:
        return model
    by = "the bind" if properties.size else "the image contract"
    for side, of_model, wanted in zip(("height", "width"), model, stated, strict=True):
        if None not in (of_model, wanted) and of_model != wanted:
            raise InvalidBindingError(
                f"The {side} of the model variable {descriptor.name} is {of_model}, and {by} states {wanted}.",
                hint="Leave the size out, or check that the contract belongs to this model.",
            )
    return model[0] or stated[0], model[1] or stated[1]
