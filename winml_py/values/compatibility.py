"""Which values fit which features: the table of Windows ML's `FeatureCompatibility.h`."""

from __future__ import annotations

from typing import Any

from ..descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    TensorFeatureDescriptor,
    spell_kind,
    spell_tensor,
)
from ..errors import InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError
from ..imaging.tensorize import TensorImage
from ..kinds import BitmapPixelFormat, LearningModelPixelRange, TensorKind
from .containers import MapValue, SequenceValue
from .conversion import FeatureValue
from .image import ImageFeatureValue
from .properties import BindProperties
from .tensor import Tensor
from .tensors import TENSOR_CLASSES

PictureDescriptor = TensorFeatureDescriptor | ImageFeatureDescriptor


def check_tensor(value: Tensor, descriptor: FeatureDescriptor) -> None:
    """Refuses a tensor that does not fit.

    Raises:
        InvalidBindingError: the feature is no tensor, or one of another element type.
        SizeMismatchError: another shape.
    """
    if not isinstance(descriptor, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
        raise _incompatible(InvalidBindingError, value, descriptor, "")
    if value.has_open_references:
        raise InvalidBindingError(
            "The tensor has outstanding memory buffer references that must be closed prior to evaluation!",
            hint="Close what create_reference() gave, or use get_buffer(), which needs no closing.",
        )
    if value.tensor_kind != descriptor.tensor_kind:
        wanted = TENSOR_CLASSES.get(descriptor.tensor_kind)
        if wanted is None:
            hint = f"Windows ML has no tensor class for {spell_kind(descriptor.tensor_kind)}."
        else:
            hint = (
                f"Bind a {wanted.__name__}, or an array of {wanted.dtype.name}: array.astype(np.{wanted.dtype.name})."
            )
        raise _incompatible(InvalidBindingError, value, descriptor, hint)
    if value.is_placeholder or (isinstance(descriptor, TensorFeatureDescriptor) and not descriptor.has_rank):
        return
    sizes, wanted_sizes = tuple(value.shape), descriptor.shape
    if len(sizes) != len(wanted_sizes):
        hint = f"The rank is {len(sizes)}, not {len(wanted_sizes)}; add or drop dimensions with reshape."
        raise _incompatible(SizeMismatchError, value, descriptor, hint)
    wrong = [axis for axis, size in enumerate(wanted_sizes) if size not in (-1, sizes[axis])]
    if wrong:
        hint = " ".join(f"Dimension {axis} is {sizes[axis]}, not {wanted_sizes[axis]}." for axis in wrong)
        raise _incompatible(SizeMismatchError, value, descriptor, hint)


def plain_container(value: MapValue | SequenceValue, descriptor: FeatureDescriptor) -> dict[Any, Any] | list[Any]:
    """The map or sequence as the engine takes it.

    Raises:
        InvalidBindingError: it does not fit: another kind of feature, or keys, values or elements of another type.
    """
    plain = value.plain(descriptor)
    if plain is None:
        raise _incompatible(InvalidBindingError, value, descriptor, "Keys, values and elements must be of these types.")
    return plain


def tensor_image(value: ImageFeatureValue, descriptor: FeatureDescriptor, properties: BindProperties) -> TensorImage:
    """How pictures lie in a feature's tensor.

    Raises:
        InvalidBindingError: the feature takes no pictures: its image metadata are unsupported, its elements are
            not float, or its channels are not those of the pixel format asked for.
        SizeMismatchError: the feature's tensor is not of rank 4, or its batch is of another size.
        InvalidArgumentError: it has neither 1 nor 3 channels.
    """
    if not isinstance(descriptor, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
        raise _incompatible(InvalidBindingError, value, descriptor, "")
    _check_picture(value, descriptor)
    channels = descriptor.shape[1]
    if channels not in (1, 3):
        raise _incompatible(InvalidArgumentError, value, descriptor, f"Pictures have 1 or 3 channels, not {channels}.")
    if isinstance(descriptor, ImageFeatureDescriptor):
        default, pixel_range = descriptor.bitmap_pixel_format, descriptor.pixel_range
    else:
        default = BitmapPixelFormat.GRAY8 if channels == 1 else BitmapPixelFormat.BGRA8
        pixel_range = LearningModelPixelRange.ZERO_TO255
    if properties.pixel_range is not None:
        pixel_range = properties.pixel_range
    image = TensorImage(properties.tensor_format(default), pixel_range)
    if image.channels != channels:
        hint = f"A {image.pixel_format.name} picture has {image.channels} channels in a tensor, not {channels}."
        raise _incompatible(InvalidBindingError, value, descriptor, hint)
    return image


def _check_picture(value: ImageFeatureValue, descriptor: PictureDescriptor) -> None:
    if isinstance(descriptor, TensorFeatureDescriptor) and descriptor.unsupported_image_metadata:
        hint = "The model's Image.* metadata ask for what Windows ML cannot do; bind a tensor of your own making."
        raise _incompatible(InvalidBindingError, value, descriptor, hint)
    if len(descriptor.shape) != 4:
        hint = "Pictures need a tensor of 4 dimensions: batch, channels, height, width."
        raise _incompatible(SizeMismatchError, value, descriptor, hint)
    if descriptor.tensor_kind not in (TensorKind.FLOAT, TensorKind.FLOAT16):
        hint = "Model image inputs must have tensor type of Float or Float16."
        raise _incompatible(InvalidBindingError, value, descriptor, hint)
    if 0 in descriptor.shape[2:]:
        hint = "The model's picture has no pixels."
        raise _incompatible(SizeMismatchError, value, descriptor, hint)
    batch, frames = descriptor.shape[0], len(value.video_frames)
    if batch not in (-1, frames):
        hint = f"The batch is {frames}, not {batch}."
        raise _incompatible(SizeMismatchError, value, descriptor, hint)


def spell_value(value: FeatureValue) -> str:
    """A value's type in the words of Windows ML's messages."""
    if isinstance(value, (MapValue, SequenceValue)):
        return value.spell()
    if isinstance(value, Tensor):
        return spell_tensor(value.tensor_kind, tuple(value.shape))
    bitmap = value.video_frame.software_bitmap
    return f"Image[{bitmap.pixel_width}x{bitmap.pixel_height}]"


def _incompatible(kind: type[WinMLError], value: FeatureValue, descriptor: FeatureDescriptor, hint: str) -> WinMLError:
    return kind(
        f"Model variable {descriptor.name}, expects {descriptor.expects()}, but binding was attempted with an "
        f"incompatible type {spell_value(value)}.",
        hint=hint,
    )
