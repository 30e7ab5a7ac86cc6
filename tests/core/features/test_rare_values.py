"""Rare pictures, frames and float16 tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from helpers.models import FLOAT16, unary
from helpers.pictures import make_frame
from helpers.sessions import bind_all
from winml_py import (
    BitmapPixelFormat,
    ClosedError,
    ImageContract,
    InvalidBindingError,
    LearningModelBinding,
    SizeMismatchError,
    SoftwareBitmap,
    TensorFloat,
    VideoFrame,
    VideoReader,
)


def test_alpha_is_written_where_it_is_and_where_it_can_be(tmp_path: Path) -> None:
    pixels = np.full((3, 4, 4), (10, 200, 30, 255), np.uint8)
    for opacity, kind, mode in ((255, "png", "RGB"), (254, "png", "RGBA"), (254, "jpg", "RGB"), (255, "jpg", "RGB")):
        pixels[1, 2, 3] = opacity
        path = tmp_path / f"{opacity}.{kind}"
        SoftwareBitmap.from_array(pixels, BitmapPixelFormat.RGBA8).save(path)
        with Image.open(path) as image:
            assert image.mode == mode
            assert np.abs(np.asarray(image)[..., :3].astype(int) - (10, 200, 30)).max() <= 3


def test_sixteen_bits_are_kept_where_nothing_is_scaled() -> None:
    source = make_frame(np.full((4, 4), 0x1234, np.uint16), BitmapPixelFormat.GRAY16)
    for size, level in ((4, 0x1234), (2, 0x1212), (8, 0x1212)):
        target = VideoFrame(BitmapPixelFormat.GRAY16, size, size)
        source.copy_to(target)
        assert (target.software_bitmap.to_numpy() == level).all()


@pytest.mark.parametrize("strides", [(12, 3, 1), (20, 3, 1), (3, 3, 1), (0, 3, 1), (6, 3, 1), (40, 6, 2), (36, 9, 3)])
def test_rows_may_have_gaps_and_overlap(strides: tuple[int, int, int]) -> None:
    memory = np.random.default_rng(0).integers(0, 256, 400, np.uint8)
    pixels = np.lib.stride_tricks.as_strided(memory, (4, 4, 3), strides)
    tensors = []
    for each in (pixels, pixels.copy()):
        session, binding = bind_all(unary(shape=(1, 3, 6, 6)))
        binding.bind("x", make_frame(each, BitmapPixelFormat.RGB8), {"ImageContract": ImageContract()})
        tensors.append(session.evaluate(binding).outputs["y"].to_numpy())
    np.testing.assert_array_equal(*tensors)


class Capture:
    """OpenCV's reader of a file or a camera that says little about itself."""

    facts: dict[int, float]

    def __init__(self, source: Any) -> None:
        self.source, self.frames = source, 3

    def isOpened(self) -> bool:  # noqa: N802 - OpenCV's name
        return True

    def get(self, key: int) -> float:
        return self.facts.get(key, 0)

    def read(self) -> tuple[bool, Any]:
        self.frames -= 1
        return self.frames >= 0, np.zeros((3, 4, 3), np.uint8)

    def release(self) -> None:
        self.frames = 0


@pytest.mark.parametrize(
    ("rate", "time", "times", "duration"),
    [
        (0.5, 0.0, [0, 2, 4], 2),
        (25, -1.0, [0, 0.04, 0.08], 0.04),
        (1, 7000.0, [7, 7, 7], 1),
        (0, 5.0, [0.005] * 3, None),
    ],
)
def test_frames_have_their_times(
    monkeypatch: pytest.MonkeyPatch, rate: float, time: float, times: list[float], duration: float | None
) -> None:
    size = {cv2.CAP_PROP_FRAME_WIDTH: 4, cv2.CAP_PROP_FRAME_HEIGHT: 3, cv2.CAP_PROP_FRAME_COUNT: -1}
    monkeypatch.setattr(Capture, "facts", size | {cv2.CAP_PROP_FPS: rate, cv2.CAP_PROP_POS_MSEC: time}, raising=False)
    monkeypatch.setattr(cv2, "VideoCapture", Capture)
    reader = VideoReader(0)
    assert (repr(reader), reader.frame_count, reader.frame_rate) == ("<VideoReader camera 0 4x3>", 0, rate)
    frames = list(reader)
    assert [frame.relative_time.total_seconds() for frame in frames if frame.relative_time is not None] == times
    assert {frame.duration.total_seconds() if frame.duration else None for frame in frames} == {duration}
    with pytest.raises(ClosedError):
        reader.read()


def test_half_of_a_picture_model_goes_to_float32() -> None:
    numbers = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2)
    taken, given = TensorFloat.create(), TensorFloat.create((1, 3, 2, 2))
    memory = given.to_numpy()
    model = unary("Neg", ["n", 3, 2, 2], FLOAT16)
    for target in (taken, given):
        session, binding = bind_all(model, x=numbers, y=target)
        assert session.evaluate(binding).outputs["y"] is target
        assert target.to_numpy().dtype == np.float32
        np.testing.assert_array_equal(target.to_numpy(), -numbers)
    np.testing.assert_array_equal(memory, -numbers)
    session, binding = bind_all(model, x=np.concatenate([numbers, numbers]), y=TensorFloat.from_numpy(memory))
    with pytest.raises(SizeMismatchError) as info:
        session.evaluate(binding)
    assert str(info.value) == (
        "The model variable y was bound to memory of shape (1, 3, 2, 2), but has the shape (2, 3, 2, 2). Bind an empty "
        "tensor such as TensorFloat.create(), which takes any shape."
    )
    with pytest.raises(InvalidBindingError, match="no associated resources"):
        LearningModelBinding(session).bind("x", TensorFloat.create((1, 3, 2, 2)))


@pytest.mark.parametrize("channels", [1, 3])
def test_numbers_of_a_half_picture_are_cast(channels: int) -> None:
    numbers = np.full((1, channels, 2, 2), 1.0004, np.float32)
    session, binding = bind_all(unary(shape=numbers.shape, element=FLOAT16), x=numbers)
    came = session.evaluate(binding).outputs["y"].to_numpy()
    np.testing.assert_array_equal(came, numbers.astype(np.float16))
