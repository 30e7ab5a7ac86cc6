"""Pictures as a graph for a device, on the CPU: what it takes, and that it gives what the CPU's own way gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from helpers.cuda import FakeCudaDevice
from helpers.models import FLOAT, FLOAT16, unary
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageCropMode,
    ImageFeatureValue,
    ImageKernel,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelPixelRange,
    LearningModelSession,
    TensorLayout,
)
from winml_py.core.imaging.geometry import compute_placement
from winml_py.core.imaging.resize import KERNELS
from winml_py.core.session.device_pictures import GraphKey, compute_scaling_inputs, make_padding, make_picture_model

pytestmark = pytest.mark.usefixtures("pillow_scales")  # to the last level

PILLOW_FILTERS = {kernel: entry.pillow for kernel, entry in KERNELS.items() if entry.is_antialiased}

RGB8, BGR8, GRAY8 = BitmapPixelFormat.RGB8, BitmapPixelFormat.BGR8, BitmapPixelFormat.GRAY8
LETTERBOX, STRETCH = ImageCropMode.LETTERBOX, ImageCropMode.STRETCH
UNIT = LearningModelPixelRange.ZERO_TO_ONE

CONTRACTS = [
    ImageContract(BGR8),
    ImageContract(GRAY8),
    ImageContract.imagenet(),
    ImageContract(RGB8, LearningModelPixelRange.MINUS_ONE_TO_ONE, kernel=ImageKernel.LINEAR),
    ImageContract(RGB8, UNIT, layout=TensorLayout.NHWC, crop_mode=STRETCH, kernel=ImageKernel.AREA),
    ImageContract(BGR8, crop_mode=LETTERBOX, pad=(10, 20, 30)),
    ImageContract(GRAY8, crop_mode=LETTERBOX, pad=(10, 20, 30)),
    ImageContract(RGB8, mean=(1.0, 2.0, 3.0), std=(4.0, 5.0, 6.0), crop_mode=LETTERBOX, pad=(114, 114, 114)),
    ImageContract(GRAY8, crop_mode=LETTERBOX, pad=(114, 114, 114), kernel=ImageKernel.NEAREST),
]
SOURCES = {GRAY8: (), BGR8: (3,), BitmapPixelFormat.RGBA8: (4,)}


def tensor_of(device: LearningModelDevice | None, contract: ImageContract, value: ImageFeatureValue) -> Any:
    nhwc = contract.layout is TensorLayout.NHWC
    shape = (1, 16, 20, contract.channels) if nhwc else (1, contract.channels, 16, 20)
    session = LearningModelSession(LearningModel.load(unary(shape=shape)), device)
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
    most = 0.15 if contract.kernel not in PILLOW_FILTERS else 0.06 if contract.scaling else 0.01
    assert (apart > 0.01).mean() < most
    assert device.inputs  # it was made there


@pytest.mark.parametrize("half", [False, True])
def test_what_the_graph_takes(half: bool) -> None:
    contract = ImageContract(BGR8, crop_mode=LETTERBOX, pad=(10, 20, 30))
    graph = onnx.load_from_string(make_picture_model(GraphKey(contract, BGR8, True, True, half, False)))
    onnx.checker.check_model(graph, full_check=True)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    assert {each.name: (each.type, each.shape) for each in session.get_inputs()} == {
        "pixels": ("tensor(uint8)", ["n", "height", "width", 3]),
        "across": ("tensor(float)", ["columns_used", "tensor_width"]),
        "down": ("tensor(float)", ["tensor_height", "rows_used"]),
        "padding": ("tensor(float)", ["planes", "tensor_height", "tensor_width"]),
    }
    (output,) = session.get_outputs()
    assert output.name == "tensor"
    assert graph.graph.output[0].type.tensor_type.elem_type == (FLOAT16 if half else FLOAT)
    assert len(output.shape) == 4


def test_the_colour_around_a_picture() -> None:
    for pixel_format, levels in ((RGB8, (10, 20, 30)), (BGR8, (30, 20, 10))):
        contract = ImageContract(pixel_format, crop_mode=LETTERBOX, pad=(10, 20, 30))
        placement = compute_placement(8, 4, 8, 8, LETTERBOX, None)
        planes = make_padding(placement, contract)
        expected = np.zeros((3, 8, 8), np.float32)
        expected[:, :2] = expected[:, 6:] = np.float32(levels).reshape(3, 1, 1)
        np.testing.assert_array_equal(planes, expected)
        matrices = compute_scaling_inputs(placement, replace(contract, kernel=ImageKernel.LINEAR))
        across, down = matrices["across"], matrices["down"]
        np.testing.assert_array_equal(across, np.eye(8))
        np.testing.assert_array_equal(down, np.eye(8)[:, 2:6])
        assert not across.flags.writeable
        assert down.flags.c_contiguous
    same = ImageContract(RGB8, crop_mode=LETTERBOX, pad=(9, 9, 9))
    assert make_padding(placement, same).shape == (1, 8, 8)
