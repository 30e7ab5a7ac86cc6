"""Compiles for the CPU: on ONNX Runtime, on every processor, unless the options say otherwise."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager

from ....enums import Precision
from ....errors import NotSupportedError
from ..engine import Engine, EngineOptions
from ..ort.saved_graph import open_or_compile_with_ort
from ..request import CompileRequest
from ..runs import UNLOCKED


class CpuCompiler:
    """Compiles for the CPU, on the engine that the options request."""

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model, on the engine and in the precision that the options request.

        Raises:
            InvalidDeviceError: the named engine is not available.
            NotSupportedError: the named engine does not support the options.
            WinMLError: the engine does not accept the model.
        """
        options = request.options
        if options.graph_capture:
            raise NotSupportedError(
                "Graph capture is not available on the CPU.", hint="Set options.graph_capture = False."
            )
        if options.engine is None and options.precision is not Precision.HALF and not options.provider_options:
            engine = open_or_compile_with_ort(request)
            reason = "as asked for" if options.precision is Precision.FLOAT32 else "by default"
            engine.explanation = engine.explanation._replace(reason=reason)
            return engine
        # Not at the top: a session on the default engine needs no other.
        from .choice import CpuChoice, estimate_memory, find_allowed_targets, open_or_compile_target
        from .chosen_engine import ChosenEngine

        targets, reason = find_allowed_targets(request)
        if len(targets) > 1:
            return ChosenEngine(options, CpuChoice(request, targets))
        chosen = open_or_compile_target(request, targets[0])
        chosen.explanation = chosen.explanation._replace(reason=reason, memory=estimate_memory(request, targets[0]))
        return chosen

    def make_key(self, options: EngineOptions) -> Hashable:
        """One key: sessions with equal options share an engine, because there is one CPU."""
        return "cpu"

    def make_session_lock(self) -> AbstractContextManager[object]:
        """No lock: bindings of one engine run concurrently, and each has a separate lock."""
        return UNLOCKED
