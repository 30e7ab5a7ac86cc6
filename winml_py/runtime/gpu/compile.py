"""Compiling for a GPU or an NPU: in the precision it has, and with its work recorded where that is possible."""

from __future__ import annotations

from dataclasses import replace

from ...enums import Precision
from ...errors import WinMLError
from ..engine import ONNXRUNTIME, Engine
from ..explanation import Explanation
from ..ort.device_binding import Capture
from ..ort.engine import OrtEngine, compile_model
from ..providers.catalogue import WEBGPU, Target, full_name, require_known
from ..providers.plugins import ProviderDevice
from ..request import CompileRequest
from . import recording as capture
from .float32_engine import Float32Engine
from .float32_graph import as_float32


def compile_on_device(request: CompileRequest, device: ProviderDevice, halves: frozenset[str]) -> Engine:
    """Compiles a model for a device.

    Args:
        request: the model.
        device: where to.
        halves: the model's float16 inputs and outputs.

    Raises:
        NotSupportedError: a constraint of recording is not met, or a node would run on the CPU and may not.
        WinMLError: the provider does not take the model.
    """
    target = Target(device, half=request.has_float16)
    require_known(target.provider, dict(request.options.provider_options))
    if not request.has_float16:
        engine = _recorded(request, target)
        return _explained(engine, Precision.FLOAT32, _float32_reason(request), engine.explanation.reason)
    if device.float16 and request.options.precision is not Precision.FLOAT32:
        engine = _recorded(request, target)
        return _explained(engine, Precision.HALF, "the model is float16", engine.explanation.reason)
    reason = "asked for in float32" if device.float16 else f"{device.name} has no half precision"
    wide = replace(request, model=as_float32(request.model), has_float16=False)
    engine = _recorded(wide, Target(device))
    recorded = engine.explanation.reason
    return _explained(Float32Engine(engine, halves), Precision.FLOAT32, reason, recorded)


def _float32_reason(request: CompileRequest) -> str:
    if request.options.precision is Precision.HALF:
        return "the model is float32; `winml-py convert` makes a float16 one, which runs in half precision here"
    return "the model is float32"


def _explained(engine: OrtEngine | Float32Engine, precision: Precision, *reasons: str) -> Engine:
    engine.precision = precision
    engine.explanation = Explanation(engine.name, precision, "; ".join(filter(None, reasons)))
    return engine


def _recorded(request: CompileRequest, target: Target) -> OrtEngine:
    """Compiled so that its work is recorded, where that is asked for or goes by itself."""
    is_asked_for = capture.is_asked_for(request, target)
    tries = is_asked_for or (request.options.graph_capture is None and target.provider == WEBGPU)
    if not tries:
        return _unrecorded(request, target, "")
    broken = capture.broken_constraint(request, target)
    if broken and is_asked_for:
        raise capture.unmet(broken)
    if broken:
        return _unrecorded(request, target, f"its work is not recorded ({broken})")
    try:
        engine = compile_model(
            request.model, request.options, target, capture=Capture.DEMANDED if is_asked_for else Capture.POSSIBLE
        )
    except WinMLError as error:
        named = capture.explained(error)
        if is_asked_for or named is error:
            raise named from None
        return _unrecorded(request, target, "its work is not recorded (all-nodes-on-provider)")
    if not engine.is_recordable:
        engine.close()
        if is_asked_for:
            raise capture.unmet("fixed-shapes")
        return _unrecorded(request, target, "its work is not recorded (fixed-shapes)")
    engine.explanation = engine.explanation._replace(reason="its work is recorded once and repeated")
    return engine


def _unrecorded(request: CompileRequest, target: Target, reason: str) -> OrtEngine:
    engine = compile_model(request.model, request.options, target, stop=request.stop)
    engine.explanation = engine.explanation._replace(reason=reason)
    return engine


def serves(device: ProviderDevice, engine: str) -> bool:
    """Whether a device is one of the engine that the options name."""
    return engine in (ONNXRUNTIME, "auto") or device.provider == full_name(engine)
