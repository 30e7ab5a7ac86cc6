"""The graph that scales pictures on a device, against Pillow and the CPU; it runs on the CPU here and needs no GPU."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from helpers.pairs import pairs
from winml_py import (
    BitmapBounds,
    BitmapPixelFormat,
    ImageAnchor,
    ImageContract,
    ImageCropMode,
    ImageKernel,
    ImageRounding,
    ImageScaling,
    SoftwareBitmap,
)
from winml_py.core.imaging.geometry import Placement, compute_placement
from winml_py.core.imaging.resize import KERNELS, crop, resize
from winml_py.core.imaging.tensorize import tensorize
from winml_py.core.session.device_pictures import GraphKey, compute_scaling_inputs, make_padding, make_picture_model

pytestmark = pytest.mark.usefixtures("pillow_scales")  # to the last level

PILLOW_FILTERS = {kernel: entry.pillow for kernel, entry in KERNELS.items() if entry.is_antialiased}

Array = np.ndarray[Any, Any]

OTHERS = [ImageKernel.NEAREST, ImageKernel.LINEAR, ImageKernel.CUBIC]


@cache
def session_of(key: GraphKey) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(make_picture_model(key), options, ["CPUExecutionProvider"])


def by_the_graph(pixels: Array, placement: Placement, contract: ImageContract) -> Array:
    """One plane of the tensor that the graph makes of a gray picture: levels, as the contract has no range."""
    key = GraphKey.for_placement(contract, BitmapPixelFormat.GRAY8, placement, is_half=False)
    feeds = {"pixels": pixels[None, ..., None]} | compute_scaling_inputs(placement, contract)
    if placement.has_padding:
        feeds["padding"] = make_padding(placement, contract)
    return np.asarray(session_of(key).run(None, feeds)[0])[0, 0]


def stretched(pixels: Array, width: int, height: int, kernel: ImageKernel) -> Array:
    placement = compute_placement(pixels.shape[1], pixels.shape[0], width, height, ImageCropMode.STRETCH, None)
    return by_the_graph(pixels, placement, ImageContract(BitmapPixelFormat.RGB8, kernel=kernel))


def noise(rng: np.random.Generator, width: int, height: int) -> Array:
    """Black and white pixels: the kernels overshoot as far as they can, and are cut off."""
    return np.where(rng.integers(0, 2, (height, width)), 255, 0).astype(np.uint8)


def require_near(came: Array, expected: Array) -> None:
    """Within one level; a half is a matter of the last bit of float32, so one pixel may be two levels off."""
    difference = np.abs(came.astype(float) - expected)
    assert difference.max() <= 2.01
    assert np.count_nonzero(difference > 1.01) <= 1


SIDES = [19, 57, 119, 120, 121, 240]


@pytest.mark.parametrize(("kernel", "to_width", "to_height"), pairs(product(PILLOW_FILTERS, SIDES, SIDES)))
def test_the_passes_come_in_pillows_order(kernel: ImageKernel, to_width: int, to_height: int) -> None:
    pixels = noise(np.random.default_rng(to_width * 1000 + to_height), 120, 120)
    if (to_width, to_height) == (120, 120):
        return
    came = stretched(pixels, to_width, to_height, kernel)
    require_near(came, resize(pixels, to_width, to_height, kernel))
    if min(to_width, to_height) > 30:  # nothing is averaged first
        expected = Image.fromarray(pixels).resize((to_width, to_height), Image.Resampling[PILLOW_FILTERS[kernel]])
        require_near(came, np.asarray(expected))


@pytest.mark.parametrize("kernel", [*PILLOW_FILTERS, *OTHERS])
def test_odd_sizes_are_scaled_as_on_the_cpu(kernel: ImageKernel) -> None:
    rng = np.random.default_rng(7)
    for _ in range(150):
        width, height, to_width, to_height = np.exp(rng.uniform(0, 5.3, 4)).astype(int).tolist()
        pixels = noise(rng, width, height) if kernel in PILLOW_FILTERS else rng.integers(0, 256, (height, width), "u1")
        if (width, height) == (to_width, to_height):
            continue
        came, expected = stretched(pixels, to_width, to_height, kernel), resize(pixels, to_width, to_height, kernel)
        if kernel in PILLOW_FILTERS:
            require_near(came, expected)
        else:  # OpenCV rounds its weights to a few bits
            assert np.abs(came - expected).max() <= 1.01, (width, height, to_width, to_height)


@pytest.mark.parametrize("kernel", PILLOW_FILTERS)
def test_the_cpu_scales_as_pillow_does(kernel: ImageKernel) -> None:
    rng = np.random.default_rng(8)
    for _ in range(150):
        to_width, to_height = np.exp(rng.uniform(0, 4.5, 2)).astype(int).tolist()
        width, height = (max(1, int(side * rng.uniform(0.3, 3.9))) for side in (to_width, to_height))
        for pixels in (noise(rng, width, height), rng.integers(0, 256, (height, width, 3), np.uint8)):
            filtered = Image.fromarray(pixels).resize((to_width, to_height), Image.Resampling[PILLOW_FILTERS[kernel]])
            np.testing.assert_array_equal(resize(pixels, to_width, to_height, kernel), np.asarray(filtered))


@pytest.mark.parametrize("mode", ImageCropMode)
def test_crops_and_padding_are_placed_as_on_the_cpu(mode: ImageCropMode) -> None:
    rng = np.random.default_rng(9)
    contract = ImageContract(BitmapPixelFormat.RGB8, crop_mode=mode, pad=(10, 200, 30))
    for _ in range(60):
        width, height = np.exp(rng.uniform(2, 5.5, 2)).astype(int).tolist()
        pixels = noise(rng, width, height)
        bounds = BitmapBounds(1, 2, width - 3, height - 4) if rng.integers(2) and min(width, height) > 5 else None
        placement = compute_placement(width, height, 31, 24, mode, bounds)
        expected = np.full((24, 31), 10, np.uint8)
        part, target = crop(pixels, placement.part), placement.target
        crop(expected, target)[:] = resize(part, target.width, target.height, contract.kernel)
        require_near(by_the_graph(pixels, placement, contract), expected)


@pytest.mark.parametrize("kernel", [ImageKernel.ANTIALIASED_LANCZOS, ImageKernel.ANTIALIASED_LINEAR, ImageKernel.AREA])
@pytest.mark.parametrize(
    "scaling",
    [
        ImageScaling(crop_ratio=0.8, crop_rounding=ImageRounding.HALF_EVEN),
        ImageScaling(crop_ratio=0.8, crops_first=True),
        ImageScaling(shortest_side=29),
        ImageScaling(longest_side=28, anchor=ImageAnchor.TOP_LEFT),
        ImageScaling(height=20, width=40),
        ImageScaling(),
    ],
)
def test_recipes_are_those_of_the_cpu(scaling: ImageScaling, kernel: ImageKernel) -> None:
    rng = np.random.default_rng(4)
    contract = ImageContract(BitmapPixelFormat.RGB8, kernel=kernel, scaling=scaling, pad=(10, 200, 30))
    for _ in range(25):
        width, height = np.exp(rng.uniform(2.5, 5.8, 2)).astype(int).tolist()
        pixels = noise(rng, width, height)
        placement = compute_placement(width, height, 31, 24, ImageCropMode.CENTER, None, scaling)
        expected = np.zeros((1, 3, 24, 31), np.float32)
        bitmap = SoftwareBitmap.from_array(pixels, BitmapPixelFormat.GRAY8)
        tensorize(bitmap, contract, expected[0], placement)
        came = by_the_graph(pixels, placement, contract)
        if kernel is not ImageKernel.AREA:
            require_near(came, expected[0, 0])
        elif (placement.shrink[0] < 1) == (placement.shrink[1] < 1):  # else the CPU does it
            assert np.abs(came - expected[0, 0]).max() <= 1.01
