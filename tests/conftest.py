from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.paths import MODELS, PICTURES
from winml_py import LearningModel, LearningModelDevice, LearningModelSession
from winml_py.core.imaging import pixels
from winml_py.core.runtime.providers import plugins
from winml_py.core.runtime.providers.catalogue import WEBGPU
from winml_py.core.runtime.providers.openvino import OPENVINO, OPENVINO_PACKAGE
from winml_py.core.runtime.providers.provider import ProviderDevice
from winml_py.perf import tuning

OF_PLUGINS = {"gpu", "openvino_plugin", "real_plugins"}
"""Fixtures of tests that see the plugin packages which are installed."""
ALL_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set[int]()


def pytest_configure() -> None:
    if "WINML_PY_TEST_ISOLATED" in os.environ:
        from helpers.isolate_all import isolate_all

        isolate_all()
    # Of the processes of pytest-xdist and of the jobs of .ci/run, each has a core of its own. The threads of sessions
    # spin for a while after their work: on the cores of others, this would take half of the time of all tests.
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw") or os.environ.get("WINML_PY_TEST_CORE", "")
    if number and ALL_CORES:
        os.sched_setaffinity(0, {sorted(ALL_CORES)[int(number) % len(ALL_CORES)]})
    # Programs that tests interrupt inherit an ignored Ctrl-C, with which shells start what runs in the background.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers("posix") if os.name == "nt" else ():
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))
        if OF_PLUGINS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.plugins)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if os.name == "nt":
        reports = terminalreporter.stats.get("skipped", [])
        count = sum("posix" in report.keywords for report in reports)
        terminalreporter.write_line(f"left out on Windows, with the marker `posix`: {count}")


@given(st.none())
def _start_hypothesis(_: None) -> None:
    """Has Hypothesis make what it holds in each process."""


def pytest_collection_finish() -> None:
    # The collected tests, and all modules that they load, stay until the end: no collection of garbage looks at them.
    # Hypothesis asks the collector who holds its source of random numbers, and what is frozen is not in the answer.
    _start_hypothesis()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def digits() -> LearningModelSession:
    """A session of the digit classifier; tests that close sessions make their own."""
    return LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))


@pytest.fixture(scope="session")
def seven() -> Path:
    return PICTURES / "seven.png"


@pytest.fixture(scope="session")
def cat() -> Path:
    return PICTURES / "cat.jpg"


@pytest.fixture(autouse=True)
def _keep_apart(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What is installed beside the package, or was remembered, changes no test but those that ask for it."""
    cache_folder = tmp_path_factory.getbasetemp() / f"cache-{request.node.name[:40]}-{id(request)}"
    monkeypatch.setenv("WINML_PY_CACHE", str(cache_folder))
    if not {"openvino", *OF_PLUGINS} & set(request.fixturenames):
        monkeypatch.setattr(plugins, "find_installed", cache(lambda: ()))


@pytest.fixture
def all_cores() -> Iterator[None]:
    """The test is about several cores: its threads run at the same time, or sessions have more than one thread."""
    if not ALL_CORES:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, ALL_CORES)
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture
def natives(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[onnxruntime.InferenceSession]]:
    """ONNX Runtime's own sessions that the test has made so far, in order; those that were freed are None."""
    made: list[weakref.ref[onnxruntime.InferenceSession]] = []
    original = onnxruntime.InferenceSession.__init__

    def note(self: onnxruntime.InferenceSession, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        made.append(weakref.ref(self))

    monkeypatch.setattr(onnxruntime.InferenceSession, "__init__", note)
    return made


@pytest.fixture
def short_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `tune` measures takes no time, and says nothing about times."""
    monkeypatch.setattr(tuning, "BLOCK_SECONDS", 0.002)
    monkeypatch.setattr(tuning, "REST_SECONDS", 0)
    monkeypatch.setattr(tuning, "ROUNDS", 1)


@pytest.fixture
def pillow_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are scaled by Pillow itself, as where cykooz-resizer is not installed: to the last level."""
    monkeypatch.setattr(pixels, "import_fast_resizer", lambda: None)


@pytest.fixture
def real_plugins() -> None:
    """The plugin packages that are installed, whichever they are."""


@pytest.fixture
def gpu(request: pytest.FixtureRequest) -> LearningModelDevice:
    """A GPU; on a machine without one, what `.ci/software-gpu` prepares."""
    gpus = [device for device in LearningModelDevice.find_all() if device.hardware == "gpu"]
    if not gpus:
        reasons = "; ".join(plugin.problem for plugin in plugins.probe() if plugin.problem)
        if os.environ.get("WINML_PY_REQUIRE_GPU"):
            pytest.fail(f"a GPU was prepared and cannot be used: {reasons}")
        pytest.skip(f"no GPU: {reasons or 'winml-py[gpu] is not installed'}")
    if request.node.get_closest_marker("webgpu") and gpus[0].provider != WEBGPU.name:
        pytest.skip("it asks for WebGPU's memory, kernels or names")
    return gpus[0]


@pytest.fixture
def openvino() -> ProviderDevice:
    """OpenVINO's own package, which is part of the extra [test]."""
    packages = [device for device in plugins.find_devices("cpu") if device.provider == OPENVINO_PACKAGE.name]
    assert packages, plugins.describe_problems()
    return packages[0]


@pytest.fixture
def openvino_plugin() -> ProviderDevice:
    """The CPU device of OpenVINO's plugin, which Intel's processors have."""
    plugin_devices = [device for device in plugins.find_devices("cpu") if device.provider == OPENVINO.name]
    if not plugin_devices:
        pytest.skip("winml-py[intel] is not installed, or has no processor of Intel's")
    return plugin_devices[0]
