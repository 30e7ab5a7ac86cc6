"""Compiles for a GPU or an NPU, in a supported precision."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager
from typing import Any

from ....enums import Precision
from ....errors import InvalidDeviceError, NotSupportedError
from ..engine import ONNXRUNTIME, Engine, EngineOptions, Explanation
from ..ort.compile import compile_with_ort
from ..ort.device_binding import make_not_capturable_error
from ..ort.errors import NodesLeftError
from ..providers.catalogue import find_provider, get_session_lock, require_option_keys
from ..providers.provider import ProviderDevice, Target, shorten
from ..request import CompileRequest
from .float32 import Float32Engine, as_float32


class DeviceCompiler:
    """Compiles for one device of a provider."""

    def __init__(self, device: ProviderDevice) -> None:
        self._device = device
        self._provider = find_provider(device.provider)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the device; a provider has functions."""
        return type(self), (self._device,)

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model.

        Raises:
            InvalidDeviceError: the options name an engine that does not use the device.
            NotSupportedError: the graph cannot be captured, or a node would run on the CPU although it may not.
            WinMLError: the provider does not accept the model.
        """
        device, options = self._device, request.options
        if options.engine not in (None, ONNXRUNTIME) and device.engine != shorten(options.engine):
            raise InvalidDeviceError(
                f"{device.name} is used by {device.provider}, but the options name the engine {options.engine}.",
                hint="Use the engine's device: LearningModelDevice.find(provider).",
            )
        if options.graph_capture and not self._provider.capture_option:
            raise NotSupportedError(
                f"Graph capture is not available with {device.provider}.", hint="Set options.graph_capture = False."
            )
        require_option_keys(device.provider, dict(options.provider_options))
        precision, reason = self._choose_precision(request)
        is_float32 = request.features.has_float16 and precision is Precision.FLOAT32
        if is_float32:
            # From here on, the model is float32. Only its inputs and outputs are float16: `Float32Engine` casts them.
            features = request.features._replace(has_float16=False)
            request = request._replace(model=as_float32(request.model), features=features)
        target = Target(device, precision)
        captures = self._is_captured(options)
        try:
            engine = compile_with_ort(request, target, captures)
        except NodesLeftError as error:
            if captures:
                requirement = "the provider supports every node, and no node is an If, a Loop or a Scan"
                raise make_not_capturable_error(requirement) from error
            raise
        engine.explanation = Explanation(target.engine, precision, reason)
        if not is_float32:
            return engine
        return Float32Engine(engine, request.features.float16_features)

    def _choose_precision(self, request: CompileRequest) -> tuple[Precision, str]:
        """The number type, and the reason for it.

        Raises:
            NotSupportedError: the options ask for a 16-bit type that the device or the model does not have.
        """
        asked_for, has_float16 = request.options.precision, request.features.has_float16
        if asked_for.is_half and not (has_float16 and self._device.float16 and asked_for is Precision.FLOAT16):
            is_convertible = self._device.float16 and not has_float16
            raise NotSupportedError(
                f"{self._device.name} computes this model in float32, and the options ask for "
                f"{asked_for.name.lower()}.",
                hint="Set options.precision = Precision.AUTO."
                + " `winml-py convert` makes a float16 model, which runs in float16 here." * is_convertible,
            )
        if not has_float16:
            return Precision.FLOAT32, "the model is float32"
        if not self._device.float16:
            return Precision.FLOAT32, f"{self._device.name} has no float16"
        if asked_for is Precision.FLOAT32:
            return Precision.FLOAT32, "as asked for"
        return Precision.FLOAT16, "the model is float16"

    def _is_captured(self, options: EngineOptions) -> bool:
        """Whether the options ask for graph capture, by `graph_capture` or by the provider's option."""
        option = dict(options.provider_options).get(self._provider.capture_option, "0")
        return options.graph_capture or option.lower() in ("1", "true")

    def make_key(self, options: EngineOptions) -> Hashable:
        """The device; unique for engines that one thread at a time may run, because each session has its own lock."""
        is_own = self._provider.takes_one_thread or self._is_captured(options)
        return (self._device, object()) if is_own else self._device

    def make_session_lock(self) -> AbstractContextManager[object]:
        """A separate lock, or the device's."""
        return get_session_lock(self._device)
