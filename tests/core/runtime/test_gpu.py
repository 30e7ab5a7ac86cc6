"""Sessions on a GPU, whichever there is: the same results as on the CPU, on the device as long as possible."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from helpers.memory import linux, measure
from helpers.models import FLOAT16, INT64, STRING, data, tensor, unary
from helpers.paths import MODELS
from helpers.sessions import make_options, open_free_session, open_session
from winml_py import (
    BitmapPixelFormat,
    DeviceLostError,
    ImageContract,
    ImageFeatureValue,
    ImageGray,
    ImageKernel,
    InvalidArgumentError,
    InvalidBindingError,
    InvalidDeviceError,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelPixelRange,
    LearningModelSession,
    NotSupportedError,
    Precision,
    SizeMismatchError,
    TensorFloat,
    TensorFloat16Bit,
    TensorLayout,
)
from winml_py._examples import make_example
from winml_py.core.base.agreement import compute_relative_error
from winml_py.core.base.collections import Vector
from winml_py.core.base.winrt_object import private_state
from winml_py.core.runtime.ort.errors import translate
from winml_py.errors import IllegalCallError
from winml_py.scaling import Fit, Scaling, Stretch

SMALL = sorted(path.stem for path in MODELS.glob("*.onnx"))


def small_inputs(model: LearningModel) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    shapes = {
        f.name: [n if n > 0 else (2 if axis == 0 else 24) for axis, n in enumerate(f.shape)]
        for f in model.input_features
    }
    return {f.name: make_example(replace(f, shape=Vector(shapes[f.name])), rng) for f in model.input_features}


def distance(expected: Any, came: Any) -> float:
    """The relative error of an output; none where a few bytes of a picture are rounded from between two levels."""
    one, other = np.asarray(expected.to_numpy()), np.asarray(came.to_numpy())
    if one.dtype == np.uint8:
        apart = np.abs(one.astype(int) - other)
        if apart.max() <= 1 and np.count_nonzero(apart) <= apart.size // 1000:
            return 0.0
    return compute_relative_error(one, other)


@pytest.mark.parametrize("name", SMALL)
def test_each_small_model_gives_what_the_cpu_gives(gpu: LearningModelDevice, name: str) -> None:
    model = LearningModel.load(MODELS / f"{name}.onnx")
    is_half = model.precision != "float32"
    session, host = LearningModelSession(model, gpu), LearningModelSession(model)
    assert session.precision is (Precision.FLOAT16 if is_half else Precision.FLOAT32)
    assert session.engine == gpu.provider
    inputs = small_inputs(model)
    for _ in range(2):
        came = session.evaluate_features(inputs).outputs
        for output, expected in host.evaluate_features(inputs).outputs.items():
            error = distance(expected, came[output])
            assert error <= (2e-2 if is_half else 1e-3), (output, error)


def test_what_is_bound_again_and_written_in_place(gpu: LearningModelDevice) -> None:
    session = open_free_session(unary("Neg", [4]), gpu)
    binding = LearningModelBinding(session)
    source, target = np.zeros(4, np.float32), np.zeros(4, np.float32)
    binding.bind("x", source)
    binding.bind("y", target)
    for step in range(6):
        source[:] = step
        session.evaluate(binding)
        assert target.tolist() == [-step] * 4
    other = np.full(4, 9, np.float32)
    binding.bind("x", other)
    session.evaluate(binding)
    assert target.tolist() == [-9] * 4
    fresh = LearningModelBinding(session)
    fresh.bind("x", source)
    kept = [session.evaluate(fresh).outputs["y"].to_numpy() for _ in range(3)]
    source[:] = 1
    session.evaluate(fresh)
    assert all(array.tolist() == [-5] * 4 for array in kept)


def test_a_free_size_may_change(gpu: LearningModelDevice) -> None:
    session = open_free_session(unary("Neg", ["n"]), gpu)
    binding = LearningModelBinding(session)
    for count in (3, 5, 3):
        binding.bind("x", np.arange(count, dtype=np.float32))
        assert session.evaluate(binding).outputs["y"].to_numpy().tolist() == (-np.arange(count)).tolist()
    target = np.zeros(4, np.float32)
    binding.bind("y", target)
    with pytest.raises(SizeMismatchError):
        session.evaluate(binding)
    fixed = open_free_session(unary("Neg", [4]), gpu)
    with pytest.raises(SizeMismatchError):
        LearningModelBinding(fixed).bind("y", np.zeros(5, np.float32))


@pytest.mark.webgpu
def test_an_array_without_elements(gpu: LearningModelDevice) -> None:
    session = open_free_session(unary("Neg", ["n"]), gpu)
    assert session.evaluate_features({"x": np.zeros(0, np.float32)}).outputs["y"].shape == (0,)
    with pytest.raises(SizeMismatchError, match="no elements"):
        session.upload(np.zeros(0, np.float32))


def test_strings_stay_on_the_host_and_run(gpu: LearningModelDevice) -> None:
    session = open_free_session(unary("Identity", [2], STRING), gpu)
    assert session.evaluate_features({"x": np.array(["a", "b"], object)}).outputs["y"].to_numpy().tolist() == ["a", "b"]
    assert {node.provider for node in session.assigned_nodes} == {"CPUExecutionProvider"}


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.bool_, np.float16])
def test_types_go_up_and_come_back(gpu: LearningModelDevice, dtype: Any) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    session = open_free_session(unary("Identity", [3], element), gpu)
    x = np.array([0, 1, 1], dtype)
    np.testing.assert_array_equal(session.evaluate_features({"x": x}).outputs["y"].to_numpy(), x)


PLAIN = [BitmapPixelFormat.BGRA8, BitmapPixelFormat.RGB8, BitmapPixelFormat.GRAY8, BitmapPixelFormat.NV12]
CONTRACTS = [
    ImageContract(),
    ImageContract.imagenet(),
    ImageContract.yolo(),
    ImageContract(BitmapPixelFormat.GRAY8, LearningModelPixelRange.ZERO_TO_ONE),
    ImageContract(BitmapPixelFormat.GRAY8, gray=ImageGray.LUMA),
    ImageContract(BitmapPixelFormat.RGB8, layout=TensorLayout.NHWC, scaling=Stretch()),
    ImageContract(BitmapPixelFormat.GRAY8, scaling=Fit(), pad=(10, 200, 30)),
    ImageContract(BitmapPixelFormat.BGR8, scaling=Fit(), pad=(10, 200, 30)),
    ImageContract(kernel=ImageKernel.AREA),
]


def picture_of(pixel_format: BitmapPixelFormat, width: int, height: int) -> ImageFeatureValue:
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:height, 0:width]
    base = np.stack([np.sin(x / 7 + c) * np.cos(y / (5 + c)) for c in range(3)], -1) * 110 + 128
    rgb = np.clip(base + rng.normal(0, 4, base.shape), 0, 255).astype(np.uint8)
    value = ImageFeatureValue.from_array(rgb, BitmapPixelFormat.RGB8)
    bitmap = value.video_frame.software_bitmap
    return ImageFeatureValue.from_software_bitmap(type(bitmap).convert(bitmap, pixel_format))


def tensor_of(
    device: LearningModelDevice | None, contract: ImageContract, values: Any, size: tuple[int, int], **properties: Any
) -> Any:
    """What a model that does nothing gives for pictures."""
    planes = contract.layout is TensorLayout.NCHW
    shape: list[Any] = ["n", contract.channels, *size] if planes else ["n", *size, contract.channels]
    binding = LearningModelBinding(open_free_session(unary("Identity", shape), device))
    binding.bind("x", values, {"ImageContract": contract} | properties)
    if device is not None:
        binding.bind("y", TensorFloat.create(), {"DisableTensorCpuSync": True})
    return binding, binding._session.evaluate(binding).outputs["y"].to_numpy()


@pytest.mark.webgpu
@pytest.mark.usefixtures("pillow_scales")
@pytest.mark.parametrize(("contract", "pixel_format"), list(product(CONTRACTS, PLAIN)))
def test_pictures_are_tensorized_on_the_device(
    gpu: LearningModelDevice, contract: ImageContract, pixel_format: BitmapPixelFormat
) -> None:
    value = picture_of(pixel_format, 50, 38)
    _, expected = tensor_of(None, contract, value, (16, 20))
    binding, came = tensor_of(gpu, contract, value, (16, 20))
    is_on_device = not isinstance(private_state(binding).bound.inputs["x"], np.ndarray)
    assert is_on_device is (pixel_format is not BitmapPixelFormat.NV12)
    steps = np.float32([factor for factor, _ in contract.affine()])  # one level of a byte
    levels = np.moveaxis(np.abs(came - expected), contract.axes()[0], -1) / steps
    assert levels.max() <= 1.01
    is_pillow = contract.kernel in (ImageKernel.ANTIALIASED_CUBIC, ImageKernel.ANTIALIASED_LINEAR)
    assert np.mean(levels > 0.01) < (0.03 if is_pillow else 0.15)  # OpenCV rounds its weights to a few bits


def test_pictures_that_need_no_scaling_are_exact(gpu: LearningModelDevice) -> None:
    for contract in (ImageContract(), ImageContract(BitmapPixelFormat.GRAY8), ImageContract.inception()):
        value = picture_of(BitmapPixelFormat.BGRA8, 20, 16)
        _, expected = tensor_of(None, contract, value, (16, 20))
        np.testing.assert_allclose(tensor_of(gpu, contract, value, (16, 20))[1], expected, rtol=1e-6, atol=1e-6)


def test_bounds_batches_and_new_pictures(gpu: LearningModelDevice) -> None:
    contract = ImageContract.imagenet()
    batch = [
        picture_of(BitmapPixelFormat.RGB8, 40, 30).video_frame,
        picture_of(BitmapPixelFormat.RGB8, 40, 30).video_frame,
    ]
    bounds = {"BitmapBounds": [5, 3, 20, 20]}
    _, expected = tensor_of(None, contract, batch, (16, 16), **bounds)
    binding, came = tensor_of(gpu, contract, batch, (16, 16), **bounds)
    np.testing.assert_allclose(came, expected, atol=0.02)
    first = private_state(binding).bound.inputs["x"]
    binding.bind("x", batch[::-1], {"ImageContract": contract} | bounds)
    assert private_state(binding).bound.inputs["x"] is first  # the same memory, written again
    mixed = [batch[0], picture_of(BitmapPixelFormat.RGB8, 33, 21).video_frame]
    _, expected = tensor_of(None, contract, mixed, (16, 16))
    binding, came = tensor_of(gpu, contract, mixed, (16, 16))
    assert isinstance(private_state(binding).bound.inputs["x"], np.ndarray)  # of two sizes: by the CPU
    np.testing.assert_array_equal(came, expected)


def test_a_picture_for_a_float16_model(gpu: LearningModelDevice) -> None:
    shape = [1, 3, 16, 16]
    model = unary(
        "Identity", shape, FLOAT16, denotation="IMAGE", metadata={"Image.NominalPixelRange": "Normalized_0_1"}
    )
    value = picture_of(BitmapPixelFormat.RGB8, 30, 30)
    expected = (
        open_free_session(model).evaluate_features({"x": value, "y": TensorFloat16Bit.create()}).outputs["y"].to_numpy()
    )
    assert gpu._device is not None
    for has_half in (True, False):
        device = LearningModelDevice(LearningModelDeviceKind.DIRECTX, _device=gpu._device._replace(float16=has_half))
        session = open_free_session(model, device)
        assert session.precision is (Precision.FLOAT16 if has_half else Precision.FLOAT32)
        came = session.evaluate_features({"x": value, "y": TensorFloat16Bit.create()}).outputs["y"].to_numpy()
        assert came.dtype == np.float16
        assert np.abs(came.astype(np.float32) - expected.astype(np.float32)).max() <= 1.1 / 255


def test_float32_can_be_asked_for(gpu: LearningModelDevice) -> None:
    model = LearningModel.load(MODELS / "digits_float16.onnx")
    session = LearningModelSession(model, gpu, make_options(batch_size_override=0, precision=Precision.FLOAT32))
    assert session.precision is Precision.FLOAT32
    assert "float32" in str(session.explain())
    inputs = small_inputs(model)
    expected = LearningModelSession(model).evaluate_features(inputs).outputs["probabilities"].to_numpy()
    target = np.zeros(expected.shape, np.float16)
    binding = LearningModelBinding(session)
    for name, value in inputs.items():
        binding.bind(name, value)
    binding.bind("probabilities", target)
    session.evaluate(binding)
    np.testing.assert_allclose(target.astype(np.float32), expected.astype(np.float32), atol=2e-3)


@pytest.mark.webgpu
def test_tensors_live_on_the_device(gpu: LearningModelDevice) -> None:
    session = open_free_session(unary("Neg", [3]), gpu)
    uploaded = session.upload(np.float32([1, 2, 3]))
    assert uploaded.is_on_device
    assert not uploaded.is_placeholder
    assert f"{uploaded!r}" == "<TensorFloat (3,) on webgpu:0>"
    result = TensorFloat.create()
    binding = LearningModelBinding(session)
    binding.bind("x", uploaded)
    binding.bind("y", result, {"DisableTensorCpuSync": True})
    assert session.evaluate(binding).outputs["y"] is result
    assert result.is_on_device
    read = result.to_numpy()
    assert read.tolist() == [-1, -2, -3]
    assert not read.flags.writeable
    assert not hasattr(result, "__cuda_array_interface__")
    assert np.from_dlpack(result).tolist() == [-1, -2, -3]
    again = LearningModelBinding(session)
    again.bind("x", result)
    again.bind("y", uploaded)  # written on the device, where it is
    session.evaluate(again)
    assert uploaded.to_numpy().tolist() == [1, 2, 3]
    result.close()
    with pytest.raises(IllegalCallError):
        result.to_numpy()
    host = TensorFloat.from_numpy(np.float32([5, 5, 5]))
    again.bind("y", host, {"DisableTensorCpuSync": True})
    session.evaluate(again)
    assert host.is_on_device


def test_another_tensor_gets_memory_of_its_own(gpu: LearningModelDevice) -> None:
    session = open_free_session(unary("Neg", [3]), gpu)
    binding, tensors = LearningModelBinding(session), [TensorFloat.create() for _ in range(3)]
    for number, result in enumerate(tensors):
        binding.bind("x", np.full(3, number, np.float32))
        binding.bind("y", result, {"DisableTensorCpuSync": True})
        for _ in range(3):
            session.evaluate(binding)
    assert [result.to_numpy()[0] for result in tensors] == [0, -1, -2]


def test_a_kept_tensor_is_not_written_by_runs_it_is_not_bound_to(gpu: LearningModelDevice) -> None:
    session = open_free_session(unary("Neg", [3]), gpu)
    binding, kept, host = LearningModelBinding(session), TensorFloat.create(), TensorFloat.create()
    binding.bind("x", np.full(3, 1, np.float32))
    binding.bind("y", kept, {"DisableTensorCpuSync": True})
    for _ in range(3):
        session.evaluate(binding)
    binding.bind("y", host)
    binding.bind("x", np.full(3, 2, np.float32))
    for _ in range(3):
        session.evaluate(binding)
    assert (host.to_numpy()[0], kept.to_numpy()[0]) == (-2, -1)


def test_a_tensor_outlives_its_session(gpu: LearningModelDevice) -> None:
    session = open_free_session(unary("Neg", [3]), gpu)
    result = TensorFloat.create()
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1, 2, 3]))
    binding.bind("y", result, {"DisableTensorCpuSync": True})
    session.evaluate(binding)
    session.close()
    del binding, session
    assert result.to_numpy().tolist() == [-1, -2, -3]


@pytest.mark.webgpu
def test_a_tensor_on_a_device_goes_to_no_other(gpu: LearningModelDevice) -> None:
    uploaded = open_free_session(unary("Neg", [3]), gpu).upload(np.float32([1, 2, 3]))
    with pytest.raises(InvalidBindingError, match=r"webgpu:0.*on the CPU.*to_numpy"):
        open_free_session(unary("Neg", [3])).evaluate_features({"x": uploaded})
    with pytest.raises(InvalidDeviceError, match="cannot store tensors in the memory of"):
        open_free_session(unary("Neg", [3])).upload(np.float32([1]))
    with pytest.raises(InvalidBindingError, match="Expected an array of numbers"):
        open_free_session(unary("Neg", [3]), gpu).upload("text")
    with pytest.raises(InvalidBindingError, match="True or False"):
        LearningModelBinding(open_free_session(unary("Neg", [3]), gpu)).bind(
            "y", TensorFloat.create(), {"DisableTensorCpuSync": 1}
        )


def round_model() -> bytes:
    """Round has no kernel on WebGPU."""
    nodes = [helper.make_node("Round", ["x"], ["r"], "rounding"), helper.make_node("Neg", ["r"], ["y"])]
    return data(nodes, [tensor("x", [2])], [tensor("y", [2])])


@pytest.mark.webgpu
def test_what_is_left_to_the_cpu_is_listed_or_an_error(gpu: LearningModelDevice) -> None:
    session = open_free_session(round_model(), gpu)
    assert session.evaluate_features({"x": np.float32([1.4, -2.6])}).outputs["y"].to_numpy().tolist() == [-1, 3]
    assert ("rounding", "Round", "CPUExecutionProvider") in session.assigned_nodes
    with pytest.raises(NotSupportedError, match=r"does not support every node.*allow_cpu_fallback"):
        open_free_session(round_model(), gpu, allow_cpu_fallback=False)


@pytest.mark.webgpu
def test_webgpu_captures_no_graph(gpu: LearningModelDevice) -> None:
    with pytest.raises(NotSupportedError, match="Graph capture is not available with WebGpuExecutionProvider"):
        open_free_session(unary(), gpu, graph_capture=True)
    with pytest.raises(InvalidArgumentError, match="no option 'enableGraphCapture'"):
        open_free_session(unary(), gpu, provider_options={"enableGraphCapture": True})


@pytest.mark.webgpu
def test_a_tensor_of_the_device_is_written_in_place(gpu: LearningModelDevice) -> None:
    session = open_free_session(unary("Neg", [3]), gpu)
    binding, held = LearningModelBinding(session), session.upload(np.zeros(3, np.float32))
    binding.bind("x", held)
    for step in range(3):
        held.write(np.full(3, step, np.float32))
        assert session.evaluate(binding).outputs["y"].to_numpy().tolist() == [-step] * 3
    with pytest.raises(SizeMismatchError, match=r"shape \(3,\) cannot hold an array of shape \(4,\)"):
        held.write(np.zeros(4, np.float32))


@pytest.mark.webgpu
def test_an_input_moves_between_the_device_and_the_host(gpu: LearningModelDevice) -> None:
    session = open_free_session(unary("Neg", [3]), gpu)
    binding = LearningModelBinding(session)
    for value in (session.upload(np.float32([1, 2, 3])), session.upload(np.float32([4, 5, 6])), np.float32([7, 8, 9])):
        binding.bind("x", value)
        expected = value if isinstance(value, np.ndarray) else value.to_numpy()
        for _ in range(2):
            assert session.evaluate(binding).outputs["y"].to_numpy().tolist() == (-expected).tolist()


def test_two_sessions_side_by_side(gpu: LearningModelDevice, cat: Path) -> None:
    """Pictures and tensors, binding, running and reading back, on four threads."""
    picture = picture_of(BitmapPixelFormat.RGB8, 40, 30)
    model = unary("Neg", [1, 3, 16, 16], denotation="IMAGE")
    expected = (
        open_free_session(model).evaluate_features({"x": picture, "y": TensorFloat.create()}).outputs["y"].to_numpy()
    )
    sessions = [open_free_session(model, gpu), open_free_session(model, gpu)]

    def work(index: int) -> float:
        session = sessions[index % 2]
        worst = 0.0
        for round_ in range(5):
            value = picture if round_ % 2 else -expected
            came = session.evaluate_features({"x": value, "y": TensorFloat.create()}).outputs["y"].to_numpy()
            worst = max(worst, float(np.abs(came - expected).max()))
        return worst

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(work, range(4))) <= 1


@pytest.mark.webgpu
def test_an_engine_that_does_not_use_the_device(gpu: LearningModelDevice) -> None:
    with pytest.raises(InvalidDeviceError, match=r"engine openvino.*find"):
        open_free_session(unary(), gpu, engine="openvino")
    assert open_free_session(unary(), gpu, engine="webgpu").engine == gpu.provider


@pytest.mark.webgpu
def test_devices_are_found_by_name(gpu: LearningModelDevice) -> None:
    for name in ("gpu", "GPU", gpu.name.upper(), "webgpu"):
        found = LearningModelDevice.find(name)
        assert (found.name, found.hardware, found.kind) == (gpu.name, "gpu", LearningModelDeviceKind.DIRECTX)
    assert gpu.adapter_id != (0, 0)
    assert gpu.supports_float16
    assert LearningModelDevice.find("cpu").provider == "CPUExecutionProvider"
    with pytest.raises(InvalidDeviceError, match=f"no device named 'abacus'.*{gpu.name}"):
        LearningModelDevice.find("abacus")
    with pytest.raises(InvalidArgumentError):
        LearningModelDevice.find("")


@pytest.mark.parametrize(
    "words",
    [
        "WebGPU device lost (2): Device was destroyed.",
        "CUDA failure 719: unspecified launch failure ; GPU=0",
        "CUDA failure 700: an illegal memory access was encountered",
        "VK_ERROR_DEVICE_LOST",
        "DXGI_ERROR_DEVICE_REMOVED",
    ],
)
def test_what_drivers_say_of_a_lost_device(words: str) -> None:
    error = translate(RuntimeError(words))
    assert isinstance(error, DeviceLostError)
    assert error.hresult == 0x887A0005
    assert "new LearningModelDevice" in str(error)


def test_other_words_are_no_lost_device() -> None:
    assert not isinstance(translate(RuntimeError("the dimension 719 is lost")), DeviceLostError)


def test_int64_indices(gpu: LearningModelDevice) -> None:
    node = helper.make_node("Gather", ["w", "x"], ["y"])
    model = data(
        [node], [tensor("x", [2], INT64)], [tensor("y", [2, 3])], {"w": np.arange(12, dtype=np.float32).reshape(4, 3)}
    )
    came = open_free_session(model, gpu).evaluate_features({"x": np.array([2, 0])}).outputs["y"].to_numpy()
    assert came.tolist() == [[6, 7, 8], [0, 1, 2]]


def slice_model() -> bytes:
    """The sizes of a Slice are read by the host, whatever the device."""
    node = helper.make_node("Slice", ["x", "starts", "ends"], ["y"])
    return data(
        [node], [tensor("x", [4]), tensor("starts", [1], INT64), tensor("ends", [1], INT64)], [tensor("y", ["n"])]
    )


def test_what_is_read_on_the_host_follows_what_is_bound(gpu: LearningModelDevice) -> None:
    session = open_free_session(slice_model(), gpu)
    binding, starts = LearningModelBinding(session), np.array([0])
    binding.bind("x", np.arange(4, dtype=np.float32))
    binding.bind("starts", starts)
    binding.bind("ends", np.array([4]))
    for start in range(3):
        starts[0] = start
        assert session.evaluate(binding).outputs["y"].to_numpy().tolist() == [0, 1, 2, 3][start:]
    binding.bind("starts", np.array([3]))
    assert session.evaluate(binding).outputs["y"].to_numpy().tolist() == [3]


@pytest.mark.webgpu
def test_inputs_of_nodes_on_the_cpu_follow_too(gpu: LearningModelDevice) -> None:
    nodes = [
        helper.make_node("Det", ["m"], ["d"]),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Add", ["r", "d"], ["y"]),
    ]
    session = open_free_session(data(nodes, [tensor("m", [2, 2]), tensor("x", [1])], [tensor("y", [1])]), gpu)
    binding, matrix = LearningModelBinding(session), np.eye(2, dtype=np.float32)
    uploaded = session.upload(np.eye(2, dtype=np.float32) * 3)
    binding.bind("m", matrix)
    binding.bind("x", np.float32([1]))
    for scale in (1, 2, 3):
        matrix[:] = np.eye(2) * scale
        assert session.evaluate(binding).outputs["y"].to_numpy().tolist() == [1 + scale**2]
    binding.bind("m", uploaded)
    assert session.evaluate(binding).outputs["y"].to_numpy().tolist() == [10]


def test_sequences_on_several_threads(gpu: LearningModelDevice) -> None:
    """What is fed value by value takes the device's lock as well."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [4]))
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("SequenceConstruct", ["n", "x"], ["y"])]
    model = data(nodes, [tensor("x", [4])], [helper.make_value_info("y", kind)])

    def work(seed: int) -> bool:
        session, x = open_free_session(model, gpu), np.full(4, seed, np.float32)
        results = [session.evaluate_features({"x": x}).outputs["y"] for _ in range(10)]
        return all([t.to_numpy()[0] for t in result] == [-seed, seed] for result in results)

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(work, range(1, 4)))


def half_on(gpu: LearningModelDevice, shape: list[Any]) -> LearningModelSession:
    return open_free_session(unary("Neg", shape, FLOAT16), gpu, precision=Precision.FLOAT32)


@pytest.mark.webgpu
def test_float16_on_the_device_follows_into_float32(gpu: LearningModelDevice) -> None:
    first, second = open_free_session(unary("Neg", [2], FLOAT16), gpu), half_on(gpu, [2])
    between, numbers = TensorFloat16Bit.create(), np.zeros(2, np.float16)
    one, two = LearningModelBinding(first), LearningModelBinding(second)
    one.bind("x", numbers)
    one.bind("y", between, {"DisableTensorCpuSync": True})
    first.evaluate(one)
    two.bind("x", between)
    for value in (1, 2, 3):
        numbers[:] = value
        first.evaluate(one)
        assert second.evaluate(two).outputs["y"].to_numpy().tolist() == [value, value]
    with pytest.raises(NotSupportedError, match="computed in float32"):
        two.bind("y", between)


def test_float32_arithmetic_refuses_memory_of_another_shape(gpu: LearningModelDevice) -> None:
    binding = LearningModelBinding(half_on(gpu, ["n", 2]))
    binding.bind("y", np.zeros((4, 2), np.float16))
    for rows in (1, 3):
        binding.bind("x", np.ones((rows, 2), np.float16))
        with pytest.raises(SizeMismatchError):
            binding._session.evaluate(binding)


def test_an_array_cannot_hold_what_stays_on_the_device(gpu: LearningModelDevice) -> None:
    session, target = open_free_session(unary("Neg", [2]), gpu), np.zeros(2, np.float32)
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1, 2]))
    binding.bind("y", target, {"DisableTensorCpuSync": True})
    assert session.evaluate(binding).outputs["y"] is target
    assert target.tolist() == [-1, -2]


def test_scalars_and_declared_shapes_that_are_wrong(gpu: LearningModelDevice) -> None:
    node = helper.make_node("ReduceMean", ["x"], ["y"], keepdims=0)
    session = open_free_session(data([node], [tensor("x", [4])], [tensor("y", [])]), gpu)
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1, 2, 3, 6]))
    for _ in range(4):
        assert session.evaluate(binding).outputs["y"].to_numpy() == 3
    wrong = data([helper.make_node("Neg", ["x"], ["y"])], [tensor("x", ["n", 2])], [tensor("y", [1, 2])])
    came = open_free_session(wrong, gpu).evaluate_features({"x": np.ones((3, 2), np.float32)}).outputs["y"]
    assert came.to_numpy().tolist() == [[-1, -1]] * 3


@pytest.mark.webgpu
@pytest.mark.parametrize("size", [(40, 40), (40, 41), (90, 20), (21, 115), (160, 120), (33, 90), (124, 150)])
@pytest.mark.parametrize("scaling", [Stretch(), Fit()])
def test_black_and_white_is_scaled_as_on_the_cpu(
    gpu: LearningModelDevice, size: tuple[int, int], scaling: Scaling
) -> None:
    pixels = np.random.default_rng(0).choice(np.array([0, 255], np.uint8), (*size[::-1], 3))
    contract = ImageContract(BitmapPixelFormat.RGB8, scaling=scaling)
    value = ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)
    for target in ((16, 100), (100, 16), (41, 40), (16, 16)):
        _, expected = tensor_of(None, contract, value, target)
        difference = np.abs(tensor_of(gpu, contract, value, target)[1] - expected)
        assert difference.max() <= 2.01
        assert np.count_nonzero(difference > 1.01) <= 1


@pytest.mark.posix("Windows has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_what_a_fork_inherits_is_left_alone(gpu: LearningModelDevice) -> None:
    """Evaluating is refused at once, as reading and a new session are, and letting go of all of it ends."""
    session = open_free_session(unary("Neg", [3]), gpu)
    session.evaluate_features({"x": np.float32([1, 2, 3])})
    binding = LearningModelBinding(session)
    held = [session, binding, session.upload(np.float32([1, 2, 3]))]
    del session
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = b"."
        for work in (
            lambda: held[0].evaluate_features({"x": np.float32([1, 2, 3])}),
            held[2].to_numpy,
            lambda: binding.bind("x", np.zeros(3, np.float32)),
            lambda: open_free_session(unary("Neg", [3]), gpu),
        ):
            try:
                work()
            except IllegalCallError:
                said += b"i"
        del binding, work
        held.clear()
        os.write(writing, said + b"!")
        os._exit(0)
    try:
        ready, _, _ = select.select([reading], [], [], 20)
        assert ready, "the child hangs"
        assert os.read(reading, 10) == b".iiii!"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


async def count_ticks(session: LearningModelSession, value: Any) -> float:
    """Evaluates for at least a second; the loop's ticks for each second, of which it could have a hundred."""
    count, is_running = 0, True

    async def tick() -> None:
        nonlocal count
        while is_running:
            await asyncio.sleep(0.01)
            count += 1

    ticking = asyncio.create_task(tick())
    start = time.perf_counter()
    while (seconds := time.perf_counter() - start) < 1:
        await session.evaluate_features_async({"x": value})
    ticks, is_running = count, False
    await ticking
    return ticks / seconds


@pytest.mark.parametrize("is_picture", [False, True])
def test_an_event_loop_goes_on_beside_the_gpu(gpu: LearningModelDevice, is_picture: bool) -> None:
    shape, weight = (1, 3, 256, 256), np.eye(256, dtype=np.float32)
    names = ["x", *(f"h{index}" for index in range(30)), "y"]
    nodes = [helper.make_node("MatMul", [name, "w"], [after]) for name, after in pairwise(names)]
    source = data(
        nodes, [tensor("x", shape, denotation="IMAGE" if is_picture else "")], [tensor("y", shape)], {"w": weight}
    )
    array = np.full(shape, 7, np.float32)
    value = Image.new("RGB", (256, 256), (7, 7, 7)) if is_picture else array
    ticks = []
    for device in (gpu, None):
        session = open_session(source, device)
        np.testing.assert_allclose(session.evaluate_features({"x": value}).outputs["y"].to_numpy(), array, rtol=1e-3)
        ticks.append(asyncio.run(count_ticks(session, value)))
    assert ticks[0] > ticks[1] / 2


@linux
@pytest.mark.parametrize(
    "value",
    [
        "np.zeros(shape, np.float32)",
        "ImageFeatureValue.from_array(np.zeros((64, 64, 3), np.uint8), BitmapPixelFormat.RGB8)",
    ],
)
def test_closed_sessions_keep_no_memory(gpu: LearningModelDevice, tmp_path: Path, value: str) -> None:
    denotation, shape = ("" if "zeros(shape" in value else "IMAGE"), (1, 3, 64, 64)
    nodes = [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    weights = {"s": np.array([1, 12288]), "w": np.ones((12288, 1024), np.float32)}  # 48 MB
    path = tmp_path / "m.onnx"
    path.write_bytes(data(nodes, [tensor("x", shape, denotation=denotation)], [tensor("y", [1, 1024])], weights))
    code = f"""
shape = {shape}
gpu = next(device for device in LearningModelDevice.find_all() if device.hardware == "gpu")
model = LearningModel.load(path)
def use():
    with LearningModelSession(model, gpu) as session:
        session.evaluate_features({{"x": {value}}})
use()
print(resident())
for _ in range(10):
    use()
print(resident())
"""
    before, after = measure(code, path)
    assert after - before < 20, (before, after)
