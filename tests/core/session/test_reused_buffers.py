"""evaluate_many where the source reads each item into the memory of the one before."""

from __future__ import annotations

import array
import copy
import mmap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from helpers.models import data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.pictures import write_video
from winml_py import (
    BitmapPixelFormat,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelSession,
    SoftwareBitmap,
    TensorFloat,
    VideoFrame,
    VideoReader,
)
from winml_py.testing import FakeDevice
from winml_py.winrt.windows.storage.streams import Buffer

pytestmark = pytest.mark.usefixtures("all_cores")

COUNT = 100


def slowly(inputs: Any) -> Any:
    """Long enough for the source to be several items ahead."""
    time.sleep(0.001)
    return {"y": inputs["x"].copy()}


def session(shape: tuple[Any, ...] = ("n", 4)) -> LearningModelSession:
    return LearningModelSession(LearningModel.load(unary("Identity", shape)), FakeDevice(slowly))


def rows(source: Iterator[Any], **settings: Any) -> list[float]:
    results = list(session().evaluate_many(source, concurrency=4, **settings))
    assert [result.error for result in results] == [None] * len(results)
    return [float(result.outputs["y"].to_numpy().ravel()[0]) for result in results]


def reused(make: Callable[[np.ndarray], Any]) -> Iterator[Any]:
    """Items over one array that is written for each."""
    memory = np.zeros((1, 4), np.float32)
    item = make(memory)
    for number in range(COUNT):
        memory[:] = number
        yield item


MAKERS: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda memory: memory,
    "in a mapping": lambda memory: {"x": memory},
    "in another case": lambda memory: {"X": memory},
    "read-only view": lambda memory: np.lib.stride_tricks.as_strided(memory, writeable=False),
    "tensor": TensorFloat.from_numpy,
    "memoryview": memoryview,
    "list": lambda memory: memory[0].data,
    "buffer of bytes": lambda memory: [memoryview(memory).cast("B")],
    "buffer of WinRT": lambda memory: [memory.reshape(-1).view(np.uint8).view(Buffer)],
}


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("name", MAKERS)
def test_one_memory_for_all_items(name: str, batch: int | None) -> None:
    if batch and name not in list(MAKERS)[:5]:
        pytest.skip("buffers have no batch of their own")
    assert rows(reused(MAKERS[name]), batch=batch) == list(range(COUNT))


def test_what_is_refilled() -> None:
    values, numbers, raw, mapped = [0.0] * 4, array.array("f", [0] * 4), bytearray(16), mmap.mmap(-1, 16)
    items = [values, numbers, [raw], {"x": values}, memoryview(mapped).cast("f")]

    def source() -> Iterator[Any]:
        for number in range(COUNT):
            values[:] = [number] * 4
            numbers[:] = array.array("f", values)
            raw[:] = mapped[:] = numbers.tobytes()
            yield items[number % len(items)]

    assert rows(source()) == list(range(COUNT))


@pytest.mark.parametrize("form", ["frame", "bitmap", "value", "pillow", "list"])
def test_a_camera_that_reads_into_one_frame(form: str) -> None:
    """`camera.read(frame)`; the model gives the first pixel."""
    pixels = np.zeros((4, 4, 3), np.uint8)
    image = Image.new("RGB", (4, 4))

    def source() -> Iterator[Any]:
        bitmap = SoftwareBitmap.from_array(pixels, BitmapPixelFormat.RGB8)
        frame = VideoFrame.create_with_software_bitmap(bitmap)
        forms = {
            "frame": frame,
            "bitmap": bitmap,
            "value": ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8),
            "pillow": image,
            "list": [frame],
        }
        for number in range(COUNT):
            pixels[:] = number
            image.paste((number, number, number), (0, 0, 4, 4))
            yield forms[form]

    model = data(
        [helper.make_node("Identity", ["x"], ["y"])],
        [tensor("x", [1, 3, 4, 4], denotation="IMAGE")],
        [tensor("y", [1, 3, 4, 4])],
        metadata={"Image.BitmapPixelFormat": "Rgb8", "Image.NominalPixelRange": "NominalRange_0_255"},
    )
    opened = LearningModelSession(LearningModel.load(model), FakeDevice(slowly))
    results = opened.evaluate_many(source(), concurrency=4)
    assert [round(float(result.outputs["y"].to_numpy()[0, 0, 0, 0])) for result in results] == list(range(COUNT))


def test_what_outputs_are_written_to_stays_the_callers() -> None:
    written = [np.zeros((1, 4), np.float32) for _ in range(5)]
    memory = np.zeros((1, 4), np.float32)

    def source() -> Iterator[Any]:
        for number, output in enumerate(written):
            memory[:] = number
            yield {"x": memory, "y": output}

    for result, output in zip(session().evaluate_many(source()), written, strict=True):
        assert result.outputs["y"] is output
    assert [float(output[0, 0]) for output in written] == [0, 1, 2, 3, 4]


def test_the_result_has_the_item_as_it_came() -> None:
    memory = np.zeros((1, 4), np.float32)
    (result,) = session().evaluate_many(iter([memory]))
    assert result.source is memory


def test_copy_false_and_lists_copy_nothing() -> None:
    seen: list[Any] = []

    def look(inputs: Any) -> Any:
        seen.append(inputs["x"])
        return {"y": inputs["x"].copy()}

    opened = LearningModelSession(LearningModel.load(unary("Identity", ("n", 4))), FakeDevice(look))
    items = [np.full((1, 4), number, np.float32) for number in range(3)]
    for source, settings in ((iter(items), {"copy": False}), (items, {}), (tuple(items), {})):
        seen.clear()
        list(opened.evaluate_many(source, concurrency=1, **settings))
        assert all(np.shares_memory(came, item) for came, item in zip(seen, items, strict=False))
    seen.clear()
    list(opened.evaluate_many(iter(items), concurrency=1))
    assert not any(np.shares_memory(came, item) for came, item in zip(seen, items, strict=True))
    with pytest.raises(InvalidArgumentError, match="copy"):
        opened.evaluate_many([], copy="yes")  # type: ignore[arg-type]


def test_what_cannot_change_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied, original = [], copy.deepcopy
    monkeypatch.setattr(copy, "deepcopy", lambda value: copied.append(value) or original(value))
    picture, video = PICTURES / "seven.png", write_video(tmp_path / "v.avi", [0])
    pictures = LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))
    with VideoReader(video) as reader:
        items = [str(picture), picture, picture.read_bytes(), reader.read()]
        assert all(result.succeeded for result in pictures.evaluate_many(iter(items)))
    scalars = LearningModelSession(LearningModel.load(unary("Neg", ())))
    assert all(result.succeeded for result in scalars.evaluate_many(iter([3, 2.5, np.float32(1)])))
    assert copied == []
    list(scalars.evaluate_many(iter([TensorFloat.from_numpy(np.float32(1))])))
    assert len(copied) == 1


def test_what_cannot_be_copied_says_so_and_fails_alone() -> None:
    class Opaque:
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("it is a handle")

    good = np.ones((1, 4), np.float32)
    first, second = session().evaluate_many(iter([Opaque(), good]))
    assert isinstance(first.error, InvalidArgumentError)
    assert "Opaque cannot be copied before the next item is taken: it is a handle. If every" in str(first.error)
    assert second.succeeded
