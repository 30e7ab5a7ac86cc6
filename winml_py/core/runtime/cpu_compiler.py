"""Compiles for the CPU: on ONNX Runtime, unless the options name another engine, or a number type that it lacks."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager

from ...enums import Precision
from ...errors import InvalidDeviceError, NotSupportedError
from .engine import ONNXRUNTIME, ORT_ONLY, Engine, EngineOptions
from .ort.saved_graph import open_or_compile_with_ort
from .providers.provider import CPU_NAME, Target, shorten
from .request import CompileRequest
from .runs import UNLOCKED


class CpuCompiler:
    """Compiles for the CPU, on the engine that the options name."""

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model, on the engine and in the number type that the options ask for.

        Raises:
            InvalidDeviceError: the named engine is not available.
            NotSupportedError: the engine does not support the options, or no engine computes in the number type.
            WinMLError: the engine does not accept the model.
        """
        options = request.options
        if options.graph_capture:
            raise NotSupportedError(
                "Graph capture is not available on the CPU.", hint="Set options.graph_capture = False."
            )
        if options.engine is None and not options.precision.is_half and not options.provider_options:
            engine: Engine = open_or_compile_with_ort(request)
        else:
            engine = _compile_as_asked(request)
        is_default = options.engine is None and options.precision is Precision.AUTO
        engine.explanation = engine.explanation._replace(reason="by default" if is_default else "as requested")
        return engine

    def make_key(self, options: EngineOptions) -> Hashable:
        """One key: sessions with equal options share an engine, because there is one CPU."""
        return "cpu"

    def make_session_lock(self) -> AbstractContextManager[object]:
        """No lock: bindings of one engine run concurrently, and each has a separate lock."""
        return UNLOCKED


def _compile_as_asked(request: CompileRequest) -> Engine:
    # Not at the top: a session on the default engine needs none of these.
    from .ort.compile import compile_with_ort
    from .providers.catalogue import find_provider, require_option_keys

    options = request.options
    target = _find_target(options)
    require_option_keys(target.provider, dict(options.provider_options))
    if target.device is None:
        return open_or_compile_with_ort(request)
    provider = find_provider(target.provider)
    if not provider.package:
        return compile_with_ort(request, target)  # plugins save no models that we could open
    defaults = EngineOptions._field_defaults
    for name, public_name in ORT_ONLY.items():
        if getattr(options, name) != defaults[name]:
            raise NotSupportedError(
                f"{target.device.engine} does not support the settings in options.{public_name}, which apply only "
                "to ONNX Runtime.",
                hint=f"Omit options.{public_name} or the engine. For the engine's own settings, use provider_options.",
            )
    from .openvino.compile import open_or_compile_with_openvino  # the only engine with a package

    return open_or_compile_with_openvino(request, target)


def _find_target(options: EngineOptions) -> Target:
    """The engine that the options name; without a name, the first that computes in their number type."""
    from .providers import plugins
    from .providers.catalogue import find_full_name, find_provider

    name, precision = options.engine, options.precision
    if name == ONNXRUNTIME or (name and find_full_name(name) == CPU_NAME) or not (name or precision.is_half):
        if precision.is_half:
            raise NotSupportedError(
                f"ONNX Runtime computes in float32 on the CPU, but the options request {precision.name.lower()}.",
                hint="Omit options.engine, so that an engine that supports this type runs the model.",
            )
        return Target()
    devices = plugins.find_devices("cpu")
    # The plugin of an engine whose package is installed comes last. The package runs on processors of any vendor, and
    # caches compiled models; the plugin adds nothing on a CPU.
    devices.sort(key=lambda device: not find_provider(device.provider).package)
    if name:
        named = [device for device in devices if device.provider == name]
        devices = (named or [device for device in devices if device.engine == shorten(name)])[:1]
        if not devices:
            raise _make_missing_error(name)
    for device in devices:
        if device.computes_in(precision):
            return Target(device, precision if precision.is_half else Precision.FLOAT32)
    types = sorted({kind.name for kind in Precision for device in devices if kind.is_half and device.computes_in(kind)})
    hint = f"Set options.precision = Precision.{' or Precision.'.join([*types, 'AUTO'])}."
    if not name and not devices:
        hint += " For an engine that supports the processor's types, run pip install 'winml-py[openvino]'."
    who = f"{devices[0].engine} does not compute" if name else "No installed engine computes"
    raise NotSupportedError(f"{who} in {precision.name.lower()} on this processor.", hint=hint)


def _make_missing_error(name: str) -> InvalidDeviceError:
    from .providers import plugins
    from .providers.catalogue import find_full_name

    provider_names = dict.fromkeys(device.provider for device in plugins.find_devices("cpu"))
    problems = f"{plugins.describe_problems()}. " if plugins.describe_problems() else ""
    package = "To install it, run pip install 'winml-py[openvino]'. " if shorten(name) == "openvino" else ""
    return InvalidDeviceError(
        f"The CPU has no engine {find_full_name(name)}. Available: {', '.join([ONNXRUNTIME, *provider_names])}.",
        hint=f"{problems}{package}For a GPU's engine, pass the GPU instead: LearningModelDevice.find('gpu'), or "
        "--device gpu on the command line. For details, run `winml-py doctor`.",
    )
