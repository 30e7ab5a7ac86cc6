"""A builder's arguments in ONNX's terms: features as typed values, tensors and numbers as constants."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from ..core.base.agreement import as_numpy
from ..core.base.arguments import is_text, require_member, require_type, require_whole_number
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
from ..enums import TensorKind
from ..errors import InvalidArgumentError


def require_name(name: object, what: str) -> str:
    """Returns a name, which must be non-empty text."""
    if not is_text(name) or not name:
        raise InvalidArgumentError(f"{what} is {name!r}.", hint="Pass non-empty text.")
    return str(name)


def make_tensor_descriptor(name: str, description: str, kind: TensorKind, shape: Any) -> TensorFeatureDescriptor:
    """A tensor descriptor; a size of -1 is free, and a text is a free size with a name."""
    require_name(name, "The name of the feature")
    if not is_text(description):
        raise InvalidArgumentError(f"The description of {name} is {description!r}.", hint="Expected text, or empty.")
    kind = require_member(TensorKind, kind, f"The element type of {name}")
    sizes = [shape] if isinstance(shape, str) else list(shape)
    names = tuple(size if isinstance(size, str) else "" for size in sizes)
    numbers = Vector(
        -1 if isinstance(size, str) else require_whole_number(size, f"A size of {name}", -1) for size in sizes
    )
    return TensorFeatureDescriptor(name, description, kind, numbers, names)


def make_value_info(feature: Any) -> ValueInfoProto:
    """A feature as an input or output of a graph."""
    hint = "Make one: LearningModelBuilder.create_tensor_feature_descriptor(name, kind, shape)."
    require_type(feature, FeatureDescriptor, hint)
    info = ValueInfoProto(name=require_name(feature.name, "The name of a feature"), doc_string=feature.description)
    info.type.CopyFrom(_make_type(feature))
    return info


def _make_type(feature: FeatureDescriptor) -> TypeProto:
    match feature:
        case TensorFeatureDescriptor() | ImageFeatureDescriptor():
            return _make_tensor_type(feature)
        case SequenceFeatureDescriptor(element_descriptor=element):
            return helper.make_sequence_type_proto(_make_type(element))
        case MapFeatureDescriptor(key_kind=key, value_descriptor=value):
            return helper.make_map_type_proto(key.value, _make_type(value))
    raise InvalidArgumentError(f"The builder does not support {type_name(feature)}.")


def _make_tensor_type(feature: ShapedDescriptor) -> TypeProto:
    names = feature.dimension_names or ("",) * len(feature.shape)
    has_rank = not isinstance(feature, TensorFeatureDescriptor) or feature.has_rank
    sizes = [size if size >= 0 else (name or None) for size, name in zip(feature.shape, names, strict=True)]
    type_proto = helper.make_tensor_type_proto(feature.tensor_kind.value, sizes if has_rank else None)
    if isinstance(feature, ImageFeatureDescriptor):
        type_proto.denotation = "IMAGE"
    # Windows ML denotes every first dimension this way, so that a built model takes a batch size. A vector's length is
    # omitted here: default options would make it 1.
    if len(feature.shape) > 1 and feature.shape[0] == -1:
        type_proto.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return type_proto


def as_constant(value: object, name: str) -> TensorProto:
    """A tensor, array, number or list as a constant of a graph; Python's floats become float32."""
    array = np.asarray(as_numpy(value))
    if not hasattr(value, "dtype") and array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.dtype.kind in "UO" and all(isinstance(element, str) for element in array.flat):
        return numpy_helper.from_array(array.astype(object), name)
    if array.dtype.kind in "biufc":
        return numpy_helper.from_array(array, name)
    raise InvalidArgumentError(
        f"The constant {name} is a {type_name(value)} with unsupported elements: {array.dtype}.",
        hint="Pass a tensor, an array, a number or a list of numbers or of text.",
    )
