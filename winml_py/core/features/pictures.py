"""ImageFeatureValue: pictures as the value of a feature, and how they become its tensor."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, TypeGuard

from ...enums import BitmapPixelFormat, LearningModelFeatureKind, TensorKind
from ...errors import InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError
from ..base.arrays import Pixels, Size
from ..base.messages import type_name
from ..base.winrt_object import Object
from ..imaging.bitmap import LONGEST, SoftwareBitmap, html_figure
from ..imaging.codecs import MAX_PIXELS, EncodedPicture, PictureSource
from ..imaging.contract import ImageContract
from ..imaging.frame import VideoFrame
from ..imaging.geometry import Placement, compute_placement
from ..imaging.picture_placement import PicturePlacement
from .bind_properties import NO_PROPERTIES, BindProperties
from .descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
    incompatible,
    spell_kind,
)

if TYPE_CHECKING:
    from PIL.Image import Image

SHOWN = 8
"""Of a batch, a notebook shows so many pictures."""


class ImageFeatureValue(Object):
    """One picture, or a batch of them, to bind to a feature. It shares its frames with the caller.

    Bound to an input, pictures are cropped, scaled and turned into numbers at `bind`: bind again after
    changing one. Bound to an output, they are written by `evaluate`.

    Example:
        >>> import numpy as np
        >>> from winml_py import BitmapPixelFormat, ImageFeatureValue
        >>> ImageFeatureValue.from_array(np.zeros((4, 6, 3), np.uint8), BitmapPixelFormat.RGB8)
        <ImageFeatureValue RGB8 6x4>
    """

    def __init__(self, frames: Iterable[VideoFrame] | EncodedPicture) -> None:
        """Use `create_from_video_frame`, `load`, `from_pil` or `from_array` for a single picture."""
        self._encoded = frames if isinstance(frames, EncodedPicture) else None
        self._frames = () if isinstance(frames, EncodedPicture) else _require_frames(frames)
        if not self._frames and self._encoded is None:
            raise InvalidArgumentError("A batch of no pictures cannot be bound.")

    @classmethod
    def create_from_video_frame(cls, frame: VideoFrame, /) -> ImageFeatureValue:
        """A value that shares a frame."""
        if not isinstance(frame, VideoFrame):
            raise InvalidArgumentError(f"A VideoFrame is wanted, not {type_name(frame)}.")
        return cls([frame])

    @classmethod
    def from_software_bitmap(cls, bitmap: SoftwareBitmap, /) -> ImageFeatureValue:
        """A value that shares a bitmap."""
        return cls([VideoFrame.create_with_software_bitmap(bitmap)])

    @classmethod
    def load(
        cls,
        source: PictureSource,
        /,
        *,
        fast_decode: bool = False,
        max_pixels: int = MAX_PIXELS,
    ) -> ImageFeatureValue:
        """A picture file, its bytes, or a stream of them.

        Args:
            source: the path of the file, its bytes, or an open binary stream, which is read to its end.
            fast_decode: a JPEG much larger than the model is decoded at bind, to a half, a quarter or an eighth of its
                sides, never to less than twice the model's: about half the time, and with an antialiased kernel within
                two levels on average of the exact way.
            max_pixels: how many pixels a file may claim to hold.

        Raises:
            PictureNotFoundError: there is no such file.
            PictureError: it is not a picture, or it is damaged or too large.
        """
        if not fast_decode:
            return cls.from_software_bitmap(SoftwareBitmap.load(source, max_pixels=max_pixels))
        return cls(EncodedPicture(source, max_pixels))

    @classmethod
    def from_pil(cls, image: Image, /) -> ImageFeatureValue:
        """A value with a copy of a Pillow image, turned and converted to sRGB; see `SoftwareBitmap.from_pil`."""
        return cls.from_software_bitmap(SoftwareBitmap.from_pil(image))

    @classmethod
    def from_array(cls, array: Pixels, pixel_format: BitmapPixelFormat | None = None, /) -> ImageFeatureValue:
        """A value over an array of pixels, which it shares; see `SoftwareBitmap.from_array`."""
        return cls.from_software_bitmap(SoftwareBitmap.from_array(array, pixel_format))

    @property
    def kind(self) -> LearningModelFeatureKind:
        """IMAGE."""
        return LearningModelFeatureKind.IMAGE

    @property
    def video_frame(self) -> VideoFrame:
        """The picture; of a batch, the first."""
        return self.video_frames[0]

    @property
    def video_frames(self) -> tuple[VideoFrame, ...]:
        """All pictures of the batch; decoded whole, where that has not been done."""
        encoded = self._encoded
        if encoded is not None:
            # The frames first: another thread that finds no file any more has to find them.
            self._frames = (VideoFrame.create_with_software_bitmap(SoftwareBitmap.from_array(*encoded.decode())),)
            self._encoded = None
        return self._frames

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Width and height of each picture of the batch."""
        encoded = self._encoded
        if encoded is not None:
            return ((encoded.width, encoded.height),)
        bitmaps = (frame.software_bitmap for frame in self._frames)
        return tuple((bitmap.pixel_width, bitmap.pixel_height) for bitmap in bitmaps)

    def to_numpy(self) -> Pixels:
        """The (first) picture as an array: a view; see `SoftwareBitmap.to_numpy`."""
        return self.video_frame.software_bitmap.to_numpy()

    def to_pil(self) -> Image:
        """The (first) picture as a Pillow image: a copy."""
        return self.video_frame.software_bitmap.to_pil()

    def save(self, path: str | os.PathLike[str] | BinaryIO, *, kind: str = "") -> None:
        """Writes the (first) picture to a file, or an open one; see `SoftwareBitmap.save`."""
        self.video_frame.software_bitmap.save(path, kind=kind)

    def _repr_html_(self) -> str | None:
        try:
            return pictures_html(self)
        except WinMLError:  # a picture that was closed, or cannot be decoded, is shown as text
            return None

    def __repr__(self) -> str:
        (width, height), *others = self.sizes
        batch = f"{1 + len(others)} x " if others else ""
        kind = self._frames[0].software_bitmap.bitmap_pixel_format.name if self._frames else "file"
        return f"<ImageFeatureValue {batch}{kind} {width}x{height}>"


def _require_frames(frames: Iterable[VideoFrame]) -> tuple[VideoFrame, ...]:
    elements = tuple(frames) if isinstance(frames, Iterable) else ()
    if not isinstance(frames, Iterable) or not all(isinstance(element, VideoFrame) for element in elements):
        raise InvalidArgumentError(
            f"Expected VideoFrame objects, got {type_name(frames)}.",
            hint="For a file, call ImageFeatureValue.load(path); for an array, from_array(array, pixel_format); for a "
            "Pillow image, from_pil(image).",
        )
    return elements


def bitmaps_of(value: ImageFeatureValue, shrink: float) -> list[SoftwareBitmap]:
    """The pictures of a value. A JPEG that is not decoded yet is decoded smaller if the caller shrinks it a lot."""
    encoded = value._encoded  # noqa: SLF001 - users ask for `fast_decode`, and only bind knows the size
    # To a half is the least that a JPEG can be reduced, and twice the wanted size has to be left.
    if encoded is None or shrink < 4:
        return [frame.software_bitmap for frame in value.video_frames]
    return [SoftwareBitmap.from_array(*encoded.decode(shrink))]


def pictures_html(value: ImageFeatureValue, longest: int = LONGEST) -> str:
    """The pictures of a value as a notebook shows them, eight at most."""
    shrink = max(map(max, value.sizes)) / longest
    words = repr(value).strip("<>")
    return "".join(html_figure(bitmap.to_pil(), words, longest) for bitmap in bitmaps_of(value, shrink)[:SHOWN])


# How pictures become a feature's tensor.


_GRAY, _COLOUR = ImageContract(BitmapPixelFormat.GRAY8), ImageContract(BitmapPixelFormat.BGR8)
"""Windows ML's rule for tensors of one channel, and of more."""


class PictureFit:
    """How pictures of certain sizes become a feature's tensor. Pictures that follow each other mostly share one.

    Attributes:
        descriptor: the feature.
        contract: how each picture becomes numbers.
        sizes: width and height of each.
        bounds: the part of each to use; None for all of it.

    Raises:
        WinMLError: as `fitting_picture` does.
    """

    def __init__(
        self, value: ImageFeatureValue, descriptor: FeatureDescriptor, properties: BindProperties = NO_PROPERTIES
    ) -> None:
        self.descriptor, self.contract = fitting_picture(value, descriptor, properties)
        self.sizes, self.bounds, self._properties = value.sizes, properties.bounds, properties

    def is_for(self, value: ImageFeatureValue, descriptor: FeatureDescriptor, properties: BindProperties) -> bool:
        """Whether this fit can be reused for `value`."""
        return descriptor is self.descriptor and properties == self._properties and value.sizes == self.sizes

    @cached_property  # only inputs ask: an output is stretched over the bitmaps that are bound to it
    def placements(self) -> list[Placement]:
        """Where each picture goes in the tensor."""
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


def placements(
    descriptor: ShapedDescriptor,
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
    per_picture = [compute_placement(*size, width, height, mode, properties.bounds, scaling) for size in sizes]
    tensors = {placement.tensor for placement in per_picture}
    if len(tensors) > 1:
        tensor_sizes = ", ".join(sorted(f"{width}x{height}" for height, width in tensors))
        raise InvalidArgumentError(
            f"The model variable {descriptor.name} takes any size, but pictures of one batch must agree on it; these "
            f"become {tensor_sizes}.",
            hint="State a size: ImageContract(size=(height, width)), or scale or crop the pictures first.",
        )
    return per_picture


def tensor_shape(contract: ImageContract, count: int, tensor: Size) -> tuple[int, ...]:
    """The shape of a batch."""
    channels_axis, height_axis, width_axis = contract.axes()
    shape = [count] * 4
    shape[channels_axis], shape[height_axis], shape[width_axis] = contract.channels, *tensor
    return tuple(shape)


def fixed_sides(
    descriptor: ShapedDescriptor, contract: ImageContract, properties: BindProperties = NO_PROPERTIES
) -> tuple[int | None, int | None]:
    """Height and width of the tensor, as the bind, the contract or the model fixes them; None where nothing does.
    InvalidBindingError where the model fixes another.
    """
    _, rows, columns = contract.axes()
    height, width = descriptor.shape[rows], descriptor.shape[columns]
    model = (height if height >= 0 else None, width if width >= 0 else None)
    size = properties.size or contract.size
    if size is None:
        return model
    by = "the bind" if properties.size else "the image contract"
    for side, model_side, stated_side in zip(("height", "width"), model, size, strict=True):
        if None not in (model_side, stated_side) and model_side != stated_side:
            raise InvalidBindingError(
                f"The {side} of the model variable {descriptor.name} is {model_side}, and {by} states {stated_side}.",
                hint="Leave the size out, or check that the contract belongs to this model.",
            )
    return model[0] or size[0], model[1] or size[1]


def fitting_picture(
    value: ImageFeatureValue, descriptor: FeatureDescriptor, properties: BindProperties
) -> tuple[ShapedDescriptor, ImageContract]:
    """Checks that a feature takes these pictures, and says how they become its tensor.

    Raises:
        InvalidBindingError: it takes no pictures, or none with these channels or elements.
        SizeMismatchError: its tensor is not of rank 4, or its batch is of another size.
        InvalidArgumentError: it has neither 1 nor 3 channels.
    """
    if not isinstance(descriptor, ShapedDescriptor):
        raise incompatible(InvalidBindingError, descriptor, _describe(value), "")
    _check_picture(value, descriptor, properties)
    contract = contract_for_bind(descriptor, properties)
    channels, height, width = (descriptor.shape[axis] for axis in contract.axes())
    if channels not in (1, 3):
        hint = f"Pictures have 1 or 3 channels, not {channels}, in a tensor of layout {contract.layout.name}."
        raise incompatible(InvalidArgumentError, descriptor, _describe(value), hint)
    if 0 in (height, width):
        raise incompatible(SizeMismatchError, descriptor, _describe(value), "The model's picture has no pixels.")
    if contract.channels != channels:
        hint = f"A {contract.pixel_format.name} picture has {contract.channels} channels in a tensor, not {channels}."
        raise incompatible(InvalidBindingError, descriptor, _describe(value), hint)
    return descriptor, contract


def _check_picture(value: ImageFeatureValue, descriptor: ShapedDescriptor, properties: BindProperties) -> None:
    contract = properties.contract
    if isinstance(descriptor, TensorFeatureDescriptor) and descriptor.unsupported_image_metadata and contract is None:
        hint = "The model's Image.* metadata ask for what nobody can do; bind a tensor, or state an ImageContract."
        raise incompatible(InvalidBindingError, descriptor, _describe(value), hint)
    if len(descriptor.shape) != 4:
        hint = "Pictures need a tensor of 4 dimensions: batch, channels, height, width."
        raise incompatible(SizeMismatchError, descriptor, _describe(value), hint)
    contract_kind = contract.tensor_kind if contract is not None else None
    if contract_kind is not None and contract_kind != descriptor.tensor_kind:
        element_type = spell_kind(descriptor.tensor_kind)
        hint = f"The contract is for {spell_kind(contract_kind)}, and the feature's elements are {element_type}."
        raise incompatible(InvalidBindingError, descriptor, _describe(value), hint)
    is_stated = contract_kind is not None or isinstance(descriptor, ImageFeatureDescriptor)
    if descriptor.tensor_kind not in (TensorKind.FLOAT, TensorKind.FLOAT16) and not is_stated:
        hint = "Model image inputs must have tensor type of Float or Float16; UInt8 where an ImageContract says so."
        raise incompatible(InvalidBindingError, descriptor, _describe(value), hint)
    batch, frames = descriptor.shape[0], len(value.sizes)
    if batch not in (-1, frames):
        hint = f"The batch is {frames}, not {batch}."
        if batch == 1:
            hint += " Use session.evaluate_many(pictures), which evaluates them one by one. (If the model leaves the "
            hint += "batch free: options.batch_size_override = 0.)"
        raise incompatible(SizeMismatchError, descriptor, _describe(value), hint)


def contract_for_bind(descriptor: ShapedDescriptor, properties: BindProperties = NO_PROPERTIES) -> ImageContract:
    """What the model's metadata, or Windows ML's rule for tensors, and the properties say of a picture."""
    if isinstance(descriptor, ImageFeatureDescriptor):
        return properties.override(descriptor.contract)
    return properties.override(_GRAY if descriptor.shape[1] == 1 else _COLOUR)


def takes_picture(descriptor: FeatureDescriptor) -> TypeGuard[ShapedDescriptor]:
    """Whether a feature has the rank of a picture, and floats for its numbers."""
    if not isinstance(descriptor, ShapedDescriptor):
        return False
    return len(descriptor.shape) == 4 and descriptor.tensor_kind in (TensorKind.FLOAT, TensorKind.FLOAT16)


def pixel_format_of(
    sizes: tuple[int, ...], descriptor: FeatureDescriptor, properties: BindProperties
) -> BitmapPixelFormat:
    """How the pixels of an array of these sizes lie; InvalidBindingError where nobody said."""
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


def _describe(value: ImageFeatureValue) -> str:
    width, height = value.sizes[0]
    return f"Image[{width}x{height}]"
