"""From what the caller binds to a feature value: Windows ML's kinds (`FeatureValues.h`) and Python's."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..errors import InvalidBindingError
from ..imaging.bitmap import SoftwareBitmap, VideoFrame
from ..kinds import BitmapPixelFormat
from .image import ImageFeatureValue
from .properties import BindProperties
from .tensor import Tensor
from .tensors import CLASSES_BY_DTYPE, TensorString

FeatureValue = Tensor | ImageFeatureValue


def to_feature_value(
    value: Any, descriptor: FeatureDescriptor, properties: BindProperties
) -> tuple[FeatureValue, BindProperties]:
    """The feature value for what a caller binds, and the properties that are left for it.

    An array bound as a picture uses up the pixel format: there it says how the array lies, which nothing
    else does; a frame knows that of itself, and the property says how its numbers are to lie in the tensor.

    Raises:
        InvalidBindingError: nothing that can be bound, or pixels whose order nobody said.
    """
    if isinstance(value, (Tensor, ImageFeatureValue)):
        return value, properties
    if isinstance(value, VideoFrame):
        return ImageFeatureValue.create_from_video_frame(value), properties
    if isinstance(value, SoftwareBitmap):
        return ImageFeatureValue.from_software_bitmap(value), properties
    if is_pil_image(value):
        return ImageFeatureValue.from_pil(value), properties
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if isinstance(descriptor, ImageFeatureDescriptor) and array.dtype == np.uint8:
            pixel_format = _pixel_format(array, descriptor, properties)
            return ImageFeatureValue.from_array(array, pixel_format), properties._replace(pixel_format=None)
        return _tensor(array, descriptor), properties
    raise InvalidBindingError(
        f"The model variable {descriptor.name} cannot be bound with the provided type: "
        f"it expects {descriptor.expects()}, and {type(value).__name__} came.",
        hint=_hint(value, descriptor),
    )


def _tensor(array: np.ndarray[Any, Any], descriptor: FeatureDescriptor) -> Tensor:
    if array.dtype.kind == "U" or array.dtype == object:
        return TensorString.from_numpy(array)
    tensor_class = CLASSES_BY_DTYPE.get(array.dtype)
    if tensor_class is None:
        raise InvalidBindingError(
            f"The model variable {descriptor.name} expects {descriptor.expects()}, and an array of {array.dtype} came.",
            hint="No tensor class holds that dtype; cast the array with astype.",
        )
    return tensor_class.from_numpy(array)


def _pixel_format(
    array: np.ndarray[Any, Any], descriptor: FeatureDescriptor, properties: BindProperties
) -> BitmapPixelFormat:
    if properties.pixel_format is not None:
        return properties.pixel_format
    if array.ndim == 2:
        return BitmapPixelFormat.GRAY8
    shape = "x".join(map(str, array.shape))
    raise InvalidBindingError(
        f"The model variable {descriptor.name} is a picture, and an array of {shape} does not say whether its "
        "channels are red, green, blue or blue, green, red.",
        hint="Say it: ImageFeatureValue.from_array(array, BitmapPixelFormat.RGB8) for arrays from Pillow, BGR8 for "
        'those from OpenCV; or bind with {"BitmapPixelFormat": BitmapPixelFormat.RGB8}.',
    )


def is_pil_image(value: Any) -> bool:
    """Whether the value is a Pillow image, without importing Pillow to ask."""
    return any(cls.__module__ == "PIL.Image" and cls.__name__ == "Image" for cls in type(value).__mro__)


def _hint(value: Any, descriptor: FeatureDescriptor) -> str:
    if isinstance(descriptor, ImageFeatureDescriptor):
        if isinstance(value, (str, bytes)):
            return "To bind a picture file: ImageFeatureValue.load(path)."
        return "Bind an ImageFeatureValue, a VideoFrame, a Pillow image or an array."
    if isinstance(descriptor, TensorFeatureDescriptor):
        return "Bind a numpy array or a tensor, such as TensorFloat.from_numpy(array)."
    return "Bind what the model's descriptor says."
