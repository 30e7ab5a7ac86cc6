"""The tests of Windows ML's suite that build and join models, with values that numpy or the onnx package computes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from PIL import Image

from helpers import winml_models
from helpers.models import FLOAT, tensor
from winml_py import (
    BitmapPixelFormat,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelSession,
    TensorFloat,
    TensorInt64Bit,
    TensorKind,
    TensorString,
    VideoFrame,
)
from winml_py.experimental import (
    LearningModelBuilder,
    LearningModelExperimental,
    LearningModelJoinOptions,
    LearningModelOperator,
)

CPU = LearningModelDevice()
SAMPLE_RATE, DFT_SIZE, HOP = 8192, 256, 128

describe = LearningModelBuilder.create_tensor_feature_descriptor


def scalar(value: int) -> TensorInt64Bit:
    return TensorInt64Bit.create_from_array([], [int(value)])


def single(value: float) -> TensorFloat:
    return TensorFloat.create_from_array([], [value])


def floats(name: str, shape: Sequence[int]) -> Any:
    return describe(name, TensorKind.FLOAT, shape)


def evaluate(model: LearningModel, features: dict[str, Any], device: LearningModelDevice = CPU) -> dict[str, Any]:
    session = LearningModelSession(model, device)
    binding = LearningModelBinding(session)
    for name, value in features.items():
        binding.bind(name, value)
    return {name: value.to_numpy() for name, value in session.evaluate(binding, "").outputs.items()}


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.winml("LearningModelSessionAPITest.ModelBuilding_Gemm")
def test_gemm() -> None:
    builder = LearningModelBuilder.create(13)
    for name in "ABC":
        builder = builder.inputs.add(floats(f"Input{name}", [3, 3]))
    model = (
        builder.outputs.add(floats("OutputY", [3, 3]))
        .operators.add(
            LearningModelOperator("Gemm")
            .set_input("A", "InputA")
            .set_input("B", "InputB")
            .set_input("C", "InputC")
            .set_output("Y", "OutputY")
        )
        .create_model()
    )
    a, b, c = random(3, 3), random(3, 3).T.copy(), np.eye(3, dtype=np.float32)
    came = evaluate(model, {"InputA": a, "InputB": b, "InputC": c})
    np.testing.assert_allclose(came["OutputY"], a @ b + c, rtol=1e-5, atol=1e-6)


def normalization(operator: str, extra: str) -> LearningModel:
    """A model that takes an NHWC picture and three numbers, and joins them by an operator."""
    return (
        LearningModelBuilder.create(13)
        .inputs.add(describe("Input", "The NHWC image", TensorKind.FLOAT, [1, 256, 256, 3]))
        .inputs.add(floats(extra, [3]))
        .outputs.add(floats("Output", [1, 256, 256, 3]))
        .operators.add(
            LearningModelOperator(operator).set_input("A", "Input").set_input("B", extra).set_output("C", "Output")
        )
        .create_model()
    )


def join(first: LearningModel, second: LearningModel, prefix: str) -> LearningModel:
    options = LearningModelJoinOptions()
    options.link(first.output_features.get_at(0).name, second.input_features.get_at(0).name)
    options.joined_node_prefix = prefix
    return LearningModelExperimental(first).join_model(second, options)


@pytest.mark.winml("LearningModelSessionAPITest.ModelBuilding_StandardDeviationNormalization")
def test_standard_deviation_normalization(tmp_path: Path) -> None:
    transpose = (
        LearningModelBuilder.create(13)
        .inputs.add(describe("Input", "The NHWC image", TensorKind.FLOAT, [1, 256, 256, 3]))
        .outputs.add(floats("Output", [1, 3, 256, 256]))
        .operators.add(
            LearningModelOperator("Transpose")
            .set_input("data", "Input")
            .set_attribute("perm", TensorInt64Bit.create_from_array([4], [0, 3, 1, 2]))
            .set_output("transposed", "Output")
        )
        .create_model()
    )
    joined = join(normalization("Sub", "Means"), normalization("Div", "StdDevs"), "DivModel.")
    model = join(joined, transpose, "TransposeModel.")
    LearningModelExperimental(model).save(tmp_path / "normalization.onnx")
    picture = np.random.default_rng(1).uniform(0, 255, (1, 256, 256, 3)).astype(np.float32)
    features = {
        "Input": picture,
        "Means": TensorFloat.create_from_array([3], [2, 4, 8]),
        "DivModel.StdDevs": TensorFloat.create_from_array([3], [0.1, 0.2, 0.4]),
    }
    expected = ((picture - np.float32([2, 4, 8])) / np.float32([0.1, 0.2, 0.4])).transpose(0, 3, 1, 2)
    for each in (model, LearningModel.load(tmp_path / "normalization.onnx")):
        came = evaluate(each, features)
        assert list(came) == ["TransposeModel.Output"]
        np.testing.assert_allclose(came["TransposeModel.Output"], expected, rtol=1e-5)


@pytest.mark.winml(
    "LearningModelSessionAPITest.ModelBuilding_DynamicMatmul",
    "LearningModelSessionAPITest.ModelBuilding_ConstantMatmul",
)
@pytest.mark.parametrize("is_constant", [False, True])
def test_matmul(is_constant: bool) -> None:
    a, b = random(318, 129), random(129, 1024)
    operator = LearningModelOperator("MatMul").set_input("A", "InputA").set_output("Y", "Output")
    builder = LearningModelBuilder.create(13).inputs.add(floats("InputA", [318, 129]))
    builder.outputs.add(floats("Output", [318, 1024]))
    features = {"InputA": TensorFloat.from_numpy(a)}
    if is_constant:
        operator.set_constant("B", TensorFloat.create_from_array([129, 1024], b))
    else:
        builder.inputs.add(floats("InputB", [129, 1024]))
        operator.set_input("B", "InputB")
        features["InputB"] = TensorFloat.from_numpy(b)
    model = builder.operators.add(operator).create_model()
    assert [feature.name for feature in model.input_features] == list(features)
    np.testing.assert_allclose(evaluate(model, features)["Output"], a @ b, rtol=1e-3, atol=1e-3)


REAL = np.tile(np.arange(1, 9, dtype=np.float32), 5).reshape(1, 5, 8, 1)
COMPLEX = np.stack([np.tile(np.arange(1, 9), (5, 1)) * factor for factor in (1, 2 + 1j)])
DFT_CASES = [
    (REAL, 1, 5, False),
    (REAL, 2, 8, False),
    *((COMPLEX, 1, length, False) for length in (5, 4, 6)),
    (COMPLEX, 2, 8, False),
    (REAL, 1, 5, True),  # Windows ML's are complex, which ONNX has forbidden since
    (REAL, 2, 8, True),
]


def dft(axis: int, **attributes: int) -> LearningModelOperator:
    operator = LearningModelOperator("DFT").set_attribute("axis", scalar(axis))
    for name, value in attributes.items():
        operator.set_attribute(name, scalar(value))
    return operator


def check_dft(device: LearningModelDevice, signal: np.ndarray, axis: int, length: int, is_onesided: bool) -> None:
    is_complex = np.iscomplexobj(signal)
    numbers = np.stack([signal.real, signal.imag], -1).astype(np.float32) if is_complex else signal
    expected = np.fft.fft(signal if is_complex else signal[..., 0], length, axis)
    if is_onesided:
        expected = np.take(expected, range(length // 2 + 1), axis)
    model = (
        LearningModelBuilder.create(17)
        .inputs.add(floats("Input.Signal", numbers.shape))
        .inputs.add_constant("Input.DFTLength", scalar(length))
        .outputs.add(floats("Output.Spectra", [*expected.shape, 2]))
        .operators.add(
            dft(axis, onesided=is_onesided)
            .set_input("input", "Input.Signal")
            .set_input("dft_length", "Input.DFTLength")
            .set_output("output", "Output.Spectra")
        )
        .create_model()
    )
    assert [feature.name for feature in model.input_features] == ["Input.Signal"]
    came = evaluate(model, {"Input.Signal": numbers}, device)["Output.Spectra"]
    np.testing.assert_allclose(came[..., 0] + 1j * came[..., 1], expected, atol=1e-3)


def spectrum_model(height: int, width: int) -> LearningModel:
    """The spectrum of a picture, the picture made of that spectrum again, and the error."""
    plane, pixels = [1, 1, height, width], [1, height, width, 1]
    builder = LearningModelBuilder.create(17).inputs.add(floats("Input.Signal", plane))
    for name in ("Spectra", "Inverse", "Error"):
        builder.outputs.add(floats(f"Output.{name}", plane))

    def reshape(given: str, shape: list[int], made: str) -> LearningModelOperator:
        operator = LearningModelOperator("Reshape").set_input("data", given).set_output("reshaped", made)
        return operator.set_constant("shape", TensorInt64Bit.create_from_array([4], shape))

    def magnitude(given: str, made: str) -> list[LearningModelOperator]:
        axes = TensorInt64Bit.create_from_array([1], [3])
        squares = LearningModelOperator("ReduceSumSquare").set_input("data", given).set_output("reduced", f"{given}.2")
        squares.set_attribute("axes", axes).set_attribute("keepdims", scalar(0))
        root = LearningModelOperator("Sqrt").set_input("X", f"{given}.2").set_output("Y", f"{given}.abs")
        return [squares, root, reshape(f"{given}.abs", plane, made)]

    operators = [
        reshape("Input.Signal", pixels, "signal"),
        dft(1).set_input("input", "signal").set_output("output", "rows"),
        dft(2).set_input("input", "rows").set_output("output", "spectrum"),
        dft(2, inverse=1).set_input("input", "spectrum").set_output("output", "rows back"),
        dft(1, inverse=1).set_input("input", "rows back").set_output("output", "back"),
        *magnitude("spectrum", "Output.Spectra"),
        *magnitude("back", "Output.Inverse"),
        LearningModelOperator("Sub")
        .set_input("A", "Input.Signal")
        .set_input("B", "Output.Inverse")
        .set_output("C", "Output.Error"),
    ]
    for operator in operators:
        builder.operators.add(operator)
    return builder.create_model()


def check_spectrum_of_a_picture(device: LearningModelDevice) -> None:
    session = LearningModelSession(spectrum_model(256, 256), device)
    binding = LearningModelBinding(session)
    binding.bind("Input.Signal", winml_models.make_frame(winml_models.load_picture("cat", 224, 224)))
    frames = {name: VideoFrame(BitmapPixelFormat.BGRA8, 256, 256) for name in ("Output.Spectra", "Output.Inverse")}
    for name, frame in frames.items():
        binding.bind(name, frame)
    error = session.evaluate(binding, "").outputs["Output.Error"].to_numpy()
    assert np.abs(error).max() < 1e-3
    gray = np.asarray(frames["Output.Inverse"].software_bitmap.to_pil().convert("L"), np.float32)
    assert gray.std() > 20
    spectrum = np.abs(np.fft.fft2(gray)).clip(0, 255)
    came = np.asarray(frames["Output.Spectra"].software_bitmap.to_pil().convert("L"), np.float32)
    assert np.mean(np.abs(came - spectrum) > 150) < 0.1  # the frame holds whole levels, which move small amplitudes
    tensors = evaluate(spectrum_model(256, 256), {"Input.Signal": gray[None, None]}, device)
    expected = np.abs(np.fft.fft2(gray))
    np.testing.assert_allclose(tensors["Output.Spectra"][0, 0], expected, rtol=1e-3, atol=expected.max() * 1e-6)


@pytest.mark.filterwarnings("ignore::winml_py.errors.MissingContractWarning")
@pytest.mark.winml("LearningModelSessionAPITest.ModelBuilding_DiscreteFourierTransform")
def test_discrete_fourier_transform() -> None:
    for case in DFT_CASES:
        check_dft(CPU, *case)
    check_spectrum_of_a_picture(CPU)


@pytest.mark.filterwarnings("ignore::winml_py.errors.MissingContractWarning")
@pytest.mark.winml("LearningModelSessionAPITest.ModelBuilding_DiscreteFourierTransformDeviceDirectX")
def test_discrete_fourier_transform_on_a_gpu(gpu: LearningModelDevice) -> None:
    for case in DFT_CASES:
        check_dft(gpu, *case)
    check_spectrum_of_a_picture(gpu)


def check_inverse(device: LearningModelDevice, axis: int) -> None:
    signal = np.concatenate([REAL, 2 * REAL])
    shape = [2, 5, 8, 2]
    model = (
        LearningModelBuilder.create(17)
        .inputs.add(floats("Input.TimeSignal", signal.shape))
        .outputs.add(floats("Output.Spectra", shape))
        .outputs.add(floats("Output.Inverse", shape))
        .operators.add(dft(axis).set_input("input", "Input.TimeSignal").set_output("output", "Output.Spectra"))
        .operators.add(dft(axis, inverse=1).set_input("input", "Output.Spectra").set_output("output", "Output.Inverse"))
        .create_model()
    )
    came = evaluate(model, {"Input.TimeSignal": signal}, device)["Output.Inverse"]
    np.testing.assert_allclose(came[..., :1], signal, atol=1e-3)
    np.testing.assert_allclose(came[..., 1], 0, atol=1e-3)


@pytest.mark.winml("LearningModelSessionAPITest.ModelBuilding_DiscreteFourierTransformInverseIdentity")
@pytest.mark.parametrize("axis", [1, 2])
def test_inverse_identity(axis: int) -> None:
    check_inverse(CPU, axis)


@pytest.mark.winml("LearningModelSessionAPITest.ModelBuilding_DiscreteFourierTransformInverseIdentityDeviceDirectX")
@pytest.mark.parametrize("axis", [1, 2])
def test_inverse_identity_on_a_gpu(gpu: LearningModelDevice, axis: int) -> None:
    check_inverse(gpu, axis)


GRIDS = [
    (np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), (np.arange(50, dtype=np.float32) / 50).reshape(1, 5, 5, 2)),
    (
        np.arange(6, dtype=np.float32).reshape(1, 1, 3, 2),
        np.float32([-10, -10, -5, -5, -0.2, -0.2, 10, 10, 10, 10, -0.2, -0.2, 5, 5, 10, 10]).reshape(1, 2, 4, 2),
    ),
]
GRID_CASES = list(
    itertools.product((0, 1), ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), GRIDS)
)


@pytest.mark.winml("LearningModelSessionAPITest.ModelBuilding_GridSampleDeviceDirectX")
def test_grid_sample_on_a_gpu(gpu: LearningModelDevice) -> None:
    for align_corners, mode, padding, (image, grid) in GRID_CASES:
        model = (
            LearningModelBuilder.create(17)
            .inputs.add(floats("Input", image.shape))
            .inputs.add(floats("Grid", grid.shape))
            .outputs.add(floats("Output", [-1, -1, -1, -1]))
            .operators.add(
                LearningModelOperator("GridSample")
                .set_input("X", "Input")
                .set_input("grid", "Grid")
                .set_attribute("align_corners", scalar(align_corners))
                .set_attribute("mode", TensorString.create_from_array([], [mode]))
                .set_attribute("padding_mode", TensorString.create_from_array([], [padding]))
                .set_output("Y", "Output")
            )
            .create_model()
        )
        features = {"Input": image, "Grid": grid}
        came = evaluate(model, features, gpu)["Output"]
        np.testing.assert_allclose(came, evaluate(model, features)["Output"], atol=1e-3)
        word = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)  # as operator set 20 calls them
        node = helper.make_node(
            "GridSample", ["X", "grid"], ["Y"], align_corners=align_corners, mode=word, padding_mode=padding
        )
        np.testing.assert_allclose(came, reference(node, [image, grid]), atol=1e-3)


def reference(node: onnx.NodeProto, arrays: list[np.ndarray]) -> np.ndarray:
    """What the onnx package's own implementation gives."""
    ends = [tensor(name, array.shape) for name, array in zip(node.input, arrays, strict=True)]
    graph = helper.make_graph([node], "one", ends, [tensor(node.output[0], None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    return ReferenceEvaluator(model).run(None, dict(zip(node.input, arrays, strict=True)))[0]


WINDOWS = {
    "Hann": (0.5, 0.5, 0),
    "Hamming": (25 / 46, 21 / 46, 0),
    "Blackman": (0.42, 0.5, 0.08),
}


@pytest.mark.winml(
    "LearningModelSessionAPITest.ModelBuilding_HannWindow",
    "LearningModelSessionAPITest.ModelBuilding_HammingWindow",
    "LearningModelSessionAPITest.ModelBuilding_BlackmanWindow",
)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", [TensorKind.FLOAT, TensorKind.DOUBLE])
def test_window(window: str, kind: TensorKind) -> None:
    operator = LearningModelOperator(f"{window}Window").set_input("size", "Input").set_output("output", "Output")
    if kind == TensorKind.DOUBLE:
        operator.set_attribute("output_datatype", scalar(11))
    model = (
        LearningModelBuilder.create(17)
        .inputs.add(describe("Input", TensorKind.INT64, []))
        .outputs.add(describe("Output", kind, [32]))
        .operators.add(operator)
        .create_model()
    )
    came = evaluate(model, {"Input": scalar(32)})["Output"]
    assert came.dtype == {TensorKind.FLOAT: np.float32, TensorKind.DOUBLE: np.float64}[kind]
    np.testing.assert_allclose(came, window_of(window, 32), atol=1e-3)


def window_of(name: str, size: int) -> np.ndarray:
    angle = 2 * np.pi * np.arange(size) / size
    constant, first, second = WINDOWS[name]
    return constant - first * np.cos(angle) + second * np.cos(2 * angle)


def tones(size: int) -> np.ndarray:
    """One tone, then two, then three."""
    time = np.arange(size) / SAMPLE_RATE
    waves = [4 * np.cos(2 * np.pi * 261.626 * factor * time) for factor in (1, 2, 4)]
    third = size // 3
    return (waves[0] + waves[1] * (np.arange(size) >= third) + waves[2] * (np.arange(size) >= 2 * third))[None].astype(
        np.float32
    )


def spectra(signal: np.ndarray) -> np.ndarray:
    """The spectra of the signal's frames, by numpy: frames x all frequencies."""
    frames = np.lib.stride_tricks.sliding_window_view(signal[0].astype(np.float64), DFT_SIZE)[::HOP]
    return np.fft.fft(frames * window_of("Hann", DFT_SIZE))


def stft(signal: str, window: str, made: str, *, onesided: bool = True) -> LearningModelOperator:
    return (
        LearningModelOperator("STFT")
        .set_name("STFT_NAMED_NODE")
        .set_attribute("onesided", scalar(onesided))
        .set_input("signal", signal)
        .set_input("window", window)
        .set_constant("frame_length", scalar(DFT_SIZE))
        .set_constant("frame_step", scalar(HOP))
        .set_output("output", made)
    )


def hann(made: str) -> LearningModelOperator:
    return LearningModelOperator("HannWindow").set_constant("size", scalar(DFT_SIZE)).set_output("output", made)


@pytest.mark.winml("LearningModelSessionAPITest.ModelBuilding_STFT")
@pytest.mark.parametrize("onesided", [True, False])
def test_stft(onesided: bool) -> None:
    signal = tones(SAMPLE_RATE * 5)
    expected = spectra(signal)
    bins = DFT_SIZE // 2 + 1 if onesided else DFT_SIZE
    model = (
        LearningModelBuilder.create(17)
        .inputs.add(floats("Input.TimeSignal", signal.shape))
        .outputs.add(floats("Output.STFT", [1, len(expected), bins, 2]))
        .outputs.add(floats("Output.HannWindow", [DFT_SIZE]))
        .operators.add(hann("Output.HannWindow"))
        .operators.add(stft("Input.TimeSignal", "Output.HannWindow", "Output.STFT", onesided=onesided))
        .create_model()
    )
    came = evaluate(model, {"Input.TimeSignal": TensorFloat.from_numpy(signal)})
    np.testing.assert_allclose(came["Output.HannWindow"], window_of("Hann", DFT_SIZE), atol=1e-5)
    np.testing.assert_allclose(came["Output.STFT"][0] @ [1, 1j], expected[:, :bins], atol=1e-2)


def mel_weights(bins: int, dft_length: int, sample_rate: int, made: str) -> LearningModelOperator:
    return (
        LearningModelOperator("MelWeightMatrix")
        .set_constant("num_mel_bins", scalar(bins))
        .set_constant("dft_length", scalar(dft_length))
        .set_constant("sample_rate", scalar(sample_rate))
        .set_constant("lower_edge_hertz", single(0))
        .set_constant("upper_edge_hertz", single(sample_rate / 2))
        .set_output("output", made)
    )


def mel_matrix(bins: int, dft_length: int, sample_rate: int) -> np.ndarray:
    """Triangles between frequencies that are equally far on the mel scale, rounded down to those of the spectrum."""
    mels = np.arange(bins + 2) * (2595 * np.log10(1 + sample_rate / 2 / 700) / (bins + 2))
    points = np.floor((dft_length + 1) * 700 * (10 ** (mels / 2595) - 1) / sample_rate).astype(int)
    matrix = np.zeros((dft_length // 2 + 1, bins))
    for bin_, (low, centre, high) in enumerate(zip(points, points[1:], points[2:], strict=False)):
        if low == centre:
            matrix[centre, bin_] = 1
        for row in range(low, centre + 1 if low < centre else low):
            matrix[row, bin_] = (row - low) / (centre - low)
        for row in range(centre, high):
            matrix[row, bin_] = (high - row) / (high - centre)
    return matrix


@pytest.mark.winml("LearningModelSessionAPITest.ModelBuilding_MelWeightMatrix")
def test_mel_weight_matrix() -> None:
    builder = LearningModelBuilder.create(17).outputs.add(floats("Output.MelWeightMatrix", [9, 8]))
    model = builder.operators.add(mel_weights(8, 16, SAMPLE_RATE, "Output.MelWeightMatrix")).create_model()
    assert len(model.input_features) == 0
    np.testing.assert_allclose(evaluate(model, {})["Output.MelWeightMatrix"], mel_matrix(8, 16, SAMPLE_RATE), atol=1e-5)


@pytest.mark.winml("LearningModelSessionAPITest.ModelBuilding_MelSpectrogramOnThreeToneSignal")
def test_mel_spectrogram_on_three_tone_signal(tmp_path: Path) -> None:
    signal, bins = tones(SAMPLE_RATE * 5), 1024
    expected = np.abs(spectra(signal)[:, : DFT_SIZE // 2 + 1]) ** 2 / DFT_SIZE @ mel_matrix(bins, DFT_SIZE, SAMPLE_RATE)
    frames = len(expected)

    def reshape(given: str, shape: list[int], made: str) -> LearningModelOperator:
        operator = LearningModelOperator("Reshape").set_input("data", given).set_output("reshaped", made)
        return operator.set_constant("shape", TensorInt64Bit.create_from_array([len(shape)], shape))

    builder = (
        LearningModelBuilder.create(17)
        .inputs.add(floats("Input.TimeSignal", signal.shape))
        .outputs.add(floats("Output.MelSpectrogram", [1, 1, frames, bins]))
        .operators.add(hann("hann_window"))
        .operators.add(stft("Input.TimeSignal", "hann_window", "stft_output"))
        .operators.add(
            LearningModelOperator("ReduceSumSquare")
            .set_input("data", "stft_output")
            .set_attribute("axes", TensorInt64Bit.create_from_array([1], [3]))
            .set_attribute("keepdims", scalar(0))
            .set_output("reduced", "magnitude_squared")
        )
        .operators.add(
            LearningModelOperator("Div")
            .set_input("A", "magnitude_squared")
            .set_constant("B", single(DFT_SIZE))
            .set_output("C", "power_frames")
        )
        .operators.add(mel_weights(bins, DFT_SIZE, SAMPLE_RATE, "mel_weight_matrix"))
        .operators.add(reshape("power_frames", [frames, DFT_SIZE // 2 + 1], "reshaped_output"))
        .operators.add(
            LearningModelOperator("MatMul")
            .set_input("A", "reshaped_output")
            .set_input("B", "mel_weight_matrix")
            .set_output("Y", "mel_spectrogram")
        )
        .operators.add(reshape("mel_spectrogram", [1, 1, frames, bins], "Output.MelSpectrogram"))
    )
    session = LearningModelSession(builder.create_model())
    binding = LearningModelBinding(session)
    binding.bind("Input.TimeSignal", TensorFloat.create_from_array(signal.shape, signal))
    picture = VideoFrame(BitmapPixelFormat.BGRA8, bins, frames)
    binding.bind("Output.MelSpectrogram", picture)
    session.evaluate(binding, "")
    came = np.asarray(picture.software_bitmap.to_pil().convert("RGB"), np.float64)
    np.testing.assert_allclose(came, np.repeat(expected.clip(0, 255)[..., None], 3, -1), atol=1.01)
    picture.software_bitmap.to_pil().convert("RGB").save(tmp_path / "mel_spectrogram.jpg")
    with Image.open(tmp_path / "mel_spectrogram.jpg") as written:
        assert written.size == (bins, frames)
    builder.save(tmp_path / "spectrogram.onnx")
    saved = LearningModel.load(tmp_path / "spectrogram.onnx")
    numbers = evaluate(saved, {"Input.TimeSignal": signal})["Output.MelSpectrogram"]
    np.testing.assert_allclose(numbers[0, 0], expected, rtol=1e-3, atol=1e-2)


@pytest.mark.winml("LearningModelSessionAPITest.SetName")
def test_set_name(tmp_path: Path) -> None:
    model = LearningModel.load(winml_models.squeezenet())
    assert model.name == "test graph"
    experimental = LearningModelExperimental(model)
    experimental.set_name("new name")
    assert model.name == "new name"
    experimental.save(tmp_path / "model_name_changed.onnx")
    assert LearningModel.load(tmp_path / "model_name_changed.onnx").name == "new name"
    stored = onnx.load(tmp_path / "model_name_changed.onnx")
    assert stored.graph.name == "new name"
    assert stored.graph.input[0].type.tensor_type.elem_type == FLOAT
