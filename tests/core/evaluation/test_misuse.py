"""Every odd value under every odd property, bound everywhere: it works, or one of our errors says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from helpers.models import FLOAT16, STRING, unary
from helpers.odd_values import ODD_PROPERTIES, odd_values
from winml_py import (
    BitmapPixelFormat,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SoftwareBitmap,
    TensorBoolean,
    TensorFloat,
    TensorFloat16Bit,
    TensorInt64Bit,
    TensorString,
    WinMLError,
)

IMAGE = {"shape": (1, 3, 4, 6), "denotation": "IMAGE"}
MODELS = {
    "image": unary(**IMAGE),
    "half image": unary(element=FLOAT16, **IMAGE),
    "tensor": unary(shape=(2, "n")),
    "strings": unary(element=STRING),
    "scalar": unary(shape=()),
    "int8": unary(shape=(3,), element=TensorProto.INT8),
}


@pytest.mark.parametrize("name", MODELS)
def test_nothing_but_our_errors_comes_out_of_bind_and_evaluate(name: str) -> None:
    session = LearningModelSession(LearningModel.load(MODELS[name]))
    refused = worked = 0
    for feature in ("x", "y"):
        for value in odd_values():
            for properties in ODD_PROPERTIES:
                binding = LearningModelBinding(session)
                try:
                    binding.bind(feature, value, properties)
                    if feature == "x":
                        session.evaluate(binding)
                    worked += 1
                except WinMLError as error:
                    assert str(error).strip()  # noqa: PT017  # the loop goes on
                    refused += 1
    assert worked > 0
    assert refused > 500


def bind(name: Any, value: object) -> None:
    LearningModelBinding(LearningModelSession(LearningModel.load(MODELS["tensor"]))).bind(name, value)


@pytest.mark.parametrize(
    "use",
    [
        lambda: bind(["x"], np.zeros((2, 1), np.float32)),
        lambda: SoftwareBitmap(5, 1, 1),  # type: ignore[arg-type]
        lambda: SoftwareBitmap(BitmapPixelFormat.BGRA8, 1 << 20, 1 << 20),
        lambda: SoftwareBitmap.from_array(np.zeros((2, 2, 3), np.uint8), 99),  # type: ignore[arg-type]
        lambda: SoftwareBitmap.load(""),
        lambda: SoftwareBitmap.load("a\0b"),
        lambda: SoftwareBitmap(BitmapPixelFormat.BGRA8, 2, 2).save("nowhere/at/all.png"),
        lambda: LearningModel.load(None),  # type: ignore[arg-type]
        lambda: TensorFloat.create_from_array([2], None),
        lambda: TensorFloat.create_from_array([1], [None]),
        lambda: TensorFloat.create_from_array([1], [True]),
        lambda: TensorFloat.create([float("inf")]),
        lambda: TensorFloat.create([1.7, 2]),  # type: ignore[list-item]
        lambda: TensorInt64Bit.create_from_array([1], [1.5]),
        lambda: TensorBoolean.create_from_array([1], [2]),
        lambda: TensorFloat.create(5),  # type: ignore[arg-type]
        lambda: TensorFloat.create_from_array(None, [1]),  # type: ignore[arg-type]
        lambda: TensorFloat.create_from_buffer([1], 5),
        lambda: TensorFloat.create_from_iterable([1], 5),  # type: ignore[arg-type]
        lambda: TensorFloat.create([1 << 50]).to_numpy(),
        lambda: TensorString.create_from_array([1], 5),
    ],
)
def test_misuse_elsewhere_is_told(use: Callable[[], Any]) -> None:
    with pytest.raises(WinMLError):
        use()


def test_what_is_too_large_for_a_type_becomes_infinite() -> None:
    assert TensorFloat16Bit.create_from_array([1], [1e6]).to_numpy() == [np.inf]
    assert TensorFloat.create_from_array([1], [1e60]).to_numpy() == [np.inf]


@pytest.mark.parametrize("sides", [(0, 0), (0, 8), (1 << 40, 1 << 40)])
def test_pictures_of_sides_that_cannot_be(sides: tuple[int, int]) -> None:
    binding = LearningModelBinding(
        LearningModelSession(LearningModel.load(unary(shape=(1, 3, *sides), denotation="IMAGE")))
    )
    with pytest.raises(WinMLError):
        binding.bind("x", SoftwareBitmap(BitmapPixelFormat.BGRA8, 4, 4))
