"""Compiles models with ONNX Runtime's providers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....errors import InvalidDeviceError, NotSupportedError
from ...base.arguments import is_text
from ...base.cancellation import Stop
from ...onnx_file.source import Skeleton
from ..engine import EngineOptions, Tuning
from ..providers.catalogue import device_lock, native_options, provider_of
from ..providers.plugins import runtime_device
from ..providers.provider import CPU_NAME, Target
from ..request import CompileRequest
from ..runs import ended_by, translated_by
from .device_binding import require_capturable
from .errors import translate
from .ort_engine import OrtDeviceEngine, OrtEngine, are_numeric
from .session_options import Saving, place_weights, register_libraries, require_tuning, run_config, session_options

if TYPE_CHECKING:
    import onnxruntime

CPU_TARGET = Target()


def compile_with_ort(
    request: CompileRequest,
    target: Target = CPU_TARGET,
    captures: bool = False,
    saving: Saving | None = None,
    is_optimized: bool = False,
) -> OrtEngine:
    """Compiles a model.

    Args:
        request: the model, and how to compile it.
        target: the provider and device.
        captures: whether the provider captures the graph of its work and replays it.
        saving: whether to write the optimised graph, and where.
        is_optimized: whether the model is such a graph.

    Returns:
        An `OrtDeviceEngine` if the device's memory can be bound and inputs and outputs are tensors of numbers.

    Raises:
        WinMLError: the runtime refuses the model; the message quotes the runtime's.
        NotSupportedError: the name of the model's file is not UTF-8, or the graph cannot be captured.
        CorruptModelError: the model's files were replaced while the runtime opened them.
    """
    import onnxruntime

    model, options = request.model, request.options
    if isinstance(model, str) and not is_text(model):
        raise NotSupportedError(
            f"ONNX Runtime opens no file whose name is not UTF-8: {model!r}.",
            hint='Rename the file, or load its bytes: LearningModel.load(open(path, "rb").read()).',
        )
    require_tuning(options.tuning, target)
    native, config = session_options(options, saving, is_optimized), run_config(options)
    skeleton = model if isinstance(model, Skeleton) else Skeleton(model)
    place_weights(native, skeleton)
    providers = _providers(native, options, target, captures)
    trace = None
    if options.is_profiled:
        import tempfile

        trace = tempfile.TemporaryDirectory(prefix="winml-py-", ignore_cleanup_errors=True)
    try:
        if trace is not None:
            native.enable_profiling = True
            native.profile_file_prefix = os.path.join(trace.name, "trace")
        with (
            translated_by(translate),
            device_lock(target.device),
            ended_by(request.stop or Stop(), lambda: native.set_load_cancellation_flag(True)),
        ):
            register_libraries(native, request.libraries)
            # With the fallback, a session that cannot be made on its device silently becomes one on the CPU.
            session = onnxruntime.InferenceSession(skeleton.model, native, providers, enable_fallback=0)
        request.require_not_stopped()  # before 1.30 the runtime does not stop early
        if not is_optimized:  # such a graph has separate files
            request.origin.require_unchanged()
        if captures:
            require_capturable(session)
    except BaseException:
        if trace is not None:
            trace.cleanup()
        raise
    # If a provider's library is missing, the runtime continues without the provider. It only logs the reason, and our
    # sessions switch its log off.
    if target.provider not in session.get_providers():
        raise InvalidDeviceError(
            f"ONNX Runtime did not use {target.provider}.", hint="Run `winml-py doctor`: it says why."
        )
    # Only tensors of numbers have an address. Other values go through the host, even on a device.
    if target.device and provider_of(target.provider).memory and are_numeric(session):
        return OrtDeviceEngine(session, options, target, target.device, captures, config, trace)
    return OrtEngine(session, options, target, config, trace)


def _providers(
    native: onnxruntime.SessionOptions, options: EngineOptions, target: Target, captures: bool
) -> list[Any] | None:
    device = target.device
    # For `session.placement`, which the program may read at any time: the runtime records it only as it makes the
    # session.
    native.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if device is None:
        return [CPU_NAME]
    if not options.allow_cpu_fallback or captures:
        native.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    provider_options = native_options(target, options, captures)
    if device.library:
        # Provider names do not select a plugin, even a registered one. Its device does.
        native.add_provider_for_devices([runtime_device(device)], provider_options)
        return None
    provider = provider_of(device.provider)
    provider.prepare()
    helpers = () if captures else provider.helpers  # a captured graph has one provider
    defaults = options._replace(provider_options=())
    helping = [(name, native_options(target.on(name), defaults, False)) for name in helpers]
    return [(provider.name, provider_options), *helping, CPU_NAME]


def save_optimized(model: bytes, path: str, level: str, libraries: Sequence[str] = ()) -> None:
    """Writes a model after the graph optimisations of a level.

    Raises:
        WinMLError: the runtime refuses the model.
    """
    import onnxruntime

    native = session_options(EngineOptions(1, tuning=Tuning(graph_optimization=level)))
    native.optimized_model_filepath = path
    with translated_by(translate):
        register_libraries(native, libraries)
        onnxruntime.InferenceSession(model, native, [CPU_NAME], enable_fallback=0)
