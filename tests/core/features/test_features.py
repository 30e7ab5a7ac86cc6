"""When a feature is a tensor, an image, a map or a sequence: WinML's rules, row by row."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, FLOAT16, INT64, STRING, data, model, tensor, unary
from helpers.pairs import pairs
from winml_py import (
    BitmapAlphaMode,
    BitmapPixelFormat,
    ImageFeatureDescriptor,
    LearningModel,
    LearningModelFeatureKind,
    LearningModelPixelRange,
    MapFeatureDescriptor,
    NotSupportedError,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
    TensorKind,
)

FORMATS = {
    None: BitmapPixelFormat.BGRA8,
    "Gray8": BitmapPixelFormat.GRAY8,
    "Rgb8": BitmapPixelFormat.RGBA8,
    "Bgr8": BitmapPixelFormat.BGRA8,
    "Rgba8": None,
    "Bgra8": None,
    "bgr8": None,
    "": None,
}
RANGES = {
    None: LearningModelPixelRange.ZERO_TO255,
    "NominalRange_0_255": LearningModelPixelRange.ZERO_TO255,
    "Normalized_0_1": LearningModelPixelRange.ZERO_TO_ONE,
    "Normalized_1_1": LearningModelPixelRange.MINUS_ONE_TO_ONE,
    "NominalRange_16_235": None,
    "nominalrange_0_255": None,
}
GAMMAS = {None: True, "SRGB": True, "anything": True, "linear": True, "Linear": False}


@pytest.mark.parametrize(
    ("pixel_format", "pixel_range", "gamma", "element"), pairs(product(FORMATS, RANGES, GAMMAS, [FLOAT, FLOAT16]))
)
def test_image_metadata(pixel_format: str | None, pixel_range: str | None, gamma: str | None, element: int) -> None:
    keys = ("Image.BitmapPixelFormat", "Image.NominalPixelRange", "Image.ColorSpaceGamma")
    metadata = {k: v for k, v in zip(keys, (pixel_format, pixel_range, gamma), strict=True) if v is not None}
    loaded = LearningModel.load(unary(shape=(1, 3, 8, "w"), element=element, denotation="IMAGE", metadata=metadata))
    supported = FORMATS[pixel_format] is not None and RANGES[pixel_range] is not None and GAMMAS[gamma]
    for feature in (*loaded.input_features, *loaded.output_features):
        if supported:
            assert isinstance(feature, ImageFeatureDescriptor)
            assert feature.kind is LearningModelFeatureKind.IMAGE
            assert feature.bitmap_pixel_format is FORMATS[pixel_format]
            assert feature.pixel_range is RANGES[pixel_range]
            assert feature.bitmap_alpha_mode is BitmapAlphaMode.PREMULTIPLIED
            assert (feature.width, feature.height) == (0xFFFFFFFF, 8)
            assert feature.shape == (1, 3, 8, -1)
            assert feature.expects() == "Image[-1x8]"
        else:
            assert isinstance(feature, TensorFeatureDescriptor)
            assert feature.unsupported_image_metadata
        assert feature.tensor_kind is (TensorKind.FLOAT if element == FLOAT else TensorKind.FLOAT16)


@pytest.mark.parametrize("denotation", ["", "image", "Image", "TENSOR"])
def test_only_the_denotation_image_makes_an_image(denotation: str) -> None:
    feature = LearningModel.load(unary(shape=(1, 3, 8, 8), denotation=denotation)).input_features[0]
    assert isinstance(feature, TensorFeatureDescriptor)
    assert not feature.unsupported_image_metadata


def test_an_image_of_bytes_is_a_plain_tensor() -> None:
    loaded = LearningModel.load(unary(shape=(1, 3, 8, 8), element=TensorProto.UINT8, denotation="IMAGE"))
    feature = loaded.input_features[0]
    assert isinstance(feature, TensorFeatureDescriptor)
    assert not feature.unsupported_image_metadata


KINDS = {
    TensorProto.FLOAT: TensorKind.FLOAT,
    TensorProto.UINT8: TensorKind.UINT8,
    TensorProto.INT8: TensorKind.INT8,
    TensorProto.UINT16: TensorKind.UINT16,
    TensorProto.INT16: TensorKind.INT16,
    TensorProto.INT32: TensorKind.INT32,
    TensorProto.INT64: TensorKind.INT64,
    TensorProto.STRING: TensorKind.STRING,
    TensorProto.BOOL: TensorKind.BOOLEAN,
    TensorProto.FLOAT16: TensorKind.FLOAT16,
    TensorProto.DOUBLE: TensorKind.DOUBLE,
    TensorProto.UINT32: TensorKind.UINT32,
    TensorProto.UINT64: TensorKind.UINT64,
    TensorProto.COMPLEX64: TensorKind.COMPLEX64,
    TensorProto.COMPLEX128: TensorKind.COMPLEX128,
    TensorProto.BFLOAT16: TensorKind.UNDEFINED,
    TensorProto.FLOAT8E4M3FN: TensorKind.UNDEFINED,
}


@pytest.mark.parametrize(("element", "kind"), KINDS.items())
def test_tensor_kinds(element: int, kind: TensorKind) -> None:
    feature = LearningModel.load(unary(shape=("batch", None, 0, 5), element=element)).input_features[0]
    assert isinstance(feature, TensorFeatureDescriptor)
    assert (feature.tensor_kind, feature.shape) == (kind, (-1, -1, 0, 5))
    assert feature.dimension_names == ("batch", "", "", "")
    assert feature.is_required


def test_maps_and_sequences() -> None:
    floats = helper.make_tensor_type_proto(FLOAT, [])
    mapping = helper.make_map_type_proto(INT64, floats)
    ends = [
        helper.make_value_info("m", helper.make_map_type_proto(STRING, floats), "a map"),
        helper.make_value_info("s", helper.make_sequence_type_proto(mapping)),
    ]
    first, second = LearningModel.load(data([], ends, [])).input_features
    assert isinstance(first, MapFeatureDescriptor)
    assert (first.kind, first.key_kind) == (LearningModelFeatureKind.MAP, TensorKind.STRING)
    assert isinstance(first.value_descriptor, TensorFeatureDescriptor)
    assert first.value_descriptor.tensor_kind is TensorKind.FLOAT
    assert (first.value_descriptor.name, first.value_descriptor.description) == ("m", "a map")
    assert isinstance(second, SequenceFeatureDescriptor)
    assert isinstance(second.element_descriptor, MapFeatureDescriptor)
    assert second.element_descriptor.key_kind is TensorKind.INT64
    assert (first.expects(), second.expects()) == ("Map<String,Float[]>", "Sequence<Map<Int64,Float[]>>")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [1])), "optional"),
        (helper.make_sparse_tensor_type_proto(FLOAT, [1]), "sparse_tensor"),
    ],
)
def test_other_types_are_refused_at_load(kind: onnx.TypeProto, name: str) -> None:
    with pytest.raises(NotSupportedError, match=f"variable odd has ONNX type {name}"):
        LearningModel.load(data([], [helper.make_value_info("odd", kind)], []))


def test_initializers_and_unnamed_values_are_no_features() -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    untyped = onnx.ValueInfoProto(name="untyped")
    proto = model([node], [tensor("x", [1]), tensor("w", [1])], [tensor("y", [1])], {"w": np.ones(1, np.float32)})
    proto.graph.input.append(untyped)
    proto.graph.input.append(tensor("", [1]))
    loaded = LearningModel.load(proto.SerializeToString())
    assert [feature.name for feature in loaded.input_features] == ["x"]


def test_a_tensor_of_unknown_rank() -> None:
    end = helper.make_value_info("x", helper.make_tensor_type_proto(FLOAT, None))
    feature = LearningModel.load(data([], [end], [])).input_features[0]
    assert isinstance(feature, TensorFeatureDescriptor)
    assert (feature.shape, feature.has_rank) == ((), False)
