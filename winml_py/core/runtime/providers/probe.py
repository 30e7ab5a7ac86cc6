"""Tries one plugin, in another process: see `plugins.probe`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ....errors import InvalidDeviceError
from ...base.messages import Facts
from ..engine import EngineOptions
from . import nvidia
from .catalogue import find_provider, make_native_options
from .plugins import import_plugin, list_plugin_devices
from .provider import BUILT_IN, ProviderDevice, Target


def main(package: str, library: str = "") -> Facts:
    """The facts about a package, or about the provider of that name in a library."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    return _try_built_in() if package == BUILT_IN else _try_plugin(package, library)


def _try_plugin(package: str, library: str) -> Facts:
    """The devices of a package, or of the provider of that name in a library."""
    import onnxruntime

    names = [package]
    try:
        if not library:
            module = import_plugin(package)
            names = list(module.get_ep_names()) if hasattr(module, "get_ep_names") else [_ask(module, "ep_name")]
            library = _ask(module, "library_path")
        onnxruntime.register_execution_provider_library(package, library)
    except Exception as error:  # reports any error as the plugin's problem
        return {"problem": f"it cannot be loaded: {explain_missing(str(error)) or format_first_line(error)}"}
    devices, refused = [], []
    for provider in names:
        for index, ep_device in enumerate(list_plugin_devices(provider)):
            device = _describe(package, library, provider, index, ep_device)
            has_half = "FP16" in ep_device.ep_metadata.get("OPTIMIZATION_CAPABILITIES", "FP16").split()

            def find_problem(half: bool, ep_device: Any = ep_device) -> str:
                options = onnxruntime.SessionOptions()
                options.add_provider_for_devices([ep_device], {})
                return _find_problem(options, None, half)

            working, problem = _try_precisions(device._replace(float16=has_half), find_problem)
            if working is not None:
                devices.append(working)
            if problem:
                refused.append(f"{device.name}: {problem}")
    return _make_facts(devices, refused or [f"it found no hardware for {', '.join(names)}"])


def _ask(module: Any, name: str) -> str:
    """Calls a function of a plugin's module: `get_ep_name`, say, which is `ep_name` in MLX's."""
    return str((getattr(module, f"get_{name}", None) or getattr(module, name))())


def _try_built_in() -> Facts:
    import onnxruntime

    devices, refused = [], []
    for provider in map(find_provider, onnxruntime.get_available_providers()):
        provider.prepare()
        try:
            listed = provider.built_in_devices() if provider.built_in_devices else _list_runtime_devices(provider.name)
        except InvalidDeviceError as error:
            refused.append(f"{provider.name}: {error.message.rstrip('.')} ({error.hint.rstrip('.')})")
            continue
        for device in listed:
            native = make_native_options(Target(device), EngineOptions(1), False)
            working, problem = _try_precisions(device, partial(_try_provider, provider.name, native))
            if working is not None:
                devices.append(working)
            else:
                refused.append(f"{device.name}, {provider.name}: {problem}")
    return _make_facts(devices, refused)


def _make_facts(devices: list[ProviderDevice], refused: list[str]) -> Facts:
    problem = "" if devices else "; ".join(dict.fromkeys(refused))
    return {"devices": tuple(devices), "problem": problem}


def _try_precisions(device: ProviderDevice, find_problem: Callable[[bool], str]) -> tuple[ProviderDevice | None, str]:
    """The device with the precisions that work, or None and the problem.

    If only half precision fails, because some drivers have it switched off, it is a device for float32.
    """
    if device.float16 and not find_problem(True):
        return device, ""
    problem = find_problem(False)
    if problem:
        return None, problem
    return device._replace(float16=False), ""


def _try_provider(provider: str, options: Mapping[str, str], half: bool) -> str:
    import onnxruntime

    return _find_problem(onnxruntime.SessionOptions(), [(provider, dict(options))], half)


def explain_missing(error: str) -> str:
    """Which library is missing, in plain words, if an error of the system's loader says so; else ""."""
    match = re.search(r'(\S+): cannot open shared object file|depends on "([^"]+)" which is missing', error)
    if match is None:
        return ""
    library = match[1] or match[2]
    is_drivers = library.lower().startswith(("libcuda.so", "libnvidia-ml.so", "nvcuda.dll", "nvml.dll"))
    return f"{library} is missing" + (". Install NVIDIA's driver, which contains it" if is_drivers else "")


def _list_runtime_devices(provider: str) -> list[ProviderDevice]:
    """The devices that ONNX Runtime lists for a provider in its package; if none, one unknown device."""
    listed = []
    for index, ep_device in enumerate(list_plugin_devices(provider)):
        # The provider's number: DirectML counts adapters in DXGI's order, but the runtime lists the best one first.
        number = int(dict(ep_device.device.metadata).get("DxgiAdapterNumber", index))
        listed.append(_describe(BUILT_IN, "", provider, number, ep_device)._replace(float16=True))
    return listed or [ProviderDevice(provider, BUILT_IN, "", 0, "npu", f"a device of {provider}", "", float16=True)]


def _describe(package: str, library: str, provider: str, number: int, ep_device: Any) -> ProviderDevice:
    hardware = ep_device.device
    kind = str(hardware.type).rpartition(".")[2].lower()
    is_software = find_provider(provider).is_software_on_cpu and kind == "cpu"
    facts = dict(hardware.metadata)
    name = dict(ep_device.ep_metadata).get("FULL_DEVICE_NAME") or facts.get("Description") or ""
    if is_software:
        kind, name = "gpu", f"software GPU on {hardware.vendor or 'the'} CPU"
    megabytes, _, unit = facts.get("DxgiVideoMemory", "").partition(" ")
    memory = int(megabytes) << 20 if unit == "MB" else None
    # The LUID on Windows, or the address on the PCI bus.
    identity = hardware.vendor_id, hardware.device_id
    if "LUID" in facts:
        identity = divmod(int(facts["LUID"]), 1 << 32)
    elif address := facts.get("pci_bus_id"):
        identity = nvidia.parse_bus_address(address)
    is_nvidias = hardware.vendor_id == nvidia.VENDOR
    if is_nvidias and kind == "gpu":
        gpus = nvidia.find_gpus()
        for gpu in gpus:
            if len(gpus) == 1 or gpu.identity == identity:
                name, memory = gpu.name, gpu.memory
    return ProviderDevice(
        provider,
        package,
        library,
        number,
        kind,
        name or f"{hardware.vendor or 'unknown'} {kind} {hardware.device_id:#06x}",
        hardware.vendor or "",
        identity,
        memory=memory,
        is_software=is_software,
        is_discrete=facts.get("Discrete") == "1" or is_nvidias,
    )


def _find_problem(options: Any, providers: object, half: bool) -> str:
    """Runs y = relu(x w) only on the device; returns the problem, or ""."""
    import onnxruntime

    options.log_severity_level = 4
    # With help from the CPU, a device that computes nothing would pass.
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    dtype = np.dtype(np.float16 if half else np.float32)
    x = np.arange(-8, 8, dtype=dtype).reshape(4, 4)
    try:
        session = onnxruntime.InferenceSession(make_small_model(half), options, providers, enable_fallback=0)
        (y,) = session.run(None, {"x": x})
    except Exception as error:  # returns any error of a driver
        return format_first_line(error)
    expected = np.maximum(x * 2, 0)
    return "" if np.array_equal(y, expected) else f"it computed {y.tolist()}, not {expected.tolist()}"


def make_small_model(half: bool) -> bytes:
    """A model that computes y = relu(x w), where w doubles."""
    from onnx import TensorProto, helper, numpy_helper

    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float16 if half else np.float32) * 2, "w")
    ends = [helper.make_tensor_value_info(name, kind, [4, 4]) for name in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    graph = helper.make_graph(nodes, "probe", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(model.SerializeToString())


def format_first_line(error: Exception) -> str:
    """Formats an error in one line."""
    lines = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {lines[0].strip()[:300]}"
