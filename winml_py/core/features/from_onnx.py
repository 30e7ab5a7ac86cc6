"""Converts ONNX's types to feature descriptors, by Windows ML's rules.

The rules are those of `OnnxruntimeDescriptorConverter.cpp` in Windows ML: a float tensor denoted
`IMAGE` is an image unless the model's image metadata ask for something Windows ML cannot do.
All comparisons are exact and case-sensitive, as in Windows ML.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...enums import TensorKind
from ...errors import InvalidArgumentError, NotSupportedError
from ..base.collections import Vector
from ..imaging.contract import ImageContract
from ..onnx_file.header import MapType, OnnxType, OtherType, SequenceType, TensorType, ValueInfo
from .descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
)

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
                f"The model variable {name} is of ONNX type {other}; Windows ML takes tensors, maps and sequences.",
                hint="Export the model without it, for instance with a plain required tensor in its place.",
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
