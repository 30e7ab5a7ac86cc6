"""What a model declares about its inputs and outputs: tensors, images, maps and sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ...enums import BitmapAlphaMode, BitmapPixelFormat, LearningModelFeatureKind, LearningModelPixelRange, TensorKind
from ...errors import InvalidArgumentError, NotSupportedError, WinMLError
from ..base.arrays import Size
from ..base.collections import Vector
from ..base.winrt_object import Object
from ..imaging.contract import ImageContract
from ..onnx_file.header import MapType, OnnxType, OtherType, SequenceType, TensorType, ValueInfo

FREE = 0xFFFFFFFF
"""An image descriptor's width or height when the model takes any; WinRT's uint32 for -1."""

_PICTURE_KINDS = {TensorKind.FLOAT, TensorKind.FLOAT16, TensorKind.UINT8}


@dataclass(frozen=True, slots=True, repr=False)
class FeatureDescriptor(Object):
    """The common part of all descriptors.

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
        """Always True: Windows ML calls every named feature required."""
        return bool(self.name)

    def fits(self, contract: ImageContract) -> bool:
        """Whether the feature is a tensor of pictures as the contract describes them."""
        if not isinstance(self, ShapedDescriptor) or len(self.shape) != 4:
            return False
        kinds = _PICTURE_KINDS & {contract.tensor_kind or self.tensor_kind}
        channels = self.shape[contract.axes()[0]]
        # If another dimension has that size, it is the channels of another layout.
        is_free = channels == -1 and contract.channels not in self.shape[1:]
        has_channels = is_free or channels == contract.channels
        return self.tensor_kind in kinds and has_channels and not describe_size_conflict(self, contract, contract.size)

    def expects(self) -> str:
        """The type in the words of Windows ML's messages: `Float[1,3,224,224,]`, `Image[224x224]`."""
        raise AssertionError("every descriptor spells its type")

    def describe(self) -> str:
        """The type in a line for people: `Float 1 x 3 x height x width`; for an image also its contract."""
        raise AssertionError("every descriptor describes its type")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.describe()}>"


@dataclass(frozen=True, slots=True, repr=False)
class TensorFeatureDescriptor(FeatureDescriptor):
    """A tensor.

    Attributes:
        tensor_kind: the element type.
        shape: the dimensions, -1 where any size fits; never `None`: an unknown rank is `()`
            with `has_rank` False.
        dimension_names: the model's name for each dimension, "" where it has none.
        onnx_type: the element type if WinRT has none for it: `bfloat16`, say; else "".
        unsupported_image_metadata: the feature is denoted an image, and the model's image metadata
            ask for something Windows ML cannot do. Tensors bind to it, pictures do not.
    """

    kind = LearningModelFeatureKind.TENSOR
    tensor_kind: TensorKind
    shape: Vector[int]
    dimension_names: tuple[str, ...] = ()
    has_rank: bool = True
    unsupported_image_metadata: bool = False
    onnx_type: str = ""

    @property
    def has_type(self) -> bool:
        """Whether the model's file states the element type. An output may have only a name: its results have types."""
        return self.tensor_kind is not TensorKind.UNDEFINED or bool(self.onnx_type)

    def expects(self) -> str:
        """The type in the words of Windows ML's messages."""
        return format_tensor(self.tensor_kind, self.shape, self.onnx_type)

    def describe(self) -> str:
        """The type in a line for people."""
        if not self.has_type:
            return "of a type that the file does not declare"
        word = self.onnx_type or format_kind(self.tensor_kind)
        if not self.has_rank:
            return f"{word} of any shape"
        return _describe_tensor(word, self.shape, self.dimension_names)


def is_untyped(feature: FeatureDescriptor) -> bool:
    """Whether a feature is an output whose type the model's file does not state."""
    return isinstance(feature, TensorFeatureDescriptor) and not feature.has_type


@dataclass(frozen=True, slots=True, repr=False)
class ImageFeatureDescriptor(FeatureDescriptor):
    """A tensor that the model declares to be a picture.

    Attributes:
        contract: how a picture becomes the tensor, according to the model's metadata.
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
        """The range that the bytes 0 to 255 become, before mean and std."""
        return self.contract.pixel_range

    @property
    def width(self) -> int:
        """Pixels, or 0xFFFFFFFF when the model takes any width."""
        return _read_size(self.shape, self.contract.axes()[2])

    @property
    def height(self) -> int:
        """Pixels, or 0xFFFFFFFF when the model takes any height."""
        return _read_size(self.shape, self.contract.axes()[1])

    def expects(self) -> str:
        """The type in the words of Windows ML's messages."""
        width, height = (-1 if size == FREE else size for size in (self.width, self.height))
        return f"Image[{width}x{height}]"

    def describe(self) -> str:
        """The type in a line for people."""
        sizes = _describe_tensor(format_kind(self.tensor_kind), self.shape, self.dimension_names)
        return f"{sizes}, {self.contract.describe()}"


ShapedDescriptor = TensorFeatureDescriptor | ImageFeatureDescriptor
"""The features that are tensors, and that can take pictures."""


@dataclass(frozen=True, slots=True, repr=False)
class MapFeatureDescriptor(FeatureDescriptor):
    """A map. `key_kind` is INT64 or STRING, `value_descriptor` describes each value."""

    kind = LearningModelFeatureKind.MAP
    key_kind: TensorKind
    value_descriptor: FeatureDescriptor

    def expects(self) -> str:
        """The type in the words of Windows ML's messages."""
        return f"Map<{format_kind(self.key_kind)},{self.value_descriptor.expects()}>"

    def describe(self) -> str:
        """The type in a line for people."""
        return f"map of {format_kind(self.key_kind)} to {self.value_descriptor.describe()}"


@dataclass(frozen=True, slots=True, repr=False)
class SequenceFeatureDescriptor(FeatureDescriptor):
    """A list. `element_descriptor` describes each element."""

    kind = LearningModelFeatureKind.SEQUENCE
    element_descriptor: FeatureDescriptor

    def expects(self) -> str:
        """The type in the words of Windows ML's messages."""
        return f"Sequence<{self.element_descriptor.expects()}>"

    def describe(self) -> str:
        """The type in a line for people."""
        return f"list of {self.element_descriptor.describe()}"


if TYPE_CHECKING:

    class _AnyFeature(  # type: ignore[misc]
        TensorFeatureDescriptor, ImageFeatureDescriptor, MapFeatureDescriptor, SequenceFeatureDescriptor
    ): ...

    AnyFeature = _AnyFeature | Any
    """Any kind of feature, for type checkers; see `Output` in `core/session/result.py`."""


_SPELLINGS = {TensorKind.UINT8: "UInt8", TensorKind.UINT16: "UInt16", TensorKind.UINT32: "UInt32"}
_SPELLINGS[TensorKind.UINT64] = "UInt64"


def format_kind(kind: TensorKind) -> str:
    """`TensorKind.FLOAT` as `Float`, as WinRT spells it."""
    return _SPELLINGS.get(kind, kind.name.capitalize())


def format_tensor(kind: TensorKind, shape: tuple[int, ...], onnx_type: str = "") -> str:
    """A tensor's type in the words of Windows ML's messages: `Float[1,3,224,224,]`."""
    return f"{onnx_type or format_kind(kind)}[{''.join(f'{size},' for size in shape)}]"


def _describe_tensor(word: str, shape: tuple[int, ...], names: tuple[str, ...]) -> str:
    """A type as `winml-py info` shows it: `Float 1 x 3 x height x width`, "?" for a free size without a name."""
    named = zip(shape, names or ("",) * len(shape), strict=True)
    sizes = " x ".join(str(size) if size >= 0 else name or "?" for size, name in named)
    return f"{word} {sizes}".rstrip()


def _read_size(shape: tuple[int, ...], axis: int) -> int:
    return shape[axis] if len(shape) > axis and shape[axis] >= 0 else FREE


def describe_size_conflict(
    feature: ShapedDescriptor, contract: ImageContract, size: Size | None, by: str = "the image contract"
) -> str:
    """How a stated height and width contradict a side that the model fixes; "" where they do not."""
    for side, axis, stated in zip(("height", "width"), contract.axes()[1:], size or (), strict=False):
        if (fixed := feature.shape[axis]) not in (-1, stated):
            return f"The {side} of the model variable {feature.name} is {fixed}, but {by} specifies {stated}."
    return ""


def make_mismatch_error(kind: type[WinMLError], descriptor: FeatureDescriptor, actual: str, hint: str) -> WinMLError:
    """An error of class `kind`, in Windows ML's words: a value of type `actual` does not fit a feature."""
    return kind(
        f"Model variable {descriptor.name}, expects {descriptor.expects()}, but binding was attempted with an "
        f"incompatible type {actual}.",
        hint=hint,
    )


# The descriptors of ONNX's types, by the rules of `OnnxruntimeDescriptorConverter.cpp` in Windows ML: a float tensor
# denoted `IMAGE` is an image unless the model's image metadata ask for something Windows ML cannot do. All comparisons
# are exact and case-sensitive.


TENSOR_KINDS = {kind.value: kind for kind in TensorKind if kind is not TensorKind.UNDEFINED}
"""From the numbers of onnx.TensorProto.DataType, which WinRT shares. bfloat16, float8 and others have no kind."""

_LACKING = "bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 int4 float4e2m1 float8e8m0 uint2 int2"
_LACKING_BY_NUMBER = dict(enumerate(_LACKING.split(), 16))
"""The element types of onnx.TensorProto.DataType that have no kind."""

_IMAGE_ELEMENTS = (TensorKind.FLOAT, TensorKind.FLOAT16)


def read_image_contract(metadata: Mapping[str, str]) -> ImageContract | None:
    """The contract that a model's `metadata_props` state for its images. None for an unknown word, or for something
    that Windows ML does not support: the image is then a plain tensor.
    """
    if metadata.get("Image.ColorSpaceGamma") == "Linear":
        return None
    try:
        return ImageContract.from_metadata(metadata)
    except InvalidArgumentError:
        return None


def make_descriptor(info: ValueInfo, metadata: Mapping[str, str]) -> FeatureDescriptor:
    """The descriptor of one input or output; NotSupportedError for a type that Windows ML refuses, such as
    `optional`.
    """
    return _make_descriptor(info.type, info.name, info.description, read_image_contract(metadata))


def _make_descriptor(kind: OnnxType, name: str, description: str, contract: ImageContract | None) -> FeatureDescriptor:
    match kind:
        case TensorType():
            return _make_tensor_descriptor(kind, name, description, contract)
        case SequenceType(element):
            return SequenceFeatureDescriptor(name, description, _make_descriptor(element, name, description, contract))
        case MapType(key, value):
            key_kind = TENSOR_KINDS.get(key, TensorKind.UNDEFINED)
            return MapFeatureDescriptor(
                name, description, key_kind, _make_descriptor(value, name, description, contract)
            )
        case OtherType(other):
            raise NotSupportedError(
                f"The model variable {name} has ONNX type {other}; Windows ML supports tensors, maps and sequences.",
                hint="Export the model without it, for example with a required tensor in its place.",
            )


def _make_tensor_descriptor(
    kind: TensorType, name: str, description: str, contract: ImageContract | None
) -> FeatureDescriptor:
    tensor_kind = TENSOR_KINDS.get(kind.element, TensorKind.UNDEFINED)
    dimensions = kind.dimensions or ()
    shape = Vector(-1 if dim.value is None else max(-1, dim.value) for dim in dimensions)
    names = tuple(dim.name for dim in dimensions)
    is_image = kind.denotation == "IMAGE" and (
        tensor_kind in _IMAGE_ELEMENTS or (contract is not None and contract.tensor_kind == tensor_kind)
    )
    if is_image and contract is not None:
        return ImageFeatureDescriptor(name, description, contract, tensor_kind, shape, names)
    onnx_type = (
        "" if kind.element in (0, *TENSOR_KINDS) else _LACKING_BY_NUMBER.get(kind.element, f"type{kind.element}")
    )
    return TensorFeatureDescriptor(
        name, description, tensor_kind, shape, names, kind.dimensions is not None, is_image, onnx_type
    )
