"""The tests of Windows ML's suite that need a GPU, but no Direct3D."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers import winml_models
from helpers.models import FLOAT, FLOAT16, data, tensor
from winml_py import (
    BitmapPixelFormat,
    DeviceLostError,
    ImageFeatureValue,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelSession,
    Precision,
    TensorFloat,
    VideoFrame,
)
from winml_py.testing import FakeDevice
from winml_py.winrt.windows.ai.machinelearning import LearningModel

KINDS = [
    LearningModelDeviceKind.DIRECTX,
    LearningModelDeviceKind.DIRECTX_HIGH_PERFORMANCE,
    LearningModelDeviceKind.DIRECTX_MIN_POWER,
]


def on(device: LearningModelDevice | None, model: bytes) -> LearningModelSession:
    return LearningModelSession(LearningModel.load(model), device)


def close_to(came: Any, expected: Any, tolerance: float = 1e-3) -> None:
    scale = np.abs(np.asarray(expected, np.float64)).max()
    np.testing.assert_allclose(np.asarray(came, np.float64), expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("output", [lambda: TensorFloat.create([1, 1000, 1, 1]), TensorFloat.create, lambda: None])
@pytest.mark.winml(
    "LearningModelBindingAPITest.GpuSqueezeNet",
    "LearningModelBindingAPITest.GpuSqueezeNetEmptyOutputs",
    "LearningModelBindingAPITest.GpuSqueezeNetUnboundOutputs",
)
def test_gpu_squeezenet(gpu: LearningModelDevice, output: Callable[[], TensorFloat | None]) -> None:
    image = winml_models.make_planes(winml_models.load_picture("fish", 224, 224))
    expected = on(None, winml_models.squeezenet()).evaluate_features({"data_0": image}).outputs["softmaxout_1"]
    session, bound = on(gpu, winml_models.squeezenet()), output()
    binding = LearningModelBinding(session)
    binding.bind("data_0", TensorFloat.from_numpy(image))
    if bound is not None:
        binding.bind("softmaxout_1", bound)
    result = session.evaluate(binding, "0").outputs["softmaxout_1"]
    assert bound is None or result is bound
    close_to(result, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.winml(
    "LearningModelSessionAPITest.CreateSessionDeviceDirectX",
    "LearningModelSessionAPITest.CreateSessionDeviceDirectXHighPerformance",
    "LearningModelSessionAPITest.CreateSessionDeviceDirectXMinimumPower",
    "RawApiTestGpu.CreateDirectXDevice",
    "RawApiTestGpu.CreateDirectXHighPerformanceDevice",
    "RawApiTestGpu.CreateDirectXMinPowerDevice",
    "ScenarioCppWinrtTest.Scenario8SetDeviceSampleDefaultDirectX",
    "ScenarioCppWinrtTest.Scenario8SetDeviceSampleDefaultDirectXMinPower",
    "ScenarioCppWinrtTest.Scenario8SetDeviceSampleDefaultDirectXMaxPerf",
)
def test_a_session_on_each_kind(gpu: LearningModelDevice, kind: LearningModelDeviceKind) -> None:
    device = LearningModelDevice(kind)
    assert (device.kind, device.provider) == (kind, gpu.provider)
    session = on(device, winml_models.relu())
    assert session.device is device
    came = session.evaluate_features({"X": np.float32([-2, -1, 0, 1, 2])}).outputs["Y"]
    assert came.to_numpy().tolist() == [0, 0, 0, 1, 2]
    assert {node.provider for node in session.assigned_nodes} == {gpu.provider}


def half_model(*, cast: bool) -> bytes:
    """Float16 inside: by a cast there and back, or by a weight."""
    if cast:
        nodes = [
            helper.make_node("Cast", ["x"], ["h"], to=FLOAT16),
            helper.make_node("Cast", ["h"], ["y"], to=FLOAT),
        ]
        return data(nodes, [tensor("x", [4])], [tensor("y", [4])])
    ends = [tensor(name, [4], FLOAT16) for name in "xy"]
    node = helper.make_node("Add", ["x", "w"], ["y"])
    return data([node], ends[:1], ends[1:], {"w": np.float16([1, 2, 3, 4])})


@pytest.mark.winml(
    "LearningModelSessionAPITest.CreateSessionWithCastToFloat16InModel",
    "LearningModelSessionAPITest.CreateSessionWithFloat16InitializersInModel",
)
@pytest.mark.parametrize("has_float16", [True, False])
def test_a_float16_model_runs_in_what_the_device_has(gpu: LearningModelDevice, has_float16: bool) -> None:
    """Windows ML refuses it on a device without; here it runs in float32, and the session says so."""
    assert gpu._device is not None
    device = LearningModelDevice(LearningModelDeviceKind.DIRECTX, _device=gpu._device._replace(float16=has_float16))
    session = on(device, half_model(cast=False))
    assert session.precision is (Precision.FLOAT16 if has_float16 else Precision.FLOAT32)
    came = session.evaluate_features({"x": np.float16([0.5, 1, 2, 4])}).outputs["y"].to_numpy()
    assert (came.dtype, came.tolist()) == (np.float16, [1.5, 3, 5, 8])
    cast = on(device, half_model(cast=True)).evaluate_features({"x": np.float32([1, 2, 3, 4])}).outputs["y"]
    assert cast.to_numpy().tolist() == [1, 2, 3, 4]


@pytest.mark.winml("RawApiTestGpu.Evaluate", "RawApiTestGpu.EvaluateNoInputCopy", "RawApiTestGpu.EvaluateManyBuffers")
def test_evaluate_again_and_again(gpu: LearningModelDevice) -> None:
    """What is bound is bound by reference: new numbers in the array are seen by the next evaluation."""
    session = on(gpu, winml_models.relu())
    binding, numbers = LearningModelBinding(session), np.zeros(5, np.float32)
    binding.bind("X", numbers)
    for step in range(3):
        numbers[:] = step - np.arange(5)
        assert session.evaluate(binding).outputs["Y"].to_numpy().tolist() == np.maximum(numbers, 0).tolist()
    buffers = [bytearray(np.float32([-1, 2, -3]).tobytes()), bytearray(np.float32([4, -5]).tobytes())]
    binding.bind("X", buffers)
    assert session.evaluate(binding).outputs["Y"].to_numpy().tolist() == [0, 2, 0, 4, 0]


def work(session: LearningModelSession, seed: int, count: int = 5) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        numbers = rng.standard_normal(5).astype(np.float32)
        binding = LearningModelBinding(session)
        binding.bind("X", numbers)
        came = session.evaluate(binding).outputs["Y"].to_numpy()
        np.testing.assert_array_equal(came, np.maximum(numbers, 0))


@pytest.mark.winml(
    "ConcurrencyTests.LoadBindEvalSqueezenetRealDataWithValidationConcurrently",
    "ConcurrencyTests.MultiThreadMultiSessionGpu",
    "ConcurrencyTests.MultiThreadSingleSessionGpu",
)
@pytest.mark.parametrize("sessions", ["one", "one each", "on both"])
def test_threads(gpu: LearningModelDevice, sessions: str) -> None:
    shared = on(gpu, winml_models.relu())
    devices = [gpu if sessions == "one each" or index % 2 else None for index in range(4)]
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(work, shared if sessions == "one" else on(device, winml_models.relu()), seed)
            for seed, device in enumerate(devices)
        ]
        for job in jobs:
            job.result(120)


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario13SingleModelOnCPUandGPU")
def test_single_model_on_cpu_and_gpu(gpu: LearningModelDevice) -> None:
    model = LearningModel.load(winml_models.relu())
    numbers = np.float32([3, -1, 4, -1, 5])
    running = [
        LearningModelSession(model, device).evaluate_features_async({"X": numbers})
        for device in (LearningModelDevice(), gpu)
    ]
    for operation in running:
        assert operation.get().outputs["Y"].to_numpy().tolist() == [3, 0, 4, 0, 5]


@pytest.mark.winml("ScenarioCppWinrtTest.Scenario14RunModelSwapchain")
def test_swapchain(gpu: LearningModelDevice) -> None:
    """Ten evaluations over three slots, each slot waited for before it is used again."""
    slots = [on(gpu, winml_models.relu()) for _ in range(3)]
    bindings = [LearningModelBinding(session) for session in slots]
    running: list[Any] = [None] * 3
    came = []
    for index in range(10):
        slot = index % 3
        if running[slot] is not None:
            came.append(running[slot].get().outputs["Y"].to_numpy()[0])
        bindings[slot].bind("X", np.full(5, index, np.float32))
        running[slot] = slots[slot].evaluate_async(bindings[slot])
    came += [running[(10 + slot) % 3].get().outputs["Y"].to_numpy()[0] for slot in range(3)]
    assert came == list(range(10))


@pytest.mark.webgpu
@pytest.mark.winml("ScenarioCppWinrtTest.Scenario21RunModel2ChainZ")
def test_chain_without_waiting(gpu: LearningModelDevice) -> None:
    """An output that stays on the device is the next model's input, and follows its later evaluations."""
    model = winml_models.candy("tensor", (12, 8))
    first, second = on(gpu, model), on(gpu, model)
    between = TensorFloat.create([1, 3, 8, 12])
    b1, b2 = LearningModelBinding(first), LearningModelBinding(second)
    b1.bind("outputImage", between, {"DisableTensorCpuSync": True})
    for seed in range(2):
        image = np.random.default_rng(seed).random((1, 3, 8, 12), np.float32)
        b1.bind("inputImage", image)
        assert first.evaluate(b1).outputs["outputImage"] is between
        assert between.is_on_device
        b2.bind("inputImage", between)
        came = second.evaluate(b2).outputs["outputImage"]
        host = on(None, model)
        once = host.evaluate_features({"inputImage": image}).outputs["outputImage"]
        close_to(between, once)
        close_to(came, host.evaluate_features({"inputImage": once}).outputs["outputImage"])


@pytest.mark.winml("ScenarioCppWinrtTest.MsftQuantizedModels")
def test_quantized_model(gpu: LearningModelDevice) -> None:
    """A picture, and against numpy: the CPU quantizes the input as well, and is 0.4 % off."""
    rgb, weights = (
        winml_models.load_picture("cat", 24, 16),
        np.random.default_rng(2).integers(0, 256, (4, 3, 1, 1), np.uint8),
    )
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["w"]),
        helper.make_node("Conv", ["image", "w"], ["scores"]),
        helper.make_node("GlobalAveragePool", ["scores"], ["y"]),
    ]
    constants = {"q": weights, "scale": np.float32(0.05), "zero": np.uint8(128)}
    session = on(gpu, data(nodes, [tensor("image", [1, 3, 16, 24])], [tensor("y", [1, 4, 1, 1])], constants))
    binding = LearningModelBinding(session)
    binding.bind(session.model.input_features.first().current.name, winml_models.make_frame(rgb))
    exact = (weights[..., 0, 0] - 128.0) * 0.05 @ rgb[..., ::-1].mean(axis=(0, 1))
    close_to(session.evaluate(binding).outputs["y"].to_numpy().ravel(), exact)


@pytest.mark.winml("ScenarioCppWinrtTest.SyncVsAsync")
def test_sync_and_async(gpu: LearningModelDevice) -> None:
    session = on(gpu, winml_models.relu())
    inputs = [np.float32([n, -n, n, -n, n]) for n in range(20)]
    one_by_one = [session.evaluate_features({"X": x}).outputs["Y"].to_numpy().tolist() for x in inputs]

    async def at_once() -> list[Any]:
        return await asyncio.gather(*(awaited(session, x) for x in inputs))

    assert asyncio.run(at_once()) == one_by_one == [[n, 0, n, 0, n] for n in range(20)]


async def awaited(session: LearningModelSession, x: Any) -> list[float]:
    result = await session.evaluate_features_async({"X": x})
    return result.outputs["Y"].to_numpy().tolist()  # type: ignore[no-any-return]


@pytest.mark.winml("ScenarioCppWinrtTest.DeviceLostRecovery")
def test_device_lost() -> None:
    """No driver here can be made to lose its device; a device whose engine says so stands in."""

    def lost(inputs: Any) -> Any:
        raise DeviceLostError("The device is lost.")

    session = on(FakeDevice(lost), winml_models.relu())
    x = np.ones(5, np.float32)
    with pytest.raises(DeviceLostError) as info:
        session.evaluate_features({"X": x})
    assert info.value.hresult == 0x887A0005
    assert session.is_lost
    assert "lost" in repr(session)
    with pytest.raises(DeviceLostError, match="new LearningModelDevice"):
        session.evaluate_features({"X": x})
    again = on(FakeDevice(lambda inputs: {"Y": inputs["X"]}), winml_models.relu())
    assert again.evaluate_features({"X": x}).outputs["Y"].to_numpy().tolist() == [1] * 5


@pytest.mark.winml(
    "ScenarioCppWinrtTest.BindMultipleCPUBuffersInputsOnGpu", "ScenarioCppWinrtTest.BindMultipleCPUBuffersOutputsOnGpu"
)
def test_many_buffers(gpu: LearningModelDevice) -> None:
    model = winml_models.candy("tensor", (12, 8))
    image = winml_models.make_planes(winml_models.load_picture("fish", 12, 8))
    expected = on(None, model).evaluate_features({"inputImage": image}).outputs["outputImage"].to_numpy()
    session = on(gpu, model)
    binding = LearningModelBinding(session)
    binding.bind("inputImage", [bytearray(plane.tobytes()) for plane in image[0]])
    outputs = [bytearray(12 * 8 * 4) for _ in range(3)]
    binding.bind("outputImage", outputs)
    session.evaluate(binding)
    for plane, buffer in zip(expected[0], outputs, strict=True):
        close_to(np.frombuffer(buffer, np.float32).reshape(8, 12), plane)


@pytest.mark.winml(
    "ImageTests.ImageBindingTwiceSameFeatureValueOnGpu", "ImageTests.ImageBindingTwiceDifferentFeatureValueOnGpu"
)
@pytest.mark.parametrize("same", [True, False])
def test_pictures_bound_to_two_inputs(gpu: LearningModelDevice, same: bool) -> None:
    pictures = [winml_models.load_picture(name, 24, 16) // 2 for name in ("fish", "cat")]
    values = [ImageFeatureValue.create_from_video_frame(winml_models.make_frame(picture)) for picture in pictures]
    second = 0 if same else 1
    session = on(gpu, winml_models.add())
    binding = LearningModelBinding(session)
    binding.bind("input_39:0", values[0])
    binding.bind("input_40:0", values[second])
    came = session.evaluate(binding).outputs["add_3:0"].to_numpy()
    np.testing.assert_array_equal(came[..., :3], (pictures[0] + pictures[second])[..., ::-1])


@pytest.mark.winml(
    "ImageTests.ImageBindingInputAndOutput",
    "ImageTests.ImageBindingInputAndOutput_BindInputTensorAsInspectable",
    "ImageTests.ImageBindingStyleTransfer",
)
@pytest.mark.usefixtures("pillow_scales")
@pytest.mark.parametrize("name", ["fish", "cat"])
def test_pictures_in_and_out(gpu: LearningModelDevice, name: str) -> None:
    """The picture is cropped and scaled on the device; it comes out as on the CPU, a level apart at most."""
    frame = winml_models.make_frame(winml_models.load_picture(name, 70, 60))
    results = []
    for device in (None, gpu):
        session = on(device, winml_models.candy("Bgr8"))
        binding = LearningModelBinding(session)
        binding.bind("inputImage", frame)
        target = VideoFrame(BitmapPixelFormat.BGRA8, 48, 48)
        binding.bind("outputImage", target)
        session.evaluate(binding)
        results.append(target.software_bitmap.to_numpy().astype(int))
    difference = np.abs(results[0] - results[1])
    assert difference.max() <= 1
    assert np.mean(difference > 0) < 0.01
