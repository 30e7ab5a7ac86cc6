"""What is ready for CUDA, tested without a card: arrays that claim to lie on one, and an engine that takes them."""

from __future__ import annotations

import sys
import types
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from helpers import cuda as cuda_helpers
from helpers.cuda import CUDA, H200, OnCard
from helpers.cuda import FakeCudaDevice as Card
from helpers.models import unary
from helpers.sessions import open_session
from winml_py import (
    BitmapPixelFormat,
    EvaluationError,
    ImageContract,
    ImageFeatureValue,
    InvalidBindingError,
    LearningModelBinding,
    SizeMismatchError,
    SoftwareBitmap,
    TensorFloat,
    VideoFrame,
)
from winml_py.cli import doctor
from winml_py.core.base.arrays import DeviceArray, MemoryLocation, as_device_array
from winml_py.core.base.winrt_object import private_state
from winml_py.core.runtime.engine import EngineOptions
from winml_py.core.runtime.providers import catalogue, nvidia, probe
from winml_py.core.runtime.providers.catalogue import make_native_options
from winml_py.core.runtime.providers.provider import Target
from winml_py.errors import IllegalCallError, MissingPackageError

UINT8 = TensorProto.UINT8
TENSORRT = catalogue.TENSORRT.name


def test_an_array_on_the_card_is_bound_where_it_is() -> None:
    device = Card()
    session = open_session(unary("Neg", ["n"]), device)
    source, target = OnCard(np.float32([1, 2, 3])), OnCard(np.zeros(3, np.float32))
    binding = LearningModelBinding(session)
    binding.bind("x", source)
    binding.bind("y", target)
    result = session.evaluate(binding).outputs["y"]
    assert result is target
    assert target.memory.tolist() == [-1, -2, -3]
    (given,) = device.inputs
    assert (given.pointer, given.shape, given.owner) == (source.memory.ctypes.data, (3,), source)
    source.memory[:] = 5  # by reference, as everywhere
    session.evaluate(binding)
    assert target.memory.tolist() == [-5] * 3


def test_what_stays_on_the_card_offers_itself_to_others() -> None:
    session = open_session(unary("Neg", [3]), Card())
    result = TensorFloat.create()
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1, 2, 3]))
    binding.bind("y", result, {"DisableTensorCpuSync": True})
    session.evaluate(binding)
    interface = result.__cuda_array_interface__
    assert (interface["shape"], interface["typestr"], interface["version"]) == ((3,), "<f4", 3)
    assert interface["data"][0] > 0
    assert result.__dlpack_device__() == (2, 0)
    second = LearningModelBinding(session)
    second.bind("x", result)
    assert session.evaluate(second).outputs["y"].to_numpy().tolist() == [1, 2, 3]


def test_cupy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(MissingPackageError, match=r"winml-py\[cupy\]"):
        TensorFloat.from_numpy(np.float32([1])).to_cupy()

    class OnlyDlpack:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(InvalidBindingError, match=r"CuPy.*winml-py\[cupy\]"):
        LearningModelBinding(open_session(unary("Neg", [3]), Card())).bind("x", OnlyDlpack())


class CudaError(RuntimeError):
    """As CuPy has one of its own."""


def fail(*_: Any, **__: Any) -> Any:
    raise CudaError("cudaErrorInsufficientDriver")


def test_cupys_errors_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = types.SimpleNamespace(asarray=fail, from_dlpack=fail)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    words = "CuPy failed: CudaError: cudaErrorInsufficientDriver.*winml-py doctor"
    session, result = open_session(unary("Neg", [3]), Card()), TensorFloat.create()
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1, 2, 3]))
    binding.bind("y", result, {"DisableTensorCpuSync": True})
    session.evaluate(binding)
    for call in (TensorFloat.from_numpy(np.float32([1])).to_cupy, result.to_cupy, result.__dlpack__):
        with pytest.raises(EvaluationError, match=words):
            call()
    monkeypatch.setattr(cupy, "asarray", lambda _: types.SimpleNamespace(__dlpack__=fail))
    with pytest.raises(EvaluationError, match=words):
        result.__dlpack__()

    class OnlyDlpack:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(InvalidBindingError, match=words):
        binding.bind("x", OnlyDlpack())
    lost = OnCard(np.float32([1, 2, 3]))
    monkeypatch.setattr(lost, "get", fail, raising=False)
    with pytest.raises(EvaluationError, match="OnCard failed: CudaError"):
        as_device_array(lost).to_numpy()


def test_cupy_that_finds_no_library_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "cupy":
                raise ImportError("libnvrtc.so.13 cannot be opened")

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with pytest.raises(MissingPackageError, match=r"CuPy cannot be imported: libnvrtc.so.13 cannot be opened"):
        TensorFloat.from_numpy(np.float32([1])).to_cupy()


def test_an_array_of_the_host_is_written_by_the_card() -> None:
    session, target, tensor = open_session(unary("Neg", [3]), Card()), np.zeros(3, np.float32), TensorFloat.create((3,))
    for bound in (target, tensor):
        binding = LearningModelBinding(session)
        binding.bind("x", np.float32([1, 2, 3]))
        binding.bind("y", bound)
        assert session.evaluate(binding).outputs["y"] is bound
    assert target.tolist() == tensor.to_numpy().tolist() == [-1, -2, -3]
    assert not tensor.is_on_device
    with pytest.raises(InvalidBindingError, match=r"variable y cannot be bound to .* cuda:0, because .* on the CPU"):
        LearningModelBinding(open_session(unary("Neg", [3]))).bind("y", OnCard(np.zeros(3, np.float32)))


def test_cupy_that_is_there_gets_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A substitute for CuPy, which says what it was given."""
    given: list[Any] = []

    class Cupy:
        @staticmethod
        def asarray(value: Any) -> Any:
            given.append(value)
            return np.zeros(1, np.float32)

    monkeypatch.setitem(__import__("sys").modules, "cupy", Cupy)
    session, result = open_session(unary("Neg", [3]), Card()), TensorFloat.create()
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1, 2, 3]))
    binding.bind("y", result, {"DisableTensorCpuSync": True})
    session.evaluate(binding)
    assert repr(result) == "<TensorFloat (3,) on cuda:0>"
    result.to_cupy()
    result.__dlpack__()
    host = TensorFloat.from_numpy(np.float32([4]))
    host.to_cupy()
    assert given[:2] == [result, result]
    assert np.shares_memory(given[2], host.to_numpy())


def test_bytes_on_the_card_are_a_picture_only_for_a_picture() -> None:
    numbers = OnCard(np.arange(6, dtype=np.uint8).reshape(2, 3))
    session = open_session(unary("Identity", [2, 3], UINT8), Card())
    assert session.evaluate_features({"x": numbers}).outputs["y"].to_numpy().tolist() == numbers.memory.tolist()
    tensor = OnCard(np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2))
    session = open_session(unary("Identity", [1, 3, 2, 2]), Card())
    came = session.evaluate_features({"x": tensor}).outputs["y"].to_numpy()
    assert came.tolist() == tensor.memory.tolist()


@pytest.mark.parametrize("gray", [False, True])
def test_a_picture_on_the_card_is_tensorized_there(gray: bool) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (30, 40) if gray else (30, 40, 3), np.uint8)
    contract = ImageContract(BitmapPixelFormat.GRAY8) if gray else ImageContract.imagenet()
    model = unary("Identity", [1, contract.channels, 16, 16])
    pixel_format = BitmapPixelFormat.GRAY8 if gray else BitmapPixelFormat.BGR8
    value = ImageFeatureValue.from_array(pixels, pixel_format)
    host = LearningModelBinding(open_session(model))
    host.bind("x", value, {"ImageContract": contract})
    expected = host._session.evaluate(host).outputs["y"].to_numpy()
    device = Card()
    session = open_session(model, device)
    binding = LearningModelBinding(session)
    properties = {"ImageContract": contract} | ({} if gray else {"BitmapPixelFormat": pixel_format})
    binding.bind("x", OnCard(pixels), properties)
    came = session.evaluate(binding).outputs["y"].to_numpy()
    assert np.abs(came - expected).max() <= 1.01 * max(abs(factor) for factor, _ in contract.affine())
    assert pixels.ctypes.data in {given.pointer for given in device.inputs}  # it never left
    if not gray:
        with pytest.raises(InvalidBindingError, match="does not specify whether its channels"):
            LearningModelBinding(session).bind("x", OnCard(pixels))


def test_pictures_of_the_host_go_to_the_card_as_bytes() -> None:
    """The memory there is kept from bind to bind; a batch of several sizes is made by the CPU."""
    rng, model = np.random.default_rng(0), unary("Identity", ["n", 3, 16, 16])
    first, second, other = (
        VideoFrame.create_with_software_bitmap(
            SoftwareBitmap.from_array(rng.integers(0, 256, size, np.uint8), BitmapPixelFormat.BGR8)
        )
        for size in ((30, 40, 3), (30, 40, 3), (40, 30, 3))
    )
    device = Card()
    session, binding = open_session(model, device), LearningModelBinding(open_session(model))
    card = LearningModelBinding(session)
    written = private_state(card).bound.inputs
    bound = []
    for value in (first, second, ImageFeatureValue([first, second]), ImageFeatureValue([first, other])):
        for each in (binding, card):
            each.bind("x", value, {"ImageContract": ImageContract()})
        bound.append(written["x"])
        expected = binding._session.evaluate(binding).outputs["y"].to_numpy()
        came = session.evaluate(card).outputs["y"].to_numpy()
        assert np.abs(came - expected).max() <= 1.01
    assert [isinstance(tensor, DeviceArray) for tensor in bound] == [True, True, True, False]
    assert bound[0] is bound[1]
    assert bound[2].shape == (2, 3, 16, 16)


def test_what_cannot_be_bound_from_a_card() -> None:
    binding = LearningModelBinding(open_session(unary("Neg", [3]), Card()))
    with pytest.raises(InvalidBindingError, match=r"not C-contiguous.*ascontiguousarray"):
        binding.bind("x", OnCard(np.zeros((3, 2), np.float32)[:, 0]))
    with pytest.raises(InvalidBindingError, match="No tensor class exists for timedelta64"):
        binding.bind("x", OnCard(np.zeros(3, "timedelta64[s]")))
    with pytest.raises(InvalidBindingError, match="No tensor class exists for timedelta64"):
        binding.bind("y", OnCard(np.zeros(3, "timedelta64[s]")))
    with pytest.raises(SizeMismatchError):
        binding.bind("x", OnCard(np.zeros(4, np.float32)))
    with pytest.raises(InvalidBindingError, match=r"memory of cuda:0.*on the CPU"):
        LearningModelBinding(open_session(unary("Neg", [3]))).bind("x", OnCard(np.zeros(3, np.float32)))


class OnStream(OnCard):
    """An array that a library says to be working on in a stream."""

    stream: int | None = 7

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return super().__cuda_array_interface__ | {"stream": self.stream, "version": 3}


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens in which order: waits by CuPy, of which there is a substitute, and runs of the engine."""
    happened: list[str] = []

    class Stream:
        def __init__(self, number: int) -> None:
            self.number = number

        def synchronize(self) -> None:
            happened.append(f"wait for {self.number}")

    def device(number: int) -> Any:
        return nullcontext(happened.append(f"device {number}") if number else None)

    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(ExternalStream=Stream, Device=device))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    run = cuda_helpers._Engine.run

    def noted(*arguments: Any) -> Any:
        happened.append("run")
        return run(*arguments)

    monkeypatch.setattr(cuda_helpers._Engine, "run", noted)
    return happened


def test_streams_are_waited_for_before_each_run(order: list[str]) -> None:
    binding = LearningModelBinding(session := open_session(unary("Neg", [3]), Card()))
    given, target = OnStream(np.float32([1, 2, 3])), OnStream(np.zeros(3, np.float32))
    target.stream = 9
    binding.bind("x", given)
    binding.bind("y", target)
    assert order == []
    session.evaluate(binding)
    given.stream = 8  # the library works in another one now
    given[...] = np.float32([4, 5, 6])
    session.evaluate(binding)
    assert order == ["wait for 7", "wait for 9", "run", "wait for 8", "wait for 9", "run"]
    assert target.memory.tolist() == [-4, -5, -6]
    given.stream = None  # it says that nothing is under way
    binding.bind("y", np.zeros(3, np.float32))
    session.evaluate(binding)
    assert order[6:] == ["run"]
    binding.bind("x", np.zeros(3, np.float32))
    given.stream = 8
    session.evaluate(binding)
    assert order[7:] == ["run"]  # it is not bound any more


def test_the_default_stream_is_the_arrays_own_devices(order: list[str]) -> None:
    card = as_device_array(OnStream(np.float32([1])))
    card.owner.stream, card.location = 1, MemoryLocation("cuda", 1)
    card.wait()
    assert order == ["device 1", "wait for 1"]


def test_without_word_of_streams_the_default_one_is_waited_for(order: list[str]) -> None:
    """As the interface was before its version 3."""
    as_device_array(OnCard(np.float32([1]))).wait()
    assert order == ["wait for 1"]


def test_what_a_library_raises_while_it_waits_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(number: int) -> Any:
        raise RuntimeError("the device is lost")

    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(ExternalStream=fail, Device=nullcontext))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    session = open_session(unary("Neg", [3]), Card())
    with pytest.raises(EvaluationError, match=r"Cannot wait for .*: RuntimeError: the device is lost"):
        session.evaluate_features({"x": OnStream(np.float32([1, 2, 3]))})


def test_without_a_library_that_waits_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    binding = LearningModelBinding(session := open_session(unary("Neg", [3]), Card()))
    binding.bind("x", OnStream(np.float32([1, 2, 3])))
    with pytest.raises(IllegalCallError, match=r"CUDA stream 7 may still write to .* requires CuPy"):
        session.evaluate(binding)


def test_torchs_streams_are_torchs_to_wait_for(order: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Torchs(OnStream):
        __module__ = "torch"

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            """Of version 2, as torch's, which says nothing of streams."""
            return OnCard.__cuda_array_interface__.fget(self) | {"version": 2}  # type: ignore[attr-defined]

        device = "cuda:0"

    stream = sys.modules["cupy"].cuda.ExternalStream
    cuda = types.SimpleNamespace(current_stream=lambda device: stream(f"torch on {device}"))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupy", None)
    session = open_session(unary("Neg", [3]), Card())
    session.evaluate_features({"x": Torchs(np.float32([1, 2, 3]))})
    assert order == ["wait for torch on cuda:0", "run"]


def test_cuda_options() -> None:
    options = EngineOptions(1, provider_options=(("cudnn_conv_use_max_workspace", "1"),))
    target = Target(H200)
    assert make_native_options(target, options, False) == {"cudnn_conv_use_max_workspace": "1", "device_id": "1"}
    assert make_native_options(target, options, True)["enable_cuda_graph"] == "1"
    tensorrt = Target(H200._replace(provider=TENSORRT))
    assert make_native_options(tensorrt, EngineOptions(1), False) == {"device_id": "1"}


def test_without_a_driver_the_probe_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [TENSORRT, CUDA, "CPUExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    monkeypatch.setattr(nvidia, "find_gpus", lambda: ())
    assert "Install the NVIDIA driver" in probe._try_built_in()["problem"]
    card = nvidia.NvidiaGpu(0, "NVIDIA H200", 141 << 30, (0, 7), "570.1")
    monkeypatch.setattr(nvidia, "find_gpus", lambda: (card,))
    monkeypatch.setattr(probe, "_find_problem", lambda *_: "")
    found = probe._try_built_in()["devices"]
    assert [(device.provider, device.name, device.memory) for device in found] == [
        (TENSORRT, "NVIDIA H200", 141 << 30),
        (CUDA, "NVIDIA H200", 141 << 30),
    ]
    monkeypatch.setattr(probe, "_find_problem", lambda *_: "Fail: no kernel")
    assert (
        probe._try_built_in()["problem"]
        == f"NVIDIA H200, {TENSORRT}: Fail: no kernel; NVIDIA H200, {CUDA}: Fail: no kernel"
    )


def test_the_doctor_says_which_versions_were_found_and_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxruntime.capi import build_and_package_info as build

    class Installed:
        def __init__(self, name: str) -> None:
            self.metadata = {"Name": name}

    names = ["nvidia_cudnn_cu13", "cupy-cuda13x", "numpy", "nvidia-ml-py"]
    monkeypatch.setattr(doctor.metadata, "distributions", lambda: map(Installed, names))
    monkeypatch.setattr(
        doctor.metadata, "version", lambda name: {"nvidia-cudnn-cu13": "9.13", "cupy-cuda13x": "14.0"}[name]
    )
    assert doctor._find_cuda_packages() == {"cupy-cuda13x": "14.0", "nvidia-cudnn-cu13": "9.13"}
    monkeypatch.setattr(build, "cuda_version", "13.0", raising=False)
    assert nvidia.read_built_versions() == "CUDA 13.0"
    monkeypatch.delattr(build, "cuda_version")
    assert nvidia.read_built_versions() == ""
