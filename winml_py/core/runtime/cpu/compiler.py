"""The engines that a session on the CPU may run on, by the options and the hardware.

Without options it is ONNX Runtime, on every processor. A named engine is the one that runs. If the options leave a
choice (`engine="auto"`, or half precision), the program's inputs decide (`choice.py`, `chosen_engine.py`). The table
of all cases is in docs/engines.md; `tests/core/runtime/test_engine_table.py` tests each.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager

from ....enums import Precision
from ....errors import EngineWarning, InvalidDeviceError, NotSupportedError
from ...base.messages import warn_caller
from ..engine import ONNXRUNTIME, ORT_ONLY, Engine, EngineOptions
from ..ort.saved_graph import open_or_compile_with_ort
from ..providers import plugins
from ..providers.catalogue import full_name, provider_of, require_option_keys
from ..providers.provider import CPU_NAME, ProviderDevice, Target, short
from ..request import CompileRequest
from ..runs import UNLOCKED

AUTO = "auto"


class CpuCompiler:
    """Compiles for the CPU, on the engine that the options request."""

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model, on the engine and in the precision that the options request.

        Raises:
            InvalidDeviceError: the named engine is not available.
            NotSupportedError: the named engine does not support the options.
            WinMLError: the engine does not accept the model.
        """
        if request.options.graph_capture:
            raise NotSupportedError(
                "Graph capture is not available on the CPU.", hint="Set options.graph_capture = False."
            )
        targets, reason = _allowed_targets(request)
        # Here, and not only where a provider gets them: before that, "auto" may compile two engines.
        require_option_keys(targets[0].provider, dict(request.options.provider_options))
        if targets == [Target()]:
            engine: Engine = open_or_compile_with_ort(request)
            engine.explanation = engine.explanation._replace(reason=reason)
            return engine
        # Only where another engine may run: with what they import, they are a tenth of a session's start.
        from .choice import CpuChoice, memory_of, open_or_compile_target
        from .chosen_engine import ChosenEngine

        if len(targets) > 1:
            return ChosenEngine(request.options, CpuChoice(request, targets))
        engine = open_or_compile_target(request, targets[0])
        memory = memory_of(request, targets[0])
        engine.explanation = engine.explanation._replace(reason=reason, memory=memory)
        return engine

    def key(self, options: EngineOptions) -> Hashable:
        """One key: sessions with equal options share an engine, because there is one CPU."""
        return "cpu"

    def session_lock(self) -> AbstractContextManager[object]:
        """No lock: bindings of one engine run concurrently, and each has a separate lock."""
        return UNLOCKED


def _allowed_targets(request: CompileRequest) -> tuple[list[Target], str]:
    """The reference, which wins ties, and its alternatives; and why there is no alternative, if so."""
    engine_name, precision = request.options.engine, request.options.precision
    if engine_name is not None and engine_name != AUTO:
        return _targets_by_name(request, engine_name)
    types = _half_types(request)
    if engine_name is None and not types:
        return [Target()], "as asked for" if precision is Precision.FLOAT32 else "by default"
    from .choice import shortage

    devices, reason = _exact_devices(request) if request.features.has_only_numbers else ([], "")
    others = [Target(device) for device in devices if engine_name == AUTO]
    others += [half for device in devices for half in _halves(device) if half.half_type in types]
    if not others:
        missing = "no installed engine computes in half precision on this processor"
        nothing = "no other installed engine accepts the model"
        return [Target()], reason or (missing if devices and types else nothing)
    problem = shortage(request, others)
    return ([Target()], problem) if problem else ([Target(), *others], "")


def _half_types(request: CompileRequest) -> tuple[str, ...]:
    """The types of half precision that the options allow if no engine is named; "" is a type without a name.

    bfloat16 keeps 8 bits of a number, and float16 keeps 11: float16 models were not made for bfloat16.
    """
    if request.options.precision is Precision.HALF:
        return "bfloat16", "float16", ""
    is_own_type = (
        request.options.engine == AUTO and request.options.precision is Precision.AUTO and request.features.has_float16
    )
    return ("float16",) if is_own_type else ()


def _targets_by_name(request: CompileRequest, engine_name: str) -> tuple[list[Target], str]:
    """The engine of that name; if requested also in half precision, with its float32 as reference."""
    wants_half = request.options.precision is Precision.HALF
    if engine_name == ONNXRUNTIME or full_name(engine_name) == CPU_NAME:
        if wants_half:
            raise NotSupportedError(
                "ONNX Runtime computes in float32 on the CPU, but the options request half precision.",
                hint='Leave options.engine out, or set it to "auto", or to an engine that has half precision.',
            )
        return [Target()], "as asked for"
    device = _find_engine(engine_name)
    if _ignores_tuning(device, request.options):
        name = _name_of_tuning(request.options)
        raise NotSupportedError(
            f"{device.engine} does not support the settings in {name}, which are ONNX Runtime's.",
            hint=f"Leave {name} or the engine out; set the engine's settings in provider_options.",
        )
    if not wants_half:
        return [Target(device)], "as asked for"
    if not (halves := _halves(device)):
        problem = f"{device.engine} has no half precision on this processor"
        warn_caller(EngineWarning(f"{problem}: the model runs in float32, though the options request half precision."))
        return [Target(device)], f"as asked for; {problem}"
    return [Target(device), *halves], ""


def _halves(device: ProviderDevice) -> list[Target]:
    """One target for each type of half precision that the device has; a measurement finds the best."""
    kinds = device.half_types.split() or [""]
    return [Target(device, half=True, half_type=kind) for kind in kinds] if device.float16 else []


def _exact_devices(request: CompileRequest) -> tuple[list[ProviderDevice], str]:
    """The other engines that compute the model exactly, and why one is left out."""
    from .exact import inexact_reason

    devices, reason = [], ""
    for device in _prefer(plugins.devices("cpu")):
        exact = provider_of(device.provider).exact_operators
        problem = inexact_reason(request.origin.graph(), exact)
        if _ignores_tuning(device, request.options):
            reason = f"{device.engine} does not support the settings in {_name_of_tuning(request.options)}"
        elif problem:
            reason = f"{device.engine} might give other results: {problem}"
        else:
            devices.append(device)
    return devices, reason


def _name_of_tuning(options: EngineOptions) -> str:
    """The first of ONNX Runtime's settings that the options change; "" if they change none."""
    defaults = EngineOptions._field_defaults
    return next((f"options.{name}" for name in ORT_ONLY if getattr(options, name) != defaults[name]), "")


def _ignores_tuning(device: ProviderDevice, options: EngineOptions) -> bool:
    return bool(provider_of(device.provider).package and _name_of_tuning(options))


def _prefer(devices: list[ProviderDevice]) -> list[ProviderDevice]:
    """Leaves out the plugin of an engine whose package is installed."""
    # The package runs on processors of any vendor, and caches compiled models. The plugin adds nothing on a CPU.
    packaged = [device for device in devices if provider_of(device.provider).package]
    names = {device.engine for device in packaged}
    return packaged + [device for device in devices if device.engine not in names]


def _find_engine(name: str) -> ProviderDevice:
    devices = plugins.devices("cpu")
    for device in [device for device in devices if device.provider == name] or _prefer(devices):
        if device.engine == short(name):
            return device
    provider_names = dict.fromkeys(device.provider for device in devices)
    problems = f"{plugins.problems()}. " if plugins.problems() else ""
    raise InvalidDeviceError(
        f"There is no engine {full_name(name)} on the CPU; there are {', '.join([ONNXRUNTIME, *provider_names])}.",
        hint=f"{problems}pip install 'winml-py[openvino]' installs OpenVINO. For an engine of a GPU, pass the GPU "
        "instead: LearningModelDevice.find('gpu'). `winml-py doctor` says more.",
    )
