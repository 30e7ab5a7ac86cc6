"""Binding values to float16 features: the rules, and rounding once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from helpers import reference
from helpers.models import FLOAT16, unary
from helpers.paths import MODELS
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    SizeMismatchError,
    SoftwareBitmap,
    TensorFloat,
    TensorFloat16Bit,
)

pytestmark = pytest.mark.one_python

RNG = np.random.default_rng(0)


def make_binding(shape: Any, element: int = FLOAT16, **options: Any) -> LearningModelBinding:
    return LearningModelBinding(
        LearningModelSession(LearningModel.load(unary(shape=shape, element=element, **options)))
    )


PICTURES = {
    "denoted an image": ((1, 3, 4, 4), {"denotation": "IMAGE"}),
    "three channels": ((1, 3, 4, 4), {}),
    "one channel": (("n", 1, "h", "w"), {}),
}


@pytest.mark.parametrize("shape", PICTURES)
def test_tensor_float_is_cast_for_a_float16_input_of_a_pictures_shape(shape: str) -> None:
    sizes, options = PICTURES[shape]
    bound = make_binding(sizes, **options)
    channels = 1 if shape == "one channel" else 3
    numbers = (RNG.standard_normal((1, channels, 4, 4)) * 1000).astype(np.float32)
    output = TensorFloat16Bit.create()
    for value in (TensorFloat.from_numpy(numbers), numbers):
        bound.bind("x", value)
        bound.bind("y", output)
        bound._session.evaluate(bound)
        np.testing.assert_array_equal(output.to_numpy(), numbers.astype(np.float16))
    assert bound["x"] is numbers


def test_a_number_beyond_float16_is_refused() -> None:
    bound = make_binding((1, 3, 4, 4))
    numbers = np.zeros((1, 3, 4, 4), np.float32)
    numbers[0, 1, 2, 3] = -70_000
    with pytest.raises(InvalidBindingError, match="x is float16, but -70000 is outside its range of -65504 to 65504"):
        bound.bind("x", TensorFloat.from_numpy(numbers))
    numbers[0, 1, 2, 3] = np.inf  # which float16 has
    bound.bind("x", numbers)


def test_tensor_float_into_any_other_float16_input_names_tensor_float16_bit() -> None:
    for shape in ((1, 8), (1, 4, 4, 4), (3, 4, 4)):
        bound = make_binding(shape)
        numbers = np.zeros(shape, np.float32)
        for name in "xy":
            for value in (TensorFloat.from_numpy(numbers), numbers):
                with pytest.raises(InvalidBindingError, match="Bind a TensorFloat16Bit"):
                    bound.bind(name, value)


def test_tensor_float16_bit_takes_both_and_reads_back_as_float32() -> None:
    bound = make_binding((1, 4))
    numbers = np.float32([[1 / 3, 1e-8, 65504, -2]])
    output = TensorFloat16Bit.create()
    bound.bind("y", output)
    for value in (numbers, numbers.astype(np.float16)):
        bound.bind("x", TensorFloat16Bit.from_numpy(value))
        bound._session.evaluate(bound)
        view = np.asarray(output.get_as_vector_view())
        assert view.dtype == np.float32
        np.testing.assert_array_equal(view, numbers.astype(np.float16).astype(np.float32)[0])
        assert output.to_numpy().dtype == np.float16


@pytest.mark.parametrize("pixel_range", LearningModelPixelRange, ids=lambda pixel_range: pixel_range.name)
def test_a_picture_into_float16_is_computed_in_float32_and_rounded_once(pixel_range: LearningModelPixelRange) -> None:
    mean, std = (80.3, 70.7) if pixel_range is LearningModelPixelRange.ZERO_TO255 else (0.3, 0.7)
    contract = ImageContract(BitmapPixelFormat.RGB8, pixel_range, (mean,), (std,))
    bound = make_binding((1, 3, 16, 16), denotation="IMAGE", metadata=contract.to_metadata())
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    bound.bind("x", SoftwareBitmap.from_array(pixels, BitmapPixelFormat.RGB8))
    output = TensorFloat16Bit.create()
    bound.bind("y", output)
    bound._session.evaluate(bound)
    levels = np.array([reference.number(level, pixel_range.name) for level in range(256)], np.float32)
    expected = ((levels - np.float32(mean)) / np.float32(std)).astype(np.float16).reshape(16, 16)
    np.testing.assert_array_equal(output.to_numpy()[0, 1], expected)


def test_outputs_mirror_the_inputs() -> None:
    bound = make_binding((1, 3, 4, 4))
    numbers = RNG.standard_normal((1, 3, 4, 4)).astype(np.float32)
    bound.bind("x", numbers)
    expected = numbers.astype(np.float16).astype(np.float32)
    memory = np.zeros_like(numbers)
    for value in (TensorFloat.create(), TensorFloat.create([1, 3, 4, 4]), TensorFloat.from_numpy(memory), memory):
        bound.bind("y", value)
        assert bound._session.evaluate(bound).outputs["y"] is value
        np.testing.assert_array_equal(np.asarray(value), expected)
    np.testing.assert_array_equal(memory, expected)
    free = make_binding(("n", 3, "h", "w"))
    free.bind("x", numbers)
    free.bind("y", np.zeros((1, 3, 5, 5), np.float32))
    with pytest.raises(SizeMismatchError, match="bound to memory of shape"):
        free._session.evaluate(free)


@pytest.mark.filterwarnings("ignore")  # the converter warns of each number that it clips
@pytest.mark.parametrize("keep_io_types", [False, True])
@pytest.mark.parametrize("name", ["digits", "shapes"])
def test_models_of_the_runtimes_own_converter(name: str, keep_io_types: bool) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    converted = convert_float_to_float16(onnx.load(MODELS / f"{name}.onnx"), keep_io_types=keep_io_types)
    model = LearningModel.load(converted.SerializeToString())
    (feature,) = model.input_features
    shape = [64 if size == -1 else size for size in feature.shape]
    numbers = RNG.random(shape, np.float32).astype(np.float32 if keep_io_types else np.float16)
    outputs = LearningModelSession(model).evaluate_features({feature.name: numbers}).outputs
    for output, expected in reference.run_raw(converted.SerializeToString(), {feature.name: numbers}).items():
        np.testing.assert_array_equal(outputs[output].to_numpy(), expected)
    assert model.precision in ("float16", "mixed")
