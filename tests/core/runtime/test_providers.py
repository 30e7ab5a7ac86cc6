"""What is special about a provider stands in one object: a made-up one in the catalogue is treated as it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import winml_py
from helpers.models import unary
from helpers.providers import Runtime, make_device, runtime
from helpers.sessions import open_session
from winml_py import InvalidArgumentError, LearningModelDevice, Precision, Weights
from winml_py.core import cache
from winml_py.core.runtime.engine import EngineOptions
from winml_py.core.runtime.gpu_compiler import DeviceCompiler
from winml_py.core.runtime.ort.device_engine import OrtDeviceEngine
from winml_py.core.runtime.ort.ort_engine import OrtEngine
from winml_py.core.runtime.providers import catalogue, plugins, probe
from winml_py.core.runtime.providers import openvino as openvino_provider
from winml_py.core.runtime.providers.provider import BUILT_IN, CPU_NAME, Provider, ProviderDevice, Target
from winml_py.core.runtime.request import CompileRequest
from winml_py.core.runtime.runs import UNLOCKED

__all__ = ["runtime"]  # a fixture

NAME = "AbacusExecutionProvider"
DEVICE = ProviderDevice(NAME, "onnxruntime-ep-abacus", "lib.so", 3, "gpu", "Abacus 9000", "ACME", float16=True)


def options(target: Target, given: EngineOptions) -> dict[str, str]:
    return {"beads": str(given.intra_op_num_threads), "half": str(target.precision.is_half)}


def register(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> None:
    monkeypatch.setitem(catalogue.PROVIDERS, NAME, Provider(NAME, **facts))


def test_names_and_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    assert catalogue.find_full_name("abacus") == "abacus"
    register(monkeypatch, rank=-1)
    for name in ("abacus", "Abacus", NAME, NAME.lower()):
        assert catalogue.find_full_name(name) == NAME
    others = [DEVICE._replace(provider=name) for name in catalogue.PROVIDERS if name != NAME]
    assert min([*others, DEVICE], key=catalogue.rank_device) is DEVICE


def test_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    given = EngineOptions(4, provider_options=(("beads", "7"), ("wires", "2")))
    assert catalogue.make_native_options(Target(DEVICE), given, False) == dict(
        given.provider_options
    )  # nobody knows it
    register(monkeypatch, option_keys="beads wires half record", options=options, capture_option="record")
    native = catalogue.make_native_options(Target(DEVICE, Precision.FLOAT16), EngineOptions(4), False)
    assert native == {"beads": "4", "half": "True"}
    asked = catalogue.make_native_options(Target(DEVICE), given, True)
    assert asked == {"beads": "7", "wires": "2", "half": "False", "record": "1"}  # the caller's come first
    with pytest.raises(InvalidArgumentError, match=r"no option 'bead'.*Did you mean 'beads'"):
        catalogue.make_native_options(Target(DEVICE), EngineOptions(1, provider_options=(("bead", "1"),)), False)


@pytest.mark.parametrize("is_shared", [True, False])
def test_its_lock(monkeypatch: pytest.MonkeyPatch, is_shared: bool) -> None:
    register(monkeypatch, shares_lock=is_shared)
    compiler = DeviceCompiler(DEVICE)
    assert (compiler.make_session_lock() is compiler.make_session_lock()) is is_shared
    assert (catalogue.get_device_lock(DEVICE) is compiler.make_session_lock()) is is_shared
    assert (catalogue.get_device_lock(DEVICE) is UNLOCKED) is not is_shared
    assert catalogue.get_device_lock(None) is UNLOCKED


def test_sessions_share_an_engine_that_captures_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    compiler = DeviceCompiler(DEVICE)
    assert compiler.make_key(EngineOptions(1)) == compiler.make_key(EngineOptions(1))
    register(monkeypatch, takes_one_thread=True)
    compiler = DeviceCompiler(DEVICE)
    assert compiler.make_key(EngineOptions(1)) != compiler.make_key(EngineOptions(1))
    register(monkeypatch, capture_option="record")
    compiler = DeviceCompiler(DEVICE)
    assert compiler.make_key(EngineOptions(1)) == compiler.make_key(EngineOptions(1))
    own = EngineOptions(1, provider_options=(("record", "1"),))
    for demanded in (EngineOptions(1, graph_capture=True), own):
        assert compiler.make_key(demanded) != compiler.make_key(demanded)


class Session:
    """As much of ONNX Runtime's session as an engine asks for when it is made."""

    def get_inputs(self) -> list[Any]:
        return []

    get_outputs = get_inputs


def test_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, memory="beads")
    session: Any = Session()
    target = Target(DEVICE, Precision.FLOAT16)
    engine = OrtDeviceEngine(session, EngineOptions(1), target, DEVICE, False)
    assert str(engine.location) == "beads:3"
    assert engine.explanation[:2] == (NAME, Precision.FLOAT16)
    assert OrtEngine(session, EngineOptions(1), target).location is None
    engine.close()


def test_the_engine_of_a_provider_with_memory_is_one_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled by the CPU, which takes the place of a plugin that is not there."""
    import onnxruntime

    from winml_py.core.runtime.ort import compile as compiling
    from winml_py.core.runtime.ort import device_engine

    given: list[dict[str, str]] = []
    real = onnxruntime.InferenceSession

    def session(model: Any, native: Any, providers: Any, **rest: Any) -> Any:
        made = real(model, native, ["CPUExecutionProvider"], **rest)
        made.get_providers = lambda: [NAME]
        return made

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)

    def providers_and_lock(_: Any, __: ProviderDevice, options: EngineOptions, target: Target, ___: bool) -> Any:
        given.append(catalogue.make_native_options(target, options, False))
        return None, UNLOCKED

    monkeypatch.setattr(device_engine, "choose_providers", providers_and_lock)
    for memory in ("", "beads"):
        register(monkeypatch, memory=memory, options=options)
        engine = compiling.compile_with_ort(CompileRequest(unary("Neg", [2]), EngineOptions(1)), Target(DEVICE))
        assert (engine.location is not None) is bool(memory)
        engine.close()
    assert given == [{"beads": "1", "half": "False"}] * 2
    register(monkeypatch, memory="beads")
    words = compiling.compile_with_ort(CompileRequest(unary("Identity", [2], 8), EngineOptions(1)), Target(DEVICE))
    assert words.location is None  # strings have no address there
    words.close()


def test_devices_that_stand_for_others_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    class Found:
        ep_name = NAME

        def __init__(self, **metadata: str) -> None:
            self.ep_metadata = metadata

    listed = [Found(), Found(all_of_them="1")]
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: listed)
    assert plugins.list_plugin_devices(NAME) == listed
    register(monkeypatch, meta_device_key="all_of_them")
    assert plugins.list_plugin_devices(NAME) == listed[:1]


def test_nothing_else_compares_a_providers_name() -> None:
    """The names stand in the providers' own files; everything else asks the provider's object."""
    names = {provider.name for provider in catalogue.PROVIDERS.values() if not provider.package} - {catalogue.CPU.name}
    for path in Path(winml_py.__file__).parent.rglob("*.py"):
        if path.parent.name != "providers":
            text = path.read_text()
            assert not [name for name in names if f'"{name}"' in text], path


@pytest.mark.parametrize(("threads", "streams", "total"), [(1, "8", "8"), (3, "2", "6"), (8, "1", "8"), (9, "1", "9")])
def test_openvino_has_a_stream_for_each_call_that_fits(
    threads: int, streams: str, total: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openvino_provider, "count_usable_cores", lambda: 8)
    package = DEVICE._replace(provider=catalogue.OPENVINO_PACKAGE.name, hardware="cpu")
    found = catalogue.make_native_options(Target(package), EngineOptions(threads), False)
    assert (found["NUM_STREAMS"], found["INFERENCE_NUM_THREADS"]) == (streams, total)
    plugin = DEVICE._replace(provider=catalogue.OPENVINO.name, hardware="cpu")
    found = json.loads(catalogue.make_native_options(Target(plugin), EngineOptions(threads), False)["load_config"])[
        "CPU"
    ]
    assert (found["NUM_STREAMS"], found["INFERENCE_NUM_THREADS"]) == (streams, total)


def test_openvino_is_told_the_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left alone it takes bfloat16 on processors that have it."""
    monkeypatch.setattr(openvino_provider, "count_usable_cores", lambda: 3)
    for hardware, key in (("cpu", "CPU"), ("gpu", "GPU")):
        device = DEVICE._replace(provider=catalogue.OPENVINO.name, hardware=hardware)
        for is_half, hint in ((False, "f32"), (True, "f16")):
            target = Target(device, Precision.FLOAT16 if is_half else Precision.FLOAT32)
            native = catalogue.make_native_options(target, EngineOptions(3), False)
            config = json.loads(native["load_config"])[key]
            assert config["INFERENCE_PRECISION_HINT"] == hint
            assert config.get("INFERENCE_NUM_THREADS") == ("3" if hardware == "cpu" else None)
    npu = DEVICE._replace(provider=catalogue.OPENVINO.name, hardware="npu")
    assert catalogue.make_native_options(Target(npu), EngineOptions(3), False) == {}


@pytest.mark.parametrize("key", ["load_config", "num_of_threads", "num_streams"])
def test_a_program_does_not_replace_the_precision_of_openvino(key: str) -> None:
    target = Target(DEVICE._replace(provider=catalogue.OPENVINO.name, hardware="gpu"))
    options = EngineOptions(3, provider_options=((key, "2"),))
    with pytest.raises(InvalidArgumentError, match=f"no option '{key}'"):
        catalogue.make_native_options(target, options, False)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (
            "Failed to load library /a b/libonnxruntime_providers_nv_tensorrt_rtx.so with error: libcuda.so.1: cannot "
            "open shared object file: No such file or directory",
            "libcuda.so.1 is missing. Install NVIDIA's driver, which contains it",
        ),
        (
            r'Error loading "C:\a b\provider.dll" which depends on "nvcuda.dll" which is missing. (Error 126: "...")',
            "nvcuda.dll is missing. Install NVIDIA's driver, which contains it",
        ),
        (r'Error loading "C:\b.dll" which depends on "zlib.dll" which is missing.', "zlib.dll is missing"),
        ("/nowhere/lib.so: undefined symbol", ""),
    ],
)
def test_a_missing_library_is_named_in_plain_words(error: str, problem: str) -> None:
    """As ONNX Runtime 1.32 prints it, on Linux and on Windows."""
    assert probe.explain_missing(error) == problem


def test_cudas_plugin_finds_its_card_by_the_device_and_not_by_a_number() -> None:
    """No such plugin is published yet; the runtime's package has the provider of the same name."""
    built_in = DEVICE._replace(provider=catalogue.CUDA.name, library="")
    plugin = DEVICE._replace(provider=catalogue.CUDA.name, package="onnxruntime-ep-cuda13")
    assert catalogue.make_native_options(Target(built_in), EngineOptions(1), False) == {"device_id": "3"}
    assert catalogue.make_native_options(Target(plugin), EngineOptions(1), False) == {}


def test_options_of_tensorrt_for_rtx() -> None:
    target = Target(DEVICE._replace(provider=catalogue.TENSORRT_RTX.name))
    given = EngineOptions(1, provider_options=(("nv_runtime_cache_path", "here"),))
    assert catalogue.make_native_options(target, given, False) == {"nv_runtime_cache_path": "here"}
    for key in ("nv_runtime_cache", "enable_cuda_graph"):
        with pytest.raises(InvalidArgumentError, match=f"no option '{key}'"):
            catalogue.make_native_options(target, EngineOptions(1, provider_options=((key, "1"),)), False)


def test_core_ml_has_a_folder_of_compiled_models_for_each_content(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Core ML finds a compiled model by the model's path, and would not notice that the file is another one."""
    import onnxruntime

    folders: list[str | None] = []
    compiled: list[str] = []

    def make(model: Any, native: Any, providers: Any, **rest: Any) -> Any:
        ((_, given), _) = providers
        folders.append(given.get("ModelCacheDirectory"))
        if folders[-1] is not None:
            file = Path(folders[-1], "compiled.mlmodelc")
            if not file.exists():
                file.write_text("compiled")
                compiled.append(folders[-1])
        return runtime.session(model, native, providers, **rest)

    monkeypatch.setattr(onnxruntime, "InferenceSession", make)
    device, path = make_device(catalogue.COREML), tmp_path / "model.onnx"

    def evaluate(**settings: Any) -> list[float]:
        with open_session(path, device, **settings) as session:
            result: list[float] = session.evaluate_features({"x": np.float32([4, 1])}).outputs["y"].to_numpy().tolist()
        return result

    path.write_bytes(unary("Neg", [2]))
    assert [evaluate(), evaluate()] == [[-4, -1], [-4, -1]]
    assert len(compiled) == 1
    path.write_bytes(unary("Sqrt", [2]))
    assert [evaluate(), evaluate()] == [[2, 1], [2, 1]]
    assert len(compiled) == 2
    saved = [Path(model.path, "compiled.mlmodelc") for model in cache.list_saved_models()]
    assert [file.read_text() for file in saved] == ["compiled"] * 2
    folders.clear()
    evaluate(weights=Weights.PRIVATE)
    evaluate(provider_options={"ModelCacheDirectory": str(tmp_path)})
    monkeypatch.setenv("WINML_PY_CACHE", "")
    evaluate()
    assert folders == [None, str(tmp_path), None]


def _built_in(monkeypatch: pytest.MonkeyPatch, provider: str, problem: str = "") -> tuple[list[ProviderDevice], str]:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [provider, "CPUExecutionProvider"])
    monkeypatch.setattr(probe, "_find_problem", lambda *_: problem)
    facts = probe._try_built_in()
    return list(facts["devices"]), facts["problem"]


@pytest.mark.parametrize(
    ("provider", "hardware", "options"),
    [
        ("CoreMLExecutionProvider", "gpu", {"ModelFormat": "MLProgram", "MLComputeUnits": "CPUAndGPU"}),
        ("QNNExecutionProvider", "npu", {}),  # of which nothing is known
    ],
)
def test_what_a_build_of_the_runtime_has_is_listed(
    provider: str, hardware: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, problem = _built_in(monkeypatch, provider)
    assert problem == ""
    assert (found[0].provider, found[0].hardware, found[0].library) == (provider, hardware, "")
    assert catalogue.make_native_options(Target(found[0]), EngineOptions(3), False) == options
    found, problem = _built_in(monkeypatch, provider, "Fail: no kernel")
    assert found == []
    assert "Fail: no kernel" in problem


def test_a_provider_outside_the_catalogue_works_by_its_name(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "QNNExecutionProvider"
    listed = DEVICE._replace(provider=name, hardware="npu", name="Hexagon")
    monkeypatch.setattr(plugins, "_probed", {BUILT_IN: plugins.Plugin(BUILT_IN, "", (listed,))})
    found = LearningModelDevice.find("qnn")
    session = open_session(unary("Neg", [2]), found, provider_options={"backend_type": "htp"})
    assert (session.engine, runtime.sessions[0].providers) == (name, [(name, {"backend_type": "htp"}), CPU_NAME])
    assert session.evaluate_features({"x": np.float32([1, -2])}).outputs["y"].to_numpy().tolist() == [-1, 2]


def test_what_calls_over_the_network_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _built_in(monkeypatch, "AzureExecutionProvider") == ([], "")


def test_half_precision_that_fails_leaves_a_device_for_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [NAME])
    monkeypatch.setattr(probe, "_find_problem", lambda options, providers, half: "Fail: no float16" if half else "")
    (device,) = probe._try_built_in()["devices"]
    assert device.float16 is False
