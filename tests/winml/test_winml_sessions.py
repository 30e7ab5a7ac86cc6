"""LearningModelSessionAPITest, and what RawApiTest, AdapterSessionTest and ModelTest ask of sessions."""

from __future__ import annotations

import asyncio
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import reference, winml_models
from tools import conformance
from winml_py import (
    ClosedError,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelSession,
    LearningModelSessionOptions,
    TensorFloat,
    TensorString,
)
from winml_py.errors import ModelDisposedError
from winml_py.winrt.windows.ai.machinelearning import LearningModel
from winml_py.winrt.windows.graphics import DisplayAdapterId

has_native_session = pytest.mark.skipif(
    "WINML_PY_TEST_ISOLATED" in os.environ, reason="asks ONNX Runtime's own session, which is in another process"
)


@pytest.mark.winml(
    "LearningModelSessionAPITest.CreateSessionDeviceDefault", "ScenarioCppWinrtTest.Scenario8SetDeviceSampleDefault"
)
def test_create_session_device_default() -> None:
    model = LearningModel.load(winml_models.squeezenet())
    session = LearningModelSession(model, LearningModelDevice(LearningModelDeviceKind.DEFAULT))
    assert session.model is model


@pytest.mark.winml(
    "LearningModelSessionAPITest.CreateSessionDeviceCpu",
    "ScenarioCppWinrtTest.Scenario8SetDeviceSampleCPU",
    "RawApiTest.CreateCpuDevice",
    "AdapterSessionTest.AppendExecutionProvider_CPU",
    "AdapterSessionTest.GetExecutionProvider",
    "AdapterSessionTest.Initialize",
)
@has_native_session
def test_create_session_device_cpu(natives: list[Any]) -> None:
    device = LearningModelDevice(LearningModelDeviceKind.CPU)
    session = LearningModelSession(LearningModel.load(winml_models.squeezenet()), device)
    assert session.device is device
    assert device.direct3d11_device is None
    assert session.device.adapter_id == DisplayAdapterId(0, 0)
    assert natives[-1]().get_providers() == ["CPUExecutionProvider"]


@pytest.mark.winml("LearningModelSessionAPITest.CreateSessionWithModelLoadedFromStream")
def test_create_session_with_model_loaded_from_stream() -> None:
    session = LearningModelSession(LearningModel.load_from_stream(io.BytesIO(winml_models.squeezenet())))
    assert session.model.author == "onnx-caffe2"


WORDS = ["1", "2", "3", "4"]


@pytest.mark.winml("LearningModelSessionAPITest.EvaluateFeatures")
def test_evaluate_features() -> None:
    session = winml_models.open_session(winml_models.id_tensor_string())
    for given in (
        TensorString.create_from_shape_array_and_data_array([2, 2], WORDS),
        TensorString.create_from_array([2, 2], WORDS),
        TensorString.create_from_iterable([2, 2], iter(WORDS)),
    ):
        output = TensorString.create()
        result = session.evaluate_features({"X": given, "Y": output}, "id")
        assert result.outputs["Y"] is output
        assert output.get_as_vector_view() == WORDS
        assert list(output.shape) == [2, 2]


@pytest.mark.winml("LearningModelSessionAPITest.EvaluateFeaturesAsync")
def test_evaluate_features_async() -> None:
    session = winml_models.open_session(winml_models.id_tensor_string())
    output = TensorString.create([2, 2])

    async def evaluate() -> Any:
        given = TensorString.create_from_array([2, 2], WORDS)
        return await session.evaluate_features_async({"X": given, "Y": output}, "id")

    result = asyncio.run(evaluate())
    assert result.outputs["Y"] is output
    assert output.get_as_vector_view() == WORDS
    assert (result.correlation_id, result.error_status, result.succeeded) == ("id", 0, True)


@pytest.mark.winml("AdapterSessionTest.Profiling")
def test_profiling(tmp_path: Path) -> None:
    options = LearningModelSessionOptions()
    options.profiling = True
    session = LearningModelSession(LearningModel.load(winml_models.relu()), None, options)
    session.evaluate_features({"X": np.ones(5, np.float32)})
    session.end_profiling(tmp_path / "profile.json")
    events = json.loads((tmp_path / "profile.json").read_text())
    assert "Relu" in {event.get("args", {}).get("op_name") for event in events}


@pytest.mark.winml("LearningModelSessionAPITest.EvaluationProperties")
def test_evaluation_properties() -> None:
    session = winml_models.open_session(winml_models.squeezenet())
    session.evaluation_properties.insert("propName1", "propValue1")
    assert session.evaluation_properties.lookup("propName1") == "propValue1"


@pytest.mark.winml("LearningModelSessionAPITest.EvaluateSessionAndCloseModel", "AdapterSessionTest.LoadAndPurloinModel")
@pytest.mark.parametrize("closes", [True, False])
def test_evaluate_session_and_close_model(closes: bool) -> None:
    model = LearningModel.load(winml_models.relu())
    options = LearningModelSessionOptions()
    options.close_model_on_session_creation = closes
    session = LearningModelSession(model, LearningModelDevice(LearningModelDeviceKind.CPU), options)
    if closes:
        with pytest.raises(ModelDisposedError) as disposed:
            LearningModelSession(model)
        assert disposed.value.hresult == 0x80070057
    else:
        LearningModelSession(model)
    values = [-2.0, -1.0, 0.0, 1.0, 2.0]
    result = session.evaluate_features({"X": TensorFloat.create_from_array([5], values)}, "")
    assert result.outputs["Y"].get_as_vector_view() == [0, 0, 0, 1, 2]
    assert model.input_features[0].name == "X"


@pytest.mark.winml("LearningModelSessionAPITest.NamedDimensionOverride")
def test_named_dimension_override() -> None:
    options = LearningModelSessionOptions()
    options.override_named_dimension("None", 5)
    options.override_named_dimension("DimensionThatDoesntExist", 12)
    assert dict(options.named_dimension_overrides) == {"None": 5, "DimensionThatDoesntExist": 12}
    model = LearningModel.load(winml_models.named_dimension())
    session = LearningModelSession(model, LearningModelDevice(), options)
    binding = LearningModelBinding(session)
    image = np.arange(5 * 3 * 12 * 12, dtype=np.float32).reshape(5, 3, 12, 12)
    binding.bind("inputImage", TensorFloat.from_numpy(image))
    np.testing.assert_array_equal(session.evaluate(binding, "").outputs["outputImage"].to_numpy(), -image)


@pytest.mark.winml("LearningModelSessionAPITest.CloseSession")
def test_close_session() -> None:
    session = winml_models.open_session(winml_models.squeezenet())
    binding = LearningModelBinding(session)
    session.close()
    session.close()
    assert session.model.author == "onnx-caffe2"
    assert session.device.adapter_id == (0, 0)
    for use in (
        lambda: LearningModelBinding(session),
        lambda: session.evaluate(binding, ""),
        lambda: session.evaluate_features({}, ""),
    ):
        with pytest.raises(ClosedError) as closed:
            use()
        assert closed.value.hresult == 0x80000013


@pytest.mark.winml("LearningModelSessionAPITest.SetIntraOpNumThreads", "AdapterSessionTest.GetNumberOfIntraOpThreads")
@has_native_session
def test_set_intra_op_num_threads(natives: list[Any]) -> None:
    model = LearningModel.load(winml_models.relu())
    half = max(1, LearningModelSessionOptions().intra_op_num_threads // 2)
    options = LearningModelSessionOptions()
    options.set_intra_op_num_threads_override(half)
    session = LearningModelSession(model, LearningModelDevice(), options)
    assert session.get_intra_op_num_threads() == half
    assert natives[-1]().get_session_options().intra_op_num_threads == half
    result = session.evaluate_features({"X": [-1.0, 1.0, -1.0, 1.0, 0.0]}, "")
    assert result.outputs["Y"].get_as_vector_view() == [0, 1, 0, 1, 0]
    assert LearningModelSession(model).get_intra_op_num_threads() == LearningModelSessionOptions().intra_op_num_threads


@pytest.mark.usefixtures("all_cores")
@pytest.mark.winml("LearningModelSessionAPITest.SetIntraOpThreadSpinning")
@has_native_session
def test_set_intra_op_thread_spinning(natives: list[Any]) -> None:
    model = LearningModel.load(winml_models.relu())
    for spin in (False, True):
        options = LearningModelSessionOptions()
        options.set_intra_op_thread_spinning(spin)
        session = LearningModelSession(model, LearningModelDevice(), options)
        assert session.get_intra_op_thread_spinning() is spin
        result = session.evaluate_features({"X": [-1.0, 1.0, -1.0, 1.0, 0.0]}, "")
        assert result.outputs["Y"].get_as_vector_view() == [0, 1, 0, 1, 0]
        native = natives[-1]().get_session_options()
        for threads in ("intra_op", "inter_op"):  # stated in both cases: the default depends on the build
            assert native.get_session_config_entry(f"session.{threads}.allow_spinning") == str(int(spin))
    assert LearningModelSession(model).get_intra_op_thread_spinning() is True


@pytest.mark.winml("RawApiTest.Evaluate", "RawApiTest.EvaluateNoInputCopy", "RawApiTest.EvaluateManyBuffers")
@pytest.mark.parametrize("way", ["copy", "no copy", "buffers"])
def test_raw_evaluate(way: str) -> None:
    image = winml_models.make_planes(winml_models.load_picture("cat", 224, 224))
    expected = reference.run_raw(winml_models.squeezenet(), {"data_0": image})["softmaxout_1"]
    memory = image.copy()
    binding = winml_models.open_binding(winml_models.squeezenet())
    if way == "copy":
        binding.bind("data_0", TensorFloat.create_from_array(memory.shape, memory))
        memory[:] = 0
    elif way == "no copy":
        memory[:] = 0
        binding.bind("data_0", TensorFloat.create_from_buffer(memory.shape, memory))
        memory[:] = image  # after the bind, and seen
    else:
        binding.bind("data_0", [bytearray(plane.tobytes()) for plane in image[0]])
    result = binding._session.evaluate(binding, "").outputs["softmaxout_1"]
    np.testing.assert_array_equal(result.to_numpy(), expected)


@pytest.mark.exhaustive
@pytest.mark.winml("ModelTest.Run")
def test_every_model_with_stored_data() -> None:
    """ONNX's conformance suite: what passes raw passes through winml_py."""
    total, raw, failures = conformance.judge()
    assert total > 1900
    assert len(raw) > 1300
    assert {name: failures[name] for name in raw if name in failures} == {}
