"""What providers compile and keep themselves: in which folder of the cache, whose it is, and when it is used again.

No card was here: the runtime's session is a substitute that writes a file where a provider would, see
`helpers/providers.py`.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner

from helpers.models import FLOAT16, unary
from helpers.providers import Runtime, device, runtime
from helpers.sessions import open_session
from winml_py import LearningModelSession, Tuning, Weights, WinMLError
from winml_py.cli.main import main
from winml_py.core.cache import folders
from winml_py.core.runtime.providers import catalogue, plugins
from winml_py.core.runtime.providers.amd import MIGRAPHX
from winml_py.core.runtime.providers.coreml import COREML
from winml_py.core.runtime.providers.openvino import OPENVINO
from winml_py.core.runtime.providers.provider import Provider
from winml_py.core.runtime.providers.qnn import QNN
from winml_py.core.runtime.providers.tensorrt import TENSORRT
from winml_py.core.runtime.providers.tensorrt_rtx import TENSORRT_RTX
from winml_py.core.runtime.providers.webgpu import WEBGPU

__all__ = ["runtime"]  # a fixture

pytestmark = [pytest.mark.kept, pytest.mark.one_python]

FOLDERS = {
    TENSORRT.name: ("trt_engine_cache_path", "trt_timing_cache_path"),
    TENSORRT_RTX.name: ("nv_runtime_cache_path",),
    COREML.name: ("ModelCacheDirectory",),
    MIGRAPHX.name: ("migraphx_model_cache_dir",),
}
"""The options by which each is told a folder, as its documentation has them."""

KEEPING = (TENSORRT, TENSORRT_RTX, COREML, MIGRAPHX)
by_provider = pytest.mark.parametrize("provider", KEEPING, ids=lambda provider: provider.name)


class Keeping:
    """The runtime, whose provider keeps a file in its folder, and one in a folder there, as Core ML does.

    Attributes:
        options: those of the provider, of each session that was made.
        refused: what makes the provider refuse a file; b"" is nothing.
        compiled: how often it compiled, and did not open what it had.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.options: list[dict[str, str]] = []
        self.refused = b""
        self.compiled = 0
        self._runtime = runtime

    def session(self, model: Any, native: Any, providers: Any = None, **rest: Any) -> Any:
        options = native.devices[0][1] if providers is None else providers[0][1]
        self.options.append(options)
        if folder := self.folder(options):
            engine, inner = Path(folder, "model.engine"), Path(folder, "model.mlmodelc", "weights.bin")
            if engine.exists() and self.refused and engine.read_bytes().startswith(self.refused):
                raise RuntimeError("it could not deserialize engine from cache")
            if not engine.exists():
                self.compiled += 1
                engine.write_bytes(b"compiled")
                inner.parent.mkdir()
                inner.write_bytes(b"12345")
        return self._runtime.session(model, native, providers, **rest)

    def folder(self, options: dict[str, str]) -> str:
        """The folder that the provider was told; "" where it was told none."""
        told = {options[key] for keys in FOLDERS.values() for key in keys if key in options}
        found = {folder for folder in told if os.path.isdir(folder)}
        assert len(found) <= 1
        return next(iter(found), "")

    @property
    def folders(self) -> list[str]:
        return [self.folder(options) for options in self.options]


@pytest.fixture
def keeping(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Keeping:
    made = Keeping(runtime)
    monkeypatch.setattr(onnxruntime, "InferenceSession", made.session)
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "neg.onnx"
    made.write_bytes(unary("Neg", [2]))
    return made


def opened(path: object, provider: Provider = TENSORRT, threads: int = 1, **settings: Any) -> LearningModelSession:
    library = "library" if provider is TENSORRT_RTX else ""
    return open_session(path, device(provider, library), intra_op_num_threads=threads, **settings)


def answer(session: LearningModelSession) -> list[float]:
    return list(session.evaluate_features({"x": np.float32([1, -2])}).outputs["y"].to_numpy())


@by_provider
def test_each_is_told_a_folder_of_the_cache(keeping: Keeping, path: Path, provider: Provider) -> None:
    assert answer(opened(path, provider)) == [-1, 2]
    (made,) = folders.entries()
    assert keeping.folders == [str(made.path)]
    assert [keeping.options[0][key] for key in FOLDERS[provider.name]] == [str(made.path)] * len(FOLDERS[provider.name])
    assert made.model == str(path)
    assert set(FOLDERS[provider.name]) <= set((provider.option_keys or " ".join(FOLDERS[provider.name])).split())


def test_tensorrts_engines_are_kept_and_its_measurements(keeping: Keeping, path: Path) -> None:
    opened(path)
    (options,) = keeping.options
    assert (options["trt_engine_cache_enable"], options["trt_timing_cache_enable"]) == ("1", "1")


@pytest.mark.parametrize("provider", [QNN, OPENVINO, WEBGPU, catalogue.CUDA], ids=lambda provider: provider.name)
def test_the_others_are_told_none(keeping: Keeping, path: Path, provider: Provider) -> None:
    assert provider.cache_options is None
    opened(path, provider)
    assert keeping.folders == [""]
    assert folders.entries() == []


def test_the_same_model_again_has_the_same_folder(keeping: Keeping, path: Path) -> None:
    for threads in (1, 2):  # each is a session of its own
        opened(path, threads=threads)
    assert len(keeping.folders) == 2
    assert len(set(keeping.folders)) == 1


def test_what_the_compiled_model_depends_on_has_a_folder_of_its_own(
    keeping: Keeping, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "abs.onnx"
    other.write_bytes(unary("Abs", [2]))
    opened(path)
    opened(other)
    opened(path, COREML)
    opened(path, provider_options={"trt_builder_optimization_level": 1})
    opened(path, tuning=Tuning(graph_optimization="basic"))
    monkeypatch.setattr(plugins, "runtime_version", lambda: "99.0")
    opened(path)
    path.write_bytes(unary("Abs", [2]))
    opened(path)
    assert len(set(keeping.folders)) == len(keeping.folders) == 7


def test_another_version_of_a_plugin_has_a_folder_of_its_own(
    keeping: Keeping, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("1.0", "1.1", "1.1"):
        monkeypatch.setattr(plugins, "version", lambda name, version=version: version)
        opened(path, TENSORRT_RTX)
    one, two, three = keeping.folders
    assert one != two == three


@pytest.mark.parametrize(
    "given",
    [
        {"trt_engine_cache_path": "/mine"},
        {"trt_engine_cache_enable": False},
        {"trt_timing_cache_path": "/mine"},
        {"trt_dump_ep_context_model": True},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_the_program_says_itself_counts(keeping: Keeping, path: Path, given: dict[str, Any]) -> None:
    opened(path, provider_options=given)
    texts = {key: value if isinstance(value, str) else str(int(value)) for key, value in given.items()}
    assert keeping.options == [{"device_id": "0", **texts}]
    assert folders.entries() == []


def test_a_model_file_of_what_was_compiled_is_the_programs(keeping: Keeping, path: Path, tmp_path: Path) -> None:
    opened(path, session_config={"ep.context_file_path": str(tmp_path / "context.onnx")})
    assert keeping.folders == [""]


@by_provider
def test_private_writes_nothing(keeping: Keeping, path: Path, provider: Provider) -> None:
    assert answer(opened(path, provider, weights=Weights.PRIVATE)) == [-1, 2]
    assert keeping.folders == [""]
    assert folders.entries() == []


def test_nothing_is_written_of_a_model_in_memory_or_without_a_folder(
    keeping: Keeping, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(path.read_bytes())
    monkeypatch.setenv("WINML_PY_CACHE", "")
    opened(path)
    assert keeping.folders == ["", ""]


def test_a_float16_model_is_kept_as_it_is_compiled(keeping: Keeping, tmp_path: Path) -> None:
    path = tmp_path / "half.onnx"
    path.write_bytes(unary("Neg", [2], FLOAT16))
    session = opened(path)  # a card without half precision
    result = session.evaluate_features({"x": np.float16([1, -2])}).outputs["y"].to_numpy()
    assert (list(result), result.dtype) == ([-1, 2], np.float16)
    assert keeping.folders == [str(made.path) for made in folders.entries()]


def test_the_options_of_a_session_are_the_programs(keeping: Keeping, path: Path) -> None:
    from winml_py.core.base.winrt_object import private_state

    session = opened(path, provider_options={"trt_min_subgraph_size": 3})
    assert keeping.options[0]["trt_min_subgraph_size"] == "3"
    assert private_state(session).engine.options.provider_options == (("trt_min_subgraph_size", "3"),)


def test_it_is_listed_and_the_command_clears_it(keeping: Keeping, path: Path) -> None:
    opened(path)
    (one,) = folders.entries()
    on_disk = [file for file in one.path.rglob("*") if file.is_file()]
    assert {file.name for file in on_disk} == {"model.engine", "weights.bin", "manifest.json"}
    assert (str(one.path), one.model) == (keeping.folders[0], str(path))
    assert one.size >= sum(file.stat().st_size for file in on_disk) > len(b"compiled") + len(b"12345")
    cleared = json.loads(CliRunner().invoke(main, ["doctor", "--clear-cache", "--json"]).stdout)
    assert cleared["cleared"] == {"choices": 0, "models": 1}
    assert not one.path.exists()
    opened(path)
    assert keeping.folders[1] == keeping.folders[0]


def test_what_the_provider_refuses_is_made_again(
    keeping: Keeping, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened(path)
    keeping.refused = b"old"
    engine = Path(keeping.folders[0], "model.engine")
    engine.write_bytes(b"old version")
    with caplog.at_level(logging.WARNING, "winml_py"):
        assert answer(opened(path)) == [-1, 2]
    assert "could not deserialize engine" in caplog.text
    assert "is made again" in caplog.text
    assert engine.read_bytes() == b"compiled"
    assert len(set(keeping.folders)) == 1


def test_a_session_is_made_where_nothing_can_be_kept(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A build that does not have the option, say, refuses it."""
    given = []

    def session(model: Any, native: Any, providers: Any = None, **rest: Any) -> Any:
        given.append(providers[0][1])
        if "migraphx_model_cache_dir" in providers[0][1]:
            raise RuntimeError("Unknown provider option: migraphx_model_cache_dir")
        return runtime.session(model, native, providers, **rest)

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    with caplog.at_level(logging.INFO, "winml_py"):
        assert answer(opened(path, MIGRAPHX)) == [-1, 2]
    assert "migraphx_model_cache_dir" in caplog.text
    assert [list(options) for options in given] == [["device_id", "migraphx_model_cache_dir"], ["device_id"]]
    assert folders.entries() == []


def test_an_error_of_the_model_is_the_programs(runtime: Runtime, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    def session(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the card has no such operator")

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    with pytest.raises(WinMLError, match="no such operator"):
        opened(path)
    assert folders.entries() == []
