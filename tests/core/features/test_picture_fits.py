"""What a binding remembers of a picture that was bound before: nothing that a new binding would work out otherwise."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from helpers.models import unary
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
    VideoFrame,
    WinMLError,
)
from winml_py.scaling import Stretch

RGBA8, GRAY8, BGR8 = BitmapPixelFormat.RGBA8, BitmapPixelFormat.GRAY8, BitmapPixelFormat.BGR8
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
