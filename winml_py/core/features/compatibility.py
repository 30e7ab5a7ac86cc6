"""Which values fit which features: the table of Windows ML's `FeatureCompatibility.h`."""

from __future__ import annotations

from typing import Any, TypeGuard

from ...enums import BitmapPixelFormat, TensorKind
from ...errors import InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError
from ..imaging.contract import ImageContract
from .bind_properties import BindProperties
from .containers import Container, for_engine, spell_container
from .descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor, spell_kind, spell_tensor
from .pictures import ImageFeatureValue
from .tensor import Tensor, storage_of
from .tensor_classes import TENSOR_CLASSES

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
