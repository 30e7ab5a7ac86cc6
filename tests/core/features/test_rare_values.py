"""Cases in which a changed line of pictures, tensors, containers and bindings was noticed by no test."""

from __future__ import annotations

import gc
import io
import weakref
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
import pytest
from onnx import helper
from PIL import Image

from helpers import reference
from helpers.models import FLOAT, FLOAT16, INT64, STRING, data, tensor, unary
from helpers.pictures import make_frame
from helpers.sessions import bind_all
from winml_py import (
    BitmapAlphaMode,
    BitmapPixelFormat,
    ClosedError,
    DeviceLostError,
    ImageContract,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SizeMismatchError,
    SoftwareBitmap,
    TensorFloat,
    TensorString,
    VideoFrame,
    VideoReader,
)
from winml_py.core.evaluation.outputs import ContainerOutput
from winml_py.core.features.containers import for_engine, from_vector, is_element
from winml_py.core.features.descriptors import FREE
from winml_py.core.imaging.codecs import EncodedPicture
from winml_py.core.imaging.detensorize import detensorize
from winml_py.core.imaging.formats import Scratch
from winml_py.core.imaging.geometry import center_crop
from winml_py.core.runtime.ort.engine import IoBinding
from winml_py.enums import TensorKind
from winml_py.testing import FakeDevice


def native(model: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


# Files


def jpeg(height: int, width: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (10, 200, 30)).save(file, "JPEG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("shrink", "size"), [(1, 64), (3.9, 64), (4, 32), (7.9, 32), (8, 16), (15.9, 16), (16, 8), (99, 8)]
)
def test_a_file_is_reduced_to_twice_what_is_wanted_and_no_further(shrink: float, size: int) -> None:
    pixels, pixel_format = EncodedPicture(jpeg(64, 64)).decode(shrink)
    assert (pixels.shape, pixel_format) == ((size, size, 3), BitmapPixelFormat.BGR8)


def test_alpha_is_written_where_it_is_and_where_it_can_be(tmp_path: Path) -> None:
    pixels = np.full((3, 4, 4), (10, 200, 30, 255), np.uint8)
    for opacity, kind, mode in ((255, "png", "RGB"), (254, "png", "RGBA"), (254, "jpg", "RGB"), (255, "jpg", "RGB")):
        pixels[1, 2, 3] = opacity
        path = tmp_path / f"{opacity}.{kind}"
        SoftwareBitmap.from_array(pixels, BitmapPixelFormat.RGBA8).save(path)
        with Image.open(path) as image:
            assert image.mode == mode
            assert np.abs(np.asarray(image)[..., :3].astype(int) - (10, 200, 30)).max() <= 3


def test_a_pillow_image_has_straight_alpha() -> None:
    assert SoftwareBitmap.from_pil(Image.new("RGBA", (2, 2))).bitmap_alpha_mode is BitmapAlphaMode.STRAIGHT


@pytest.mark.parametrize("size", [(8, 100, 1, 1000), (100, 8, 1000, 1), (8, 6, 4, 3), (640, 480, 1, 1), (5, 7, 7, 5)])
def test_the_centre_at_its_narrowest(size: tuple[int, int, int, int]) -> None:
    assert tuple(center_crop(*size)) == reference.center_crop(*size)


def test_sixteen_bits_are_kept_where_nothing_is_scaled() -> None:
    source = make_frame(np.full((4, 4), 0x1234, np.uint16), BitmapPixelFormat.GRAY16)
    for size, level in ((4, 0x1234), (2, 0x1212), (8, 0x1212)):
        target = VideoFrame(BitmapPixelFormat.GRAY16, size, size)
        source.copy_to(target)
        assert (target.software_bitmap.to_numpy() == level).all()


@pytest.mark.parametrize("pixel_format", [BitmapPixelFormat.GRAY8, BitmapPixelFormat.GRAY16, BitmapPixelFormat.BGRA8])
def test_a_gray_output_stretched_over_a_bitmap(pixel_format: BitmapPixelFormat) -> None:
    contract, scratch = ImageContract(BitmapPixelFormat.GRAY8), Scratch()
    for level in range(256):
        bitmap = SoftwareBitmap(pixel_format, 8, 6)
        detensorize(np.full((1, 3, 4), level, np.float32), contract, bitmap, scratch)
        pixels = bitmap.to_numpy()
        wide = level * 257 if pixel_format is BitmapPixelFormat.GRAY16 else level
        assert (pixels[..., :3] == wide).all()


def test_one_channel_may_have_an_axis_of_its_own() -> None:
    levels = np.arange(12, dtype=np.uint8).reshape(3, 4, 1)
    bitmap = SoftwareBitmap.from_array(levels, BitmapPixelFormat.GRAY8)
    np.testing.assert_array_equal(bitmap.to_numpy(), levels[..., 0])
    assert np.shares_memory(bitmap.to_numpy(), levels)
    with pytest.raises(InvalidArgumentError):
        SoftwareBitmap.from_array(np.zeros((3, 4, 2), np.uint8), BitmapPixelFormat.GRAY8)


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


# Videos


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


# Tensors


def test_words_keep_their_ends_and_are_words() -> None:
    words = ["a\0", "", "é", "a" * 1000]
    assert TensorString.create_from_array((2, 2), words).to_numpy().tolist() == [words[:2], words[2:]]
    for others in (["a", 5], [None, "a"], [b"a", "a"]):
        with pytest.raises(InvalidArgumentError, match="TensorString takes str elements"):
            TensorString.create_from_array((2,), others)


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
        "Memory of shape (1, 3, 2, 2) is bound to an output of shape (2, 3, 2, 2). Bind TensorFloat.create(), which "
        "takes any shape."
    )
    with pytest.raises(InvalidBindingError, match="no associated resources"):
        LearningModelBinding(session).bind("x", TensorFloat.create((1, 3, 2, 2)))


@pytest.mark.parametrize("channels", [1, 3])
def test_numbers_of_a_half_picture_are_cast(channels: int) -> None:
    numbers = np.full((1, channels, 2, 2), 1.0004, np.float32)
    session, binding = bind_all(unary(shape=numbers.shape, element=FLOAT16), x=numbers)
    came = session.evaluate(binding).outputs["y"].to_numpy()
    np.testing.assert_array_equal(came, numbers.astype(np.float16))


def test_a_lost_device_is_remembered() -> None:
    def lose(_: Any) -> Any:
        raise DeviceLostError("The device is lost.")

    session = LearningModelSession(LearningModel.load(unary()), FakeDevice(lose))
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1]))
    for _ in range(2):
        with pytest.raises(DeviceLostError):
            session.evaluate(binding)
        assert session.is_lost is True


@pytest.mark.parametrize(
    ("shape", "count", "expected"), [((1, "n"), 3, (1, 3)), (("n", 2), 6, (3, 2)), ((1, 2), 2, (1, 2)), ((), 1, ())]
)
def test_a_list_takes_the_shape_of_the_feature(shape: Any, count: int, expected: tuple[int, ...]) -> None:
    session, binding = bind_all(unary("Neg", shape), x=[1.0] * count)
    assert session.evaluate(binding).outputs["y"].shape == expected
    assert (
        tuple(from_vector([1.0] * count, LearningModel.load(unary("Neg", shape)).input_features[0]).shape) == expected
    )


# Containers


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [(TensorKind.UINT8, 0, 255), (TensorKind.INT8, -128, 127), (TensorKind.INT64, -(2**63), 2**63 - 1)],
)
def test_elements_reach_the_ends_of_their_type(kind: TensorKind, least: int, most: int) -> None:
    assert is_element(least, kind)
    assert is_element(most, kind)
    assert not is_element(least - 1, kind)
    assert not is_element(most + 1, kind)
    assert not is_element(True, kind)


@pytest.mark.parametrize(("element", "kind"), [(FLOAT, float), (INT64, int), (STRING, str)])
def test_a_map_reaches_the_engine_in_pythons_types(element: int, kind: type) -> None:
    values = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(element, []))
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a"])
    ends = [helper.make_value_info("x", values)], [tensor("y", [None, 1], element)]
    feature = LearningModel.load(data([node], *ends, domains={"ai.onnx.ml": 1})).input_features[0]
    given = {"a": "b" if kind is str else np.int32(3) if kind is int else 3}
    converted = for_engine(given, feature)  # type: ignore[arg-type]
    assert converted == given
    assert [type(value) for value in converted.values()] == [kind]  # type: ignore[union-attr]


def test_a_dict_is_refilled_from_a_map() -> None:
    zipped = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, []))
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["cat"])
    whole = data([node], [tensor("x", [None, 1])], [helper.make_value_info("y", zipped)], domains={"ai.onnx.ml": 1})
    feature = LearningModel.load(whole).output_features[0]
    found = {"old": 1.0}
    assert ContainerOutput(found, feature).receive({"cat": 2.0}) is found
    assert found == {"cat": 2.0}


def test_sides_that_a_model_leaves_out_are_free() -> None:
    for shape, size in (((1, 3), (FREE, FREE)), ((1, 3, 0, 5), (5, 0)), ((1, 3, "h", 7), (7, FREE))):
        feature: Any = LearningModel.load(unary(shape=shape, denotation="IMAGE")).input_features[0]
        assert (feature.width, feature.height) == size


# Memory of bindings


def test_a_binding_keeps_what_the_engine_writes_and_reads_and_nothing_else() -> None:
    binding = IoBinding(native(unary("Neg", [2])), False)
    source, target = np.float32([1, 2]), np.zeros(2, np.float32)
    kept = [weakref.ref(source), weakref.ref(target)]
    binding.set_input("x", source)
    binding.set_output("y", target)
    del source, target
    gc.collect()
    assert [array() is not None for array in kept] == [True, True]
    assert binding.run() == {}
    assert kept[1]().tolist() == [-1, -2]  # type: ignore[union-attr]
    binding.set_output("y", None)
    gc.collect()
    assert [array() is not None for array in kept] == [True, False]
    assert binding.run()["y"].tolist() == [-1, -2]
    binding.close()
    assert kept[0]() is None
    for use in (binding.run, lambda: binding.set_output("y", None), lambda: binding.set_input("x", np.zeros(2))):
        with pytest.raises(ClosedError):
            use()
