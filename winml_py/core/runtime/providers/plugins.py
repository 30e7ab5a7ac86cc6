"""Plugin providers: the installed packages, the devices that each can use, and their registration in this process.

A plugin is a package named `onnxruntime-ep-...` whose module says where its library is. Engines with separate packages,
such as OpenVINO, and the providers of Windows ML's catalogue are found and tried in the same way. A child process tries
each before this process loads any of it: a crash of a driver ends only the child.
"""

from __future__ import annotations

import os
import threading
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ....errors import IllegalCallError, InvalidDeviceError
from ...base.child_process import ChildProcess, start_main, wait_for_main
from . import windows_catalogue
from .catalogue import PROVIDERS, find_provider, rank_device
from .provider import BUILT_IN, ProviderDevice

if TYPE_CHECKING:
    import onnxruntime

PREFIX = "onnxruntime-ep-"
PROBE_SECONDS = 60.0
_PROBE = "winml_py.core.runtime.providers.probe"
_OWN_PROBES = {provider.package: provider.probe for provider in PROVIDERS.values() if provider.package}
_OWN_PROBES |= {windows_catalogue.PACKAGE: "winml_py.core.runtime.providers.windows_catalogue"}


class Plugin(NamedTuple):
    """The results of a child process for a package, or a provider of Windows ML's catalogue.

    Attributes:
        package: its name.
        version: its version.
        devices: the devices that work.
        problem: why there are none, or "".
        listed: the providers of a catalogue, which has no devices itself.
    """

    package: str
    version: str
    devices: tuple[ProviderDevice, ...] = ()
    problem: str = ""
    listed: tuple[Plugin, ...] = ()


_lock = threading.RLock()
_probed: dict[str, Plugin] = {}
_registered: set[str] = set()
_registrar: set[int] = set()


@cache
def find_installed() -> tuple[str, ...]:
    """The names of the installed packages with plugins or other engines; looked up once."""
    from importlib import metadata

    installed = {str(distribution.metadata["Name"] or ""): distribution for distribution in metadata.distributions()}
    packages = installed.keys() & _OWN_PROBES.keys()
    for name, distribution in installed.items():
        if name.lower().replace("_", "-").startswith(PREFIX):
            # A package that only requires others, such as NVIDIA's for its plugin of the default CUDA, has no module.
            files = distribution.files
            if files is None or any(not file.parts[0].endswith(".dist-info") for file in files):
                packages.add(name)
    return tuple(sorted(packages, key=lambda name: (name == windows_catalogue.PACKAGE, name)))


def probe() -> list[Plugin]:
    """Finds the devices that each plugin, and the runtime itself, can use; each in a separate process.

    Takes about a second the first time; the results are kept for the life of this process.

    Raises:
        NotSupportedError: no process can be started.
    """
    with _lock:
        names = [BUILT_IN, *find_installed()]
        missing = [name for name in names if name not in _probed]
        # The processes run concurrently: each takes a part of a second to start, and to try its devices.
        started = {name: start_main(_OWN_PROBES.get(name, _PROBE), name) for name in missing}
        for name, child in started.items():
            _probed[name] = _read_answer(name, child)
        return [plugin for name in names for plugin in _probed[name].listed or (_probed[name],)]


def find_devices(hardware: str) -> list[ProviderDevice]:
    """The working devices of a kind, unsorted."""
    if hardware == "cpu" and not find_installed():  # without plugins, the CPU has no other engine
        return []
    return [device for plugin in probe() for device in plugin.devices if device.hardware == hardware]


def find_gpus(prefers_shared: bool = False) -> list[ProviderDevice]:
    """The working GPUs, the best first; see `catalogue.rank_device`."""
    return sorted(find_devices("gpu"), key=partial(rank_device, prefers_shared=prefers_shared))


def describe_problems() -> str:
    """Why plugins have no devices, in one line; "" if all have some."""
    return "; ".join(f"{plugin.package}: {plugin.problem}" for plugin in probe() if plugin.problem)


def _read_answer(name: str, child: ChildProcess, number: str = "") -> Plugin:
    facts = wait_for_main(child, PROBE_SECONDS)
    number = number or read_version(name)
    if isinstance(facts, str):
        return Plugin(name, number, problem=f"its probe failed: {facts}")
    if "listed" in facts:
        listed = _try_listed(facts["listed"])
        problem = "" if listed else "it lists no provider for this machine that is not in a package"
        return Plugin(name, number, problem=problem, listed=listed)
    return Plugin(name, number, **facts)


def _try_listed(listed: list[windows_catalogue.Listed]) -> tuple[Plugin, ...]:
    """Tries the providers of a catalogue, except those that an installed package also has.

    ONNX Runtime would list both under one name, in which only the number identifies a device.
    """
    taken = {device.provider for plugin in _probed.values() for device in plugin.devices}
    providers = [provider for provider in listed if provider.name not in taken]
    # The processes run concurrently.
    started = {row: start_main(_PROBE, row.name, row.library) for row in providers if not row.problem}
    tried = {row: _read_answer(row.name, child, row.version) for row, child in started.items()}
    return tuple(tried.get(row) or Plugin(row.name, row.version, problem=row.problem) for row in providers)


def read_runtime_version() -> str:
    """The version of ONNX Runtime."""
    import onnxruntime

    return str(onnxruntime.__version__)


def read_versions() -> dict[str, str]:
    """The versions of ONNX Runtime and of the plugins."""
    return {"onnxruntime": read_runtime_version()} | {name: read_version(name) for name in find_installed()}


def read_version(name: str) -> str:
    """The version of an installed package, or ""."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def import_plugin(package: str) -> Any:
    """The module of a plugin package, by its files, because names of distributions and modules are independent."""
    from importlib import import_module, metadata

    for file in metadata.distribution(package).files or []:
        if len(file.parts) == 2 and file.parts[1] == "__init__.py":
            return import_module(file.parts[0])
    return import_module(package.replace("-", "_"))


def find_runtime_device(device: ProviderDevice) -> onnxruntime.OrtEpDevice:
    """The runtime's object for a plugin's device; registers the plugin once per process.

    It is never unregistered, because that crashes the process while a session exists.

    Raises:
        InvalidDeviceError: the plugin cannot be registered, or the device is no longer available.
        IllegalCallError: this process was forked from one that has registered a plugin.
    """
    import onnxruntime

    if _registrar and os.getpid() not in _registrar:
        raise IllegalCallError(
            "Plugins cannot be used after a fork: their drivers' threads are in the process that registered them.",
            hint='Start processes with multiprocessing.get_context("spawn").',
        )
    with _lock:
        _registrar.add(os.getpid())
        if device.library not in _registered:
            try:
                if device.package in find_installed():
                    import_plugin(device.package)  # NVIDIA's loads the libraries that its own library needs
                onnxruntime.register_execution_provider_library(device.package, device.library)
            except Exception as error:  # the runtime's classes have no common base
                if "already registered" not in str(error):  # the program has registered it itself
                    raise InvalidDeviceError(
                        f"The plugin {device.package} cannot be loaded: {error}.", hint="Run `winml-py doctor`."
                    ) from None
            _registered.add(device.library)
    candidates = list_plugin_devices(device.provider)
    if device.number >= len(candidates):
        raise InvalidDeviceError(
            f"{device.name} is no longer available.", hint="To see the devices that are left, run `winml-py devices`."
        )
    return candidates[device.number]


def list_plugin_devices(provider: str) -> list[onnxruntime.OrtEpDevice]:
    """A registered provider's devices, except meta devices, which represent others."""
    import onnxruntime

    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == provider]
    meta = find_provider(provider).meta_device_key
    return [device for device in devices if not meta or meta not in device.ep_metadata]
