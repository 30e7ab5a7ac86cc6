"""Tries one plugin, in another process: see `plugins.probe`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module, metadata
from typing import Any

import numpy as np

from ....errors import InvalidDeviceError
from ...base.child_process import read_stderr
from ...base.messages import Facts
from ..engine import EngineOptions
from . import nvidia
from .catalogue import native_options, provider_of
from .plugins import plugin_devices
from .provider import BUILT_IN, ProviderDevice, Target, one_device


def main(package: str, library: str = "") -> Facts:
    """The facts about a package, or about the provider of that name in a library."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    return _built_in() if package == BUILT_IN else _plugin(package, library)


def _plugin(package: str, library: str) -> Facts:
    """The devices of a package, or of the provider of that name in a library."""
    import onnxruntime

    try:
        library, names = (library, [package]) if library else _library_of(package)
        onnxruntime.register_execution_provider_library(package, library)
    except Exception as error:  # whatever a plugin raises is reported as its problem
        return {"problem": f"it cannot be loaded: {first_line(error)}"}
    devices, refused = [], []
    for provider in names:
        for index, ep_device in enumerate(plugin_devices(provider)):
            device = _describe(package, library, provider, index, ep_device)
            halves = "FP16" in ep_device.ep_metadata.get("OPTIMIZATION_CAPABILITIES", "FP16").split()

            def problem_of(half: bool, ep_device: Any = ep_device) -> str:
                options = onnxruntime.SessionOptions()
                options.add_provider_for_devices([ep_device], {})
                return _problem_of(options, None, half)

            found, problem = _working(device._replace(float16=halves), problem_of)
            devices += [found] if found else []
            refused += [f"{device.name}: {problem}"] if problem else []
    return _facts(devices, refused, f"it found no hardware for {', '.join(names)}")


def _library_of(package: str) -> tuple[str, list[str]]:
    """The library of a package, and the providers in it."""
    module = _module(package)
    names = list(module.get_ep_names()) if hasattr(module, "get_ep_names") else [module.get_ep_name()]
    return module.get_library_path(), names


def _working(device: ProviderDevice, problem_of: Callable[[bool], str]) -> tuple[ProviderDevice | None, str]:
    """The device as it works, or None and why it does not.

    It may fail in half precision alone: some drivers have it switched off. It is then a device for float32.
    """
    for half in (True, False)[0 if device.float16 else 1 :]:
        problem = problem_of(half)
        if not problem:
            return device._replace(float16=half), ""
    return None, problem


def _built_in() -> Facts:
    import onnxruntime

    devices, refused = [], []
    for provider in map(provider_of, onnxruntime.get_available_providers()):
        provider.prepare()
        try:
            listed = provider.built_in_devices() if provider.built_in_devices else _listed_by_runtime(provider.name)
        except InvalidDeviceError as error:
            # Why the provider cannot be loaded is the cause, as often as there is no hardware.
            logged = _logged(partial(_try_provider, provider.name, {}, False))
            causes = [f"{error.message.rstrip('.')} ({error.hint.rstrip('.')})", *logged]
            refused.append(f"{provider.name}: {'; '.join(causes)}")
            continue
        for device in listed:
            native = native_options(Target(device), EngineOptions(1), False)
            found, problem = _working(device, partial(_try_provider, provider.name, native))
            if found:
                devices.append(found)
            else:
                logged = _logged(partial(_try_provider, provider.name, native, False))
                refused.append("; ".join([f"{device.name}, {provider.name}: {problem}", *logged]))
    return _facts(devices, refused)


def _try_provider(provider: str, options: Mapping[str, str], half: bool) -> str:
    import onnxruntime

    return _problem_of(onnxruntime.SessionOptions(), [(provider, dict(options))], half)


def _listed_by_runtime(provider: str) -> Sequence[ProviderDevice]:
    """The devices that ONNX Runtime lists for a provider in its own package; else one, of which nothing is known."""
    listed = plugin_devices(provider)
    if not listed:
        return one_device(provider, "npu", f"a device of {provider}", "")
    return [
        _describe(BUILT_IN, "", provider, _adapter_number(index, ep_device), ep_device)._replace(float16=True)
        for index, ep_device in enumerate(listed)
    ]


def _adapter_number(index: int, ep_device: Any) -> int:
    """The provider's own number: DirectML counts as DXGI lists adapters, and the runtime lists the best one first."""
    number = dict(ep_device.device.metadata).get("DxgiAdapterNumber", "")
    return int(number) if number.isdigit() else index


def _logged(run: Callable[[], object]) -> list[str]:
    """What ONNX Runtime logs of errors while something runs, which it goes on from: a library that is missing, say."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(2)
    try:
        return causes_in(read_stderr(run))
    finally:
        onnxruntime.set_default_logger_severity(4)


def causes_in(log: str) -> list[str]:
    """What a log of ONNX Runtime says of libraries that are missing, and of versions that it needs; in its words."""
    missing = re.findall(r"Failed to load library (?:.*[/\\])?(\S+) with error: (.+)", log)
    needed = re.findall(r"Require (.+?)\. Please", log)
    found = [f"{library} cannot be loaded: {reason.strip()}" for library, reason in missing]
    return list(dict.fromkeys([*found, *(f"it needs {versions}" for versions in needed)]))


def _facts(devices: list[ProviderDevice], refused: list[str], nothing: str = "") -> Facts:
    problem = "" if devices else "; ".join(dict.fromkeys(refused)) or nothing
    return {"devices": tuple(devices), "refused": tuple(refused), "problem": problem}


def _module(package: str) -> Any:
    """The module of a plugin package: its files say, for distributions and modules are named independently."""
    files = metadata.distribution(package).files or []
    for file in files:
        if len(file.parts) == 2 and file.parts[1] == "__init__.py":
            return import_module(file.parts[0])
    return import_module(package.replace("-", "_"))


def _describe(package: str, library: str, provider: str, index: int, ep_device: Any) -> ProviderDevice:
    hardware = ep_device.device
    kind = str(hardware.type).rpartition(".")[2].lower()
    is_software = provider_of(provider).is_software_on_cpu and kind == "cpu"
    metadata, more = dict(ep_device.ep_metadata), dict(hardware.metadata)
    name = metadata.get("FULL_DEVICE_NAME") or more.get("Description") or ""
    if is_software:
        kind, name = "gpu", f"software GPU on {hardware.vendor or 'the'} CPU"
    is_nvidias = hardware.vendor_id == nvidia.VENDOR
    gpu = next(iter(nvidia.gpus()), None) if is_nvidias and kind == "gpu" else None
    return ProviderDevice(
        provider,
        package,
        library,
        index,
        kind,
        gpu.name if gpu else name or f"{hardware.vendor or 'unknown'} {kind} {hardware.device_id:#06x}",
        hardware.vendor or "",
        _identity(more) or (hardware.vendor_id, hardware.device_id),
        memory=gpu.memory if gpu else _video_memory(more),
        is_software=is_software,
        is_discrete=more.get("Discrete") == "1" or is_nvidias,
    )


def _video_memory(hardware: dict[str, str]) -> int | None:
    """Bytes of "8192 MB"; None where the system does not say."""
    number, _, unit = hardware.get("DxgiVideoMemory", "").partition(" ")
    return int(number) << 20 if number.isdigit() and unit == "MB" else None


def _identity(hardware: dict[str, str]) -> tuple[int, int] | None:
    """The LUID on Windows, or the address on the PCI bus."""
    if "LUID" in hardware:
        return divmod(int(hardware["LUID"]), 1 << 32)
    address = hardware.get("pci_bus_id", "")
    return nvidia.bus_identity(address) if address else None


def _problem_of(options: Any, providers: object, half: bool) -> str:
    """Runs y = relu(x w) on the device alone; what went wrong, or ""."""
    import onnxruntime

    options.log_severity_level = 4
    # With help from the CPU, a device that computes nothing would pass.
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    dtype = np.dtype(np.float16 if half else np.float32)
    x = np.arange(-8, 8, dtype=dtype).reshape(4, 4)
    try:
        session = onnxruntime.InferenceSession(small_model(half), options, providers, enable_fallback=0)
        (y,) = session.run(None, {"x": x})
    except Exception as error:  # whatever a driver raises is the answer
        return first_line(error)
    expected = np.maximum(x * 2, 0)
    return "" if np.array_equal(y, expected) else f"it computed {y.tolist()}, not {expected.tolist()}"


def small_model(half: bool) -> bytes:
    """A model that computes y = relu(x w), where w doubles."""
    from onnx import TensorProto, helper, numpy_helper

    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float16 if half else np.float32) * 2, "w")
    ends = [helper.make_tensor_value_info(name, kind, [4, 4]) for name in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    graph = helper.make_graph(nodes, "trial", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(model.SerializeToString())


def first_line(error: Exception) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {lines[0].strip()[:300]}"
