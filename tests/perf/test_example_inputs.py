"""Made-up inputs: every number of the picture, the shapes, and what cannot be made up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, INT64, data, tensor, unary
from helpers.paths import MODELS
from winml_py import InvalidArgumentError, LearningModel
from winml_py import _examples as examples
from winml_py._examples import complete_inputs, make_example


def feature(**options: Any) -> Any:
    return LearningModel.load(unary(**options)).input_features[0]


def slow_picture(channels: int, height: int, width: int) -> np.ndarray[Any, Any]:
    """The same levels, one by one: waves, noise, a checkered corner at the lower right, an edge at the lower left."""
    noise = np.random.default_rng(0).normal(0, 5, (channels, height, width))
    levels = np.zeros((channels, height, width), np.uint8)
    longest = max(height, width)
    for c, i, j in np.ndindex(channels, height, width):
        x, y = j / longest, i / longest
        level = math.sin((3 + 2 * c) * x + c) * math.cos((5 - c) * y) * 100 + 128 + noise[c, i, j]
        levels[c, i, j] = int(min(max(level, 0), 255))
        if i >= height // 2 and j >= width // 2:
            levels[c, i, j] = 255 if (i - height // 2) // 4 % 2 else 0
        if i >= height // 2 and j < width // 4:
            levels[c, i, j] = 255 if x > 0.1 else 0
    return levels


@pytest.mark.parametrize("size", [(30, 41), (41, 24)])
@pytest.mark.parametrize(("channels", "order"), [(3, "Rgb8"), (1, "Gray8")])
def test_a_picture_is_the_same_on_every_machine(size: tuple[int, int], channels: int, order: str) -> None:
    shape = (1, channels, *size)
    pictures = feature(shape=shape, denotation="IMAGE", metadata={"Image.BitmapPixelFormat": order})
    made = make_example(pictures, np.random.default_rng(0))
    assert (made.shape, made.dtype, made.flags.c_contiguous) == (shape, np.float32, True)
    np.testing.assert_allclose(made[0], slow_picture(channels, *size), atol=1)  # sin and cos differ in their last bit
    assert (np.abs(made[0] - slow_picture(channels, *size)) > 0.5).mean() < 0.001


def test_a_picture_in_another_layout_is_the_same_picture() -> None:
    planes = feature(shape=(1, 3, 16, 12), denotation="IMAGE")
    metadata = {"Image.Layout": "NHWC"}
    pixels = feature(shape=(2, 16, 12, 3), denotation="IMAGE", metadata=metadata)
    one, other = (make_example(each, np.random.default_rng(3)) for each in (planes, pixels))
    assert (one.shape, other.shape) == ((1, 3, 16, 12), (2, 16, 12, 3))
    for picture in other:
        np.testing.assert_array_equal(picture, one[0].transpose(1, 2, 0))


def test_pictures_are_the_numbers_of_the_contract() -> None:
    features = LearningModel.load(MODELS / "digits.onnx").input_features
    values, seeded = complete_inputs(features, {})
    assert seeded == ["image"]
    numbers = features[0].contract.numbers(np.dtype(np.float32))[0]
    assert set(np.unique(values["image"])) <= set(numbers)
    assert {numbers[0], numbers[255]} <= set(np.unique(values["image"]))  # black and white


def test_free_sizes() -> None:
    assert make_example(feature(shape=["n", "m", 3]), np.random.default_rng(0)).shape == (1, 64, 3)
    assert make_example(feature(shape=[2, 0]), np.random.default_rng(0)).shape == (2, 0)


@pytest.mark.parametrize(
    ("element", "dtype"),
    [(FLOAT, np.float32), (TensorProto.FLOAT16, np.float16), (TensorProto.DOUBLE, np.float64)],
)
def test_numbers_lie_around_0(element: int, dtype: Any) -> None:
    made = make_example(feature(shape=[3, 4], element=element), np.random.default_rng(5))
    assert made.dtype == dtype
    np.testing.assert_array_equal(made, np.random.default_rng(5).standard_normal((3, 4)).astype(dtype))


def two_inputs() -> Any:
    node = helper.make_node("Identity", ["a"], ["y"])
    whole = data([node], [tensor("a", [2]), tensor("b", [3])], [tensor("y", [2])])
    return list(LearningModel.load(whole).input_features)


def test_what_is_given_stays_and_the_others_are_named() -> None:
    given = np.float32([1, 2])
    values, seeded = complete_inputs(two_inputs(), {"a": given})
    assert (list(values), seeded) == (["a", "b"], ["b"])
    assert values["a"] is given
    np.testing.assert_array_equal(values["b"], np.random.default_rng(0).standard_normal(3).astype(np.float32))


def test_mistakes() -> None:
    with pytest.raises(InvalidArgumentError) as info:
        complete_inputs(two_inputs(), {"d": 1, "c": 1, "a": 1})
    assert str(info.value) == "The model has no input c, d. Its inputs: a, b."
    words = feature(shape=[2], element=INT64)
    with pytest.raises(InvalidArgumentError, match=r"can be generated for the input x \(.*\)\. Pass a value"):
        complete_inputs([words], {})


def test_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "MAX_NUMBERS", 1000)
    assert make_example(feature(shape=[1000]), np.random.default_rng(0)).size == 1000
    with pytest.raises(InvalidArgumentError) as info:
        make_example(feature(shape=[1, 1001]), np.random.default_rng(0))
    assert info.value.message == "The input x has 1,001 values, but an example has at most 1,000."
