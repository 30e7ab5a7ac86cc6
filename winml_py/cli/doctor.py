"""`winml-py devices`: where models can run; `winml-py doctor`: what is installed, and what does not work."""

from __future__ import annotations

import ctypes.util
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata

import click
import numpy as np

from .. import __version__
from .._values import evaluate_to_arrays
from ..core import cache
from ..core.base.agreement import FLOAT_TOLERANCE, compute_relative_error
from ..core.base.child_process import start_main, wait_for_main
from ..core.base.machine import count_usable_cores
from ..core.base.messages import Facts
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.providers import nvidia, plugins
from ..core.runtime.providers.nvidia import read_built_versions
from ..core.session.session import LearningModelSession
from ..errors import WinMLError
from .arguments import json_option
from .style import emit, format_size, print_line, print_pairs, print_table


@click.command()
@json_option
def devices(as_json: bool) -> None:
    """List the devices that models can run on, best first.

    The command runs a small model on each device. You can pass a name from the list to `winml-py run --device`.
    """
    names = ("name", "hardware", "vendor", "provider", "memory", "supports_float16")
    facts = [
        {name: getattr(device, name) for name in names} | {"adapter_id": list(device.adapter_id)}
        for device in LearningModelDevice.find_all()
    ]
    emit({"devices": facts}, as_json, _print_devices)
    if problems := plugins.describe_problems():
        print_line(f"Not used: {problems}", is_error=True)


def _print_devices(facts: Facts) -> None:
    rows = []
    for device in facts["devices"]:
        memory = format_size(device["memory"]) if device["memory"] else ""
        half = "yes" if device["supports_float16"] else "no"
        if half == "yes" and device["hardware"] == "cpu":  # but not by the provider in this row
            half = f"with {', '.join(engine.engine for engine in plugins.find_devices('cpu') if engine.float16)}"
        rows.append([device["name"], device["hardware"], device["provider"], memory, half])
    print_table(rows, ["device", "hardware", "provider", "memory", "half precision"], "lllrl")


@click.command()
@click.option("--clear-cache", is_flag=True, help="Clear the model cache instead.")
@json_option
def doctor(clear_cache: bool, as_json: bool) -> None:
    """Report what is installed and what works.

    The report covers versions, providers, drivers and cores. Each device runs a small model. If something is wrong,
    the exit code is 1.
    """
    if clear_cache:
        models = cache.clear()
        emit(
            {"cleared": {"models": models}},
            as_json,
            lambda _: print_line(f"removed {models} saved model{'s' * (models != 1)}"),
        )
        return
    facts = diagnose()
    emit(facts, as_json, _print_report)
    if _find_problems(facts):
        raise click.exceptions.Exit(1)


def _find_problems(facts: Facts) -> list[str]:
    devices = (device for device in facts["devices"] if "problem" in device)
    return [*facts["problems"], *(f"{device['device']}: {device['problem']}" for device in devices)]


def _print_report(facts: Facts) -> None:
    print_pairs((name, _hide_home(value)) for name, value in _list_findings(facts))
    for problem in _find_problems(facts):
        print_line(f"problem  {_hide_home(problem)}", "bold red")
    if not _find_problems(facts):
        print_line("No problems found.", "bold")


def _hide_home(text: str) -> str:
    """The text with ~ for the home folder: bug reports are public, and that path contains the user's name."""
    home = os.path.expanduser("~")
    return text.replace(home, "~") if len(home) > 1 else text


def _list_findings(facts: Facts) -> Iterator[tuple[str, str]]:
    yield "winml-py", f"{facts['winml_py']}, Python {facts['python']}, {facts['system']}"
    yield "packages", ", ".join(f"{name} {version}" for name, version in facts["packages"].items())
    yield "cores", f"{facts['cores']['usable']} of {facts['cores']['machine']}"
    for provider in facts["providers"]:
        devices = ", ".join(provider["devices"])
        works = f"runs on {devices}" if devices else provider["problem"] or "runs on the CPU"
        yield provider["package"], f"{provider['version']}: {works}"
    drivers = facts["drivers"]
    yield "NVIDIA driver", ", ".join(drivers["nvidia"]) or "none found"
    if drivers["cuda_wanted"] or drivers["cuda_found"]:
        found = ", ".join(f"{name} {version}" for name, version in drivers["cuda_found"].items())
        wanted = drivers["cuda_wanted"] or "no version, because this build of ONNX Runtime does not support CUDA"
        yield "CUDA packages", f"{found or 'none found'}; ONNX Runtime was built for {wanted}"
    if sys.platform == "linux":  # other systems need none for WebGPU
        yield "Vulkan loader", drivers["vulkan_loader"] or "none found"
    cache = facts["cache"]
    saved = f"{cache['models']} models, {format_size(cache['size'])} in {cache['folder']}"
    yield "cache", saved if cache["folder"] else "none: WINML_PY_CACHE is empty"
    for device in facts["devices"]:
        yield f"test on the {device.get('hardware', 'device')}", f"{device['device']}: {_format_test(device)}"


def _format_test(device: Facts) -> str:
    if "problem" in device:
        return str(device["problem"])
    error = "" if device["hardware"] == "cpu" else f"; its results differ from the CPU's by {device['error']:.1g}"
    return f"works{error}"


# What is installed and what works: the facts that `winml-py doctor` prints.


PACKAGES = (
    *("numpy", "onnx", "onnx-ir", "onnxruntime", "onnxruntime-gpu", "windowsml"),
    *("pillow", "opencv-python-headless", "simplejpeg", "cykooz-resizer"),
)
CLASHES = (
    ("onnxruntime", *(f"onnxruntime-{kind}" for kind in ("gpu", "directml", "openvino", "qnn", "training"))),
    ("onnxruntime-ep-nv-tensorrt-rtx-cu12", "onnxruntime-ep-nv-tensorrt-rtx-cu13"),
    ("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless"),
)
"""Packages that write to the same files: the last one installed overwrites the others, and removing one breaks them."""

TRY_SECONDS = 30.0
"""The time limit per device."""


def diagnose() -> Facts:
    """Collects the facts, ready for JSON.

    Every device briefly runs a small model in a separate process: a driver that crashes ends only that process.
    """
    probed = plugins.probe()
    packages = _find_versions((*PACKAGES, *(plugin.package for plugin in probed)))
    # Not what Windows' catalogue offers, under the names of providers, because that need not be installed.
    wanted = [plugin for plugin in probed if plugin.package.startswith(("onnxruntime", "openvino"))]
    unused = [f"{plugin.package}: {plugin.problem}" for plugin in wanted if plugin.problem]
    saved_models = cache.list_saved_models()
    return {
        "winml_py": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": packages,
        "problems": [*_find_clashes(), *unused],
        "cores": {"machine": os.cpu_count(), "usable": count_usable_cores()},
        "providers": [
            {
                "package": plugin.package,
                "version": plugin.version or plugins.read_runtime_version(),
                "devices": [f"{device.name} ({device.provider})" for device in plugin.devices],
                "problem": plugin.problem,
            }
            for plugin in probed
        ],
        "drivers": {
            "cuda_found": _find_cuda_packages(),
            "cuda_wanted": read_built_versions(),
            "nvidia": [f"{gpu.name}, driver {gpu.driver}" for gpu in nvidia.find_gpus()],
            "vulkan_loader": ctypes.util.find_library("vulkan") or "",
        },
        "cache": {
            "folder": str(cache.find_folder() or ""),
            "models": len(saved_models),
            "size": sum(model.size for model in saved_models),
            "limit": cache.read_limit(),
        },
        "devices": [try_device(index) for index in range(len(LearningModelDevice.find_all()))],
    }


def _find_versions(names: tuple[str, ...]) -> dict[str, str]:
    """The versions of the packages that are installed."""
    versions = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def _find_clashes() -> list[str]:
    """A problem for each group of packages of which more than one is installed."""
    problems = []
    for group in CLASHES:
        names = list(_find_versions(group))
        if len(names) > 1:
            problems.append(
                f"{' and '.join(names)} are both installed, but write to the same files. Run pip uninstall -y "
                f"{' '.join(names)}, then install one of them again."
            )
    return problems


_CUDA = re.compile(r"(nvidia-(cuda-runtime|cudnn|cublas|cufft|curand)|tensorrt|cupy-cuda)")


def _find_cuda_packages() -> dict[str, str]:
    """The versions of CuPy and of the packages that contain the CUDA, cuDNN and TensorRT libraries."""
    names = {str(package.metadata["Name"] or "").lower().replace("_", "-") for package in metadata.distributions()}
    return _find_versions(tuple(sorted(name for name in names if _CUDA.match(name))))


def try_device(index: int) -> Facts:
    """Runs a small model on the device at this position of `find_all`; returns times, or what went wrong."""
    facts = wait_for_main(start_main(__name__, str(index)), TRY_SECONDS)
    return {"device": f"device {index}", "problem": facts} if isinstance(facts, str) else facts


# What runs in that process: a small model on a device.


def main(index: str) -> Facts:
    """Tries the device at this position of `find_all`."""
    device = LearningModelDevice.find_all()[int(index)]
    facts: Facts = {"device": device.name, "provider": device.provider, "hardware": device.hardware}
    try:
        facts |= _run_small_model(device)
    except WinMLError as error:
        facts["problem"] = str(error)
    return facts


def _run_small_model(device: LearningModelDevice) -> Facts:
    model = LearningModel.load(_make_small_model())
    picture = np.random.default_rng(0).random((1, 3, 32, 32), np.float32)
    came, expected = (
        evaluate_to_arrays(LearningModelSession(model, where), {"x": picture})["y"] for where in (device, None)
    )
    error = compute_relative_error(expected, came)
    return {"error": error} | ({} if error <= FLOAT_TOLERANCE else {"problem": "its results differ from the CPU's"})


def _make_small_model() -> bytes:
    """A convolution, a rectifier and a mean, with fixed random weights."""
    from onnx import numpy_helper, parser

    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        trial (float[1, 3, 32, 32] x) => (float[1, 8, 1, 1] y) {
            convolved = Conv <pads = [1, 1, 1, 1]> (x, weight)
            rectified = Relu (convolved)
            y = GlobalAveragePool (rectified)
        }
    """)
    weight = np.random.default_rng(1).normal(0, 0.2, (8, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "weight"))
    data: bytes = model.SerializeToString()
    return data
