"""Pictures as feature values: ImageFeatureValue, the properties of a bind, and how pictures become the tensor."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from ...enums import BitmapPixelFormat, LearningModelFeatureKind, LearningModelPixelRange, TensorKind
from ...errors import InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError
from ..base.arguments import require_bool, require_member, require_type
from ..base.arrays import Array, Pixels, Size
from ..base.messages import did_you_mean, type_name
from ..base.winrt_object import Object
from ..imaging.bitmap import SCREEN, SoftwareBitmap, VideoFrame, encode_png
from ..imaging.codecs import MAX_PIXELS, EncodedPicture, PictureSource
from ..imaging.contract import ImageContract, require_size
from ..imaging.geometry import BitmapBounds, Placement, compute_placement
from ..imaging.tensorize import tensorize_batch
from .descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
    describe_size_conflict,
    format_kind,
    make_incompatible_error,
)
from .tensor_classes import TENSOR_CLASSES

if TYPE_CHECKING:
    from PIL.Image import Image

SHOWN = 8
"""The most pictures of a batch that a notebook shows."""


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

    def __init__(self, frames: Iterable[VideoFrame] | EncodedPicture) -> None:
        """Use `create_from_video_frame`, `load`, `from_pil` or `from_array` for a single picture."""
        self._encoded = frames if isinstance(frames, EncodedPicture) else None
        self._frames = () if isinstance(frames, EncodedPicture) else _require_frames(frames)
        if not self._frames and self._encoded is None:
            raise InvalidArgumentError("Expected at least one picture, got none.")

    @classmethod
    def create_from_video_frame(cls, frame: VideoFrame, /) -> ImageFeatureValue:
        """A value that shares a frame."""
        require_type(frame, VideoFrame, _HOW_TO_MAKE)
        return cls([frame])

    @classmethod
    def from_software_bitmap(cls, bitmap: SoftwareBitmap, /) -> ImageFeatureValue:
        """A value that shares a bitmap."""
        return cls([VideoFrame.create_with_software_bitmap(bitmap)])

    @classmethod
    def load(
        cls, source: PictureSource, /, *, fast_decode: bool = False, max_pixels: int = MAX_PIXELS
    ) -> ImageFeatureValue:
        """A value with the picture in a file, in bytes, or in a stream.

        Args:
            source: the path of the file, its bytes, or an open binary stream, which is read to its end.
            fast_decode: decodes a JPEG much larger than the model at bind, at a half, a quarter or an eighth of its
                sides, but never below twice the model's: about half the time. With an antialiased kernel, levels differ
                from exact decoding by about two on average on photographs, and by more on noise.
            max_pixels: the most pixels that a file may claim to hold.

        Raises:
            PictureNotFoundError: there is no such file.
            PictureError: it is not a picture, is damaged, or is too large.
        """
        if not fast_decode:
            return cls.from_software_bitmap(SoftwareBitmap.load(source, max_pixels=max_pixels))
        return cls(EncodedPicture(source, max_pixels))

    @classmethod
    def from_pil(cls, image: Image, /) -> ImageFeatureValue:
        """A value with a copy of a Pillow image, turned upright, in sRGB; see `SoftwareBitmap.from_pil`."""
        return cls.from_software_bitmap(SoftwareBitmap.from_pil(image))

    @classmethod
    def from_array(cls, array: Pixels, pixel_format: BitmapPixelFormat | None = None, /) -> ImageFeatureValue:
        """A value over an array of pixels, which it shares; see `SoftwareBitmap.from_array`."""
        return cls.from_software_bitmap(SoftwareBitmap.from_array(array, pixel_format))

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
            return make_pictures_html(self)
        except WinMLError:  # a closed or undecodable picture is shown as text
            return None

    def __repr__(self) -> str:
        (width, height), *others = self.sizes
        batch = f"{1 + len(others)} x " if others else ""
        kind = self._frames[0].software_bitmap.bitmap_pixel_format.name if self._frames else "file"
        return f"<ImageFeatureValue {batch}{kind} {width}x{height}>"


def _require_frames(frames: Iterable[VideoFrame]) -> tuple[VideoFrame, ...]:
    elements = tuple(frames) if isinstance(frames, Iterable) else ()
    if not isinstance(frames, Iterable) or not all(isinstance(element, VideoFrame) for element in elements):
        raise InvalidArgumentError(f"Expected VideoFrame objects, got {type_name(frames)}.", hint=_HOW_TO_MAKE)
    return elements


def decode_bitmaps(value: ImageFeatureValue, shrink: float) -> list[SoftwareBitmap]:
    """The pictures of a value. A JPEG not decoded yet is decoded smaller if the caller shrinks it a lot."""
    encoded = value._encoded  # noqa: SLF001 - users ask for `fast_decode`, and only bind knows the size
    # A JPEG is decoded at a half of its sides or less, and twice the wanted size must remain.
    if encoded is None or shrink < 4:
        return [frame.software_bitmap for frame in value.video_frames]
    return [SoftwareBitmap.from_array(*encoded.decode(shrink))]


def make_pictures_html(value: ImageFeatureValue, longest: int = SCREEN) -> str:
    """The pictures of a value as a notebook shows them, at most eight, each with a caption."""
    import base64
    from html import escape

    bitmaps = decode_bitmaps(value, shrink=max(map(max, value.sizes)) / longest)
    figures = []
    for bitmap in bitmaps[:SHOWN]:
        data = base64.b64encode(encode_png(bitmap.to_pil(), longest)).decode()
        shown = f'<img src="data:image/png;base64,{data}" alt="a picture" style="max-width:100%">'
        words = escape(repr(value).strip("<>"))
        figures.append(f'<div style="display:inline-block;margin-right:1em">{shown}<br>{words}</div>')
    return "".join(figures)


# BindProperties: the properties of a bind, Windows ML's and `ImageContract`.


class BindProperties(NamedTuple):
    """What a bind asks for beside the value. None means: as the model states.

    Attributes:
        bounds: the part of the picture to use, stretched to the model's size.
        pixel_format: the order of the tensor's channels, or of an array's if it is bound as a picture.
        pixel_range: what the bytes 0 to 255 become.
        contract: how a picture becomes the tensor, in place of the model's contract.
        size: height and width of the tensor, where the model leaves them free.
        stays_on_device: whether an output stays in the device's memory.
        is_strict: whether what only pictures have is refused for numbers, where it would have no effect.
    """

    bounds: BitmapBounds | None = None
    pixel_format: BitmapPixelFormat | None = None
    pixel_range: LearningModelPixelRange | None = None
    contract: ImageContract | None = None
    size: Size | None = None
    stays_on_device: bool = False
    is_strict: bool = False

    @classmethod
    def read(cls, properties: Mapping[str, Any] | None, is_silent: bool = False) -> BindProperties:
        """Reads the properties of a bind. Values of None are ignored, as in Windows ML; with `is_silent`, unknown keys.

        Raises:
            InvalidBindingError: a value of the wrong type, or an unknown key.
        """
        if not properties:
            return NO_PROPERTIES
        if not isinstance(properties, Mapping):
            raise InvalidBindingError(
                f"Expected a mapping of bind properties, got {type_name(properties)}.",
                hint='Write {"ImageContract": contract} or {"BitmapBounds": [0, 0, 224, 224]}, for example.',
            )
        fields: dict[str, Any] = {}
        for key, value in properties.items():
            if key not in _FIELDS and not is_silent:
                raise InvalidBindingError(f"A bind has no property {key!r}.", hint=did_you_mean(key, _FIELDS))
            if value is not None and key in _FIELDS:
                fields[_FIELDS[key]] = _read_property(key, value)
        return cls(**fields, is_strict=not is_silent)

    def refuse_picture_properties(self, name: str, value: object) -> None:
        """Refuses what only pictures have, for a value that is bound as numbers; see `is_strict`."""
        for key, field in _FIELDS.items() if self.is_strict else ():
            if key != "DisableTensorCpuSync" and getattr(self, field) is not None:
                raise InvalidBindingError(
                    f"The property {key} is for pictures, but {type_name(value)} is bound to {name} as numbers.",
                    hint=f"Leave {key} out, or bind a picture: ImageFeatureValue.from_array(array, pixel_format).",
                )


_FIELDS = {
    "BitmapBounds": "bounds",
    "BitmapPixelFormat": "pixel_format",
    "PixelRange": "pixel_range",
    "ImageContract": "contract",
    "ImageSize": "size",
    "DisableTensorCpuSync": "stays_on_device",
}
"""The field that each property sets."""

NO_PROPERTIES = BindProperties()
"""The properties of a bind that asks for nothing beside the value."""


def _read_property(key: str, value: Any) -> Any:
    what, hint = f"The property {key}", ""
    match key:
        case "BitmapPixelFormat":
            return require_member(BitmapPixelFormat, value, what, InvalidBindingError)
        case "PixelRange":
            return require_member(LearningModelPixelRange, value, what, InvalidBindingError)
        case "DisableTensorCpuSync":
            return require_bool(value, what, InvalidBindingError)
        case "ImageContract":
            if isinstance(value, ImageContract):
                return value
            hint = "Write ImageContract.imagenet(), or make one."
        case "ImageSize":
            hint = "Expected height and width: (224, 224)."
            with suppress(InvalidArgumentError):
                return require_size(value)
        case "BitmapBounds":
            hint = "Expected four whole numbers: x, y, width, height."
            with suppress(TypeError):
                numbers = [operator.index(number) for number in value]
                if len(numbers) == 4 and all(0 <= number < 1 << 32 for number in numbers):
                    return BitmapBounds(*numbers)
    raise InvalidBindingError(f"{what} is {value!r}.", hint=hint)


# How pictures become a feature's tensor.


_TENSOR_FORMATS = (BitmapPixelFormat.RGBA8, BitmapPixelFormat.BGRA8, BitmapPixelFormat.GRAY8)

_GRAY, _COLOUR = ImageContract(BitmapPixelFormat.GRAY8), ImageContract(BitmapPixelFormat.BGR8)
"""Windows ML's contracts for tensors of one channel, and of more."""


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
        self,
        sizes: Sequence[tuple[int, int]],
        descriptor: FeatureDescriptor,
        properties: BindProperties = NO_PROPERTIES,
    ) -> None:
        self.descriptor, self.contract = _require_fit(sizes, descriptor, properties)
        self.is_stated = is_contract_stated(self.descriptor, properties)
        self.sizes, self._properties = sizes, properties

    def is_for(
        self, sizes: Sequence[tuple[int, int]], descriptor: FeatureDescriptor, properties: BindProperties
    ) -> bool:
        """Whether this plan can be reused for pictures of these sizes."""
        return descriptor is self.descriptor and properties == self._properties and sizes == self.sizes

    @cached_property  # only for inputs: an output is stretched over the bitmaps bound to it
    def placements(self) -> list[Placement]:
        """Where each picture goes in the tensor."""
        return place_pictures(self.descriptor, self.contract, self._properties, self.sizes)

    @cached_property
    def shrink(self) -> float:
        """The most by which a JPEG may be decoded smaller; 1 where only a part of it is used."""
        return 1.0 if self._properties.bounds else min(self.placements[0].shrink)

    @property
    def keeps_own_size(self) -> bool:
        """Whether nothing states a size, and the model takes any size."""
        sides = find_fixed_sides(self.descriptor, self.contract, self._properties)
        return sides == (None, None) and self.contract.scaling is None

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor for all pictures, as the contract lays it out."""
        return compute_tensor_shape(self.contract, len(self.sizes), self.placements[0].tensor)

    def reuse_or_allocate(self, before: object = None) -> Array:
        """The tensor's host memory: that of the previous pictures, where it has the shape, or new memory."""
        if isinstance(before, np.ndarray) and before.shape == self.shape:
            return before
        try:
            return np.zeros(self.shape, TENSOR_CLASSES[self.descriptor.tensor_kind].dtype)
        except (ValueError, MemoryError) as error:
            raise InvalidArgumentError(f"A tensor of shape {self.shape} does not fit into memory: {error}.") from error

    def decode(self, value: ImageFeatureValue) -> tuple[list[SoftwareBitmap], list[Placement]]:
        """The pictures, and where each goes in the tensor. One not decoded yet may be decoded smaller.

        Raises:
            IllegalCallError: one has been closed.
        """
        bitmaps, placements = decode_bitmaps(value, self.shrink), self.placements
        size = bitmaps[0].pixel_width, bitmaps[0].pixel_height
        if size != self.sizes[0]:
            placements = [placements[0].reduce_to(*size)]
        for bitmap in bitmaps:  # raises before the first one overwrites what was bound
            bitmap.to_numpy()
        return bitmaps, placements

    def make_tensor(self, value: ImageFeatureValue) -> Array:
        """A new tensor of the pictures, in the host's memory."""
        bitmaps, placements = self.decode(value)
        tensor = self.reuse_or_allocate()
        tensorize_batch(bitmaps, self.contract, placements, tensor)
        return tensor


def place_pictures(
    descriptor: ShapedDescriptor, contract: ImageContract, properties: BindProperties, sizes: Sequence[tuple[int, int]]
) -> list[Placement]:
    """Where pictures of these widths and heights go in the feature's tensor.

    Raises:
        InvalidBindingError: bounds that extend beyond a picture, or a stated size that contradicts the model.
        InvalidArgumentError: the model leaves a side free, and the pictures of the batch differ in it.
    """
    height, width = find_fixed_sides(descriptor, contract, properties)
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


def is_contract_stated(descriptor: ShapedDescriptor, properties: BindProperties) -> bool:
    """Whether the model or the bind states how pictures become numbers."""
    is_image = isinstance(descriptor, ImageFeatureDescriptor) or properties.contract is not None
    return is_image or (properties.pixel_format is not None and properties.pixel_range is not None)


def compute_tensor_shape(contract: ImageContract, count: int, tensor: Size) -> tuple[int, ...]:
    """The shape of a batch."""
    channels_axis, height_axis, width_axis = contract.axes()
    shape = [count] * 4
    shape[channels_axis], shape[height_axis], shape[width_axis] = contract.channels, *tensor
    return tuple(shape)


def find_fixed_sides(
    descriptor: ShapedDescriptor, contract: ImageContract, properties: BindProperties = NO_PROPERTIES
) -> tuple[int | None, int | None]:
    """Height and width of the tensor, as the bind, the contract or the model fixes them; None where nothing does.
    InvalidBindingError where the model fixes another size.
    """
    size = properties.size or contract.size
    by = "the bind" if properties.size else "the image contract"
    if size and (conflict := describe_size_conflict(descriptor, contract, size, by)):
        hint = "Leave the size out, or check that the contract belongs to this model."
        raise InvalidBindingError(conflict, hint=hint)
    height, width = (descriptor.shape[axis] for axis in contract.axes()[1:])
    stated = size or (None, None)
    return height if height >= 0 else stated[0], width if width >= 0 else stated[1]


def _require_fit(
    sizes: Sequence[tuple[int, int]], descriptor: FeatureDescriptor, properties: BindProperties
) -> tuple[ShapedDescriptor, ImageContract]:
    """The feature, checked to take these pictures, and how they become its tensor; raises as `PreprocessPlan` does."""

    def misfit(kind: type[WinMLError], hint: str) -> WinMLError:
        width, height = sizes[0]
        return make_incompatible_error(kind, descriptor, f"Image[{width}x{height}]", hint)

    if not isinstance(descriptor, ShapedDescriptor):
        raise misfit(InvalidBindingError, "")
    contract = properties.contract
    if isinstance(descriptor, TensorFeatureDescriptor) and descriptor.unsupported_image_metadata and contract is None:
        hint = "The model's Image.* metadata are not supported; bind a tensor, or state an ImageContract."
        raise misfit(InvalidBindingError, hint)
    if len(descriptor.shape) != 4:
        hint = "Pictures need a tensor of 4 dimensions: batch, channels, height, width."
        raise misfit(SizeMismatchError, hint)
    kind = contract.tensor_kind if contract else None
    if kind is not None and kind != descriptor.tensor_kind:
        element_type = format_kind(descriptor.tensor_kind)
        hint = f"The contract is for {format_kind(kind)}, and the feature's elements are {element_type}."
        raise misfit(InvalidBindingError, hint)
    is_stated = kind is not None or isinstance(descriptor, ImageFeatureDescriptor)
    if descriptor.tensor_kind not in (TensorKind.FLOAT, TensorKind.FLOAT16) and not is_stated:
        hint = "Model image inputs must have tensor type of Float or Float16; UInt8 where an ImageContract says so."
        raise misfit(InvalidBindingError, hint)
    batch, frames = descriptor.shape[0], len(sizes)
    if batch not in (-1, frames):
        hint = f"Expected a batch of {batch}, got {frames}."
        if batch == 1:
            hint += " Use session.evaluate_many(pictures), which evaluates them one by one. (If the model leaves the "
            hint += "batch free: options.batch_size_override = 0.)"
        raise misfit(SizeMismatchError, hint)
    contract = choose_contract(descriptor, properties)
    channels, height, width = (descriptor.shape[axis] for axis in contract.axes())
    if channels == -1 and properties.contract:
        channels = contract.channels
    if channels not in (1, 3):
        hint = f"Pictures have 1 or 3 channels, not {channels}, in a tensor of layout {contract.layout.name}."
        raise misfit(InvalidArgumentError, hint)
    if 0 in (height, width):
        raise misfit(SizeMismatchError, "The model's picture has no pixels.")
    if contract.channels != channels:
        hint = f"A {contract.pixel_format.name} picture has {contract.channels} channels in a tensor, not {channels}."
        raise misfit(InvalidBindingError, hint)
    return descriptor, contract


def choose_contract(descriptor: ShapedDescriptor, properties: BindProperties = NO_PROPERTIES) -> ImageContract:
    """The contract of a bind, from the model's metadata, or Windows ML's rule for tensors, and the properties.

    Raises:
        InvalidBindingError: a pixel format that Windows ML does not allow there.
    """
    if isinstance(descriptor, ImageFeatureDescriptor):
        contract = properties.contract or descriptor.contract
    else:
        contract = properties.contract or (_GRAY if descriptor.shape[1] == 1 else _COLOUR)
    if properties.pixel_range is None and properties.pixel_format is None:
        return contract
    if properties.pixel_format is not None and properties.pixel_format not in _TENSOR_FORMATS:
        raise InvalidBindingError(
            f"The property BitmapPixelFormat is {properties.pixel_format.name}; for the channels of a tensor, expected "
            "RGBA8, BGRA8 or GRAY8.",
            hint="To state the pixel format of an array, use ImageFeatureValue.from_array(array, pixel_format).",
        )
    return _override_contract(contract, properties.pixel_range, properties.pixel_format)


@lru_cache(64)  # checking a new contract takes longer than tensorizing a small picture
def _override_contract(
    contract: ImageContract, pixel_range: LearningModelPixelRange | None, pixel_format: BitmapPixelFormat | None
) -> ImageContract:
    if pixel_range is not None:
        contract = replace(contract, pixel_range=pixel_range)
    return contract if pixel_format is None else contract.with_pixel_format(pixel_format)
