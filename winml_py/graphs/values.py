"""What a builder is given, in ONNX's own terms: features as typed values, tensors and numbers as constants."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from ..core.base.arguments import is_text, member
from ..core.base.arrays import Array
from ..core.base.collections import Vector
from ..core.base.messages import type_name
from ..core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from ..core.features.from_onnx import TENSOR_KINDS
from ..core.features.tensor import Tensor
from ..enums import TensorKind
from ..errors import InvalidArgumentError


def require_name(name: object, what: str) -> str:
    """Returns a name that a graph can have.

    Raises:
        InvalidArgumentError: if the name is empty, or not text.
    """
    if not is_text(name) or not name:
        raise InvalidArgumentError(f"{what} is {name!r}.", hint="A name is text, and not empty.")
    return str(name)


def tensor_descriptor(name: str, description: str, kind: TensorKind, shape: Any) -> TensorFeatureDescriptor:
    """A descriptor of a tensor.

    Args:
        name: the feature's name.
        description: what it is for, or "".
        kind: the element type.
        shape: the sizes; -1 for a free one, and text for a free one with a name.

    Raises:
        InvalidArgumentError: if an argument is of another type.
    """
    require_name(name, "The name of the feature")
    if not is_text(description):
        raise InvalidArgumentError(f"The description of {name} is {description!r}.", hint="It is text, or empty.")
    kind = member(TensorKind, kind, f"The element type of {name}")
    sizes = [shape] if isinstance(shape, str) else list(shape)
    names = tuple(size if isinstance(size, str) else "" for size in sizes)
    return TensorFeatureDescriptor(name, description, kind, Vector(_size(size, name) for size in sizes), names)


def _size(size: object, name: str) -> int:
    if isinstance(size, str):
        return -1
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size >= -1:
        return int(size)
    raise InvalidArgumentError(
        f"A size of {name} is {size!r}.", hint="Write a whole number, -1 for a free size, or a name for one."
    )


def value_info(feature: FeatureDescriptor) -> ValueInfoProto:
    """A feature as an input or output of a graph.

    Raises:
        InvalidArgumentError: it is no descriptor, or its name is none that a graph can have.
    """
    if not isinstance(feature, FeatureDescriptor):
        raise InvalidArgumentError(
            f"A feature is described by a descriptor, not by {type_name(feature)}.",
            hint="Make one: LearningModelBuilder.create_tensor_feature_descriptor(name, kind, shape).",
        )
    info = ValueInfoProto(name=require_name(feature.name, "The name of a feature"), doc_string=feature.description)
    info.type.CopyFrom(_type(feature))
    return info


def _type(feature: FeatureDescriptor) -> TypeProto:
    match feature:
        case TensorFeatureDescriptor() | ImageFeatureDescriptor():
            return _tensor_type(feature)
        case SequenceFeatureDescriptor(element_descriptor=element):
            return helper.make_sequence_type_proto(_type(element))
        case MapFeatureDescriptor(key_kind=key, value_descriptor=value):
            return helper.make_map_type_proto(key.value, _type(value))
    raise InvalidArgumentError(f"The builder has no type for {type_name(feature)}.")


def _tensor_type(feature: ShapedDescriptor) -> TypeProto:
    names = feature.dimension_names or ("",) * len(feature.shape)
    has_rank = not isinstance(feature, TensorFeatureDescriptor) or feature.has_rank
    sizes = [size if size >= 0 else (name or None) for size, name in zip(feature.shape, names, strict=True)]
    type_proto = helper.make_tensor_type_proto(feature.tensor_kind.value, sizes if has_rank else None)
    if isinstance(feature, ImageFeatureDescriptor):
        type_proto.denotation = "IMAGE"
    # Windows ML denotes every first dimension so, which is how a batch size reaches a built model. The length of a
    # vector is left out here: default options would make it 1.
    if len(feature.shape) > 1 and feature.shape[0] == -1:
        type_proto.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return type_proto


def as_array(value: object, what: str) -> Array:
    """A tensor, array, number or list as an array; Python's floats become float32.

    Args:
        value: what came.
        what: its name in the message.

    Raises:
        InvalidArgumentError: ONNX has no tensors of such elements.
    """
    if isinstance(value, Tensor):
        return value.to_numpy()
    array = np.asarray(value)
    if not hasattr(value, "dtype") and array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.dtype.kind in "biufc":
        return array
    if array.dtype.kind in "UO" and all(isinstance(element, str) for element in array.flat):
        return array.astype(object)
    raise InvalidArgumentError(
        f"{what} is {type_name(value)} with {array.dtype} elements.",
        hint="Give a tensor, an array, a number or a list of numbers or of text.",
    )


def as_constant(value: object, name: str) -> TensorProto:
    """A value as a constant of a graph; raises as `as_array` does."""
    return numpy_helper.from_array(as_array(value, f"The constant {name}"), name)


def descriptor_of(name: str, description: str, constant: TensorProto) -> TensorFeatureDescriptor:
    """What describes the tensors that a constant is one of."""
    return tensor_descriptor(name, description, TENSOR_KINDS[constant.data_type], constant.dims)
