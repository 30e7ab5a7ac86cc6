"""What a binding remembers of a picture that was bound before: nothing that a new binding would work out otherwise."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers.models import data, tensor, unary
from winml_py import (
    BitmapBounds,
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    SoftwareBitmap,
    TensorLayout,
    VideoFrame,
    WinMLError,
)
from winml_py.scaling import Stretch

RGBA8, GRAY8, BGR8 = BitmapPixelFormat.RGBA8, BitmapPixelFormat.GRAY8, BitmapPixelFormat.BGR8
RGB8 = BitmapPixelFormat.RGB8
CONTRACTS = (
    ImageContract.imagenet(),
    ImageContract.yolo(),
    ImageContract(pixel_range=LearningModelPixelRange.ZERO_TO_ONE, scaling=Stretch()),
    ImageContract(mean=(1, 2, 3)),
    ImageContract(size=(8, 8)),
)
PROPERTIES: tuple[Mapping[str, Any] | None, ...] = (
    None,
    {"BitmapBounds": BitmapBounds(1, 2, 5, 6)},
    {"BitmapPixelFormat": RGBA8},
    {"BitmapPixelFormat": GRAY8},  # of one channel, and the tensor has three
    {"PixelRange": LearningModelPixelRange.MINUS_ONE_TO_ONE},
    {"PixelRange": LearningModelPixelRange.ZERO_TO_ONE, "BitmapPixelFormat": RGBA8},
    {"ImageContract": CONTRACTS[0]},
    {"ImageContract": CONTRACTS[3], "ImageSize": (8, 8)},
    {"ImageSize": (9, 7)},  # some models fix another
)
PIXELS = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)


def picture(rng: random.Random) -> Any:
    width, height = rng.choice([(8, 8), (12, 9), (6, 14)])
    bitmap = SoftwareBitmap.from_array(PIXELS[:height, :width], BGR8)
    frame = VideoFrame.create_with_software_bitmap(bitmap)
    return rng.choice([bitmap, frame, ImageFeatureValue([frame]), [frame, frame], ImageFeatureValue([frame, frame])])


def outcome(session: LearningModelSession, binding: LearningModelBinding, value: Any, properties: Any) -> Any:
    try:
        binding.bind("x", value, properties)
        result = session.evaluate(binding)
    except WinMLError as error:
        return type(error), str(error)
    return result.outputs["y"].to_numpy().tolist(), result.placements


@pytest.mark.filterwarnings("ignore::winml_py.errors.MissingContractWarning")
@pytest.mark.parametrize("shape", [(1, 3, 8, 8), ("n", 3, "h", "w"), (2, 3, 8, "w")])
def test_a_bind_gives_what_a_new_binding_gives(shape: tuple[Any, ...]) -> None:
    """Whatever picture, contract and properties came before; also where the bind before failed."""
    session = LearningModelSession(LearningModel.load(unary("Identity", shape)))
    kept, rng, outcomes = LearningModelBinding(session), random.Random(0), set()
    for _ in range(300):
        if rng.random() < 0.2:
            session.model.contracts["x"] = rng.choice([None, *CONTRACTS])  # type: ignore[assignment]
        value, properties = picture(rng), rng.choice(PROPERTIES)
        came = outcome(session, kept, value, properties)
        assert came == outcome(session, LearningModelBinding(session), value, properties)
        outcomes.add(came[0] if isinstance(came[0], type) else len(came[0]))
    assert outcomes >= {InvalidBindingError, 2 if shape[0] == 2 else 1}


def test_equal_contracts_with_other_properties_stay_apart() -> None:
    """Contracts that properties override are remembered: each gives its own numbers."""
    session = LearningModelSession(LearningModel.load(unary("Identity", (1, 3, 16, 16))))
    binding, value = LearningModelBinding(session), ImageFeatureValue.from_array(PIXELS, BGR8)
    ranges = {
        LearningModelPixelRange.ZERO_TO255: lambda levels: levels,
        LearningModelPixelRange.ZERO_TO_ONE: lambda levels: levels / np.float32(255),
        LearningModelPixelRange.MINUS_ONE_TO_ONE: lambda levels: levels / np.float32(127.5) - np.float32(1),
    }
    for _ in range(2):
        for pixel_range, numbers in ranges.items():
            for pixel_format in (None, RGBA8):
                binding.bind(
                    "x",
                    value,
                    {"ImageContract": ImageContract(), "PixelRange": pixel_range, "BitmapPixelFormat": pixel_format},
                )
                levels = np.moveaxis(PIXELS, 2, 0)[:: -1 if pixel_format else 1].astype(np.float32)
                came = session.evaluate(binding).outputs["y"].to_numpy()[0]
                np.testing.assert_array_equal(came, numbers(levels))


# Channels that the model leaves free


def shape_of(model: LearningModel, value: Any, **properties: Any) -> tuple[int, ...]:
    session = LearningModelSession(model)
    binding = LearningModelBinding(session)
    binding.bind("x", value, properties)
    shape: tuple[int, ...] = session.evaluate(binding)["y"].shape
    return shape


@pytest.mark.parametrize(
    "attached",
    [None, ImageContract(RGB8), ImageContract(GRAY8), ImageContract(RGB8, layout=TensorLayout.NHWC)],
    ids=repr,
)
def test_an_attached_contract_does_not_bend_what_is_bound(attached: ImageContract | None) -> None:
    model = LearningModel.load(unary(shape=["N", "A", "B", "C"]))
    if attached is not None:
        model.contracts["x"] = attached
    picture = ImageFeatureValue.from_array(np.zeros((40, 50, 3), np.uint8), RGB8)
    nhwc = ImageContract(RGB8, layout=TensorLayout.NHWC)
    assert shape_of(model, picture, ImageContract=ImageContract(RGB8)) == (1, 3, 40, 50)
    assert shape_of(model, picture, ImageContract=ImageContract(GRAY8)) == (1, 1, 40, 50)
    assert shape_of(model, picture, ImageContract=nhwc) == (1, 40, 50, 3)
    for sizes in ((1, 1, 4, 4), (2, 4, 4, 3), (1, 5, 2, 2)):
        assert shape_of(model, np.zeros(sizes, np.float32)) == sizes
    if attached is not None:
        own = (1, 40, 50, 3) if attached == nhwc else (1, attached.channels, 40, 50)
        assert shape_of(model, picture) == own
        assert model.input_features[0].shape == (-1, -1, -1, -1)


def test_a_denoted_image_takes_its_channels_from_the_metadata() -> None:
    ends = [tensor("x", [1, "C", 2, 2], denotation="IMAGE"), tensor("y", [1, "C", 2, 2])]
    node = helper.make_node("Identity", ["x"], ["y"])
    content = data([node], ends[:1], ends[1:], metadata={"Image.BitmapPixelFormat": "Rgb8"})
    value = ImageFeatureValue.from_array(np.full((2, 2, 3), (10, 20, 30), np.uint8), RGB8)
    result = LearningModelSession(LearningModel.load(content)).evaluate_features({"x": value})
    np.testing.assert_array_equal(result["y"], np.float32([10, 20, 30]).reshape(1, 3, 1, 1) * np.ones((1, 3, 2, 2)))
