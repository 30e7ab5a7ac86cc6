"""Run as a program in a process of its own: tries one plugin package, and prints what it found as a line of JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module, metadata
from typing import Any

import numpy as np

from . import nvidia
from .plugins import BUILT_IN, ProviderDevice, plugin_devices

_BUILT_IN_DEVICES = ("CUDAExecutionProvider", "TensorrtExecutionProvider")
"""Providers of the runtime's own package that we know how to ask for their devices."""


def main() -> None:
    """Prints the facts about the package that is named on the command line."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    package = sys.argv[1]
    facts = _built_in() if package == BUILT_IN else _plugin(package)
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a driver that crashes at the end has nothing to add


def _plugin(package: str) -> dict[str, Any]:
    import onnxruntime

    try:
        module = _module(package)
        library = module.get_library_path()
        names = list(module.get_ep_names()) if hasattr(module, "get_ep_names") else [module.get_ep_name()]
        onnxruntime.register_execution_provider_library(package, library)
    except Exception as error:  # whatever a plugin raises is its problem to report
        return {"problem": f"it cannot be loaded: {_first_line(error)}"}
    devices, refused = [], []
    for provider in names:
        for index, found in enumerate(plugin_devices(provider)):
            device = _describe(package, library, provider, index, found)
            halves = "FP16" in found.ep_metadata.get("OPTIMIZATION_CAPABILITIES", "FP16").split()
            for attempt in (device._replace(float16=True), device)[0 if halves else 1 :]:
                options = onnxruntime.SessionOptions()
                options.add_provider_for_devices([found], {})
                problem = _problem_of(options, None, attempt.float16)
                if not problem:
                    devices.append(attempt)
                    break
            else:
                refused.append(f"{device.name}: {problem}")
    facts: dict[str, Any] = {"devices": [device._asdict() for device in devices], "refused": refused}
    if not devices:
        facts["problem"] = "; ".join(refused) or f"it found no hardware for {', '.join(names)}"
    return facts


def _built_in() -> dict[str, Any]:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        nvidia.preload()
    devices, refused = [], []
    for provider in onnxruntime.get_available_providers():
        if provider not in _BUILT_IN_DEVICES:
            continue
        for gpu in nvidia.gpus():
            problem = _problem_of(onnxruntime.SessionOptions(), [(provider, {"device_id": str(gpu.number)})], True)
            if problem:
                refused.append(f"{gpu.name}, {provider}: {problem}")
            else:
                devices.append(_built_in_device(provider, gpu))
        if not nvidia.gpus():
            refused.append("nvidia-smi lists no GPU; install the NVIDIA driver")
    problem = "" if devices else "; ".join(dict.fromkeys(refused))
    return {"devices": [device._asdict() for device in devices], "refused": refused, "problem": problem}


def _built_in_device(provider: str, gpu: nvidia.NvidiaGpu) -> ProviderDevice:
    return ProviderDevice(
        provider,
        BUILT_IN,
        "",
        gpu.number,
        "gpu",
        gpu.name,
        "NVIDIA",
        gpu.identity,
        gpu.memory,
        float16=True,
        is_discrete=True,
    )


def _module(package: str) -> Any:
    """The module of a plugin package: its files say, for distributions and modules are named independently."""
    files = metadata.distribution(package).files or []
    for file in files:
        if len(file.parts) == 2 and file.parts[1] == "__init__.py":
            return import_module(file.parts[0])
    return import_module(package.replace("-", "_"))


def _describe(package: str, library: str, provider: str, index: int, found: Any) -> ProviderDevice:
    hardware = found.device
    kind = str(hardware.type).rpartition(".")[2].lower()
    # WebGPU's devices are GPUs; one that the system calls a processor is a software driver on it.
    is_software = provider == "WebGpuExecutionProvider" and kind == "cpu"
    known, more = dict(found.ep_metadata), dict(hardware.metadata)
    name = known.get("FULL_DEVICE_NAME") or more.get("Description") or ""
    if not name:
        name = f"{hardware.vendor or 'unknown'} {kind} {hardware.device_id:#06x}"
    if is_software:
        name = f"software GPU on {hardware.vendor or 'the'} CPU"
    identity = _identity(more) or (hardware.vendor_id, hardware.device_id)
    gpu = next((gpu for gpu in nvidia.gpus() if hardware.vendor_id == nvidia.VENDOR), None) if kind == "gpu" else None
    return ProviderDevice(
        provider,
        package,
        library,
        index,
        "gpu" if is_software else kind,
        gpu.name if gpu else name,
        hardware.vendor or "",
        identity,
        memory=gpu.memory if gpu else None,
        is_software=is_software,
        is_discrete=more.get("Discrete") == "1" or hardware.vendor_id == nvidia.VENDOR,
    )


def _identity(hardware: dict[str, str]) -> tuple[int, int] | None:
    """The LUID on Windows, or the place on the PCI bus."""
    if "LUID" in hardware:
        number = int(hardware["LUID"])
        return number >> 32, number & 0xFFFFFFFF
    address = hardware.get("pci_bus_id", "")
    return nvidia.bus_identity(address) if address else None


def _problem_of(options: Any, providers: Any, half: bool) -> str:
    """Runs y = relu(x w) on the device alone; what went wrong, or ""."""
    import onnxruntime

    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    dtype = np.dtype(np.float16 if half else np.float32)
    x = np.arange(-8, 8, dtype=dtype).reshape(4, 4)
    try:
        session = onnxruntime.InferenceSession(_small_model(half), options, providers, enable_fallback=0)
        (y,) = session.run(None, {"x": x})
    except Exception as error:  # whatever a driver raises is the answer
        return _first_line(error)
    expected = np.maximum(x * 2, 0)
    return "" if np.array_equal(y, expected) else f"it computed {y.tolist()}, not {expected.tolist()}"


def _small_model(half: bool) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float16 if half else np.float32) * 2, "w")
    ends = [helper.make_tensor_value_info(name, kind, [4, 4]) for name in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    graph = helper.make_graph(nodes, "trial", ends[:1], ends[1:], [weight])
    model: bytes = helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    ).SerializeToString()
    return model


def _first_line(error: Exception) -> str:
    lines: Iterator[str] = filter(None, map(str.strip, str(error).splitlines()))
    return f"{type(error).__name__}: {next(lines, 'no message')[:300]}"


if __name__ == "__main__":
    main()
