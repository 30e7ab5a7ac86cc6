"""ScenarioCppWinrtTest: what programs do with Windows ML, from the file to the picture."""

from __future__ import annotations

import asyncio
import logging
import time

import numpy as np
import pytest

from helpers import reference, winml_models
from helpers.paths import PICTURES
from winml_py import (
    BitmapPixelFormat,
    ImageFeatureValue,
    LearningModelPixelRange,
    SoftwareBitmap,
    TensorFloat,
    VideoFrame,
)
from winml_py.winrt.windows.foundation import AsyncStatus
from winml_py.winrt.windows.foundation.collections import PropertySet
from winml_py.winrt.windows.graphics.imaging import BitmapAlphaMode, BitmapDecoder
from winml_py.winrt.windows.storage import StorageFile
from winml_py.winrt.windows.storage.streams import Buffer

pytestmark = pytest.mark.usefixtures("pillow_scales")  # to the last level

BGRA8, RGBA8 = BitmapPixelFormat.BGRA8, BitmapPixelFormat.RGBA8


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario1LoadBindEvalDefault")
def test_load_bind_eval_default() -> None:
    binding = winml_models.open_binding(winml_models.squeezenet())
    binding.bind("data_0", TensorFloat.create_from_iterable([1, 3, 224, 224], np.zeros(3 * 224 * 224, np.float32)))
    result = binding._session.evaluate(binding, "")
    np.testing.assert_allclose(result.outputs["softmaxout_1"].to_numpy().ravel(), np.full(1000, 1e-3), rtol=1e-5)


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario3SoftwareBitmapInputBinding")
def test_software_bitmap_input_binding() -> None:
    async def load() -> SoftwareBitmap:
        file = await StorageFile.get_file_from_path_async(PICTURES / "cat.jpg")
        decoder = await BitmapDecoder.create_async(await file.open_read_async())
        return await decoder.get_software_bitmap_async(BGRA8, BitmapAlphaMode.PREMULTIPLIED)

    bitmap = asyncio.run(load())
    value = ImageFeatureValue.create_from_video_frame(VideoFrame.create_with_software_bitmap(bitmap))
    binding = winml_models.open_binding(winml_models.squeezenet())
    binding.bind("data_0", value)
    scores = binding._session.evaluate(binding, "").outputs["softmaxout_1"].to_numpy()
    x, y, width, height = reference.center_crop(bitmap.pixel_width, bitmap.pixel_height, 224, 224)
    cropped = np.ascontiguousarray(bitmap.to_numpy()[y : y + height, x : x + width, 2::-1])
    image = winml_models.make_planes(reference.scale(cropped, 224, 224))
    expected = reference.run_raw(winml_models.squeezenet(), {"data_0": image})["softmaxout_1"]
    np.testing.assert_allclose(scores, expected, atol=1e-6)


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario5AsyncEval")
def test_async_eval() -> None:
    binding = winml_models.open_binding(winml_models.squeezenet())
    binding.bind("data_0", winml_models.make_frame(winml_models.load_picture("fish", 224, 224)))
    operation = binding._session.evaluate_async(binding, "")
    deadline = time.monotonic() + 30
    while operation.status is AsyncStatus.STARTED:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert operation.status is AsyncStatus.COMPLETED
    assert operation.get_results().succeeded


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario6BindWithProperties")
@pytest.mark.parametrize(("pixel_format", "order"), [(BGRA8, "bgr"), (RGBA8, "rgb")])
def test_bind_with_properties(pixel_format: BitmapPixelFormat, order: str) -> None:
    rgb = winml_models.load_picture("fish", 224, 224)
    properties = PropertySet()
    properties.insert("BitmapBounds", [0, 0, 100, 100])
    properties.insert("BitmapPixelFormat", pixel_format)
    binding = winml_models.open_binding(winml_models.squeezenet())
    binding.bind("data_0", winml_models.make_frame(rgb), properties)
    scores = binding._session.evaluate(binding, "").outputs["softmaxout_1"].to_numpy()
    image = winml_models.make_planes(reference.scale(np.ascontiguousarray(rgb[:100, :100]), 224, 224), order)
    expected = reference.run_raw(winml_models.squeezenet(), {"data_0": image})["softmaxout_1"]
    np.testing.assert_allclose(scores, expected, atol=1e-6)


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario7EvalWithNoBind")
def test_eval_with_no_bind() -> None:
    session = winml_models.open_session(winml_models.squeezenet())
    frame = winml_models.make_frame(winml_models.load_picture("fish", 224, 224))
    result = session.evaluate_features_async({"data_0": frame}, "no bind").get()
    assert result.outputs["softmaxout_1"].to_numpy().sum() == pytest.approx(1)


@pytest.mark.winml(
    "ScenarioCppWinrtTest.Scenario11FreeDimensionsTensor", "ScenarioCppWinrtTest.Scenario11FreeDimensionsImage"
)
@pytest.mark.parametrize(("denotation", "pixel_format"), [("", RGBA8), ("IMAGE", BGRA8)])
def test_free_dimensions(denotation: str, pixel_format: BitmapPixelFormat) -> None:
    model = winml_models.add(denotation=denotation, shape=["n", 3, "h", "w"])
    value = ImageFeatureValue.create_from_video_frame(
        winml_models.make_frame(winml_models.load_picture("fish", 1000, 1000) // 2, pixel_format)
    )
    binding = winml_models.open_binding(model)
    binding.bind("input_39:0", value)
    binding.bind("input_40:0", value)
    output = VideoFrame(BGRA8, 1000, 1000)
    binding.bind("add_3:0", output)
    binding._session.evaluate(binding, "")
    expected = winml_models.load_picture("fish", 1000, 1000) // 2 * 2
    np.testing.assert_array_equal(output.software_bitmap.to_numpy()[..., 2::-1], expected)


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario17DevDiagnostics")
def test_dev_diagnostics(caplog: pytest.LogCaptureFixture) -> None:
    binding = winml_models.open_binding(winml_models.relu())
    binding._session.evaluation_properties.insert("EnableDebugOutput", None)
    binding.bind("X", [1.0, 2.0, 3.0, 4.0, 5.0])
    with caplog.at_level(logging.DEBUG, "winml_py"):
        binding._session.evaluate(binding, "diagnostics")
    assert "diagnostics" in caplog.text


def styled(rgb: np.ndarray, model: bytes) -> np.ndarray:
    """What the effect makes of a picture, by raw ONNX Runtime, as red, green and blue."""
    raw = reference.run_raw(model, {"inputImage": winml_models.make_planes(rgb)})["outputImage"]
    return np.clip(np.rint(raw[0, ::-1].transpose(1, 2, 0)), 0, 255).astype(np.uint8)


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario22ImageBindingAsCPUTensor")
def test_image_binding_as_cpu_tensor() -> None:
    model = winml_models.candy("Bgr8")
    rgb = winml_models.load_picture("fish", 48, 48)
    tensor = TensorFloat.create([1, 3, 48, 48])
    with tensor.create_reference() as reference_:
        memory = np.frombuffer(reference_, np.float32).reshape(3, 48, 48)
        for channel in range(3):  # blue, green, red, by hand
            memory[channel] = rgb[..., 2 - channel]
    binding = winml_models.open_binding(model)
    binding.bind("inputImage", tensor)
    output = VideoFrame(BGRA8, 48, 48)
    binding.bind("outputImage", output)
    binding._session.evaluate(binding, "")
    np.testing.assert_array_equal(output.software_bitmap.to_numpy()[..., 2::-1], styled(rgb, model))


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario23NominalPixelRange")
@pytest.mark.parametrize(
    ("stated", "zero"),
    [
        ("Normalized_0_1", LearningModelPixelRange.ZERO_TO_ONE),
        ("Normalized_1_1", LearningModelPixelRange.MINUS_ONE_TO_ONE),
    ],
)
def test_nominal_pixel_range(stated: str, zero: LearningModelPixelRange) -> None:
    rgb = winml_models.load_picture("cat", 24, 16)
    binding = winml_models.open_binding(winml_models.add(metadata={"Image.NominalPixelRange": stated}))
    assert binding._session.model.input_features[0].pixel_range is zero
    binding.bind("input_39:0", winml_models.make_frame(rgb))
    binding.bind("input_40:0", TensorFloat.create_from_array([1, 3, 16, 24], np.zeros(3 * 16 * 24, np.float32)))
    output = VideoFrame(BGRA8, 24, 16)
    binding.bind("add_3:0", output)
    binding._session.evaluate(binding, "")
    np.testing.assert_array_equal(output.software_bitmap.to_numpy()[..., 2::-1], rgb)


@pytest.mark.winml("ScenarioCppWinrtTest.QuantizedModels")
def test_quantized_models() -> None:
    binding = winml_models.open_binding(winml_models.quantized())
    image = np.float32([[1, 2, 3, 4]])
    binding.bind("x", image)
    result = binding._session.evaluate(binding, "").outputs["y"].to_numpy()
    np.testing.assert_array_equal(result, reference.run_raw(winml_models.quantized(), {"x": image})["y"])
    weights = np.random.default_rng(2).integers(0, 256, (4, 3), np.uint8)
    expected = image @ ((weights.astype(np.float64) - 128) * 0.05)
    np.testing.assert_allclose(result, expected, rtol=0.01)  # the engine quantizes the other factor, too


@pytest.mark.winml("ScenarioCppWinrtTest.ReuseVideoFrame")
def test_reuse_video_frame() -> None:
    model = winml_models.candy("Bgr8")
    binding = winml_models.open_binding(model)
    source, output = VideoFrame(BGRA8, 48, 48), VideoFrame(BGRA8, 48, 48)
    binding.bind("outputImage", output)
    for name in ("cat", "fish", "cat"):
        rgb = winml_models.load_picture(name, 48, 48)
        winml_models.make_frame(rgb).copy_to_async(source).get()
        binding.bind("inputImage", source)
        binding._session.evaluate(binding, "")
        np.testing.assert_array_equal(output.software_bitmap.to_numpy()[..., 2::-1], styled(rgb, model))


@pytest.mark.winml("ScenarioCppWinrtTest.BindMultipleCPUBuffersInputsOnCpu")
def test_bind_multiple_cpu_buffers_inputs() -> None:
    model = winml_models.candy("tensor", batch=2)
    pictures = [winml_models.load_picture(name, 48, 48) for name in ("cat", "fish")]
    buffers = [
        Buffer.from_bytes(plane.astype(np.float32).tobytes())
        for rgb in pictures
        for plane in (rgb[..., 2], rgb[..., 1], rgb[..., 0])
    ]
    binding = winml_models.open_binding(model)
    binding.bind("inputImage", buffers)
    frames = [VideoFrame(BGRA8, 48, 48) for _ in pictures]
    binding.bind("outputImage", frames)
    binding._session.evaluate(binding, "")
    for frame, rgb in zip(frames, pictures, strict=True):
        np.testing.assert_array_equal(
            frame.software_bitmap.to_numpy()[..., 2::-1], styled(rgb, winml_models.candy("tensor"))
        )


@pytest.mark.winml("ScenarioCppWinrtTest.BindMultipleCPUBuffersOutputsOnCpu")
def test_bind_multiple_cpu_buffers_outputs() -> None:
    model = winml_models.candy("tensor")
    rgb = winml_models.load_picture("cat", 48, 48)
    planes = [Buffer(48 * 48 * 4) for _ in range(3)]
    binding = winml_models.open_binding(model)
    binding.bind("inputImage", winml_models.make_frame(rgb))
    binding.bind("outputImage", planes)
    binding._session.evaluate(binding, "")
    raw = reference.run_raw(model, {"inputImage": winml_models.make_planes(rgb)})["outputImage"]
    for plane, expected in zip(planes, raw[0], strict=True):
        np.testing.assert_array_equal(np.frombuffer(plane, np.float32).reshape(48, 48), expected)
