"""What an error says to do works when it is done: for each piece of advice that is code, the failure and the remedy."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from helpers.models import FLOAT, INT64, STRING, data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.sessions import make_options, open_binding
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    SoftwareBitmap,
    TensorFloat,
    TensorString,
    VideoFrame,
    WinMLError,
    labels_of,
    read_contract,
)
from winml_py.results import AsyncOperation
from winml_py.winrt.windows.graphics.imaging import BitmapBufferAccessMode

RGB8, BGRA8 = BitmapPixelFormat.RGB8, BitmapPixelFormat.BGRA8
IMAGES = unary(shape=("n", 3, 2, 2), denotation="IMAGE")
FREE = unary(shape=(1, 3, "h", "w"), denotation="IMAGE")
PIXELS = np.zeros((2, 2, 3), np.uint8)
READ_ONLY = np.frombuffer(bytes(8), np.float32)
SEVEN = PICTURES / "seven.png"


def bind(model: bytes, value: Any, name: str = "x", properties: Any = None) -> None:
    """Binds a value; to an output, it is evaluated, too."""
    bound = open_binding(model)
    bound.bind(name, value, properties)
    if name == "y":
        bound.bind("x", np.zeros(bound._session.model.output_features[0].shape, np.float32))
        bound._session.evaluate(bound)


def frames() -> ImageFeatureValue:
    return ImageFeatureValue([VideoFrame(BGRA8, *size) for size in ((4, 3), (2, 5))])


def strided() -> SoftwareBitmap:
    return SoftwareBitmap.from_array(np.zeros((4, 4, 4), np.uint8)[:, ::2], BGRA8)


def read_only_bitmap() -> SoftwareBitmap:
    return strided().get_read_only_view()


def wide_gray() -> Image.Image:
    return Image.new("I", (2, 2), 4000)


def waiting(handlers: Callable[[AsyncOperation[int]], object]) -> None:
    operation = AsyncOperation(lambda _: 1)
    operation.completed = lambda *_: None
    handlers(operation)
    operation.get()


def set_completed(operation: AsyncOperation[int]) -> None:
    operation.completed = lambda *_: None


class Case(NamedTuple):
    """What fails, what its error says, and the same again as it says."""

    fail: Callable[[], Any]
    says: str
    follow: Callable[[], Any]


CASES = {
    "a path for a picture": Case(
        lambda: bind(FREE, SEVEN), "ImageFeatureValue.load(path)", lambda: bind(FREE, ImageFeatureValue.load(SEVEN))
    ),
    "a file for a picture": Case(
        lambda: bind(FREE, io.BytesIO(SEVEN.read_bytes())),
        "ImageFeatureValue.load(path)",
        lambda: bind(FREE, ImageFeatureValue.load(io.BytesIO(SEVEN.read_bytes()))),
    ),
    "pixels without an order": Case(
        lambda: bind(IMAGES, PIXELS),
        "ImageFeatureValue.from_array(array, BitmapPixelFormat.RGB8)",
        lambda: bind(IMAGES, ImageFeatureValue.from_array(PIXELS, RGB8)),
    ),
    "pixels without an order, by a property": Case(
        lambda: bind(IMAGES, PIXELS),
        '{"BitmapPixelFormat": BitmapPixelFormat.RGB8}',
        lambda: bind(IMAGES, PIXELS, properties={"BitmapPixelFormat": RGB8}),
    ),
    "a tensor's order": Case(
        lambda: bind(IMAGES, VideoFrame(BGRA8, 2, 2), properties={"BitmapPixelFormat": RGB8}),
        "ImageFeatureValue.from_array(array, pixel_format)",
        lambda: bind(IMAGES, ImageFeatureValue.from_array(PIXELS, RGB8)),
    ),
    "channels first": Case(
        lambda: bind(IMAGES, np.zeros((3, 4, 6), np.uint8), properties={"BitmapPixelFormat": RGB8}),
        "array.transpose(1, 2, 0)",
        lambda: bind(IMAGES, np.zeros((3, 4, 6), np.uint8).transpose(1, 2, 0), properties={"BitmapPixelFormat": RGB8}),
    ),
    "numbers as a picture": Case(
        lambda: bind(IMAGES, ImageFeatureValue.from_array(np.zeros((1, 3, 2, 2), np.float32), RGB8)),
        "binding.bind(name, array)",
        lambda: bind(IMAGES, np.zeros((1, 3, 2, 2), np.float32)),
    ),
    "properties that are none": Case(
        lambda: bind(FREE, VideoFrame(BGRA8, 300, 300), properties=[1]),
        '{"BitmapBounds": [0, 0, 224, 224]}',
        lambda: bind(FREE, VideoFrame(BGRA8, 300, 300), properties={"BitmapBounds": [0, 0, 224, 224]}),
    ),
    "no contract": Case(
        lambda: bind(IMAGES, VideoFrame(BGRA8, 2, 2), properties={"ImageContract": "imagenet"}),
        "ImageContract.imagenet()",
        lambda: bind(IMAGES, VideoFrame(BGRA8, 2, 2), properties={"ImageContract": ImageContract.imagenet()}),
    ),
    "a ratio of no size": Case(
        lambda: bind(FREE, VideoFrame(BGRA8, 2, 2), properties={"ImageContract": ImageContract.imagenet()}),
        "ImageContract(size=(224, 224))",
        lambda: bind(
            FREE,
            VideoFrame(BGRA8, 2, 2),
            properties={"ImageContract": replace(ImageContract.imagenet(), size=(224, 224))},
        ),
    ),
    "pictures of two sizes": Case(
        lambda: bind(unary(shape=("n", 3, "h", "w"), denotation="IMAGE"), frames()),
        "ImageContract(size=(height, width))",
        lambda: bind(
            unary(shape=("n", 3, "h", "w"), denotation="IMAGE"),
            frames(),
            properties={"ImageContract": ImageContract(size=(8, 8))},
        ),
    ),
    "mode I": Case(
        lambda: bind(FREE, wide_gray()),
        'bind image.point(lambda level: level * 255 / white).convert("L")',
        lambda: bind(FREE, wide_gray().point(lambda level: level * 255 / 4000).convert("L")),
    ),
    "a set for a tensor": Case(
        lambda: bind(unary(shape=[1], element=INT64), {1}),
        "TensorInt64Bit.from_numpy(array)",
        lambda: bind(unary(shape=[1], element=INT64), np.array([1])),
    ),
    "float64": Case(
        lambda: bind(unary(shape=[2]), np.zeros(2)),
        "array.astype(np.float32)",
        lambda: bind(unary(shape=[2]), np.zeros(2).astype(np.float32)),
    ),
    "numbers for words": Case(
        lambda: bind(unary(shape=[2], element=STRING), np.zeros(2)),
        "array.astype(object)",
        lambda: bind(unary(shape=[2], element=STRING), np.array(["1", "2"]).astype(object)),
    ),
    "numbers for booleans": Case(
        lambda: bind(unary(shape=[2], element=TensorProto.BOOL), np.zeros(2)),
        "array.astype(np.bool)",
        lambda: bind(unary(shape=[2], element=TensorProto.BOOL), np.zeros(2).astype(np.bool)),
    ),
    "a tensor of another type": Case(
        lambda: TensorFloat.from_numpy(np.zeros(2)),
        "array.astype(np.float32)",
        lambda: TensorFloat.from_numpy(np.zeros(2).astype(np.float32)),
    ),
    "a placeholder as an input": Case(
        lambda: bind(unary(shape=[2]), TensorFloat.create()),
        "create_from_array, from_numpy.",
        lambda: bind(unary(shape=[2]), TensorFloat.create_from_array([2], [1.0, 2.0])),
    ),
    "strings from a buffer": Case(
        lambda: TensorString.create_from_buffer([1], b"a"),
        "create_from_array",
        lambda: TensorString.create_from_array([1], ["a"]),
    ),
    "a shape that cannot be": Case(
        lambda: TensorFloat.create_from_array((-1, -1), [1.0]),
        "(1, -1)",
        lambda: TensorFloat.create_from_array((1, -1), [1.0]),
    ),
    "an output that cannot be written": Case(
        lambda: bind(unary(shape=[2]), READ_ONLY, "y"),
        "a copy of the array",
        lambda: bind(unary(shape=[2]), READ_ONLY.copy(), "y"),
    ),
    "an output that is a slice": Case(
        lambda: bind(unary(shape=[2, 3]), np.zeros((3, 2), np.float32).T, "y"),
        "np.ascontiguousarray(array)",
        lambda: bind(unary(shape=[2, 3]), np.ascontiguousarray(np.zeros((3, 2), np.float32).T), "y"),
    ),
    "a lock of a view": Case(
        lambda: strided().lock_buffer(BitmapBufferAccessMode.READ),
        "SoftwareBitmap.copy()",
        lambda: SoftwareBitmap.copy(strided()).lock_buffer(BitmapBufferAccessMode.READ),
    ),
    "a bitmap that is read-only": Case(
        lambda: read_only_bitmap().copy_from_buffer(bytes(64)),
        "SoftwareBitmap.copy(bitmap)",
        lambda: SoftwareBitmap.copy(read_only_bitmap()).copy_from_buffer(bytes(64)),
    ),
    "labels that are none": Case(
        lambda: labels_of({"id2label": {"1": "cat"}}),
        '{"id2label": {"0": "cat", "1": "dog"}}',
        lambda: labels_of({"id2label": {"0": "cat", "1": "dog"}}),
    ),
    "a second callback": Case(
        lambda: waiting(set_completed), "add_done_callback", lambda: waiting(lambda o: o.add_done_callback(print))
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_advice_works(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fail, says, follow = CASES[name]
    with pytest.raises(WinMLError) as info:
        fail()
    assert says in info.value.hint
    follow()


def test_a_contract_is_written_as_the_error_says(tmp_path: Path) -> None:
    with pytest.raises(WinMLError) as info:
        read_contract({})
    assert 'json.dump(ImageContract.imagenet().to_metadata(), open(path, "w"))' in info.value.hint
    with (tmp_path / "contract.json").open("w") as file:
        json.dump(ImageContract.imagenet().to_metadata(), file)
    assert read_contract(tmp_path / "contract.json") == ImageContract.imagenet()


def test_a_model_that_is_too_large_is_saved_as_the_error_says(tmp_path: Path) -> None:
    model = onnx.load(MODELS / "digits.onnx")
    onnx.save(model, tmp_path / "digits.onnx", save_as_external_data=True)
    LearningModelSession(LearningModel.load(tmp_path / "digits.onnx"))


def test_options_are_written_as_the_error_says(tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    path.write_text("{}")
    with pytest.raises(WinMLError, match=r"options\.save\(path\)"):
        LearningModelSessionOptions.load(path)
    make_options(engine="auto").save(path)
    assert LearningModelSessionOptions.load(path).engine == "auto"


def test_a_sequence_and_a_map_as_the_error_says() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [None]))
    node = helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)
    model = data([node], [helper.make_value_info("x", kind)], [tensor("y", [None])])
    with pytest.raises(WinMLError, match="Bind a list"):
        bind(model, {1})
    bind(model, [np.float32([1])])
