"""Finding devices: plugins that work, plugins that do not, and what takes down no more than a child process."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from helpers.packages import install_package
from helpers.paths import MODELS
from helpers.processes import ABORTED, write_program
from winml_py import InvalidDeviceError, LearningModelDevice, LearningModelDeviceKind
from winml_py.cli import doctor as diagnosis
from winml_py.cli.main import main
from winml_py.core import cache
from winml_py.core.base import machine as cores
from winml_py.core.runtime.providers import nvidia, plugins
from winml_py.core.runtime.providers.catalogue import CUDA, TENSORRT, WEBGPU
from winml_py.core.runtime.providers.openvino import OPENVINO
from winml_py.core.runtime.providers.plugins import Plugin
from winml_py.core.runtime.providers.provider import BUILT_IN, ProviderDevice

NAMES = "\ndef get_ep_names(): return ['BrokenExecutionProvider']\n"
BROKEN = {
    "raises": ("raise RuntimeError('no luck today')", "it cannot be loaded: RuntimeError: no luck today"),
    "aborts": ("import os; os.abort()", f"its probe failed: it ended with {ABORTED}"),
    "exits": ("import os; os._exit(3)", "its probe failed: it ended with status 3"),
    "library": (
        f"def get_library_path(): return __file__{NAMES}",
        "it cannot be loaded: Fail",
    ),
    "missing": (f"def get_library_path(): return '/nowhere/lib.so'{NAMES}", "it cannot be loaded: .*/nowhere/lib.so"),
    "half": ("x = 1", "it cannot be loaded: AttributeError"),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages of its own."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(plugins, "_probed", {})
    return folder


def found(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[Plugin]:
    monkeypatch.setattr(plugins, "find_installed", lambda: names)
    return plugins.probe()[1:]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_says_what_it_lacks(site: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    code, problem = BROKEN[kind]
    name = f"onnxruntime-ep-{kind}"
    install_package(site, name, code)
    (plugin,) = found(monkeypatch, name)
    assert re.match(problem, plugin.problem)
    assert (plugin.package, plugin.version, plugin.devices) == (name, "1.2", ())
    with pytest.raises(InvalidDeviceError, match=rf"No installed package can use a GPU: {name}: .*pip install"):
        LearningModelDevice(LearningModelDeviceKind.DIRECTX)


LAYOUTS = {
    "onnxruntime-ep-webgpu": "def get_ep_name(): return 'A'\ndef get_library_path(): return '/nowhere/lib.so'",
    "onnxruntime-ep-cuda13": "def get_ep_names(): return ['A']\ndef get_library_path(): return '/nowhere/lib.so'",
    "onnxruntime-ep-mlx": "def ep_name(): return 'A'\ndef library_path(): return '/nowhere/lib.so'",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_library_of_each_layout_of_plugins_is_found(site: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    install_package(site, name, LAYOUTS[name])
    (plugin,) = found(monkeypatch, name)
    assert "/nowhere/lib.so" in plugin.problem


def test_a_package_that_only_requires_a_plugin_is_not_one(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's has no module; the one that it requires is in a module of its name."""
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(site))
    install_package(site, "onnxruntime-ep-nv-tensorrt-rtx", None)
    install_package(site, "onnxruntime-ep-nv-tensorrt-rtx-cu13", "x = 1")
    plugins.find_installed.cache_clear()
    try:
        names = [name for name in plugins.find_installed() if "-nv-" in name]
    finally:
        plugins.find_installed.cache_clear()
    assert names == ["onnxruntime-ep-nv-tensorrt-rtx-cu13"]


def test_a_plugins_module_is_imported_where_its_library_is_used(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's loads what its library needs, which the system's loader would not find."""
    import onnxruntime

    name = "onnxruntime-ep-needy"
    install_package(site, name, "loaded = True")
    monkeypatch.setattr(plugins, "find_installed", lambda: (name,))
    monkeypatch.setattr(plugins, "_registered", set())
    monkeypatch.setattr(plugins, "_registrar", set())
    was_loaded: list[bool] = []
    monkeypatch.setattr(
        onnxruntime,
        "register_execution_provider_library",
        lambda package, library: was_loaded.append("onnxruntime_ep_needy" in sys.modules),
    )
    monkeypatch.setattr(plugins, "list_plugin_devices", lambda provider: ["the device"])
    device = ProviderDevice("NeedyExecutionProvider", name, "lib.so", 0, "gpu", "card", "ACME")
    assert plugins.find_runtime_device(device) == "the device"
    assert was_loaded == [True]


def test_one_broken_plugin_does_not_hide_the_others(
    site: Path, monkeypatch: pytest.MonkeyPatch, openvino_plugin: ProviderDevice
) -> None:
    monkeypatch.setattr(plugins, "_probed", {})
    install_package(site, "onnxruntime-ep-aborts", "import os; os.abort()")
    broken, working = found(monkeypatch, "onnxruntime-ep-aborts", "onnxruntime-ep-openvino")
    assert broken.problem
    assert working.devices == (openvino_plugin,)


def test_a_driver_that_hangs_is_given_up(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(site, "onnxruntime-ep-hangs", "import time; time.sleep(60)")
    monkeypatch.setattr(plugins, "PROBE_SECONDS", 1.0)
    monkeypatch.setattr(plugins, "_probed", {BUILT_IN: Plugin(BUILT_IN, "")})
    (plugin,) = found(monkeypatch, "onnxruntime-ep-hangs")
    assert plugin.problem == "its probe failed: it did not answer within 1 s"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler to make a driver with")
def test_a_driver_that_aborts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: LearningModelDevice) -> None:
    """The Vulkan loader finds it, and loading it ends the process: the child's, not ours."""
    source, library, manifest = tmp_path / "d.c", tmp_path / "libd.so", tmp_path / "d.json"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    driver = {"file_format_version": "1.0.0", "ICD": {"api_version": "1.3.0", "library_path": str(library)}}
    manifest.write_text(json.dumps(driver))
    monkeypatch.setenv("VK_ICD_FILENAMES", str(manifest))
    monkeypatch.setattr(plugins, "_probed", {})
    with pytest.raises(InvalidDeviceError, match="SIGABRT"):
        LearningModelDevice(LearningModelDeviceKind.GPU)


def device(name: str, provider: str = WEBGPU.name, **facts: Any) -> ProviderDevice:
    return ProviderDevice(provider, "package", "library", 0, facts.pop("hardware", "gpu"), name, "", **facts)


GPUS = (
    device("played", is_software=True),
    device("shared", memory=1),
    device("card", is_discrete=True, memory=8 << 30),
    device("card", CUDA.name, is_discrete=True, memory=8 << 30),
    device("card", TENSORRT.name, is_discrete=True, memory=8 << 30),
    device("neural", OPENVINO.name, hardware="npu"),
)


def test_devices_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_probed", {BUILT_IN: Plugin(BUILT_IN, "", GPUS)})
    listed = [(found.name, found.provider) for found in LearningModelDevice.find_all()[1:]]
    assert listed == [
        ("card", CUDA.name),
        ("card", WEBGPU.name),
        ("card", TENSORRT.name),
        ("shared", WEBGPU.name),
        ("played", WEBGPU.name),
        ("neural", OPENVINO.name),
    ]
    taken = {kind: LearningModelDevice(kind).name for kind in list(LearningModelDeviceKind)[2:]}
    assert taken == {
        LearningModelDeviceKind.DIRECTX: "card",
        LearningModelDeviceKind.DIRECTX_HIGH_PERFORMANCE: "card",
        LearningModelDeviceKind.DIRECTX_MIN_POWER: "shared",
    }
    assert LearningModelDevice.find("npu").name == "neural"
    assert LearningModelDevice.find("GPU-min-power").kind is LearningModelDeviceKind.DIRECTX_MIN_POWER
    assert LearningModelDevice.find("gpu-high-performance").kind is LearningModelDeviceKind.DIRECTX_HIGH_PERFORMANCE
    assert LearningModelDevice.find("tensorrt").provider == TENSORRT.name
    assert LearningModelDevice.find("card").memory == 8 << 30


def test_equal_cards_are_told_apart_by_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def list_cards(*identities: int) -> list[LearningModelDevice]:
        cards = [device("card", CUDA.name, identity=(0, one))._replace(number=n) for n, one in enumerate(identities)]
        monkeypatch.setattr(plugins, "_probed", {BUILT_IN: Plugin(BUILT_IN, "", tuple(cards))})
        return LearningModelDevice.find_all()[1:]

    pair = list_cards(7, 8)
    pickled = [pickle.dumps(card) for card in pair]
    assert [pickle.loads(card) for card in pickled] == pair
    assert pair[0] != pair[1]
    (only,) = list_cards(9)
    assert pickle.loads(pickled[1]) == only
    for identities in ((9, 10), ()):
        list_cards(*identities)
        with pytest.raises(InvalidDeviceError, match=r"The pickled device card .CUDA.* is not available here"):
            pickle.loads(pickled[0])


def test_the_cpu_is_always_there() -> None:
    (cpu,) = LearningModelDevice.find_all()
    assert (cpu.hardware, cpu.provider, cpu.adapter_id) == ("cpu", "CPUExecutionProvider", (0, 0))
    assert cpu.name
    assert cpu.memory is None or cpu.memory > 1 << 28
    assert not cpu.supports_float16  # nothing that could is installed for this test


def test_a_plugin_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidDeviceError, match="cannot be loaded"):
        plugins.find_runtime_device(device("gone")._replace(package="gone", library="/nowhere/lib.so"))
    monkeypatch.setattr(plugins, "_registered", {"library"})
    with pytest.raises(InvalidDeviceError, match="no longer available"):
        plugins.find_runtime_device(device("gone", "GoneExecutionProvider"))


CARD = "NVIDIA H200, 143771, 00000000:3B:00.0, 570.1\n"


def test_what_the_nvidia_driver_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(tmp_path, "nvidia-smi", f"print({CARD!r}, end='')")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    nvidia.find_gpus.cache_clear()
    try:
        (card,) = nvidia.find_gpus()
        write_program(tmp_path, "nvidia-smi", "import sys; print('the driver is broken', file=sys.stderr); sys.exit(9)")
        nvidia.find_gpus.cache_clear()
        assert nvidia.find_gpus() == ()
        with pytest.raises(InvalidDeviceError, match="Install the NVIDIA driver"):
            nvidia.list_devices("CUDAExecutionProvider")
    finally:
        nvidia.find_gpus.cache_clear()
    assert card == (0, "NVIDIA H200", 143771 << 20, (0, 0x3B0000), "570.1")


def test_a_program_in_the_working_directory_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows finds one there first: a file that somebody downloaded, say."""
    write_program(tmp_path, "nvidia-smi", f"open({str(tmp_path / 'started')!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    nvidia.find_gpus.cache_clear()
    nvidia.find_gpus()
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("visible", "names"), [(None, ["a", "b"]), ("1,0", ["b", "a"]), ("GPU-b", ["b"]), ("-1", []), ("", [])]
)
def test_cards_are_numbered_as_cuda_numbers_them(
    visible: str | None, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {name: f"{name}, 1, 0:0{place}:00.0, 1" for place, name in enumerate("ab")}
    write_program(
        tmp_path,
        "nvidia-smi",
        f"""
import sys
a, b = {rows["a"]!r}, {rows["b"]!r}
told = {{"": f"{{a}}\\n{{b}}", "--id=0": a, "--id=1": b, "--id=GPU-b": b}}
print(told.get("".join(sys.argv[3:])) or sys.exit(6))
""",
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvidia.find_gpus.cache_clear()
    cards = nvidia.find_gpus()
    nvidia.find_gpus.cache_clear()
    assert [(card.number, card.name) for card in cards] == list(enumerate(names))


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments), env={"COLUMNS": "140"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def test_the_command_lists_devices() -> None:
    code, out = call("devices", "--json")
    facts = json.loads(out)
    assert (code, facts["schema"]) == (0, 1)
    assert facts["devices"][0]["hardware"] == "cpu"
    code, out = call("devices")
    assert out.splitlines()[0].split() == ["device", "hardware", "provider", "memory", "half", "precision"]
    assert re.search(r"CPUExecutionProvider .* no\b", out)


def test_half_precision_of_the_cpu_is_another_engine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    openvino = device("cpu", OPENVINO.name, hardware="cpu", float16=True)
    monkeypatch.setattr(plugins, "find_devices", lambda hardware: [openvino] if hardware == "cpu" else [])
    assert re.search(r"CPUExecutionProvider .* with openvino", call("devices")[1])


def test_the_doctor_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out = call("doctor", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["packages"]["onnxruntime"]
    assert facts["cores"]["usable"] == cores.count_usable_cores()
    (cpu,) = [run for run in facts["devices"] if run["hardware"] == "cpu"]
    assert cpu["error"] == 0
    monkeypatch.setattr(diagnosis, "diagnose", lambda: facts)
    monkeypatch.setattr("winml_py.cli.doctor.diagnose", lambda: facts)
    code, out = call("doctor")
    assert code == 0
    for words in (
        "Vulkan loader" if sys.platform == "linux" else "",
        ": works",
        "No problems found.",
    ):
        assert words in out
    facts["problems"] = ["two of them"]
    facts["devices"] = [{"device": "card", "problem": "it is gone"}]
    code, out = call("doctor")
    assert code == 1
    assert "two of them" in out
    assert "card: it is gone" in out
    assert "No problems found." not in out
    facts["cache"]["folder"] = str(Path.home() / "a")
    assert f"in {os.path.join('~', 'a')}" in call("doctor")[1]


def test_the_doctor_finds_packages_that_clash(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(site, "onnxruntime-gpu", "x = 1")
    install_package(site, "opencv-python", "x = 1")
    monkeypatch.setattr(diagnosis, "try_device", lambda index: {"device": str(index)})
    problems = diagnosis.diagnose()["problems"]
    assert len(problems) == 2
    assert problems[0].startswith("onnxruntime and onnxruntime-gpu are both installed")
    assert "opencv-python and opencv-python-headless" in problems[1]


def test_the_doctor_counts_a_plugin_without_a_device_as_a_problem(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(site, "onnxruntime-ep-missing", BROKEN["missing"][0])
    monkeypatch.setattr(plugins, "find_installed", lambda: ("onnxruntime-ep-missing",))
    monkeypatch.setattr(diagnosis, "try_device", lambda index: {"device": str(index)})
    (problem,) = diagnosis.diagnose()["problems"]
    assert problem.startswith("onnxruntime-ep-missing: it cannot be loaded: ")


def test_the_doctor_survives_a_device_that_crashes(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (site / "sitecustomize.py").write_text("import os; os._exit(1)\n")  # each child process imports it as it starts
    assert diagnosis.try_device(0)["problem"].startswith("it ended with status 1")
    (site / "sitecustomize.py").unlink()
    monkeypatch.setattr(diagnosis, "TRY_SECONDS", 0.01)
    assert "did not answer" in diagnosis.try_device(0)["problem"]


def test_the_trial_run_on_a_gpu(gpu: LearningModelDevice) -> None:
    assert diagnosis._run_small_model(gpu)["error"] <= 1e-3


def test_the_command_runs_on_a_gpu(gpu: LearningModelDevice, seven: Path) -> None:
    arguments = ["run", str(MODELS / "digits.onnx"), str(seven), "--device", "gpu", "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["results"][0]["outputs"]["probabilities"]["top"][0]["index"] == 7


def test_the_command_refuses_devices_that_are_not_there(seven: Path) -> None:
    for arguments, code, words in (
        (["--device", "gpu"], 6, "no device named 'gpu'"),
        (["--engine", "openvino"], 6, "no engine"),
    ):
        result = CliRunner().invoke(main, ["run", str(MODELS / "digits.onnx"), str(seven), *arguments])
        assert result.exit_code == code
        assert words in " ".join(result.stderr.split())


def test_the_command_shows_and_clears_the_cache() -> None:
    folder = cache.choose_folder("a" * 40, 1)
    assert folder is not None
    cache.open_or_make(folder, "m.onnx", str, lambda made: None)
    assert json.loads(call("doctor", "--json")[1])["cache"]["models"] == 1
    assert call("doctor", "--clear-cache") == (0, "removed 1 saved model\n")
    assert json.loads(call("doctor", "--clear-cache", "--json")[1])["cleared"] == {"models": 0}


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 1.5),
        ("0::/", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/", {}, None),
        (
            "4:cpu,cpuacct:/x",
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "300000", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"},
            3.0,
        ),
        ("4:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("3:memory:/x", {"memory/x/cpu.cfs_quota_us": "1"}, None),
        ("nonsense", {}, None),
    ],
)
def test_what_a_control_group_grants(tmp_path: Path, groups: str, files: dict[str, str], quota: float | None) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text(groups + "\n")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert cores.read_cgroup_quota(root, own) == quota
    assert cores.read_cgroup_quota(root, tmp_path / "none") is None


def test_usable_cores_heed_the_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for quota, expected in ((0.2, 1), (1.5, 2), (100.0, 8), (None, 8)):
        monkeypatch.setattr(cores, "count_allowed_cores", lambda: 8)
        monkeypatch.setattr(cores, "read_cgroup_quota", lambda quota=quota: quota)
        assert cores.count_usable_cores() == expected
