"""Converts what a caller binds into a feature value: Windows ML's kinds (`FeatureValues.h`), and Python's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from ...enums import BitmapPixelFormat, TensorKind
from ...errors import InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError
from ..base.arguments import is_stream
from ..base.buffers import ByteArray
from ..base.device_array import exports_dlpack, host_array
from ..base.messages import type_name
from ..imaging.bitmap import SoftwareBitmap
from ..imaging.contract import ImageContract
from ..imaging.frame import VideoFrame
from .bind_properties import BindProperties
from .containers import (
    Container,
    as_tensor,
    for_engine,
    from_buffers,
    from_scalar,
    from_typed_buffer,
    from_vector,
    is_buffer,
    spell_container,
)
from .descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
    spell_kind,
    spell_tensor,
)
from .pictures import ImageFeatureValue
from .tensor import Tensor, storage_of
from .tensor_classes import TENSOR_CLASSES


def feature_value(
    value: Any, descriptor: FeatureDescriptor, properties: BindProperties
) -> tuple[FeatureValue, BindProperties]:
    """The feature value for what a caller binds, and the properties that are left for it.

    An array bound as a picture uses up the pixel format: there it says how the array lies, which nothing
    else does; a frame knows that of itself, and the property says how its numbers are to lie in the tensor.

    Raises:
        InvalidBindingError: nothing that can be bound, or pixels whose order nobody said.
        InvalidArgumentError: a list that does not fill the descriptor's shape.
    """
    found: FeatureValue | None
    if isinstance(value, np.ndarray):
        if _holds_pixels(value, descriptor, properties):
            pixel_format = pixel_format_of(value.shape, descriptor, properties)
            return ImageFeatureValue.from_array(value, pixel_format), properties.without_pixel_format()
        found = as_tensor(value)
    else:
        found = as_picture(value)
        if found is None and not isinstance(value, Tensor) and exports_dlpack(value):
            return feature_value(host_array(value), descriptor, properties)
        found = found or as_tensor(value)
    if found is None:
        found = _container(value, descriptor)
    if found is None and isinstance(descriptor, TensorFeatureDescriptor):
        found = _vector(value, descriptor)
    if found is None:
        raise InvalidBindingError(
            f"The model variable {descriptor.name} cannot be bound with the provided type: "
            f"it expects {descriptor.expects()}, and {_spell(value)} came.",
            hint=_hint(value, descriptor),
        )
    return found, properties


def _holds_pixels(array: np.ndarray[Any, Any], descriptor: FeatureDescriptor, properties: BindProperties) -> bool:
    """Whether an array is a picture, and not a tensor: bytes for an image, unless of its four dimensions."""
    is_image = isinstance(descriptor, ImageFeatureDescriptor) or properties.contract is not None
    return is_image and array.dtype == np.uint8 and array.ndim != 4


def as_picture(value: Any) -> ImageFeatureValue | None:
    """The value as pictures, or None where it is none."""
    if isinstance(value, (list, tuple)) and value:
        frames = [_frame(element) for element in value]
        whole = [frame for frame in frames if frame is not None]
        return ImageFeatureValue(whole) if len(whole) == len(value) else None
    if isinstance(value, ImageFeatureValue):
        return value
    frame = _frame(value)
    return None if frame is None else ImageFeatureValue.create_from_video_frame(frame)


def _frame(value: Any) -> VideoFrame | None:
    if isinstance(value, VideoFrame):
        return value
    if isinstance(value, ImageFeatureValue) and len(value.video_frames) == 1:
        return value.video_frame
    if isinstance(value, SoftwareBitmap):
        return VideoFrame.create_with_software_bitmap(value)
    if is_pil_image(value):
        return VideoFrame.create_with_software_bitmap(SoftwareBitmap.from_pil(value))
    return None


def _container(value: Any, descriptor: FeatureDescriptor) -> Container | None:
    is_list = isinstance(descriptor, SequenceFeatureDescriptor) and isinstance(value, (list, tuple))
    return value if is_list or isinstance(value, Mapping) else None


def _vector(value: Any, descriptor: TensorFeatureDescriptor) -> Tensor | None:
    if isinstance(value, (int, float, str)):
        return from_scalar(value, descriptor)
    if is_buffer(value):
        return None if isinstance(value, (bytes, bytearray, ByteArray)) else from_typed_buffer(value, descriptor)
    if not isinstance(value, Sequence) or not value:
        return None
    if all(map(is_buffer, value)):
        return from_buffers(value, descriptor)
    return from_vector(value, descriptor)


def pixel_format_of(
    sizes: tuple[int, ...], descriptor: FeatureDescriptor, properties: BindProperties
) -> BitmapPixelFormat:
    """How the pixels of an array of these sizes lie.

    Raises:
        InvalidBindingError: nobody said.
    """
    if properties.pixel_format is not None:
        return properties.pixel_format
    if len(sizes) == 2:
        return BitmapPixelFormat.GRAY8
    shape = "x".join(map(str, sizes))
    raise InvalidBindingError(
        f"The model variable {descriptor.name} is a picture, and an array of {shape} does not say whether its "
        "channels are red, green, blue or blue, green, red.",
        hint="Say it: ImageFeatureValue.from_array(array, BitmapPixelFormat.RGB8) for arrays from Pillow, BGR8 for "
        'those from OpenCV; or bind with {"BitmapPixelFormat": BitmapPixelFormat.RGB8}.',
    )


def is_pil_image(value: Any) -> bool:
    """Whether the value is a Pillow image, without importing Pillow to ask."""
    return any(cls.__module__ == "PIL.Image" and cls.__name__ == "Image" for cls in type(value).__mro__)


def _spell(value: Any) -> str:
    name = type_name(value)
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    if isinstance(value, (list, tuple)) and value:
        return f"{name} of {type_name(value[0])}"
    if isinstance(value, (int, float)):
        return f"{name} {value!r}"
    return name


def _hint(value: Any, descriptor: FeatureDescriptor) -> str:
    if isinstance(descriptor, ImageFeatureDescriptor):
        if isinstance(value, (str, bytes, os.PathLike)) or is_stream(value):
            return "To bind a picture file: ImageFeatureValue.load(path)."
        return "Bind an ImageFeatureValue, a VideoFrame, a Pillow image or an array."
    if isinstance(descriptor, TensorFeatureDescriptor):
        tensor_class = TENSOR_CLASSES.get(descriptor.tensor_kind)
        if tensor_class is None:
            return f"Windows ML has no tensor class for {spell_kind(descriptor.tensor_kind)}."
        name = tensor_class.__name__
        return f"Bind a numpy array, a tensor such as {name}.from_numpy(array), or a list of its elements."
    if isinstance(descriptor, SequenceFeatureDescriptor):
        return "Bind a list."
    return "Bind a dict."


# Which values fit which features: the table of Windows ML's `FeatureCompatibility.h`.


FeatureValue = Tensor | ImageFeatureValue | Container
"""What can be bound to a feature."""

PictureDescriptor = TensorFeatureDescriptor | ImageFeatureDescriptor
"""The features that can take pictures."""

_GRAY, _COLOUR = ImageContract(BitmapPixelFormat.GRAY8), ImageContract(BitmapPixelFormat.BGR8)
"""Windows ML's rule for tensors of one channel, and of more."""


def check_tensor(value: Tensor, descriptor: FeatureDescriptor) -> None:
    """Refuses a tensor that does not fit.

    Raises:
        InvalidBindingError: the feature is no tensor, or one of another element type.
        SizeMismatchError: another shape.
    """
    if not isinstance(descriptor, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
        raise _incompatible(InvalidBindingError, value, descriptor, "")
    if value.tensor_kind != descriptor.tensor_kind:
        wanted = TENSOR_CLASSES.get(descriptor.tensor_kind)
        if wanted is None:
            hint = f"Windows ML has no tensor class for {spell_kind(descriptor.tensor_kind)}."
        else:
            kind = wanted.dtype.name if wanted.dtype == object else f"np.{wanted.dtype.name}"
            hint = f"Bind a {wanted.__name__}, or an array of {wanted.dtype.name}: array.astype({kind})."
        raise _incompatible(InvalidBindingError, value, descriptor, hint)
    _check_shape(value, descriptor)
    if value.has_open_references:
        raise InvalidBindingError(
            "The tensor has outstanding memory buffer references that must be closed prior to evaluation!",
            hint="Close what create_reference() gave, or use get_buffer(), which needs no closing.",
        )


def _check_shape(value: Tensor, descriptor: PictureDescriptor) -> None:
    if value.is_placeholder or (isinstance(descriptor, TensorFeatureDescriptor) and not descriptor.has_rank):
        return
    sizes, wanted_sizes = storage_of(value).shape or (), descriptor.shape
    if len(sizes) != len(wanted_sizes):
        hint = f"The rank is {len(sizes)}, not {len(wanted_sizes)}; add or drop dimensions with reshape."
        raise _incompatible(SizeMismatchError, value, descriptor, hint)
    wrong = [axis for axis, size in enumerate(wanted_sizes) if size not in (-1, sizes[axis])]
    if wrong:
        hint = " ".join(f"Dimension {axis} is {sizes[axis]}, not {wanted_sizes[axis]}." for axis in wrong)
        raise _incompatible(SizeMismatchError, value, descriptor, hint)


def container_for_engine(value: Container, descriptor: FeatureDescriptor) -> dict[Any, Any] | list[Any]:
    """The map or sequence as the engine takes it.

    Raises:
        InvalidBindingError: it does not fit: another kind of feature, or keys, values or elements of another type.
    """
    converted = for_engine(value, descriptor)
    if converted is None:
        raise _incompatible(InvalidBindingError, value, descriptor, "Keys, values and elements must be of these types.")
    return converted


def fitting_picture(
    value: ImageFeatureValue, descriptor: FeatureDescriptor, properties: BindProperties
) -> tuple[PictureDescriptor, ImageContract]:
    """Checks that a feature takes these pictures, and says how they become its tensor.

    Raises:
        InvalidBindingError: the feature takes no pictures: its image metadata are unsupported, its elements are
            not those of a picture, or its channels are not those of the contract.
        SizeMismatchError: the feature's tensor is not of rank 4, or its batch is of another size.
        InvalidArgumentError: it has neither 1 nor 3 channels.
    """
    if not isinstance(descriptor, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
        raise _incompatible(InvalidBindingError, value, descriptor, "")
    _check_picture(value, descriptor, properties)
    contract = contract_of(descriptor, properties)
    channels, height, width = (descriptor.shape[axis] for axis in contract.axes())
    if channels not in (1, 3):
        hint = f"Pictures have 1 or 3 channels, not {channels}, in a tensor of layout {contract.layout.name}."
        raise _incompatible(InvalidArgumentError, value, descriptor, hint)
    if 0 in (height, width):
        raise _incompatible(SizeMismatchError, value, descriptor, "The model's picture has no pixels.")
    if contract.channels != channels:
        hint = f"A {contract.pixel_format.name} picture has {contract.channels} channels in a tensor, not {channels}."
        raise _incompatible(InvalidBindingError, value, descriptor, hint)
    return descriptor, contract


def contract_of(descriptor: PictureDescriptor, properties: BindProperties) -> ImageContract:
    """What the model's metadata, or Windows ML's rule for tensors, and the properties say of a picture."""
    if isinstance(descriptor, ImageFeatureDescriptor):
        return properties.override(descriptor.contract)
    return properties.override(_GRAY if descriptor.shape[1] == 1 else _COLOUR)


def takes_picture(descriptor: FeatureDescriptor) -> TypeGuard[PictureDescriptor]:
    """Whether a feature has the rank of a picture, and floats for its numbers."""
    if not isinstance(descriptor, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
        return False
    return len(descriptor.shape) == 4 and descriptor.tensor_kind in (TensorKind.FLOAT, TensorKind.FLOAT16)


def _check_picture(value: ImageFeatureValue, descriptor: PictureDescriptor, properties: BindProperties) -> None:
    given = properties.contract
    if isinstance(descriptor, TensorFeatureDescriptor) and descriptor.unsupported_image_metadata and given is None:
        hint = "The model's Image.* metadata ask for what nobody can do; bind a tensor, or state an ImageContract."
        raise _incompatible(InvalidBindingError, value, descriptor, hint)
    if len(descriptor.shape) != 4:
        hint = "Pictures need a tensor of 4 dimensions: batch, channels, height, width."
        raise _incompatible(SizeMismatchError, value, descriptor, hint)
    stated = given.tensor_kind if given is not None else None
    if stated is not None and stated != descriptor.tensor_kind:
        came = spell_kind(descriptor.tensor_kind)
        hint = f"The contract is for {spell_kind(stated)}, and the feature's elements are {came}."
        raise _incompatible(InvalidBindingError, value, descriptor, hint)
    is_stated = stated is not None or isinstance(descriptor, ImageFeatureDescriptor)
    if descriptor.tensor_kind not in (TensorKind.FLOAT, TensorKind.FLOAT16) and not is_stated:
        hint = "Model image inputs must have tensor type of Float or Float16; UInt8 where an ImageContract says so."
        raise _incompatible(InvalidBindingError, value, descriptor, hint)
    batch, frames = descriptor.shape[0], len(value.sizes)
    if batch not in (-1, frames):
        hint = f"The batch is {frames}, not {batch}."
        raise _incompatible(SizeMismatchError, value, descriptor, hint)


def spell_value(value: FeatureValue) -> str:
    """A value's type in the words of Windows ML's messages."""
    if isinstance(value, Tensor):
        return spell_tensor(value.tensor_kind, tuple(value.shape))
    if isinstance(value, ImageFeatureValue):
        width, height = value.sizes[0]
        return f"Image[{width}x{height}]"
    return spell_container(value)


def _incompatible(
    kind: type[WinMLError],
    value: FeatureValue,
    descriptor: FeatureDescriptor,
    hint: str,
) -> WinMLError:
    return kind(
        f"Model variable {descriptor.name}, expects {descriptor.expects()}, but binding was attempted with an "
        f"incompatible type {spell_value(value)}.",
        hint=hint,
    )
