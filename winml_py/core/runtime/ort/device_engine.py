"""Sessions of ONNX Runtime on a device: its providers and their options, and the engine whose values are there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import NotSupportedError
from ...base.arrays import Array, DeviceArray
from ...base.cancellation import Stop, hold
from ..engine import EngineOptions
from ..providers.catalogue import find_provider, get_device_lock, make_native_options
from ..providers.plugins import find_runtime_device
from ..providers.provider import CPU_NAME, ProviderDevice, Target
from ..runs import Bound, call, require_open
from .device_binding import DeviceIoBinding, require_capturable
from .device_memory import DeviceMemory
from .errors import translate
from .ort_engine import OrtEngine, are_numeric

if TYPE_CHECKING:
    import tempfile

    import onnxruntime


def choose_providers(
    native: onnxruntime.SessionOptions, device: ProviderDevice, options: EngineOptions, target: Target, captures: bool
) -> tuple[list[Any] | None, AbstractContextManager[object]]:
    """The providers of a session, with their options, and the lock to create it under.

    They are None for a plugin, which is added to the native options.

    Raises:
        NotSupportedError: a setting that the runtime accepts, but the provider ignores.
    """
    provider = find_provider(device.provider)
    if options.tuning.execution_mode == "parallel" and provider.is_sequential:
        raise NotSupportedError(
            f"The provider {provider.name} runs nodes one at a time, but execution_mode is parallel.",
            hint="Omit execution_mode from options.tuning.",
        )
    if not options.allow_cpu_fallback or captures:
        native.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    provider_options = make_native_options(target, options, captures)
    if device.library:
        # Provider names do not select a plugin, even a registered one. Its device does.
        native.add_provider_for_devices([find_runtime_device(device)], provider_options)
        return None, get_device_lock(device)
    provider.prepare()
    return [(provider.name, provider_options), CPU_NAME], get_device_lock(device)


def has_addresses(device: ProviderDevice, session: onnxruntime.InferenceSession) -> bool:
    """Whether a session's values can be bound in the device's memory: only tensors of numbers, if it can be bound."""
    return bool(find_provider(device.provider).memory) and are_numeric(session)


class OrtDeviceEngine(OrtEngine):
    """A compiled model whose inputs and outputs are tensors of numbers in the memory of a device.

    Raises:
        NotSupportedError: the graph is to be captured, and cannot be.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        options: EngineOptions,
        target: Target,
        device: ProviderDevice,
        captures: bool,
        trace: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        if captures:
            require_capturable(session)
        super().__init__(session, options, target, trace, get_device_lock(device))
        self._memory = DeviceMemory(find_provider(device.provider), device.number)
        self.location = self._memory.location
        self._captures = captures
        # The captured graph reads and writes at fixed addresses, so all runs on arrays of the host share one binding.
        # Tensors on the device have their own addresses, and so a graph for each `Bound`.
        self._shared: DeviceIoBinding | None = None

    def _run(self, bound: Bound, stop: Stop | None) -> Mapping[str, Any]:
        values = (*bound.inputs.values(), *bound.outputs.values())
        are_on_host = all(isinstance(value, np.ndarray) for value in values)
        if are_on_host and not self._captures:
            return super()._run(bound, stop)
        with hold(bound.lock, stop):
            return call(self._get_binding, translate, bound, are_on_host).run(bound, stop)

    def _get_binding(self, bound: Bound, is_shared: bool) -> DeviceIoBinding:
        session = require_open(self._native)
        binding: DeviceIoBinding | None = self._shared if is_shared else bound.natives.get(self)
        if binding is None:
            binding = DeviceIoBinding(session, self._memory, bound.lock, self._captures, self._config)
            if is_shared:
                self._shared = binding
            else:
                bound.natives[self] = binding
            self._close_with_this(binding)
        return binding

    def upload(self, array: Array) -> DeviceArray:
        """Copies an array to the device's memory; the caller holds the session's lock."""
        session = require_open(self._native)
        memory = call(self._memory.upload, translate, array)
        return self._memory.make_array(memory, session, self._device_lock)
