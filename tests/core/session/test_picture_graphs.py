"""Pictures as a graph for a device, on the CPU: what it takes, and that it gives what the CPU's own way gives."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from helpers.cuda import FakeCudaDevice
from helpers.models import FLOAT, FLOAT16, unary
from helpers.pictures import PILLOW_FILTERS
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    ImageKernel,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelPixelRange,
    LearningModelSession,
    TensorLayout,
)
from winml_py.scaling import Fit, Stretch

pytestmark = pytest.mark.usefixtures("pillow_scales")  # to the last level

RGB8, BGR8, GRAY8 = BitmapPixelFormat.RGB8, BitmapPixelFormat.BGR8, BitmapPixelFormat.GRAY8
LETTERBOX, STRETCH = Fit(), Stretch()
UNIT = LearningModelPixelRange.ZERO_TO_ONE

CONTRACTS = [
    ImageContract(BGR8),
    ImageContract(GRAY8),
    ImageContract.imagenet(),
    ImageContract(RGB8, LearningModelPixelRange.MINUS_ONE_TO_ONE, kernel=ImageKernel.LINEAR),
    ImageContract(RGB8, UNIT, layout=TensorLayout.NHWC, scaling=STRETCH, kernel=ImageKernel.AREA),
    ImageContract(BGR8, scaling=LETTERBOX, pad=(10, 20, 30)),
    ImageContract(GRAY8, scaling=LETTERBOX, pad=(10, 20, 30)),
    ImageContract(RGB8, mean=(1.0, 2.0, 3.0), std=(4.0, 5.0, 6.0), scaling=LETTERBOX, pad=(114, 114, 114)),
    ImageContract(GRAY8, scaling=LETTERBOX, pad=(114, 114, 114), kernel=ImageKernel.NEAREST),
]
SOURCES = {GRAY8: (), BGR8: (3,), BitmapPixelFormat.RGBA8: (4,)}


def tensor_of(
    device: LearningModelDevice | None, contract: ImageContract, value: ImageFeatureValue, element: int = FLOAT
) -> Any:
    nhwc = contract.layout is TensorLayout.NHWC
    shape = (1, 16, 20, contract.channels) if nhwc else (1, contract.channels, 16, 20)
    session = LearningModelSession(LearningModel.load(unary(shape=shape, element=element)), device)
    binding = LearningModelBinding(session)
    binding.bind("x", value, {"ImageContract": contract})
    return session.evaluate(binding).outputs["y"].to_numpy()


@pytest.mark.parametrize("size", [(37, 50), (16, 20), (10, 12)])
@pytest.mark.parametrize(("contract", "source"), list(product(CONTRACTS, SOURCES)))
def test_the_graph_gives_what_the_cpu_gives(
    contract: ImageContract, source: BitmapPixelFormat, size: tuple[int, int]
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, size + SOURCES[source], np.uint8)
    value = ImageFeatureValue.from_array(pixels, source)
    device = FakeCudaDevice()
    came, expected = tensor_of(device, contract, value), tensor_of(None, contract, value)
    assert came.shape == expected.shape
    level = max(abs(factor) for factor, _ in contract.affine())
    apart = np.abs(came - expected) / level
    assert apart.max() <= 1.01
    # Halves are rounded one way or the other: there are many where 16 pixels become 18. OpenCV rounds its weights.
    most = 0.15 if contract.kernel not in PILLOW_FILTERS else 0.01 if contract.scaling.takes_tensor_size else 0.06
    assert (apart > 0.01).mean() < most
    assert device.inputs  # it was made there


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_model_of_halves_gets_the_rounded_numbers(contract: ImageContract) -> None:
    picture = ImageFeatureValue.from_array(np.random.default_rng(0).integers(0, 256, (37, 50, 3), np.uint8), BGR8)
    came = tensor_of(FakeCudaDevice(), contract, picture, FLOAT16)
    np.testing.assert_array_equal(came, tensor_of(FakeCudaDevice(), contract, picture).astype(np.float16))


@pytest.mark.parametrize("pad", [(10, 20, 30), (9, 9, 9)])
@pytest.mark.parametrize(("pixel_format", "step"), [(RGB8, 1), (BGR8, -1)])
def test_the_colour_around_a_picture(pixel_format: BitmapPixelFormat, step: int, pad: tuple[int, int, int]) -> None:
    contract = ImageContract(pixel_format, scaling=LETTERBOX, pad=pad, kernel=ImageKernel.LINEAR)
    picture = ImageFeatureValue.from_array(np.full((16, 10, 3), 7, np.uint8), RGB8)
    planes = tensor_of(FakeCudaDevice(), contract, picture)[0]
    expected = np.full((3, 16, 20), 7, np.float32)
    expected[:, :, :5] = expected[:, :, 15:] = np.float32(pad[::step]).reshape(3, 1, 1)
    np.testing.assert_array_equal(planes, expected)
