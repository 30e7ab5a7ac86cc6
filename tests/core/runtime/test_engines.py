"""Which engine runs a model on the CPU: chosen by measurement, remembered, explained."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper

from helpers.engines import as_asked_for, conv, noise
from helpers.models import STRING, data, tensor, unary
from helpers.paths import MODELS
from helpers.sessions import make_options, open_free_session
from winml_py import (
    ClosedError,
    CorruptModelError,
    EvaluationError,
    InvalidArgumentError,
    InvalidDeviceError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    NotSupportedError,
    Precision,
    TensorKind,
)
from winml_py.core.base.winrt_object import private_state
from winml_py.core.cache import records
from winml_py.core.onnx_file.source import FileSource
from winml_py.core.runtime.cpu import choice
from winml_py.core.runtime.engine import EngineOptions, Tuning
from winml_py.core.runtime.openvino import compile as openvino_compile
from winml_py.core.runtime.ort.ort_engine import HostIoBinding
from winml_py.core.runtime.providers import plugins
from winml_py.core.runtime.providers.catalogue import make_native_options
from winml_py.core.runtime.providers.provider import ProviderDevice, Target
from winml_py.core.runtime.request import CompileRequest, ModelOrigin
from winml_py.core.runtime.runs import Bound
from winml_py.errors import IllegalCallError

pytestmark = pytest.mark.one_python

OPENVINO = "openvino"
PROCESSES = int(os.environ.get("WINML_PY_TEST_PROCESSES", "8"))
"""At once; 50 take a minute on two cores, and pass, too."""


def decided(model: bytes | Path, **settings: Any) -> LearningModelSession:
    """A session that has been evaluated once, and has chosen."""
    opened = open_free_session(model, **settings)
    dtype = np.float16 if opened.model.input_features[0].tensor_kind is TensorKind.FLOAT16 else np.float32
    opened.evaluate_features({opened.model.input_features[0].name: noise(dtype)})
    return opened


def favour(monkeypatch: pytest.MonkeyPatch, index: int) -> None:
    """Makes the timing say that one target is ten times as fast as the others; everything else is real."""

    def timed(targets: Any, _: Any) -> dict[Target, float]:
        return {target: 0.1 if place == index else 1.0 for place, target in enumerate(targets)}

    monkeypatch.setattr(choice, "_measure_times", timed)


def test_by_default_nothing_is_measured_or_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "find_devices", None)
    for name in ("digits.onnx", "digits_float16.onnx"):
        opened = open_free_session(MODELS / name)
        assert (opened.engine, opened.precision) == ("onnxruntime", Precision.FLOAT32)
        assert str(opened.explain()) == "onnxruntime in float32: by default"
    assert records.list_records() == []


def test_an_engine_that_is_not_there() -> None:
    with pytest.raises(InvalidDeviceError, match=r"no engine openvino.*winml-py\[openvino\]"):
        open_free_session(conv(), engine="openvino")
    with pytest.raises(InvalidArgumentError, match="engine is ''"):
        make_options(engine="")
    with pytest.raises(InvalidArgumentError, match="precision is 7"):
        make_options(precision=7)
    with pytest.raises(InvalidArgumentError, match=r"Write .key: value."):
        make_options(provider_options=3)
    with pytest.raises(InvalidArgumentError, match="CPUExecutionProvider has no option 'x'"):
        open_free_session(conv(), provider_options={"x": 1})


@pytest.mark.parametrize("winner", [0, 1])
def test_auto_takes_the_fastest_and_remembers(
    openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch, winner: int
) -> None:
    favour(monkeypatch, winner)
    first = decided(conv(), engine="auto")
    assert first.engine == ("onnxruntime", OPENVINO)[winner]
    explained = first.explain()
    assert [candidate.engine for candidate in explained.candidates] == ["onnxruntime", OPENVINO]
    assert explained.candidates[1].error is not None
    assert explained.candidates[1].error <= 1e-3
    assert explained.candidates[1 - winner].problem == "it is not faster"
    assert not explained.is_remembered
    monkeypatch.setattr(choice, "find_fastest", None)  # nothing is measured again
    second = decided(conv(), engine="auto")
    assert second.explain() == explained._replace(is_remembered=True)
    x = noise()
    expected = open_free_session(conv()).evaluate_features({"x": x}).outputs["y"].to_numpy()
    np.testing.assert_allclose(second.evaluate_features({"x": x}).outputs["y"].to_numpy(), expected, atol=1e-5)
    (entry,) = records.list_records()
    assert entry.facts["engine"] == first.engine


@pytest.mark.usefixtures("all_cores")
def test_other_options_models_and_shapes_are_other_questions(
    openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    favour(monkeypatch, 1)
    decided(conv(), engine="auto")
    decided(conv(bias=1), engine="auto")
    decided(conv(), engine="auto", intra_op_num_threads=1)
    free = open_free_session(conv(batch="n"), engine="auto")
    free.evaluate_features({"x": noise(batch=2)})
    again = open_free_session(conv(batch="n"), engine="auto")
    again.evaluate_features({"x": noise(batch=3)})
    assert len(records.list_records()) == 5


def test_ties_and_the_slower_stay_with_onnxruntime(openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_measure_times", lambda targets, _: dict(zip(targets, (1.0, 0.98), strict=True)))
    assert decided(conv(), engine="auto").engine == "onnxruntime"


def test_disagreement_is_caught(openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    favour(monkeypatch, 1)
    monkeypatch.setattr(choice, "FLOAT_TOLERANCE", -1.0)  # nothing agrees well enough
    opened = decided(conv(), engine="auto")
    assert opened.engine == "onnxruntime"
    assert "differ" in opened.explain().candidates[1].problem


@pytest.mark.parametrize("batch", ["n", 2])
def test_the_first_evaluation_decides(
    openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch, batch: str | int
) -> None:
    favour(monkeypatch, 1)
    opened = open_free_session(conv(batch=batch), engine="auto")
    assert (opened.engine, opened.precision) == ("undecided", Precision.AUTO)
    assert "first evaluation decides" in str(opened.explain())
    with pytest.raises(IllegalCallError, match="Evaluate once"):
        _ = opened.placement
    early, target = LearningModelBinding(opened), np.zeros((2, 8, 1, 1), np.float32)
    early.bind("x", noise(batch=2))
    early.bind("y", target)
    opened.evaluate(early)
    assert (opened.engine, opened.precision) == (OPENVINO, Precision.FLOAT32)
    expected = open_free_session(conv(batch=batch)).evaluate_features({"x": noise(batch=2)}).outputs["y"].to_numpy()
    np.testing.assert_allclose(target, expected, atol=1e-5)
    early.bind("x", noise(batch=2) * 2)
    early.bind("y", target)
    opened.evaluate(early)
    assert np.abs(target - expected).max() > 0.01
    if batch == "n":
        assert opened.evaluate_features({"x": noise(batch=5)}).outputs["y"].shape == (5, 8, 1, 1)
    assert any(node.provider == OPENVINO for node in opened.placement)
    opened.close()
    undecided = open_free_session(conv(batch=batch), engine="auto", intra_op_num_threads=1)
    binding = LearningModelBinding(undecided)
    binding.bind("x", noise(batch=2))
    engine = private_state(undecided).engine
    undecided.close()
    with pytest.raises(ClosedError, match="closed"):
        engine.run(Bound({"x": noise(batch=2)}))


def test_another_engine_takes_no_tuning_of_onnxruntimes(openvino: ProviderDevice) -> None:
    """It used to be ignored, and nobody was told."""
    tuning = Tuning(graph_optimization="none")
    with pytest.raises(NotSupportedError, match=r"openvino does not support the settings in options\.tuning"):
        open_free_session(conv(), engine="openvino", tuning=tuning)
    explanation = decided(conv(), engine="auto", tuning=tuning).explain()
    assert str(explanation) == "onnxruntime in float32: openvino does not support the settings in options.tuning"


def test_a_provider_by_name(openvino: ProviderDevice) -> None:
    for name in ("openvino", "OpenVINO", "OPENVINO"):
        opened = open_free_session(conv(), engine=name)
        assert opened.engine == OPENVINO
    assert records.list_records() == []
    assert {node.provider for node in opened.placement} == {OPENVINO}
    x = noise()
    expected = open_free_session(conv()).evaluate_features({"x": x}).outputs["y"].to_numpy()
    np.testing.assert_allclose(opened.evaluate_features({"x": x}).outputs["y"].to_numpy(), expected, atol=1e-5)
    with pytest.raises(InvalidArgumentError, match=r"no option 'NUM_STREAM'.*NUM_STREAMS"):
        open_free_session(conv(), engine="openvino", provider_options={"NUM_STREAM": 1})


def test_float32_is_float32_with_openvino(openvino: ProviderDevice) -> None:
    """Left alone it would compute in bfloat16 where the processor has that."""
    assert make_native_options(Target(openvino), EngineOptions(2), False)["INFERENCE_PRECISION_HINT"] == "f32"
    x = noise() * 10
    expected = open_free_session(conv()).evaluate_features({"x": x}).outputs["y"].to_numpy()
    came = open_free_session(conv(), engine="openvino").evaluate_features({"x": x}).outputs["y"].to_numpy()
    assert np.abs(came - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.fixture
def half(openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch) -> ProviderDevice:
    """A processor that computes in bfloat16. One that does not, takes the hint as a wish, and computes in float32."""
    if openvino.float16:
        return openvino
    monkeypatch.setattr(openvino_compile, "make_engine", as_asked_for)
    device = openvino._replace(float16=True, half_types="bfloat16")
    monkeypatch.setattr(plugins, "find_devices", lambda _: [device])
    return device


def test_half_precision_that_is_wrong_is_caught(half: ProviderDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed in half precision is another model here, whose results are larger."""
    favour(monkeypatch, 1)
    real = choice.compile_target

    def compile_model(request: CompileRequest, target: Target) -> Any:
        return real(request._replace(model=conv(bias=1)) if target.half else request, target)

    monkeypatch.setattr(choice, "compile_target", compile_model)
    opened = decided(conv(), precision=Precision.HALF)
    assert (opened.engine, opened.precision) == ("onnxruntime", Precision.FLOAT32)
    candidates = [c for c in opened.explain().candidates if c.precision is Precision.HALF]
    assert [c.number_type for c in candidates] == half.half_types.split()
    assert all("and 0.02 is allowed" in c.problem for c in candidates)
    again = decided(conv(), precision=Precision.HALF)
    assert again.explain() == opened.explain()._replace(is_remembered=True)


def test_every_type_that_half_precision_has_is_tried(half: ProviderDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    both = half._replace(half_types="bfloat16 float16")
    monkeypatch.setattr(plugins, "find_devices", lambda _: [both])
    monkeypatch.setattr(openvino_compile, "make_engine", as_asked_for)
    favour(monkeypatch, 2)
    opened = decided(conv(), precision=Precision.HALF)
    assert [c.number_type for c in opened.explain().candidates] == ["", "bfloat16", "float16"]
    assert str(opened.explain()).startswith("openvino in float16: float16 is right and faster")
    again = decided(conv(), precision=Precision.HALF)
    assert again.explain() == opened.explain()._replace(is_remembered=True)
    hints = {
        kind: make_native_options(Target(both, True, kind), EngineOptions(2), False)["INFERENCE_PRECISION_HINT"]
        for kind in both.half_types.split()
    }
    assert hints == {"bfloat16": "bf16", "float16": "f16"}


def test_the_package_goes_before_the_plugin(openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = openvino._replace(provider="OpenVINOExecutionProvider", package="a-plugin", library="lib.so")
    monkeypatch.setattr(plugins, "find_devices", lambda _: [plugin, openvino])
    made: list[Target] = []

    def compile_model(request: CompileRequest, target: Target) -> Any:
        made.append(target)
        raise NotSupportedError("Nothing is compiled here.")

    monkeypatch.setattr(choice, "open_or_compile_target", compile_model)
    for name in ("openvino", "OpenVINOExecutionProvider"):
        with pytest.raises(NotSupportedError):
            open_free_session(conv(), engine=name)
    monkeypatch.setattr(plugins, "find_devices", lambda _: [plugin])
    with pytest.raises(NotSupportedError):
        open_free_session(conv(), engine="openvino")
    assert [target.device for target in made] == [openvino, plugin, plugin]
    with pytest.raises(InvalidDeviceError, match="there are onnxruntime, OpenVINOExecutionProvider"):
        open_free_session(conv(), engine="nobody")


def test_what_is_no_tensor_of_numbers_stays_with_onnxruntime(openvino: ProviderDevice) -> None:
    for settings in ({"engine": "auto"}, {"precision": Precision.HALF}):
        words = open_free_session(unary("Identity", [2], STRING), **settings)
        assert words.engine == "onnxruntime"
        assert "no other installed engine accepts the model" in str(words.explain())


def test_a_plugin_that_cannot_compile_the_model_loses(
    openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = choice.compile_target

    def compile_model(request: CompileRequest, target: Target) -> Any:
        if target.device is not None:
            raise InvalidDeviceError("The plugin does not feel like it.")
        return real(request, target)

    monkeypatch.setattr(choice, "compile_target", compile_model)
    opened = decided(conv(), engine="auto")
    assert opened.engine == "onnxruntime"
    assert "does not feel like it" in str(opened.explain())


def test_a_corrupt_model_is_the_runtimes_error(openvino: ProviderDevice) -> None:
    with pytest.raises(CorruptModelError, match="Frobnicate"):
        open_free_session(unary("Frobnicate", [2]), engine="auto")


def test_without_a_cache_every_process_measures(openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(records.ENVIRONMENT, "")
    favour(monkeypatch, 1)
    assert decided(conv(), engine="auto").engine == OPENVINO
    assert records.find_folder() is None
    assert records.list_records() == []
    assert records.clear() == 0
    monkeypatch.delenv(records.ENVIRONMENT)
    place = records.find_folder()
    assert place is not None
    assert "winml-py" in (place.name, place.parent.name)  # on Windows, winml-py\Cache


MANY = """
import sys
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions
from winml_py.core.runtime.runs import Bound
import numpy as np
options = LearningModelSessionOptions()
options.engine = "auto"
session = LearningModelSession(LearningModel.load(sys.argv[1]), None, options)
session.evaluate_features({"x": np.random.default_rng(0).random((1, 3, 16, 16), np.float32)})
print(session.engine, session.explain().is_remembered)
"""


@pytest.mark.exhaustive
def test_many_processes_at_once(openvino: ProviderDevice, tmp_path: Path) -> None:
    """One measures, the others wait for its verdict; and one that is killed holds up nobody."""
    path = tmp_path / "model.onnx"
    path.write_bytes(conv())
    command = [sys.executable, "-c", MANY, str(path)]
    victim = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    victim.kill()
    victim.wait()
    came = [process.communicate(timeout=240)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    assert len({engine for engine, _ in came}) == 1
    assert sum(remembered == "False" for _, remembered in came) <= 2  # the victim may have left before it answered
    assert len(records.list_records()) == 1


def test_the_digest_tells_models_apart(tmp_path: Path) -> None:
    requests = [
        CompileRequest(b"one", EngineOptions(1)),
        CompileRequest(b"two", EngineOptions(1)),
        CompileRequest("path", EngineOptions(1), origin=ModelOrigin(path="path", data_stamps=[1])),
        CompileRequest("path", EngineOptions(1), origin=ModelOrigin(path="path", data_stamps=[2])),
    ]
    assert len({request.compute_digest() for request in requests}) == 4


def test_a_model_file_that_changed_before_the_first_evaluation(openvino: ProviderDevice, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(conv(batch="n"))
    opened = open_free_session(path, engine="auto")
    path.write_bytes(conv(batch="n", bias=1))
    with pytest.raises(CorruptModelError, match="has changed"):
        opened.evaluate_features({"x": noise()})


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


def test_no_other_engine_is_tried_on_what_onnxruntimes_kernels_refuse(
    openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO reflects over the margin of what it has, and writes over memory that is not its own."""
    reached = []
    compile_model = choice.compile_target

    def compiling(request: CompileRequest, target: Target) -> Any:
        reached.append(target.provider)
        return compile_model(request, target)

    monkeypatch.setattr(choice, "compile_target", compiling)
    node = helper.make_node("Pad", ["x", "margins"], ["y"], mode="reflect")
    margins = {"margins": np.array([0, 0, 0, 0, 0, 0, 1, 14337], np.int64)}
    ends = [tensor(name, [1, 3, "h" + name, "w" + name]) for name in "xy"]
    opened = open_free_session(data([node], ends[:1], ends[1:], margins), engine="auto")
    with pytest.raises(EvaluationError, match="Pad"):
        opened.evaluate_features({"x": np.zeros((1, 3, 2, 2), np.float32)})
    assert reached == []
    assert opened.engine == "undecided"


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
