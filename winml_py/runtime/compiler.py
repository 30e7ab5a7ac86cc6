"""What makes engines for a device: the seam between sessions and everything that compiles."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager
from typing import Protocol

from .engine import Engine, EngineOptions
from .request import CompileRequest


class Compiler(Protocol):
    """Makes engines for one device. A test's stand-in for a device brings its own."""

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model.

        Raises:
            InvalidDeviceError: the engine that the options name is not there.
            WinMLError: no engine takes the model, or the options ask for what the device cannot do.
        """

    def key(self, options: EngineOptions) -> Hashable:
        """Equal for two sessions of a model if they may share an engine, as far as the device is concerned."""

    def session_lock(self) -> AbstractContextManager[object]:
        """What a session holds while it talks to the device: nothing on the CPU."""
