"""Compiling for a GPU or an NPU: in the precision it has, and with its work recorded where that is possible."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager
from dataclasses import replace

from ....enums import Precision
from ....errors import InvalidDeviceError, WinMLError
from ..engine import ONNXRUNTIME, Engine, EngineOptions
from ..explanation import Explanation
from ..ort.compile import compile_model
from ..ort.device_recording import Recording
from ..ort.engine import OrtDeviceEngine, OrtEngine
from ..providers.catalogue import provider_of, require_known, session_lock
from ..providers.provider import ProviderDevice, Target, short
from ..request import CompileRequest
from . import recording
from .float32_engine import Float32Engine
from .float32_graph import as_float32


class DeviceCompiler:
    """Compiles for one device of a provider."""

    def __init__(self, device: ProviderDevice) -> None:
        self._device, self._provider = device, provider_of(device.provider)

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model.

        Raises:
            InvalidDeviceError: the options name an engine that does not use the device.
            NotSupportedError: a constraint of recording is not met, or a node would run on the CPU and may not.
            WinMLError: the provider does not take the model.
        """
        device, options = self._device, request.options
        if options.engine not in (None, ONNXRUNTIME, "auto") and short(device.provider) != short(options.engine):
            raise InvalidDeviceError(
                f"{device.name} is used by {device.provider}, and the options name the engine {options.engine}.",
                hint="Take the device that the engine uses: LearningModelDevice.find(provider).",
            )
        require_known(device.provider, dict(options.provider_options))
        reason, is_float32 = self._precision(request)
        if is_float32:
            request = replace(request, model=as_float32(request.model), has_float16=False)
        target = Target(device, half=request.has_float16)
        engine, recorded = self._compiled(request, target)
        engine.explanation = Explanation(*target.spelling, "; ".join(filter(None, (reason, recorded))))
        return Float32Engine(engine, request.float16_features) if is_float32 else engine

    def _precision(self, request: CompileRequest) -> tuple[str, bool]:
        """Why it computes in the precision it does, and whether that is float32 for a float16 model."""
        asked_for = request.options.precision
        if not request.has_float16:
            more = "; `winml-py convert` makes a float16 one, which runs in half precision here"
            return "the model is float32" + (more if asked_for is Precision.HALF else ""), False
        if not self._device.float16:
            return f"{self._device.name} has no half precision", True
        is_float32 = asked_for is Precision.FLOAT32
        return "asked for in float32" if is_float32 else "the model is float16", is_float32

    def _compiled(self, request: CompileRequest, target: Target) -> tuple[OrtEngine, str]:
        """The engine, whose work is recorded where that is asked for or goes by itself; and what there is to say."""
        is_demanded = recording.is_demanded(request, self._provider)
        if not is_demanded and (request.options.graph_capture is not None or not self._provider.records_unasked):
            return compile_model(request, target), ""
        engine, problem = self._recording(request, target, is_demanded)
        if engine is not None:
            return engine, "its work is recorded once and repeated"
        if is_demanded:
            raise recording.unmet(problem)
        return compile_model(request, target), f"its work is not recorded ({problem})"

    def _recording(self, request: CompileRequest, target: Target, is_demanded: bool) -> tuple[OrtEngine | None, str]:
        """An engine that records, or the name of the constraint that it does not meet."""
        broken = recording.broken_constraint(request, self._provider)
        if broken:
            return None, broken
        mode = Recording.DEMANDED if is_demanded else Recording.POSSIBLE
        try:
            engine = compile_model(request, target, mode)
        except WinMLError as error:
            if recording.is_refused(error):
                return None, "all-nodes-on-provider"
            raise
        if isinstance(engine, OrtDeviceEngine) and engine.is_recordable:
            return engine, ""
        engine.close()
        return None, "fixed-shapes"

    def key(self, options: EngineOptions) -> Hashable:
        """The device; but no two sessions share what is recorded, which one thread at a time may run."""
        is_shared = options.graph_capture is False or not self._provider.recording_option
        return self._device if is_shared else (self._device, object())

    def session_lock(self) -> AbstractContextManager[object]:
        """The session's own lock, or the device's."""
        return session_lock(self._device)
