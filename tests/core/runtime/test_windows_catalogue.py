"""Windows ML's catalogue of providers, by substitute: what it lists is tried and used like plugins, and it is not.

The package exists on Windows alone. The substitute has the part of its interface that is used, as windowsml 2.5 has it;
a library that works is WebGPU's.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from helpers.models import unary
from helpers.packages import install_package
from helpers.paths import ROOT
from helpers.processes import ABORTED
from winml_py import InvalidDeviceError, LearningModel, LearningModelDevice, LearningModelSession
from winml_py.cli import doctor as diagnosis
from winml_py.core.runtime.providers import plugins
from winml_py.core.runtime.providers.catalogue import WEBGPU
from winml_py.core.runtime.providers.plugins import Plugin
from winml_py.core.runtime.providers.provider import BUILT_IN, ProviderDevice

pytestmark = pytest.mark.one_python

STAND_IN = """
import enum, json, os

NOTES = {notes!r}

def note(*words):
    with open(NOTES, "a") as file:
        file.write(" ".join(words) + "\\n")

class EpReadyState(enum.IntEnum):
    Ready = 0
    NotReady = 1
    NotPresent = 2

class ExecutionProvider:
    def __init__(self, name, version, state, path):
        self.name, self.version, self.ready_state, self._path = name, version, EpReadyState[state], path

    @property
    def library_path(self):
        return self._path if self.ready_state == EpReadyState.Ready else ""

    def ensure_ready(self):
        note("ensure_ready", self.name)
        if self.name == "StuckExecutionProvider":
            raise OSError("[WinError -2147009196] Unspecified error")
        self.ready_state = EpReadyState.Ready

class EpCatalog:
    def __init__(self):
        note("asked", str(os.getpid()))
        self.is_open = False
        {first}
        self.is_open = True

    def find_all_providers(self):
        return [ExecutionProvider(*one) for one in {listed!r}]

    def close(self):
        if self.is_open:
            os.abort()

    __del__ = close
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, which has windowsml alone."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(plugins, "find_installed", cache(lambda: ("windowsml",)))
    monkeypatch.setattr(plugins, "_probed", {})
    return folder


def found(site: Path, *listed: tuple[str, str, str, str], first: str = "pass") -> list[Plugin]:
    """What is found where the catalogue has these providers."""
    install_package(site, "windowsml", STAND_IN.format(notes=str(site / "notes"), listed=listed, first=first))
    return plugins.probe()[1:]


def notes(site: Path) -> list[str]:
    return (site / "notes").read_text().splitlines()


def webgpu_library() -> str:
    return str(pytest.importorskip("onnxruntime_ep_webgpu").get_library_path())


NOTHING_THERE = ("ElsewhereExecutionProvider", "0.3", "Ready", "/nowhere/lib.so")


@pytest.mark.parametrize("state", ["Ready", "NotReady"])
def test_a_provider_that_is_installed_is_a_device_like_a_plugins(
    gpu: LearningModelDevice, site: Path, state: str
) -> None:
    library = webgpu_library()
    (plugin,) = found(site, (WEBGPU.name, "0.9.1", state, library))
    assert (plugin.package, plugin.version, plugin.problem) == (WEBGPU.name, "0.9.1", "")
    (device,) = plugin.devices
    assert (device.provider, device.package, device.library) == (WEBGPU.name, WEBGPU.name, library)
    listed = LearningModelDevice.find("webgpu")
    assert (listed.name, listed.hardware, listed.adapter_id) == (gpu.name, "gpu", gpu.adapter_id)
    session = LearningModelSession(LearningModel.load(unary("Neg", [2])), listed)
    result = session.evaluate_features({"x": np.float32([1, -2])}).outputs["y"].to_numpy()
    assert (session.engine, list(result)) == (WEBGPU.name, [-1, 2])
    assert "windowsml" not in sys.modules


def test_the_catalogue_is_asked_once_by_another_process_and_never_released(site: Path) -> None:
    found(site, NOTHING_THERE)
    plugins.probe()
    (asked,) = notes(site)
    word, number = asked.split()
    assert word == "asked"
    assert int(number) != os.getpid()
    assert "windowsml" not in sys.modules


def test_what_is_not_installed_is_named_and_not_downloaded(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plugin,) = found(site, ("NvTensorRTRTXExecutionProvider", "0.0.26", "NotPresent", ""))
    assert (plugin.package, plugin.version, plugin.devices) == ("NvTensorRTRTXExecutionProvider", "0.0.26", ())
    assert plugin.problem.startswith("Windows offers it for this machine; to install it, run `python -c ")
    assert not [line for line in notes(site) if "ensure_ready" in line]
    assert f"NvTensorRTRTXExecutionProvider: {plugin.problem}" in plugins.describe_problems()
    command = shlex.split(plugin.problem.split("`")[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])}
    subprocess.run([sys.executable, *command[1:]], env=environment)
    assert notes(site)[-1] == "ensure_ready NvTensorRTRTXExecutionProvider"


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (NOTHING_THERE, "it cannot be loaded: "),
        (("PathlessExecutionProvider", "1", "Ready", ""), "the catalogue does not say where its library is"),
        (("StuckExecutionProvider", "1", "NotReady", "x"), "the catalogue cannot make it ready: OSError: [WinError"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_one_that_cannot_be_used_says_why(site: Path, listed: tuple[str, str, str, str], problem: str) -> None:
    (plugin,) = found(site, listed)
    assert plugin.package == listed[0]
    assert plugin.problem.startswith(problem)
    assert "\n" not in plugin.problem


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ("os.abort()", rf"its probe failed: it ended with {ABORTED}"),
        ("raise ImportError('winml is only supported on Windows')", "its probe failed: ImportError: winml is only"),
    ],
)
def test_a_catalogue_that_ends_its_process_costs_one_line(
    site: Path, monkeypatch: pytest.MonkeyPatch, first: str, problem: str
) -> None:
    (plugin,) = found(site, NOTHING_THERE, first=first)
    assert (plugin.package, plugin.version) == ("windowsml", "1.2")
    assert re.match(problem, plugin.problem)
    assert "\n" not in plugin.problem
    with pytest.raises(InvalidDeviceError, match=f"windowsml: {problem}"):
        LearningModelDevice.find("directx")


def test_an_empty_catalogue_says_so(site: Path) -> None:
    (plugin,) = found(site)
    assert plugin.package == "windowsml"
    assert plugin.problem == "it lists no provider for this machine that is not in a package"


def test_a_provider_that_a_package_brings_is_the_packages(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two libraries with one provider would number their devices together."""
    device = ProviderDevice(WEBGPU.name, "onnxruntime-ep-webgpu", "library", 0, "gpu", "card", "ACME")
    ours = Plugin("onnxruntime-ep-webgpu", "1", (device,))
    monkeypatch.setattr(plugins, "_probed", {BUILT_IN: Plugin(BUILT_IN, ""), ours.package: ours})
    monkeypatch.setattr(plugins, "find_installed", cache(lambda: (ours.package, "windowsml")))
    tried = found(site, (WEBGPU.name, "1", "Ready", "/nowhere/lib.so"), NOTHING_THERE)
    assert [plugin.package for plugin in tried] == [ours.package, NOTHING_THERE[0]]
    assert plugins.find_devices("gpu") == [device]


def test_it_is_looked_for_by_its_name_and_asked_last(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(site))
    for name in ("windowsml", "windowsml-more", "onnxruntime-ep-zebra", "onnxruntime-extra"):
        install_package(site, name, "x = 1")
    plugins.find_installed.cache_clear()
    try:
        names = plugins.find_installed()
    finally:
        plugins.find_installed.cache_clear()
    assert not {"windowsml-more", "onnxruntime-extra"} & set(names)
    assert "onnxruntime-ep-zebra" in names
    assert names[-1] == "windowsml"


def test_the_doctor_lists_each(site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(diagnosis, "try_device", lambda index: {"device": str(index), "problem": ""})
    found(site, NOTHING_THERE, ("NvTensorRTRTXExecutionProvider", "0.0.26", "NotPresent", ""))
    facts = diagnosis.diagnose()
    assert facts["packages"]["windowsml"] == "1.2"
    rows = {row["package"]: row for row in facts["providers"]}
    assert rows["NvTensorRTRTXExecutionProvider"]["version"] == "0.0.26"
    assert "to install it, run" in rows["NvTensorRTRTXExecutionProvider"]["problem"]
    assert rows[NOTHING_THERE[0]]["problem"].startswith("it cannot be loaded: ")
    told = dict(diagnosis._list_findings(json.loads(json.dumps(facts))))
    assert told["NvTensorRTRTXExecutionProvider"].startswith("0.0.26: Windows offers it for this machine")
