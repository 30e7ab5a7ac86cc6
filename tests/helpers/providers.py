"""A substitute for ONNX Runtime's session on any provider's device; all that is around it is the package's own.

It computes on the CPU, says that it runs on the provider's device, and lets a test see which threads are in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import string_at
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from winml_py import LearningModelDevice, LearningModelDeviceKind
from winml_py.core.runtime.ort import device_engine
from winml_py.core.runtime.providers import catalogue
from winml_py.core.runtime.providers.provider import CPU_NAME, Provider, ProviderDevice

PROVIDERS = [provider for provider in catalogue.PROVIDERS.values() if provider.name != CPU_NAME]
"""Those that the catalogue lists: a new one is tested with the others."""

RealOptions, RealSession, RealValue = onnxruntime.SessionOptions, onnxruntime.InferenceSession, onnxruntime.OrtValue
RealRunOptions = onnxruntime.RunOptions


def make_device(provider: Provider, library: str = "", hardware: str = "gpu", number: int = 0) -> LearningModelDevice:
    """A device of a provider, from the runtime's own package or with a library from a plugin."""
    found = ProviderDevice(provider.name, "substitute", library, number, hardware, "substitute", "ACME", float16=False)
    return LearningModelDevice(LearningModelDeviceKind.DIRECTX, _device=found)


class Runtime:
    """What stands for the runtime: the sessions that were made, and the threads that run them.

    Attributes:
        sessions: every session that was made.
        inside: called by each run, while it is counted.
        compiling: called by each compilation.
        cancelled: set when the latest compilation is asked to end.
    """

    __slots__ = ("cancelled", "compiling", "inside", "sessions")

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.inside: Callable[[], object] = lambda: None
        self.compiling: Callable[[], object] = lambda: None
        self.cancelled = threading.Event()

    def session(self, model: Any, native: Any, providers: Any = None, **_: Any) -> Session:
        made = Session(self, model, native, providers)
        self.sessions.append(made)
        return made


class Session:
    """In place of `onnxruntime.InferenceSession`."""

    def __init__(self, runtime: Runtime, model: Any, native: Options, providers: Any) -> None:
        self.providers = [*native.devices, CPU_NAME] if providers is None else providers
        self.names = [entry if isinstance(entry, str) else entry[0] for entry in self.providers]
        runtime.cancelled = native.cancelled
        runtime.compiling()
        plain = RealOptions()
        plain.log_severity_level = 4
        plain.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        self.native, self._runtime = native, runtime
        self._real = RealSession(model, plain, [CPU_NAME])
        self._lock = threading.Lock()
        self.now = self.most = 0
        self.run_options: list[RunOptions | None] = []

    def get_providers(self) -> list[str]:
        return self.names

    def get_provider_graph_assignment_info(self) -> list[Any]:
        """Every node, on the first provider of the list."""
        nodes = [node for part in self._real.get_provider_graph_assignment_info() for node in part.get_nodes()]
        return [SimpleNamespace(ep_name=self.names[0], get_nodes=partial(list, [node])) for node in nodes]

    def get_input_memory_infos(self) -> list[Any]:
        """Every input is read on the device."""
        return [SimpleNamespace(name="Device") for _ in self._real.get_inputs()]

    def io_binding(self) -> Binding:
        return Binding(self._real)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            self._runtime.inside()
            yield
        finally:
            with self._lock:
                self.now -= 1

    def run(self, names: Any, feed: Any, options: Any = None) -> Any:
        self.run_options.append(options)
        with self._counted():
            return self._real.run(names, feed)

    def run_with_iobinding(self, binding: Binding, options: Any = None) -> None:
        self.run_options.append(options)
        with self._counted():
            self._real.run_with_iobinding(binding.real)

    def release_captured_graph(self, number: int) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Binding:
    """In place of `onnxruntime.IOBinding`: what is to be on the device is on the host.

    As every runtime whose device has memory of its own, it copies an input of the host's when it is bound.
    """

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self.real = session.io_binding()
        self._on_device: dict[str, Any] = {}

    def bind_output(self, name: str, device: str = "cpu", number: int = 0, *where: Any) -> None:
        self.real.bind_output(name, "cpu", 0, *where)

    def bind_input(self, name: str, device: str, number: int, dtype: Any, shape: Any, address: int) -> None:
        if device == "cpu":
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            copied = np.frombuffer(bytearray(string_at(address, size)), dtype).reshape(shape)
            self._on_device[name], address = copied, copied.ctypes.data
        self.real.bind_input(name, "cpu", 0, dtype, shape, address)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class Value:
    """In place of `onnxruntime.OrtValue`."""

    def __new__(cls, native: Any) -> onnxruntime.OrtValue:  # type: ignore[misc]
        return RealValue(native)

    @staticmethod
    def ortvalue_from_numpy(array: np.ndarray[Any, Any], *where: Any) -> onnxruntime.OrtValue:
        return RealValue.ortvalue_from_numpy(array.copy())

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Any, dtype: Any, *where: Any) -> onnxruntime.OrtValue:
        return RealValue.ortvalue_from_shape_and_type(shape, dtype)


class Options(RealOptions):  # type: ignore[misc]
    """The runtime's own, which take devices of plugins that are not there."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: list[tuple[str, dict[str, str]]] = []
        self.sizes: list[tuple[str, int]] = []
        self.cancelled = threading.Event()

    def set_load_cancellation_flag(self, value: bool) -> None:
        self.cancelled.set()

    def add_free_dimension_override_by_denotation(self, name: str, size: int) -> None:
        self.sizes.append((name, size))

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        self.sizes.append((name, size))

    def add_provider_for_devices(self, devices: list[ProviderDevice], options: dict[str, str]) -> None:
        self.devices.append((devices[0].provider, options))


class RunOptions(RealRunOptions):  # type: ignore[misc]
    """The runtime's own, which tell what was added."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, str] = {}

    def add_run_config_entry(self, key: str, value: str) -> None:
        self.entries[key] = value


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    made = Runtime()
    monkeypatch.setattr(onnxruntime, "InferenceSession", made.session)
    monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
    monkeypatch.setattr(onnxruntime, "RunOptions", RunOptions)
    monkeypatch.setattr(onnxruntime, "OrtValue", Value)
    monkeypatch.setattr(device_engine, "find_runtime_device", lambda make_device: make_device)
    for provider in PROVIDERS:
        monkeypatch.setitem(catalogue.PROVIDERS, provider.name, provider._replace(prepare=lambda: None))
    return made
