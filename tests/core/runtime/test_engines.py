"""Which engine runs a model on the CPU, and in which number type: as the options say, known at once."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from helpers.engines import HECTOPASCAL, KELVIN, as_asked_for, conv, far, needs_bfloat16, noise
from helpers.models import FLOAT, FLOAT16, unary
from helpers.paths import MODELS
from helpers.sessions import make_options, open_free_session
from winml_py import (
    ClosedError,
    InvalidArgumentError,
    InvalidDeviceError,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    NotSupportedError,
    Precision,
)
from winml_py.core.base.winrt_object import private_state
from winml_py.core.onnx_file.source import FileSource
from winml_py.core.runtime.engine import EngineOptions, Tuning
from winml_py.core.runtime.openvino import compile as openvino_compile
from winml_py.core.runtime.ort import compile as ort_compile
from winml_py.core.runtime.ort.ort_engine import HostIoBinding
from winml_py.core.runtime.providers import plugins
from winml_py.core.runtime.providers.catalogue import make_native_options
from winml_py.core.runtime.providers.provider import ProviderDevice, Target
from winml_py.core.runtime.request import CompileRequest, ModelOrigin
from winml_py.core.runtime.runs import Bound

pytestmark = pytest.mark.one_python

OPENVINO = "openvino"


def test_by_default_nothing_is_measured_or_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "find_devices", None)
    for name in ("digits.onnx", "digits_float16.onnx"):
        opened = open_free_session(MODELS / name)
        assert (opened.engine, opened.precision) == ("onnxruntime", Precision.FLOAT32)
        assert str(opened.explain()) == "onnxruntime in float32: by default"


HARDWARE = ("", "bfloat16", "float16", "bfloat16 float16")
"""The 16-bit types that a processor has."""


@pytest.fixture(params=HARDWARE, ids=[name.replace(" ", "+") or "none" for name in HARDWARE])
def half_types(request: pytest.FixtureRequest, openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of a processor; OpenVINO is believed to have compiled what was asked for."""
    types: str = request.param
    device = openvino._replace(float16=bool(types), half_types=types)
    monkeypatch.setattr(plugins, "find_devices", lambda _: [device])
    monkeypatch.setattr(openvino_compile, "make_engine", as_asked_for)
    return types.split()


@pytest.mark.parametrize("element", [FLOAT, FLOAT16])
@pytest.mark.parametrize("engine", [None, "onnxruntime", "openvino"])
@pytest.mark.parametrize("precision", Precision)
def test_the_engine_and_the_type_are_those_of_the_options(
    half_types: list[str], engine: str | None, precision: Precision, element: int
) -> None:
    """A type alone takes the engine that has it; what nothing computes in is refused, with advice."""
    settings = {"engine": engine, "precision": precision}
    if precision.is_half and (engine == "onnxruntime" or precision.name.lower() not in half_types):
        with pytest.raises(NotSupportedError, match=precision.name.lower()) as refused:
            open_free_session(conv(element), **settings)
        assert refused.value.hint.startswith(("Set options.precision = Precision.", "Omit options.engine"))
        return
    session = open_free_session(conv(element), **settings)
    is_openvino = engine == "openvino" or precision.is_half
    assert session.engine == (OPENVINO if is_openvino else "onnxruntime")
    assert session.precision is (precision if precision.is_half else Precision.FLOAT32)
    assert session.assigned_nodes[0].provider == (OPENVINO if is_openvino else "CPUExecutionProvider")
    assert "by default" in str(session.explain()) or engine or precision is not Precision.AUTO
    x = noise(np.float16 if element == FLOAT16 else np.float32)
    (expected,) = ort.InferenceSession(conv(element), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    came = session.evaluate_features({"x": x}).outputs["y"].to_numpy()
    assert np.abs(came - expected).max() <= 2e-2 * np.abs(expected).max()


@pytest.mark.parametrize("mean", [KELVIN, HECTOPASCAL])
def test_the_default_is_raw_onnxruntime_on_every_machine(half_types: list[str], mean: float) -> None:
    content, x = far(mean)
    (expected,) = ort.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    for given in (None, LearningModelSessionOptions()):
        session = LearningModelSession(LearningModel.load(content), None, given)
        (came,) = session.evaluate_features({"x": x}).outputs.values()
        steps = np.spacing(np.abs(expected)).astype(np.float32)
        assert (np.abs(came.to_numpy().astype(np.float32) - expected) <= steps).all()


@needs_bfloat16
def test_a_hint_of_float16_on_a_processor_with_bfloat16_alone_is_called_bfloat16(openvino: ProviderDevice) -> None:
    hint = {"INFERENCE_PRECISION_HINT": "f16"}
    session = open_free_session(conv(FLOAT16), engine="openvino", provider_options=hint)
    has_float16 = "float16" in openvino.half_types.split()
    assert session.precision is (Precision.FLOAT16 if has_float16 else Precision.BFLOAT16)


def test_an_engine_that_is_not_there() -> None:
    with pytest.raises(InvalidDeviceError, match=r"no engine openvino.*winml-py\[openvino\]"):
        open_free_session(conv(), engine="openvino")
    with pytest.raises(InvalidArgumentError, match="engine cannot be ''"):
        make_options(engine="")
    with pytest.raises(InvalidArgumentError, match="precision cannot be 7"):
        make_options(precision=7)
    with pytest.raises(InvalidArgumentError, match=r"Pass .key: value."):
        make_options(provider_options=3)
    with pytest.raises(InvalidArgumentError, match="CPUExecutionProvider has no option 'x'"):
        open_free_session(conv(), provider_options={"x": 1})


def test_another_engine_takes_no_tuning_of_onnxruntimes(openvino: ProviderDevice) -> None:
    """It used to be ignored, and nobody was told."""
    tuning = Tuning(graph_optimization="none")
    with pytest.raises(NotSupportedError, match=r"openvino does not support the settings in options\.tuning"):
        open_free_session(conv(), engine="openvino", tuning=tuning)


def test_a_provider_by_name(openvino: ProviderDevice) -> None:
    for name in ("openvino", "OpenVINO", "OPENVINO"):
        opened = open_free_session(conv(), engine=name)
        assert opened.engine == OPENVINO
    assert {node.provider for node in opened.assigned_nodes} == {OPENVINO}
    x = noise()
    expected = open_free_session(conv()).evaluate_features({"x": x}).outputs["y"].to_numpy()
    np.testing.assert_allclose(opened.evaluate_features({"x": x}).outputs["y"].to_numpy(), expected, atol=1e-5)
    with pytest.raises(InvalidArgumentError, match=r"no option 'NUM_STREAM'.*NUM_STREAMS"):
        open_free_session(conv(), engine="openvino", provider_options={"NUM_STREAM": 1})


def test_float32_is_float32_with_openvino(openvino: ProviderDevice) -> None:
    """Left alone it would compute in bfloat16 where the processor has that."""
    hints = {
        kind: make_native_options(Target(openvino, kind), EngineOptions(2), False)["INFERENCE_PRECISION_HINT"]
        for kind in Precision
        if kind is not Precision.AUTO
    }
    assert list(hints.values()) == ["f32", "f16", "bf16"]
    x = noise() * 10
    expected = open_free_session(conv()).evaluate_features({"x": x}).outputs["y"].to_numpy()
    came = open_free_session(conv(), engine="openvino").evaluate_features({"x": x}).outputs["y"].to_numpy()
    assert np.abs(came - expected).max() <= 1e-5 * np.abs(expected).max()


def test_the_package_goes_before_the_plugin(openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = openvino._replace(provider="OpenVINOExecutionProvider", package="a-plugin", library="lib.so")
    monkeypatch.setattr(plugins, "find_devices", lambda _: [plugin, openvino])
    made: list[Target] = []

    def compile_model(request: CompileRequest, target: Target) -> Any:
        made.append(target)
        raise NotSupportedError("Nothing is compiled here.")

    monkeypatch.setattr(openvino_compile, "open_or_compile_with_openvino", compile_model)
    monkeypatch.setattr(ort_compile, "compile_with_ort", compile_model)
    for name in ("openvino", "OpenVINOExecutionProvider"):
        with pytest.raises(NotSupportedError):
            open_free_session(conv(), engine=name)
    monkeypatch.setattr(plugins, "find_devices", lambda _: [plugin])
    with pytest.raises(NotSupportedError):
        open_free_session(conv(), engine="openvino")
    assert [target.device for target in made] == [openvino, plugin, plugin]
    with pytest.raises(InvalidDeviceError, match="Available: onnxruntime, OpenVINOExecutionProvider"):
        open_free_session(conv(), engine="nobody")


def test_the_digest_tells_models_apart(tmp_path: Path) -> None:
    requests = [
        CompileRequest(b"one", EngineOptions(1)),
        CompileRequest(b"two", EngineOptions(1)),
        CompileRequest("path", EngineOptions(1), origin=ModelOrigin(path="path", data_stamps=[1])),
        CompileRequest("path", EngineOptions(1), origin=ModelOrigin(path="path", data_stamps=[2])),
    ]
    assert len({request.compute_digest() for request in requests}) == 4


def test_data_files_are_part_of_the_question(tmp_path: Path) -> None:
    import onnx

    path, stamps = tmp_path / "m.onnx", []
    onnx.save(
        onnx.load_model_from_string(conv()), path, save_as_external_data=True, location="m.data", size_threshold=0
    )
    for seconds in (1, 2):
        os.utime(tmp_path / "m.data", (seconds, seconds))
        loaded = LearningModel.load(path)
        source = private_state(loaded).open()
        assert isinstance(source, FileSource)
        stamps.append(source.read_data_stamps())
    assert [stamp[0] for stamp in stamps[0]] == ["m.onnx", "m.data"]
    assert stamps[0] != stamps[1]


def test_the_cpu_captures_no_graph() -> None:
    with pytest.raises(NotSupportedError, match="Graph capture is not available on the CPU"):
        open_free_session(conv(), graph_capture=True)


def test_a_binding_keeps_what_the_engine_writes_and_reads_and_nothing_else() -> None:
    binding, bound = HostIoBinding(ort.InferenceSession(unary("Neg", [2]), providers=["CPUExecutionProvider"])), Bound()
    source, target = np.float32([1, 2]), np.zeros(2, np.float32)
    kept = [weakref.ref(source), weakref.ref(target)]
    bound.set_input("x", source)
    bound.set_output("y", target)
    del source, target
    gc.collect()
    assert [array() is not None for array in kept] == [True, True]
    assert binding.run(bound, None) == {}
    assert kept[1]().tolist() == [-1, -2]  # type: ignore[union-attr]
    bound.set_output("y", None)
    assert binding.run(bound, None)["y"].tolist() == [-1, -2]
    gc.collect()
    assert [array() is not None for array in kept] == [True, False]
    bound.inputs.clear()
    binding.close()
    assert kept[0]() is None
    with pytest.raises(ClosedError):
        binding.run(bound, None)
