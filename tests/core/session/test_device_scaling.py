"""The graph that scales pictures on a device, against Pillow and the CPU; it runs on the CPU here and needs no GPU."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.cuda import FakeCudaDevice
from helpers.models import unary
from helpers.pairs import pairs
from helpers.pictures import PILLOW_FILTERS
from helpers.sessions import open_session
from winml_py import (
    BitmapPixelFormat,
    ImageAnchor,
    ImageContract,
    ImageFeatureValue,
    ImageKernel,
    ImageRounding,
    LearningModelBinding,
    LearningModelSession,
)
from winml_py.scaling import (
    CropRatio,
    CropSquare,
    CropToAspect,
    Ends,
    Fit,
    FitHeight,
    Keep,
    LongestSide,
    Scaling,
    ShortestSide,
    Stretch,
)

pytestmark = pytest.mark.usefixtures("pillow_scales")  # to the last level

Array = np.ndarray[Any, Any]

GRAY8, RGB8 = BitmapPixelFormat.GRAY8, BitmapPixelFormat.RGB8
OTHERS = [ImageKernel.NEAREST, ImageKernel.LINEAR, ImageKernel.CUBIC]


@pytest.fixture(scope="module")
def cpu() -> LearningModelSession:
    """Its answer is the tensor of the picture."""
    return open_session(unary("Identity", (1, 3, "h", "w")))


@pytest.fixture(scope="module")
def card() -> LearningModelSession:
    return open_session(unary("Identity", (1, 3, "h", "w")), FakeCudaDevice())


def tensor_of(
    session: LearningModelSession, pixels: Array, width: int, height: int, contract: ImageContract, bounds: Any = None
) -> Array:
    """The levels that the session reads of a picture: the contract has no range."""
    binding = LearningModelBinding(session)
    value = ImageFeatureValue.from_array(pixels, GRAY8 if pixels.ndim == 2 else RGB8)
    properties = {"ImageContract": contract, "ImageSize": (height, width), "BitmapBounds": bounds}
    binding.bind("x", value, properties)
    return np.asarray(session.evaluate(binding).outputs["y"])[0]


def stretched(session: LearningModelSession, pixels: Array, width: int, height: int, kernel: ImageKernel) -> Array:
    contract = ImageContract(RGB8, kernel=kernel, scaling=Stretch())
    return tensor_of(session, pixels, width, height, contract)


def noise(rng: np.random.Generator, width: int, height: int) -> Array:
    """Black and white pixels: the kernels overshoot as far as they can, and are cut off."""
    return np.where(rng.integers(0, 2, (height, width)), 255, 0).astype(np.uint8)


def require_near(came: Array, expected: Array) -> None:
    """Within one level; a half is a matter of the last bit of float32, so one pixel may be two levels off."""
    difference = np.abs(came[0].astype(float) - expected[0])
    assert difference.max() <= 2.01
    assert np.count_nonzero(difference > 1.01) <= 1


SIDES = [19, 57, 119, 120, 121, 240]


@pytest.mark.parametrize(("kernel", "to_width", "to_height"), pairs(product(PILLOW_FILTERS, SIDES, SIDES)))
def test_the_passes_come_in_pillows_order(
    cpu: LearningModelSession, card: LearningModelSession, kernel: ImageKernel, to_width: int, to_height: int
) -> None:
    pixels = noise(np.random.default_rng(to_width * 1000 + to_height), 120, 120)
    came = stretched(card, pixels, to_width, to_height, kernel)
    require_near(came, stretched(cpu, pixels, to_width, to_height, kernel))
    if min(to_width, to_height) > 30:  # nothing is averaged first
        expected = Image.fromarray(pixels).resize((to_width, to_height), PILLOW_FILTERS[kernel])
        require_near(came, np.asarray(expected)[None])


@pytest.mark.parametrize("kernel", [*PILLOW_FILTERS, *OTHERS])
def test_odd_sizes_are_scaled_as_on_the_cpu(
    cpu: LearningModelSession, card: LearningModelSession, kernel: ImageKernel
) -> None:
    rng = np.random.default_rng(7)
    for _ in range(150):
        width, height, to_width, to_height = np.exp(rng.uniform(0, 5.3, 4)).astype(int).tolist()
        pixels = noise(rng, width, height) if kernel in PILLOW_FILTERS else rng.integers(0, 256, (height, width), "u1")
        came, expected = (stretched(session, pixels, to_width, to_height, kernel) for session in (card, cpu))
        if kernel in PILLOW_FILTERS:
            require_near(came, expected)
        else:  # OpenCV rounds its weights to a few bits
            assert np.abs(came - expected).max() <= 1.01, (width, height, to_width, to_height)


@pytest.mark.parametrize("kernel", PILLOW_FILTERS)
def test_the_cpu_scales_as_pillow_does(cpu: LearningModelSession, kernel: ImageKernel) -> None:
    rng = np.random.default_rng(8)
    for _ in range(150):
        to_width, to_height = np.exp(rng.uniform(0, 4.5, 2)).astype(int).tolist()
        width, height = (max(1, int(side * rng.uniform(0.3, 3.9))) for side in (to_width, to_height))
        for pixels in (noise(rng, width, height), rng.integers(0, 256, (height, width, 3), np.uint8)):
            filtered = np.asarray(Image.fromarray(pixels).resize((to_width, to_height), PILLOW_FILTERS[kernel]))
            came = stretched(cpu, pixels, to_width, to_height, kernel)
            np.testing.assert_array_equal(came[0] if pixels.ndim == 2 else came.transpose(1, 2, 0), filtered)


@pytest.mark.parametrize("scaling", [CropToAspect(), Stretch(), Fit()])
def test_crops_and_padding_are_placed_as_on_the_cpu(
    cpu: LearningModelSession, card: LearningModelSession, scaling: Scaling
) -> None:
    rng = np.random.default_rng(9)
    contract = ImageContract(RGB8, scaling=scaling, pad=(10, 200, 30))
    for _ in range(60):
        width, height = np.exp(rng.uniform(2, 5.5, 2)).astype(int).tolist()
        pixels = noise(rng, width, height)
        bounds = [1, 2, width - 3, height - 4] if rng.integers(2) and min(width, height) > 5 else None
        came, expected = (tensor_of(session, pixels, 31, 24, contract, bounds) for session in (card, cpu))
        require_near(came, expected)


@pytest.mark.parametrize("kernel", [ImageKernel.ANTIALIASED_LANCZOS, ImageKernel.ANTIALIASED_LINEAR, ImageKernel.AREA])
@pytest.mark.parametrize(
    "scaling",
    [
        CropRatio(0.8, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN)),
        CropSquare(0.8),
        ShortestSide(29),
        LongestSide(28, ends=Ends(anchor=ImageAnchor.TOP_LEFT)),
        Stretch((20, 40)),
        Keep(),
        FitHeight(),
    ],
)
def test_recipes_are_those_of_the_cpu(
    cpu: LearningModelSession, card: LearningModelSession, scaling: Scaling, kernel: ImageKernel
) -> None:
    rng = np.random.default_rng(4)
    contract = ImageContract(RGB8, kernel=kernel, scaling=scaling, pad=(10, 200, 30))
    for _ in range(25):
        width, height = np.exp(rng.uniform(2.5, 5.8, 2)).astype(int).tolist()
        pixels = noise(rng, width, height)
        came, expected = (tensor_of(session, pixels, 31, 24, contract) for session in (card, cpu))
        if kernel is not ImageKernel.AREA:
            require_near(came, expected)
        else:
            assert np.abs(came - expected).max() <= 1.01
