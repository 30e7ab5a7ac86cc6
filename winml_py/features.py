"""From ONNX's types to feature descriptors, by Windows ML's rules.

The rules are those of `OnnxruntimeDescriptorConverter.cpp` in Windows ML: a float tensor denoted
`IMAGE` is an image unless the model's image metadata ask for what Windows ML cannot do.
All comparisons are exact and case-sensitive there, and so they are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
)
from .errors import NotSupportedError
from .kinds import BitmapPixelFormat, LearningModelPixelRange, TensorKind
from .proto import MapType, OnnxType, OtherType, SequenceType, TensorType, ValueInfo

# onnx.TensorProto.DataType -> TensorKind; what is missing (bfloat16, float8, ...) is UNDEFINED.
TENSOR_KINDS = {
    1: TensorKind.FLOAT,
    2: TensorKind.UINT8,
    3: TensorKind.INT8,
    4: TensorKind.UINT16,
    5: TensorKind.INT16,
    6: TensorKind.INT32,
    7: TensorKind.INT64,
    8: TensorKind.STRING,
    9: TensorKind.BOOLEAN,
    10: TensorKind.FLOAT16,
    11: TensorKind.DOUBLE,
    12: TensorKind.UINT32,
    13: TensorKind.UINT64,
    14: TensorKind.COMPLEX64,
    15: TensorKind.COMPLEX128,
}
_PIXEL_FORMATS = {
    "Gray8": BitmapPixelFormat.GRAY8,
    "Rgb8": BitmapPixelFormat.RGBA8,
    "Bgr8": BitmapPixelFormat.BGRA8,
}
_PIXEL_RANGES = {
    "NominalRange_0_255": LearningModelPixelRange.ZERO_TO255,
    "Normalized_0_1": LearningModelPixelRange.ZERO_TO_ONE,
    "Normalized_1_1": LearningModelPixelRange.MINUS_ONE_TO_ONE,
}
_IMAGE_ELEMENTS = (TensorKind.FLOAT, TensorKind.FLOAT16)


class ImageMetadata(NamedTuple):
    """The three image keys of a model's `metadata_props`; they hold for all of its images."""

    pixel_format: BitmapPixelFormat | None
    pixel_range: LearningModelPixelRange | None
    linear_gamma: bool

    @classmethod
    def read(cls, metadata: Mapping[str, str]) -> ImageMetadata:
        """Reads the keys; `None` stands for a value that Windows ML does not support."""
        return cls(
            _PIXEL_FORMATS.get(metadata.get("Image.BitmapPixelFormat", "Bgr8")),
            _PIXEL_RANGES.get(metadata.get("Image.NominalPixelRange", "NominalRange_0_255")),
            metadata.get("Image.ColorSpaceGamma", "SRGB") == "Linear",
        )


def describe(info: ValueInfo, metadata: Mapping[str, str]) -> FeatureDescriptor:
    """The descriptor of one input or output.

    Args:
        info: the graph's ValueInfo.
        metadata: the model's `metadata_props`, case-sensitive.

    Raises:
        NotSupportedError: a type that Windows ML refuses, such as `optional`.
    """
    return _describe(info.type, info.name, info.description, ImageMetadata.read(metadata))


def _describe(kind: OnnxType, name: str, description: str, metadata: ImageMetadata) -> FeatureDescriptor:
    match kind:
        case TensorType():
            return _describe_tensor(kind, name, description, metadata)
        case SequenceType(element):
            return SequenceFeatureDescriptor(name, description, _describe(element, name, description, metadata))
        case MapType(key, value):
            key_kind = TENSOR_KINDS.get(key, TensorKind.UNDEFINED)
            return MapFeatureDescriptor(name, description, key_kind, _describe(value, name, description, metadata))
        case OtherType(other):
            raise NotSupportedError(
                f"The model variable {name} is of ONNX type {other}; Windows ML takes tensors, maps and sequences.",
                hint="Export the model without it, for instance by making the value a plain required tensor.",
            )


def _describe_tensor(kind: TensorType, name: str, description: str, metadata: ImageMetadata) -> FeatureDescriptor:
    tensor_kind = TENSOR_KINDS.get(kind.element, TensorKind.UNDEFINED)
    dimensions = kind.dimensions or ()
    shape = tuple(-1 if dim.value is None else max(-1, dim.value) for dim in dimensions)
    names = tuple(dim.name for dim in dimensions)
    is_image = kind.denotation == "IMAGE" and tensor_kind in _IMAGE_ELEMENTS
    pixel_format, pixel_range = metadata.pixel_format, metadata.pixel_range
    if is_image and pixel_format is not None and pixel_range is not None and not metadata.linear_gamma:
        return ImageFeatureDescriptor(name, description, pixel_format, pixel_range, tensor_kind, shape, names)
    return TensorFeatureDescriptor(
        name, description, tensor_kind, shape, names, kind.dimensions is not None, unsupported_image_metadata=is_image
    )
