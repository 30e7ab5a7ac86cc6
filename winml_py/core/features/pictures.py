"""Pictures for a model: ImageFeatureValue, and PreprocessPlan, which makes a feature's tensor from its pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np

from ...enums import BitmapPixelFormat, LearningModelFeatureKind, LearningModelPixelRange, TensorKind, TensorLayout
from ...errors import InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError
from ..base.arguments import require_type
from ..base.arrays import Array, Pixels
from ..base.messages import type_name
from ..base.winrt_object import Object
from ..imaging.bitmap import SCREEN, SoftwareBitmap, VideoFrame, encode_png
from ..imaging.codecs import MAX_PIXELS, EncodedPicture, PictureSource
from ..imaging.contract import ImageContract, Placement, compute_placement, require_scaled
from ..imaging.tensorize import tensorize_batch
from .bind_properties import NO_PROPERTIES, BindProperties
from .descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
    describe_size_conflict,
    format_kind,
    make_mismatch_error,
)
from .tensor_classes import TENSOR_CLASSES

if TYPE_CHECKING:
    from PIL.Image import Image

PictureSizes = Sequence[tuple[int, int]]  # width and height of each picture


_HOW_TO_MAKE = (
    "For a file, call ImageFeatureValue.load(path); for an array, from_array(array, pixel_format); for a Pillow image, "
    "from_pil(image)."
)


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

    def __init__(self, frames: Iterable[VideoFrame] | EncodedPicture, *, contract: ImageContract | None = None) -> None:
        """Use `create_from_video_frame`, `load`, `from_pil` or `from_array` for a single picture."""
        if contract is not None:
            require_type(contract, ImageContract, "Pass ImageContract.imagenet() or your own.")
        self._contract = contract
        self._encoded = frames if isinstance(frames, EncodedPicture) else None
        self._frames = () if isinstance(frames, EncodedPicture) else _require_frames(frames)
        if not self._frames and self._encoded is None:
            raise InvalidArgumentError("Expected at least one picture, got none.")

    @property
    def contract(self) -> ImageContract | None:
        """How the pictures become a tensor, in place of the model's contract; None if the value does not state it.

        Every method that makes a value takes it. A bind's own `ImageContract` comes before it.
        """
        return self._contract

    @classmethod
    def create_from_video_frame(cls, frame: VideoFrame, /, *, contract: ImageContract | None = None) -> Self:
        """A value that shares a frame."""
        require_type(frame, VideoFrame, _HOW_TO_MAKE)
        return cls([frame], contract=contract)

    @classmethod
    def from_software_bitmap(cls, bitmap: SoftwareBitmap, /, *, contract: ImageContract | None = None) -> Self:
        """A value that shares a bitmap."""
        return cls([VideoFrame.create_with_software_bitmap(bitmap)], contract=contract)

    @classmethod
    def load(
        cls,
        source: PictureSource,
        /,
        *,
        fast_decode: bool = False,
        max_pixels: int = MAX_PIXELS,
        contract: ImageContract | None = None,
    ) -> Self:
        """A value with the picture in a file, in bytes, or in a stream.

        Args:
            source: the path to the file, its bytes, or an open binary stream, which is read to its end.
            fast_decode: decodes a JPEG much larger than the model at bind, at a half, a quarter or an eighth of its
                sides, but never below twice the model's: about half the time. With an antialiased kernel, levels differ
                from exact decoding by about two on average on photographs, and by more on noise.
            max_pixels: the most pixels that a file may claim to hold, and that a model may have it scaled to; see
                `SoftwareBitmap.load`.
            contract: how the picture becomes the tensor, in place of the model's contract.

        Raises:
            PictureNotFoundError: there is no such file.
            PictureError: it is not a picture, is damaged, or is too large.
        """
        if not fast_decode:
            return cls.from_software_bitmap(SoftwareBitmap.load(source, max_pixels=max_pixels), contract=contract)
        return cls(EncodedPicture(source, max_pixels), contract=contract)

    @classmethod
    def from_pil(cls, image: Image, /, *, contract: ImageContract | None = None) -> Self:
        """A value with a copy of a Pillow image, turned upright, in sRGB; see `SoftwareBitmap.from_pil`."""
        return cls.from_software_bitmap(SoftwareBitmap.from_pil(image), contract=contract)

    @classmethod
    def from_array(
        cls, array: Pixels, pixel_format: BitmapPixelFormat | None = None, /, *, contract: ImageContract | None = None
    ) -> Self:
        """A value over an array of pixels, which it shares; see `SoftwareBitmap.from_array`."""
        return cls.from_software_bitmap(SoftwareBitmap.from_array(array, pixel_format), contract=contract)

    @property
    def kind(self) -> LearningModelFeatureKind:
        """Always `IMAGE`."""
        return LearningModelFeatureKind.IMAGE

    @property
    def video_frame(self) -> VideoFrame:
        """The picture; the first one of a batch."""
        return self.video_frames[0]

    @property
    def video_frames(self) -> tuple[VideoFrame, ...]:
        """All pictures of the batch; decodes a picture file at full size, if that has not been done."""
        encoded = self._encoded
        if encoded is not None:
            # The frames first: another thread that no longer finds the file must find the frames.
            self._frames = (VideoFrame.create_with_software_bitmap(_decode(encoded)),)
            self._encoded = None
        return self._frames

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Width and height of each picture of the batch."""
        encoded = self._encoded
        if encoded is not None:
            return ((encoded.width, encoded.height),)
        return tuple((frame.software_bitmap.pixel_width, frame.software_bitmap.pixel_height) for frame in self._frames)

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
        """The pictures as a notebook shows them, at most eight, each with a caption."""
        import base64
        from html import escape

        figures = []
        try:
            caption = escape(repr(self).strip("<>"))
            for bitmap in decode_bitmaps(self, shrink=max(map(max, self.sizes)) / SCREEN)[:8]:
                data = base64.b64encode(encode_png(bitmap.to_pil(), SCREEN)).decode()
                image = f'<img src="data:image/png;base64,{data}" alt="a picture" style="max-width:100%">'
                figures.append(f'<div style="display:inline-block;margin-right:1em">{image}<br>{caption}</div>')
        except WinMLError:  # a closed or undecodable picture is shown as text
            return None
        return "".join(figures)

    def __repr__(self) -> str:
        width, height = self.sizes[0]
        batch = f"{len(self.sizes)} x " if len(self.sizes) > 1 else ""
        kind = self._frames[0].software_bitmap.bitmap_pixel_format.name if self._frames else "file"
        return f"<ImageFeatureValue {batch}{kind} {width}x{height}>"


def _require_frames(frames: Iterable[VideoFrame]) -> tuple[VideoFrame, ...]:
    if isinstance(frames, Iterable):
        elements = tuple(frames)
        if all(isinstance(element, VideoFrame) for element in elements):
            return elements
    raise InvalidArgumentError(f"Expected VideoFrame objects, got {type_name(frames)}.", hint=_HOW_TO_MAKE)


def decode_bitmaps(value: ImageFeatureValue, shrink: float) -> list[SoftwareBitmap]:
    """The pictures of a value. A JPEG not decoded yet is decoded smaller if the caller shrinks it a lot."""
    encoded = value._encoded  # noqa: SLF001 - users ask for `fast_decode`, and only bind knows the size
    # A JPEG is decoded at a half of its sides or less, and twice the wanted size must remain.
    if encoded is None or shrink < 4:
        return [frame.software_bitmap for frame in value.video_frames]
    return [_decode(encoded, shrink)]


def _decode(encoded: EncodedPicture, shrink: float = 1.0) -> SoftwareBitmap:
    bitmap = SoftwareBitmap.from_array(*encoded.decode(shrink))
    bitmap.max_pixels = encoded.max_pixels
    return bitmap


class PreprocessPlan:
    """How pictures of certain sizes become a feature's tensor. Consecutive pictures mostly share one plan.

    Attributes:
        descriptor: the feature.
        contract: how each picture becomes numbers.
        sizes: width and height of each.
        is_stated: whether the model or the bind states the contract; otherwise Windows ML's rule applies.

    Raises:
        InvalidBindingError: the feature takes no pictures, or none with these channels or elements.
        SizeMismatchError: its tensor is not of rank 4, or has another batch size.
        InvalidArgumentError: it has neither 1 nor 3 channels.
    """

    def __init__(
        self, sizes: PictureSizes, descriptor: FeatureDescriptor, properties: BindProperties = NO_PROPERTIES
    ) -> None:
        self.descriptor, self.contract = _require_fit(sizes, descriptor, properties)
        bind_states_format_and_range = None not in (properties.pixel_format, properties.pixel_range)
        bind_states_contract = properties.contract is not None or bind_states_format_and_range
        self.is_stated = bind_states_contract or isinstance(descriptor, ImageFeatureDescriptor)
        self.sizes = sizes
        self._properties = properties

    def is_for(self, sizes: PictureSizes, descriptor: FeatureDescriptor, properties: BindProperties) -> bool:
        """Whether this plan can be reused for pictures of these sizes."""
        return descriptor is self.descriptor and properties == self._properties and sizes == self.sizes

    @cached_property  # only for inputs: an output is stretched over the bitmaps bound to it
    def placements(self) -> list[Placement]:
        """Where each picture goes in the tensor.

        Raises:
            InvalidBindingError: bounds that extend beyond a picture, or a stated size that contradicts the model.
            InvalidArgumentError: the model leaves a side free, and the pictures of the batch differ in it.
        """
        contract, bounds = self.contract, self._properties.bounds
        parts = self.sizes if bounds is None else [(bounds.width, bounds.height)]
        tensor = contract.scaling.fix_sides(parts, find_fixed_sides(self.descriptor, contract, self._properties))
        placements = [compute_placement(*size, tensor, contract.scaling, bounds) for size in self.sizes]
        tensors = {placement.tensor for placement in placements}
        if len(tensors) > 1:
            tensor_sizes = ", ".join(sorted(f"{width}x{height}" for height, width in tensors))
            raise InvalidArgumentError(
                f"The model variable {self.descriptor.name} takes any size, but all pictures in a batch must have the "
                f"same size; these would become {tensor_sizes}.",
                hint="Specify a size with ImageContract(size=(height, width)), or scale or crop the pictures first.",
            )
        return placements

    def require_placements(self) -> None:
        """Computes `placements`, so that their errors are raised now."""
        _ = self.placements

    @property
    def keeps_own_size(self) -> bool:
        """Whether nothing states a size, and the tensor has that of the picture."""
        sides = find_fixed_sides(self.descriptor, self.contract, self._properties)
        return sides == (None, None) and self.placements[0].tensor == self.placements[0].picture

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor for all pictures, as the contract lays it out."""
        height, width = self.placements[0].tensor
        if self.contract.layout is TensorLayout.NHWC:
            return len(self.sizes), height, width, self.contract.channels
        return len(self.sizes), self.contract.channels, height, width

    def reuse_or_allocate(self, before: object = None) -> Array:
        """Host memory for the tensor: the previous pictures' tensor if it has the same shape, else new memory."""
        if isinstance(before, np.ndarray) and before.shape == self.shape:
            return before
        try:
            return np.zeros(self.shape, TENSOR_CLASSES[self.descriptor.tensor_kind].dtype)
        except (ValueError, MemoryError) as error:
            raise InvalidArgumentError(f"A tensor of shape {self.shape} does not fit in memory: {error}.") from error

    def decode(self, value: ImageFeatureValue) -> tuple[list[SoftwareBitmap], list[Placement]]:
        """The pictures, and where each goes in the tensor. One not decoded yet may be decoded smaller.

        Raises:
            IllegalCallError: one has been closed.
            InvalidBindingError: one would be scaled to more pixels than its file may hold.
        """
        placements = self.placements
        # A picture of which only a part is used is decoded whole: the bounds are in its pixels.
        bitmaps = decode_bitmaps(value, 1.0 if self._properties.bounds else min(placements[0].shrink))
        decoded_size = bitmaps[0].pixel_width, bitmaps[0].pixel_height
        if decoded_size != self.sizes[0]:
            placements = [placements[0].reduce_to(*decoded_size)]
        sides = find_fixed_sides(self.descriptor, self.contract, self._properties)
        for bitmap, placement in zip(bitmaps, placements, strict=True):  # raises before one overwrites what was bound
            bitmap.to_numpy()
            require_scaled(placement, sides, bitmap.max_pixels)
        return bitmaps, placements

    def make_tensor(self, value: ImageFeatureValue) -> Array:
        """A new tensor of the pictures, in the host's memory."""
        bitmaps, placements = self.decode(value)
        tensor = self.reuse_or_allocate()
        tensorize_batch(bitmaps, self.contract, placements, tensor)
        return tensor


def find_fixed_sides(
    descriptor: ShapedDescriptor, contract: ImageContract, properties: BindProperties = NO_PROPERTIES
) -> tuple[int | None, int | None]:
    """Height and width of the tensor, as the model, the bind or the contract fixes them; None where nothing does.

    Raises:
        InvalidBindingError: the bind or the contract states another size than the model.
    """
    size = properties.size or contract.size
    by = "the bind" if properties.size else "the image contract"
    if size and (conflict := describe_size_conflict(descriptor, contract, size, by)):
        hint = "Omit the size, or check that the contract belongs to this model."
        raise InvalidBindingError(conflict, hint=hint)
    height, width = (descriptor.shape[axis] for axis in contract.axes()[1:])
    stated_height, stated_width = size or (None, None)
    return height if height >= 0 else stated_height, width if width >= 0 else stated_width


def _require_fit(
    sizes: PictureSizes, descriptor: FeatureDescriptor, properties: BindProperties
) -> tuple[ShapedDescriptor, ImageContract]:
    """The feature, checked to take these pictures, and how they become its tensor; raises as `PreprocessPlan` does."""

    def make_misfit_error(kind: type[WinMLError], hint: str) -> WinMLError:
        width, height = sizes[0]
        return make_mismatch_error(kind, descriptor, f"Image[{width}x{height}]", hint)

    if not isinstance(descriptor, ShapedDescriptor):
        raise make_misfit_error(InvalidBindingError, "")
    is_image = isinstance(descriptor, ImageFeatureDescriptor)
    has_unsupported_metadata = isinstance(descriptor, TensorFeatureDescriptor) and descriptor.unsupported_image_metadata
    if has_unsupported_metadata and properties.contract is None:
        hint = "The model's Image.* metadata is not supported. Bind a tensor, or specify an ImageContract."
        raise make_misfit_error(InvalidBindingError, hint)
    if len(descriptor.shape) != 4:
        hint = "Pictures require a tensor with 4 dimensions: batch, channels, height, width."
        raise make_misfit_error(SizeMismatchError, hint)

    # The elements: those that the contract states, or floats.
    stated_kind = properties.contract.tensor_kind if properties.contract else None
    if stated_kind is not None and stated_kind != descriptor.tensor_kind:
        element_type = format_kind(descriptor.tensor_kind)
        hint = f"The contract is for {format_kind(stated_kind)}, but the feature's elements are {element_type}."
        raise make_misfit_error(InvalidBindingError, hint)
    is_float = descriptor.tensor_kind in (TensorKind.FLOAT, TensorKind.FLOAT16)
    if not is_float and not is_image and stated_kind is None:
        hint = "Model image inputs must have tensor type of Float or Float16; UInt8 if an ImageContract says so."
        raise make_misfit_error(InvalidBindingError, hint)

    batch = descriptor.shape[0]
    if batch not in (-1, len(sizes)):
        hint = f"Expected a batch of {batch}, got {len(sizes)}."
        if batch == 1:
            hint += " Use session.evaluate_many(pictures), which evaluates them one at a time. Or, if the model leaves "
            hint += "the batch free, set options.batch_size_override = 0."
        raise make_misfit_error(SizeMismatchError, hint)

    contract = choose_contract(descriptor, properties)
    channels, height, width = (descriptor.shape[axis] for axis in contract.axes())
    if channels == -1 and (properties.contract or is_image):
        channels = contract.channels
    if channels not in (1, 3):
        hint = f"In a tensor of layout {contract.layout.name}, pictures have 1 or 3 channels, not {channels}."
        raise make_misfit_error(InvalidArgumentError, hint)
    if 0 in (height, width):
        raise make_misfit_error(SizeMismatchError, "The model's picture has no pixels.")
    if contract.channels != channels:
        hint = f"In a tensor, {contract.pixel_format.name} pictures have {contract.channels} channels, not {channels}."
        raise make_misfit_error(InvalidBindingError, hint)
    return descriptor, contract


_GRAY, _COLOUR = ImageContract(BitmapPixelFormat.GRAY8), ImageContract(BitmapPixelFormat.BGR8)
"""Windows ML's contracts for tensors of one channel, and of more."""


def choose_contract(descriptor: ShapedDescriptor, properties: BindProperties = NO_PROPERTIES) -> ImageContract:
    """The contract of a bind, from the model's metadata, or Windows ML's rule for tensors, and the properties.

    Raises:
        InvalidBindingError: a pixel format that Windows ML does not allow there.
    """
    if properties.contract is not None:
        contract = properties.contract
    elif isinstance(descriptor, ImageFeatureDescriptor):
        contract = descriptor.contract
    else:
        contract = _GRAY if descriptor.shape[1] == 1 else _COLOUR
    pixel_format = properties.pixel_format
    if properties.pixel_range is None and pixel_format is None:
        return contract
    formats = BitmapPixelFormat.RGBA8, BitmapPixelFormat.BGRA8, BitmapPixelFormat.GRAY8
    if pixel_format is not None and pixel_format not in formats:
        raise InvalidBindingError(
            f"The property BitmapPixelFormat is {pixel_format.name}, but the channels of a tensor can only be RGBA8, "
            "BGRA8 or GRAY8.",
            hint="To specify the pixel format of an array, use ImageFeatureValue.from_array(array, pixel_format).",
        )
    return _override_contract(contract, properties.pixel_range, pixel_format)


@lru_cache(64)  # checking a new contract takes longer than tensorizing a small picture
def _override_contract(
    contract: ImageContract, pixel_range: LearningModelPixelRange | None, pixel_format: BitmapPixelFormat | None
) -> ImageContract:
    if pixel_range is not None:
        contract = replace(contract, pixel_range=pixel_range)
    return contract if pixel_format is None else contract.with_pixel_format(pixel_format)
