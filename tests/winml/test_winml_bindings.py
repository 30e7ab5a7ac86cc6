"""LearningModelBindingAPITest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import reference, winml_models
from helpers.models import INT64, STRING
from winml_py import (
    BitmapPixelFormat,
    LearningModelBinding,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorBoolean,
    TensorFeatureDescriptor,
    TensorFloat,
    TensorInt64Bit,
    TensorKind,
    VideoFrame,
    WinMLError,
)
from winml_py.winrt.windows.ai.machinelearning import LearningModel

INVALID_BINDING, SIZE_MISMATCH = 0x88900002, 0x88900004


@pytest.mark.winml(
    "LearningModelBindingAPITest.CpuSqueezeNet",
    "LearningModelBindingAPITest.CpuSqueezeNetEmptyOutputs",
    "LearningModelBindingAPITest.CpuSqueezeNetUnboundOutputs",
    "LearningModelBindingAPITest.CpuSqueezeNetBindInputTensorAsInspectable",
)
@pytest.mark.parametrize("shape", [[1, 1000, 1, 1], [], None])
@pytest.mark.parametrize("is_view", [False, True])
def test_cpu_squeezenet(shape: list[int] | None, is_view: bool) -> None:
    binding = winml_models.open_binding(winml_models.squeezenet())
    image = winml_models.make_planes(winml_models.load_picture("cat", 224, 224))
    tensor = TensorFloat.from_numpy(image)
    binding.bind("data_0", tensor.get_as_vector_view() if is_view else tensor)
    output = None if shape is None else TensorFloat.create(shape) if shape else TensorFloat.create()
    if output is not None:
        binding.bind("softmaxout_1", output)
    result = binding._session.evaluate(binding, "").outputs["softmaxout_1"]
    expected = reference.run_raw(winml_models.squeezenet(), {"data_0": image})["softmaxout_1"]
    np.testing.assert_allclose(result.to_numpy(), expected, atol=1e-5)
    assert result.to_numpy().argmax() == expected.argmax()
    assert output is None or result is output
    assert list(result.shape) == [1, 1000, 1, 1]


@pytest.mark.winml("LearningModelBindingAPITest.CastMapInt64")
def test_cast_map_int64() -> None:
    model = LearningModel.load(winml_models.castmap(INT64))
    assert isinstance(model.input_features[0], MapFeatureDescriptor)


@pytest.mark.winml(
    "LearningModelBindingAPITest.DictionaryVectorizerMapInt64",
    "LearningModelBindingAPITest.DictionaryVectorizerMapString",
)
@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        (INT64, TensorKind.INT64, {1: 1.0, 2: 2.0, 3: 3.0}),
        (STRING, TensorKind.STRING, {"a": 1.0, "b": 2.0, "c": 3.0}),
    ],
)
def test_dictionary_vectorizer(key: int, kind: TensorKind, value: dict[Any, float]) -> None:
    binding = winml_models.open_binding(winml_models.dictvectorizer(key))
    feature = binding._session.model.input_features[0]
    assert isinstance(feature, MapFeatureDescriptor)
    assert feature.key_kind is kind
    assert isinstance(feature.value_descriptor, TensorFeatureDescriptor)
    assert feature.value_descriptor.tensor_kind is TensorKind.FLOAT
    assert list(feature.value_descriptor.shape) == []
    binding.bind("X", value)
    pair = next(binding.first())
    assert pair.key == "X"
    assert pair.value is value
    assert binding.lookup("X") is value
    assert binding._session.evaluate(binding, "0").outputs["Y"].get_as_vector_view() == [1, 2, 3]


@pytest.mark.winml(
    "LearningModelBindingAPITest.ZipMapInt64",
    "LearningModelBindingAPITest.ZipMapInt64Unbound",
    "LearningModelBindingAPITest.ZipMapString",
)
@pytest.mark.parametrize(("key", "bound"), [(INT64, []), (INT64, None), (STRING, [{"cat": 0.0, "mouse": 1.0}, {}])])
def test_zip_map(key: int, bound: list[Any] | None) -> None:
    binding = winml_models.open_binding(winml_models.zipmap(key))
    feature = binding._session.model.output_features[0]
    assert isinstance(feature, SequenceFeatureDescriptor)
    assert isinstance(feature.element_descriptor, MapFeatureDescriptor)
    binding.bind("X", [0.5, 0.25, 0.125])
    if bound is not None:
        binding.bind("Y", bound)
    result = binding._session.evaluate(binding, "0").outputs["Y"]
    names = [0, 1, 2] if key == INT64 else ["cat", "dog", "lion"]
    assert result == [dict(zip(names, [0.5, 0.25, 0.125], strict=True))]
    assert bound is None or result is bound


@pytest.mark.winml("LearningModelBindingAPITest.ImageBindingDimensions")
@pytest.mark.parametrize(("width", "height"), [(1000, 1000), (20, 1000), (1000, 20), (20, 20)])
def test_image_binding_dimensions(width: int, height: int) -> None:
    binding = winml_models.open_binding(winml_models.squeezenet())
    value = VideoFrame(BitmapPixelFormat.RGBA8, width, height)
    value.software_bitmap.to_numpy()[:] = (30, 20, 10, 255)
    binding.bind("data_0", value)
    plain = np.broadcast_to(np.float32([10, 20, 30]).reshape(1, 3, 1, 1), (1, 3, 224, 224))
    expected = reference.run_raw(winml_models.squeezenet(), {"data_0": np.ascontiguousarray(plain)})["softmaxout_1"]
    result = binding._session.evaluate(binding, "").outputs["softmaxout_1"].to_numpy()
    np.testing.assert_allclose(result, expected, atol=1e-6)


def refused(binding: LearningModelBinding, name: str, value: Any) -> int:
    with pytest.raises(WinMLError) as error:
        binding.bind(name, value)
    assert name not in binding
    return error.value.hresult


@pytest.mark.winml("LearningModelBindingAPITest.VerifyInvalidBindExceptions")
def test_verify_invalid_bind_exceptions() -> None:
    zipmap = winml_models.open_binding(winml_models.zipmap(INT64))
    assert refused(zipmap, "X", VideoFrame(BitmapPixelFormat.BGRA8, 227, 227)) == SIZE_MISMATCH
    assert refused(zipmap, "X", {1.5: 1.5}) == INVALID_BINDING
    assert refused(zipmap, "X", ["a", "b", "c"]) == INVALID_BINDING
    assert refused(zipmap, "X", TensorBoolean.create()) == INVALID_BINDING
    assert refused(zipmap, "X", TensorFloat.create([2, 3, 4])) == INVALID_BINDING
    for value in (VideoFrame(BitmapPixelFormat.BGRA8, 227, 227), {1: 1.0}, [1, 2], ["a"], TensorFloat.create()):
        assert refused(zipmap, "Y", value) == INVALID_BINDING
    vectorizer = winml_models.open_binding(winml_models.dictvectorizer(INT64))
    for value in (VideoFrame(BitmapPixelFormat.BGRA8, 100, 100), {"a": 1.0}, [1.0, 2.0], TensorBoolean.create()):
        assert refused(vectorizer, "X", value) == INVALID_BINDING


@pytest.mark.winml("LearningModelBindingAPITest.BindInvalidInputName")
def test_bind_invalid_input_name() -> None:
    binding = winml_models.open_binding(winml_models.add())
    value = VideoFrame(BitmapPixelFormat.BGRA8, 24, 16)
    binding.bind("input_39:0", value)
    assert refused(binding, "0", value) == INVALID_BINDING


@pytest.mark.winml("LearningModelBindingAPITest.VerifyOutputAfterEvaluateAsyncCalledTwice")
def test_verify_output_after_evaluate_async_called_twice() -> None:
    binding = winml_models.open_binding(winml_models.relu())
    output = TensorFloat.create([5])
    binding.bind("Y", output)
    for values in ([-50, -25, 0, 25, 50], [50, 25, 0, -25, -50]):
        binding.bind("X", TensorFloat.create_from_iterable([5], values))
        result = binding._session.evaluate_async(binding, "").get()
        assert result.outputs["Y"] is output
        assert output.get_as_vector_view() == [max(0, value) for value in values]


@pytest.mark.winml("LearningModelBindingAPITest.VerifyOutputAfterImageBindCalledTwice")
def test_verify_output_after_image_bind_called_twice() -> None:
    binding = winml_models.open_binding(winml_models.squeezenet())
    value = winml_models.make_frame(winml_models.load_picture("cat", 224, 224))
    output = TensorFloat.create([1, 1000, 1, 1])
    binding.bind("softmaxout_1", output)
    scores = []
    for name in ("cat", "fish"):
        winml_models.make_frame(winml_models.load_picture(name, 224, 224)).copy_to(value)
        binding.bind("data_0", value)
        binding._session.evaluate_async(binding, "").get()
        expected = winml_models.make_planes(winml_models.load_picture(name, 224, 224))
        raw = reference.run_raw(winml_models.squeezenet(), {"data_0": expected})["softmaxout_1"]
        np.testing.assert_allclose(output.to_numpy(), raw, atol=1e-6)
        scores.append(output.to_numpy().copy())
    assert np.abs(scores[0] - scores[1]).max() > 0.01


@pytest.mark.winml("LearningModelBindingAPITest.SequenceLengthTensorFloat")
def test_sequence_length_tensor_float() -> None:
    binding = winml_models.open_binding(winml_models.sequence_length())
    binding.bind("X", [TensorFloat.create_from_array([2, 3], range(6)) for _ in range(3)])
    output = binding._session.evaluate(binding, "").outputs["Y"]
    assert output.tensor_kind is TensorKind.INT64
    assert output.get_as_vector_view() == [3]


@pytest.mark.winml("LearningModelBindingAPITest.SequenceConstructTensorString")
@pytest.mark.parametrize("bound", [False, True])
def test_sequence_construct_tensor_string(bound: bool) -> None:
    binding = winml_models.open_binding(winml_models.sequence_construct())
    binding.bind("tensor1", TensorInt64Bit.create_from_iterable([2, 3], range(6)))
    binding.bind("tensor2", TensorInt64Bit.create_from_iterable([2, 3], range(6, 12)))
    given: list[Any] = []
    if bound:
        binding.bind("output_sequence", given)
    result = binding._session.evaluate(binding, "").outputs["output_sequence"]
    assert (result is given) is bound
    assert [list(part.shape) for part in result] == [[2, 3], [2, 3]]
    assert [list(part.get_as_vector_view()) for part in result] == [list(range(6)), list(range(6, 12))]
