"""Compiling for the CPU."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager

from ..engine import Engine, EngineOptions
from ..providers.locks import UNLOCKED
from ..request import CompileRequest


class CpuCompiler:
    """Compiles for the CPU, on whichever engine the options ask for."""

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model; see `compile_on_cpu`."""
        from .choice import compile_on_cpu

        return compile_on_cpu(request)

    def key(self, options: EngineOptions) -> Hashable:
        """There is one CPU: all sessions with equal options share an engine."""
        return "cpu"

    def session_lock(self) -> AbstractContextManager[object]:
        """None: bindings of one engine run at the same time, and each has a lock of its own against a race on it."""
        return UNLOCKED
