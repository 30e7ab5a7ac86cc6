"""What a model says of its inputs and outputs: tensors, images, maps and sequences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ..base.collections import Vector
from ..base.winrt_object import Object
from ..enums import BitmapAlphaMode, BitmapPixelFormat, LearningModelFeatureKind, LearningModelPixelRange, TensorKind
from ..imaging.contract import ImageContract

FREE = 0xFFFFFFFF
"""An image descriptor's width or height when the model takes any; WinRT's uint32 for -1."""


@dataclass(frozen=True, slots=True)
class FeatureDescriptor(Object):
    """What all descriptors share.

    Attributes:
        name: the feature's name, in the model's spelling.
        description: the ValueInfo's doc string, or "".
        kind: tensor, sequence, map or image.
    """

    kind: ClassVar[LearningModelFeatureKind]
    name: str
    description: str

    @property
    def is_required(self) -> bool:
        """True: Windows ML calls every feature that has a name required."""
        return bool(self.name)

    def expects(self) -> str:
        """The type in the words of Windows ML's messages: `Float[1,3,224,224,]`, `Image[224x224]`."""
        raise AssertionError("every descriptor spells its type")


@dataclass(frozen=True, slots=True)
class TensorFeatureDescriptor(FeatureDescriptor):
    """A tensor.

    Attributes:
        tensor_kind: the element type.
        shape: the dimensions, -1 where any size fits; `None` is not used: an unknown rank is `()`
            with `has_rank` False.
        dimension_names: the model's name for each dimension, "" where it has none.
        unsupported_image_metadata: the feature is denoted an image, and the model's image metadata
            ask for what Windows ML cannot do. Tensors bind to it, pictures do not.
    """

    kind = LearningModelFeatureKind.TENSOR
    tensor_kind: TensorKind
    shape: Vector[int]
    dimension_names: tuple[str, ...] = ()
    has_rank: bool = True
    unsupported_image_metadata: bool = False

    def expects(self) -> str:
        """The type in the words of Windows ML's messages."""
        return spell_tensor(self.tensor_kind, self.shape)


@dataclass(frozen=True, slots=True)
class ImageFeatureDescriptor(FeatureDescriptor):
    """A tensor that the model declares to be a picture.

    Attributes:
        contract: how a picture becomes the tensor, by the model's metadata.
        tensor_kind: the element type, `FLOAT` or `FLOAT16`; `UINT8` where the contract says so.
        shape: batch, channels, height, width, or as the contract's layout orders them; -1 where any size fits.
        dimension_names: the model's name for each dimension, "" where it has none.
        bitmap_alpha_mode: always premultiplied, as in Windows ML; no alpha reaches the tensor.
    """

    kind = LearningModelFeatureKind.IMAGE
    contract: ImageContract
    tensor_kind: TensorKind
    shape: Vector[int]
    dimension_names: tuple[str, ...] = ()
    bitmap_alpha_mode: BitmapAlphaMode = field(default=BitmapAlphaMode.PREMULTIPLIED)

    @property
    def bitmap_pixel_format(self) -> BitmapPixelFormat:
        """`BGRA8`, `RGBA8` or `GRAY8`: the order of the tensor's channels."""
        return self.contract.bitmap_pixel_format

    @property
    def pixel_range(self) -> LearningModelPixelRange:
        """What the bytes 0 to 255 become, mean and std apart."""
        return self.contract.pixel_range

    @property
    def width(self) -> int:
        """Pixels, or 0xFFFFFFFF when the model takes any width."""
        return _size(self.shape, self.contract.axes()[2])

    @property
    def height(self) -> int:
        """Pixels, or 0xFFFFFFFF when the model takes any height."""
        return _size(self.shape, self.contract.axes()[1])

    def expects(self) -> str:
        """The type in the words of Windows ML's messages."""
        width, height = (-1 if size == FREE else size for size in (self.width, self.height))
        return f"Image[{width}x{height}]"


@dataclass(frozen=True, slots=True)
class MapFeatureDescriptor(FeatureDescriptor):
    """A map. `key_kind` is INT64 or STRING, `value_descriptor` describes each value."""

    kind = LearningModelFeatureKind.MAP
    key_kind: TensorKind
    value_descriptor: FeatureDescriptor

    def expects(self) -> str:
        """The type in the words of Windows ML's messages."""
        return f"Map<{spell_kind(self.key_kind)},{self.value_descriptor.expects()}>"


@dataclass(frozen=True, slots=True)
class SequenceFeatureDescriptor(FeatureDescriptor):
    """A list. `element_descriptor` describes each element."""

    kind = LearningModelFeatureKind.SEQUENCE
    element_descriptor: FeatureDescriptor

    def expects(self) -> str:
        """The type in the words of Windows ML's messages."""
        return f"Sequence<{self.element_descriptor.expects()}>"


_SPELLINGS = {TensorKind.UINT8: "UInt8", TensorKind.UINT16: "UInt16", TensorKind.UINT32: "UInt32"}
_SPELLINGS[TensorKind.UINT64] = "UInt64"


def spell_kind(kind: TensorKind) -> str:
    """`TensorKind.FLOAT` as `Float`, as WinRT spells it."""
    return _SPELLINGS.get(kind, kind.name.capitalize())


def spell_tensor(kind: TensorKind, shape: tuple[int, ...]) -> str:
    """A tensor's type in the words of Windows ML's messages: `Float[1,3,224,224,]`."""
    return f"{spell_kind(kind)}[{''.join(f'{size},' for size in shape)}]"


def _size(shape: tuple[int, ...], axis: int) -> int:
    return shape[axis] if len(shape) > axis and shape[axis] >= 0 else FREE
