"""Converts what a caller binds into a feature value: Windows ML's kinds (`FeatureValues.h`), and Python's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...enums import BitmapPixelFormat
from ...errors import InvalidBindingError
from ..base.buffers import ByteArray
from ..base.dlpack import exports_dlpack, host_array
from ..base.streams import is_stream
from ..base.type_names import type_name
from ..imaging.bitmap import SoftwareBitmap
from ..imaging.frame import VideoFrame
from .bind_properties import BindProperties
from .compatibility import FeatureValue
from .containers import Container, as_tensor
from .descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
    spell_kind,
)
from .lists_and_buffers import from_buffers, from_scalar, from_typed_buffer, from_vector, is_buffer
from .pictures import ImageFeatureValue
from .tensor import Tensor
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
