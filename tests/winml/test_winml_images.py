"""MnistImageTest, ImageTest, BatchTest and ImageTests: the image suite, its rows on a CPU and without Direct3D."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers import reference, winml_models
from helpers.pairs import pairs
from helpers.paths import ROOT
from winml_py import (
    BitmapAlphaMode,
    BitmapPixelFormat,
    ImageFeatureDescriptor,
    ImageFeatureValue,
    LearningModelBinding,
    LearningModelEvaluationResult,
    LearningModelSession,
    SizeMismatchError,
    TensorFeatureDescriptor,
    TensorFloat,
    TensorUInt8Bit,
    VideoFrame,
    WinMLError,
)
from winml_py.winrt.windows.ai.machinelearning import LearningModel

pytestmark = pytest.mark.usefixtures("pillow_scales")  # to the last level

BGRA8, RGBA8, GRAY8 = BitmapPixelFormat.BGRA8, BitmapPixelFormat.RGBA8, BitmapPixelFormat.GRAY8

MODELS = ("Bgr8", "Rgb8", "tensor", "freeDimInput")
SIDE = 24
SIZES = {"1080": (54, 30), "kitten_224": (32, 32), "fish_720": (SIDE, SIDE), "fish_720_Gray": (SIDE, SIDE)}


@cache
def picture(name: str) -> np.ndarray:
    """Red, green and blue of a picture that stands for one of the original's, by its name."""
    rgb = winml_models.load_picture("fish" if name.startswith("fish") else "cat", *SIZES[name])
    if name.endswith("Gray"):
        return np.asarray(Image.fromarray(rgb).convert("L").convert("RGB"))
    return rgb


@cache
def session(model: str, batch: int = 1) -> LearningModelSession:
    return winml_models.open_session(winml_models.candy(model, (SIDE, SIDE), batch))


@cache
def ground_truth(model: str, name: str, pixel_format: BitmapPixelFormat) -> tuple[np.ndarray, np.ndarray]:
    """What raw ONNX Runtime makes of the picture, and that as BGRA: crop, numbers and bytes by slow references."""
    pixels = winml_models.make_pixels(picture(name), pixel_format)
    if model != "freeDimInput":
        x, y, width, height = reference.center_crop(pixels.shape[1], pixels.shape[0], SIDE, SIDE)
        pixels = reference.scale(np.ascontiguousarray(pixels[y : y + height, x : x + width]), SIDE, SIDE)
    order = "RGBA8" if model == "Rgb8" else "BGRA8"
    numbers = reference.tensorize(pixels, pixel_format.name, order, "ZERO_TO255")
    effect = winml_models.candy(model, (SIDE, SIDE))
    raw = reference.run_raw(effect, {"inputImage": numbers[None]})["outputImage"]
    return raw, reference.detensorize(raw[0], order, "BGRA8", "ZERO_TO255")


def source_of(kind: str, model: str, name: str, pixel_format: BitmapPixelFormat) -> Any:
    """A picture as a frame, as a value, or tensorized by hand."""
    frame = winml_models.make_frame(picture(name), pixel_format)
    if kind == "VideoFrame":
        return frame
    if kind == "ImageFeatureValue":
        return ImageFeatureValue.create_from_video_frame(frame)
    order = "RGBA8" if model == "Rgb8" else "BGRA8"
    pixels = winml_models.make_pixels(picture(name), pixel_format)
    numbers = reference.tensorize(pixels, pixel_format.name, order, "ZERO_TO255")[None]
    return TensorFloat.create_from_array(numbers.shape, numbers)


def evaluate(binding: LearningModelBinding, is_async: bool) -> LearningModelEvaluationResult:
    if is_async:
        return binding._session.evaluate_async(binding, "").get()
    return binding._session.evaluate(binding, "")


KINDS = ("VideoFrame", "ImageFeatureValue", "CPUTensor")
ROWS = pairs(
    row
    for row in product(MODELS, SIZES, (BGRA8, RGBA8, GRAY8), KINDS, (False, True), (False, True))
    if row[3] != "CPUTensor" or row[0] == "freeDimInput" or SIZES[row[1]] == (SIDE, SIDE)  # of the model's size
)


@pytest.mark.winml("ImageTest.ImageTest")
@pytest.mark.parametrize(("model", "name", "pixel_format", "kind", "is_async", "bound"), ROWS)
def test_image(model: str, name: str, pixel_format: BitmapPixelFormat, kind: str, is_async: bool, bound: bool) -> None:
    binding = LearningModelBinding(session(model))
    value = source_of(kind, model, name, pixel_format)
    raw, expected = ground_truth(model, name, pixel_format)
    binding.bind("inputImage", value)
    frame = VideoFrame(BGRA8, expected.shape[1], expected.shape[0])
    if bound:
        binding.bind("outputImage", frame)
    result = evaluate(binding, is_async).outputs["outputImage"]
    if bound:
        assert result is frame
        np.testing.assert_array_equal(frame.software_bitmap.to_numpy(), expected)
    elif model == "tensor":
        np.testing.assert_array_equal(result.to_numpy(), raw)
    else:
        pixels = result.to_numpy()
        order = [2, 1, 0, 3] if model == "Rgb8" else [0, 1, 2, 3]
        assert result.video_frame.software_bitmap.bitmap_pixel_format is (RGBA8 if model == "Rgb8" else BGRA8)
        np.testing.assert_array_equal(pixels, expected[..., order])


@pytest.mark.winml("BatchTest.BatchSupport")
@pytest.mark.parametrize("bound", [True, False], ids=["bound", "unbound"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("names", [("fish_720", "fish_720"), ("1080", "fish_720"), ("fish_720_Gray", "fish_720")])
def test_batch(names: tuple[str, str], is_async: bool, bound: bool) -> None:
    binding = LearningModelBinding(session("Bgr8", 2))
    binding.bind("inputImage", [winml_models.make_frame(picture(name), BGRA8) for name in names])
    frames = [VideoFrame(BGRA8, SIDE, SIDE) for _ in names]
    if bound:
        binding.bind("outputImage", frames)
    result = evaluate(binding, is_async).outputs["outputImage"]
    frames = frames if bound else result
    assert len(frames) == 2
    for frame, name in zip(frames, names, strict=True):
        np.testing.assert_array_equal(frame.software_bitmap.to_numpy(), ground_truth("Bgr8", name, BGRA8)[1])


def test_a_tensor_of_another_size_is_refused() -> None:
    for model in ("Bgr8", "Rgb8", "tensor"):
        with pytest.raises(SizeMismatchError):
            LearningModelBinding(session(model)).bind("inputImage", source_of("CPUTensor", model, "1080", BGRA8))


@pytest.mark.winml("MnistImageTest.Evaluates")
@pytest.mark.parametrize(("shape", "digit"), [("vertical", 5), ("horizontal", 2), ("big", 8), ("RGB", 5)])
def test_mnist_image(shape: str, digit: int, digits: LearningModelSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "models")
    from digits_data import load

    _, pictures, _, labels = load()
    picture = np.asarray(pictures)[np.flatnonzero(labels == digit)[1]].reshape(28, 28).astype(np.uint8)
    noise = np.random.default_rng(digit).integers(0, 256, (28, 28), np.uint8)
    if shape == "vertical":  # what the centre crop is to leave out
        picture = np.vstack([noise, picture, noise])
    elif shape == "horizontal":
        picture = np.hstack([noise, picture, noise])
    elif shape == "big":
        picture = picture.repeat(20, axis=0).repeat(20, axis=1)
    pixels = np.repeat(picture[..., None], 3, axis=2)
    value = winml_models.make_frame(pixels, BGRA8 if shape == "RGB" else GRAY8)
    result = digits.evaluate_features({"image": value}, "")
    assert result.outputs["probabilities"].to_numpy().argmax() == digit


def tensor_input() -> LearningModelBinding:
    """A binding of a classifier whose input is a tensor, without any metadata."""
    return winml_models.open_binding(winml_models.squeezenet())


@pytest.mark.winml("ImageTests.LoadBindEvalModelWithoutImageMetadata")
def test_load_bind_eval_model_without_image_metadata() -> None:
    binding = tensor_input()
    rgb = winml_models.load_picture("cat", 224, 224)
    binding.bind("data_0", ImageFeatureValue.create_from_video_frame(winml_models.make_frame(rgb)))
    result = binding._session.evaluate(binding, "").outputs["softmaxout_1"].to_numpy()
    raw = reference.run_raw(winml_models.squeezenet(), {"data_0": winml_models.make_planes(rgb)})["softmaxout_1"]
    np.testing.assert_array_equal(result, raw)


@pytest.mark.winml("ImageTests.LoadBindModelWithoutImageMetadata")
def test_load_bind_model_without_image_metadata() -> None:
    binding = tensor_input()
    binding.bind("data_0", winml_models.make_frame(winml_models.load_picture("cat", 224, 224)))
    zeros = TensorFloat.create_from_array([1, 3, 224, 224], np.zeros((1, 3, 224, 224), np.float32))
    binding.bind("data_0", zeros)
    assert binding["data_0"] is zeros


@pytest.mark.winml("ImageTests.LoadInvalidBindModelWithoutImageMetadata")
def test_load_invalid_bind_model_without_image_metadata() -> None:
    binding = tensor_input()
    binding.bind("data_0", winml_models.make_frame(winml_models.load_picture("cat", 640, 360)))
    for value, hresult in (
        (TensorUInt8Bit.create_from_array([1, 3, 224, 224], np.zeros(3 * 224 * 224, np.uint8)), 0x88900002),
        (TensorFloat.create_from_array([1, 3, 22, 22], np.zeros(3 * 22 * 22, np.float32)), 0x88900004),
    ):
        with pytest.raises(WinMLError) as refused:
            binding.bind("data_0", value)
        assert refused.value.hresult == hresult


@pytest.mark.winml("ImageTests.ImageMetaDataTest")
@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"Image.BitmapPixelFormat": "Bgr8", "Image.ColorSpaceGamma": "SRGB"}, BGRA8),
        ({"Image.BitmapPixelFormat": "Rgb8", "Image.ColorSpaceGamma": "SRGB"}, RGBA8),
        ({"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "Normalized_0_1"}, BGRA8),
        ({"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "Normalized_1_1"}, BGRA8),
        ({"Image.BitmapPixelFormat": "Bgra8"}, None),
        ({"Image.BitmapPixelFormat": "Rgba8"}, None),
        ({"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "NominalRange_16_235"}, None),
        ({"Image.BitmapPixelFormat": "Bgr8", "Image.ColorSpaceGamma": "Linear"}, None),
    ],
)
def test_image_metadata(metadata: dict[str, str], expected: BitmapPixelFormat | None) -> None:
    model = LearningModel.load(winml_models.add(metadata=metadata))
    feature = model.output_features[0]
    if expected is not None:
        assert isinstance(feature, ImageFeatureDescriptor)
        assert (feature.width, feature.height) == (24, 16)
        assert feature.bitmap_pixel_format is expected
        assert feature.bitmap_alpha_mode is BitmapAlphaMode.PREMULTIPLIED
        return
    assert isinstance(feature, TensorFeatureDescriptor)
    binding = LearningModelBinding(LearningModelSession(model))
    for name in ("input_39:0", "add_3:0"):
        with pytest.raises(WinMLError) as refused:
            binding.bind(name, VideoFrame(BGRA8, 24, 16))
        assert refused.value.hresult == 0x88900002
