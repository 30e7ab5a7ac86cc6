"""Compiles models with ONNX Runtime's providers."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any

from ....errors import InvalidDeviceError, NotSupportedError
from ...base.arguments import is_text
from ...base.cancellation import Stop
from ...onnx_file.source import Skeleton
from ..providers.provider import CPU_NAME, Target
from ..request import CompileRequest
from ..runs import UNLOCKED, end_on_stop, translate_errors
from .errors import translate
from .ort_engine import OrtEngine
from .session_options import Saving, make_session_options, place_weights, register_libraries

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
            f"ONNX Runtime cannot open a file whose name is not UTF-8: {model!r}.",
            hint='Rename the file, or load its bytes: LearningModel.load(open(path, "rb").read()).',
        )
    native = make_session_options(options, saving, is_optimized)
    skeleton = model if isinstance(model, Skeleton) else Skeleton(model)
    place_weights(native, skeleton)
    # For `session.assigned_nodes`, which the program may read at any time: the runtime records it only as it makes the
    # session.
    native.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    providers: list[Any] | None = [CPU_NAME]
    lock: AbstractContextManager[object] = UNLOCKED
    if target.device is not None:
        from . import device_engine  # not at the top: sessions on the CPU need no other provider

        providers, lock = device_engine.choose_providers(native, target.device, options, target, captures)
    trace = None
    if options.is_profiled:
        import tempfile

        trace = tempfile.TemporaryDirectory(prefix="winml-py-", ignore_cleanup_errors=True)
    try:
        if trace is not None:
            native.enable_profiling = True
            native.profile_file_prefix = os.path.join(trace.name, "trace")
        with (
            translate_errors(translate),
            lock,
            end_on_stop(request.stop or Stop(), lambda: native.set_load_cancellation_flag(True)),
        ):
            register_libraries(native, request.libraries)
            # With the fallback, a session that cannot be made on its device silently becomes one on the CPU.
            session = onnxruntime.InferenceSession(skeleton.model, native, providers, enable_fallback=0)
        request.require_not_stopped()  # before 1.30 the runtime does not stop early
        if not is_optimized:  # such a graph has separate files
            request.origin.require_unchanged()
        # If a provider's library is missing, the runtime continues without the provider. It only logs the reason, and
        # our sessions switch its log off.
        if target.provider not in session.get_providers():
            raise InvalidDeviceError(
                f"ONNX Runtime did not use {target.provider}.", hint="To see why, run `winml-py doctor`."
            )
        if target.device is not None and (captures or device_engine.has_addresses(target.device, session)):
            return device_engine.OrtDeviceEngine(session, options, target, target.device, captures, trace)
        return OrtEngine(session, options, target, trace, lock)
    except BaseException:
        if trace is not None:
            trace.cleanup()
        raise
